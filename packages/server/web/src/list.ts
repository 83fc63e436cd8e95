// The list of tasks: what events do to it, and how it is filtered and sorted.
import type { Pipeline, State, Task } from "./api";

export const STATES: State[] = ["running", "pending", "failed", "completed"];
export const MOST_ROWS = 1000;
const MOST_CHARACTERS = 500;

// The tasks that the page shows, in order; their pipelines, both by namespace and id; how many match by status.
export interface TaskList {
  tasks: Map<string, Task>;
  pipelines: Map<string, Pipeline>;
  counts: Record<string, number>;
}

// An event: the order of the rows, and those that have changed.
export interface Rows {
  order: string[];
  counts: Record<string, number>;
  tasks: Task[];
  pipelines: Pipeline[];
}

export function keyOf({ metadata }: Task | Pipeline, id = ""): string {
  return `${metadata.namespace}/${id}`;
}

export const keyOfTask = (task: Task) => keyOf(task, task.task_id);

export function applyRows(list: TaskList | null, { order, counts, tasks, pipelines }: Rows): TaskList {
  const known = new Map(list?.tasks);
  for (const task of tasks) known.set(keyOfTask(task), task);
  const groups = new Map(list?.pipelines);
  for (const pipeline of pipelines) groups.set(keyOf(pipeline, pipeline.pipeline_id), pipeline);
  const shown = order.filter((key) => known.has(key)).map((key) => [key, known.get(key)!] as const);
  return { tasks: new Map(shown), pipelines: groups, counts };
}

export const totalOf = (counts: TaskList["counts"] = {}) =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

// Of a failed task, other nodes may still run.
export const isFinished = ({ status, metadata }: Pick<Task, "status" | "metadata">) =>
  status === "completed" || (status === "failed" && !metadata.running_nodes);

// Of a pipeline that has failed, no stage starts any more.
export const isOver = ({ status, tasks }: Pipeline) =>
  status === "completed" || (status === "failed" && !tasks.some(({ metadata }) => metadata.running_nodes));

// A filter is words: each is in the name, id, user, namespace, GPUs or image, or is KEY=VALUE or KEY!=VALUE of a label.
export function matches(task: Task, text: string): boolean {
  const { namespace, image, resources, labels = {} } = task.metadata;
  const value = [task.name, task.task_id, task.username, namespace, resources.accelerators, image]
    .join(" ")
    .toLowerCase();
  return text
    .split(/[\s,]+/)
    .filter(Boolean)
    .every((word) => {
      const [, key, not, wanted] = /^([^=!]+)(!?)==?(.*)$/.exec(word) ?? [];
      return key ? (labels[key] === wanted) === !not : value.includes(word.toLowerCase());
    });
}

// Spans of time in which a task has changed, in hours.
export const SPANS: [hours: string, title: string][] = [
  ["", "any time"],
  ["1", "last hour"],
  ["24", "last 24 h"],
  ["168", "last 7 days"],
];

export function changedWithin(task: Task, hours: string): boolean {
  return !hours || Date.parse(task.updated_at) >= Date.now() - Number(hours) * 3_600_000;
}

// Of which namespaces: the one of the page, those of the user, or all.
export type Namespaces = "" | "mine" | "all";

export const namespacesOf = (query: URLSearchParams): Namespaces => {
  const value = query.get("namespaces");
  return value === "mine" || value === "all" ? value : "";
};

export const queryOf = (namespaces: Namespaces) => ({
  my_namespaces: namespaces === "mine",
  all_namespaces: namespaces === "all",
});

// What the address says of the list: which tasks it shows, in which order.
export interface Filter {
  allUsers: boolean;
  namespaces: Namespaces;
  status: string; // "deleted": tasks of the history
  text: string;
  since: string; // hours
  order: string; // as in `sorted`
}

export function filterOf(query: URLSearchParams): Filter {
  return {
    allUsers: query.get("all_users") === "true",
    namespaces: namespacesOf(query),
    status: query.get("status") ?? "",
    text: query.get("filter") ?? "",
    since: query.get("since") ?? "",
    order: query.get("sort") ?? "age",
  };
}

// What the server is asked for; an address may have other words than it knows.
export function windowOf(filter: Filter, rows: number) {
  const { allUsers, namespaces, status, text, since, order } = filter;
  return {
    all_users: allUsers,
    ...queryOf(namespaces),
    rows: Math.min(rows, MOST_ROWS),
    filter: text.slice(0, MOST_CHARACTERS),
    status: STATES.find((state) => state === status),
    since: SPANS.some(([hours]) => hours === since) ? since : "",
    sort: order.replace(/^-/, "") in COLUMNS ? order : "age",
  };
}

// Tasks of any status that match, in order.
export function select(tasks: Iterable<Task>, { text, since, order }: Filter): Task[] {
  const found = [...tasks].filter((task) => matches(task, text) && changedWithin(task, since));
  return sorted(found, order);
}

const gpus = (task: Task) =>
  Number(/:(\d+)/.exec(task.metadata.resources.accelerators ?? "")?.[1] ?? 0) * task.metadata.num_nodes;

const COLUMNS: Record<string, (task: Task) => string | number> = {
  name: (task) => `${task.metadata.pipeline_name ?? ""}/${task.name}`.toLowerCase(),
  status: (task) => task.status,
  nodes: (task) => task.metadata.num_nodes,
  gpus,
  user: (task) => task.username,
  namespace: (task) => task.metadata.namespace,
  age: (task) => -Date.parse(task.created_at),
};

// Sort by a column, or by `-column` the other way round; newest first among equals.
export function sorted(tasks: Iterable<Task>, column: string): Task[] {
  const value = COLUMNS[column.replace(/^-/, "")] ?? COLUMNS.age!;
  const sign = column.startsWith("-") ? -1 : 1;
  const keyed = [...tasks].map(
    (task) => [value(task), `${task.created_at} ${task.task_id} ${task.metadata.namespace}`, task] as const,
  );
  keyed.sort((one, other) => (one[0] < other[0] ? -sign : one[0] > other[0] ? sign : one[1] < other[1] ? 1 : -1));
  return keyed.map(([, , task]) => task);
}

// The tasks of each pipeline together, where the first of them is, in the order of its stages.
export function inStages(tasks: Task[]): Task[] {
  const pipelineOf = (task: Task) => task.metadata.pipeline && keyOf(task, task.metadata.pipeline);
  const groups = new Map<string, Task[]>();
  for (const task of tasks) {
    const key = pipelineOf(task) || keyOfTask(task);
    groups.set(key, [...(groups.get(key) ?? []), task]);
  }
  const stage = (task: Task) => task.metadata.stage ?? 0;
  return [...groups.values()].flatMap((group) => group.sort((one, other) => stage(one) - stage(other)));
}

// Whether a task is the first of its pipeline in a list.
export function isFirst(tasks: Task[], index: number): boolean {
  const pipeline = tasks[index]!.metadata.pipeline;
  return Boolean(pipeline) && tasks.findIndex(({ metadata }) => metadata.pipeline === pipeline) === index;
}

// What stopping does to them: nothing runs in finished tasks any more.
export function stopWord(tasks: Task[]): string {
  const finished = tasks.filter(isFinished).length;
  return finished === tasks.length ? "Delete" : finished ? "Stop and delete" : "Stop";
}
