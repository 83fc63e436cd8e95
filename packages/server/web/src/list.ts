// The list of tasks: what events do to it, and how it is filtered and sorted.
import type { Pipeline, Task } from "./api";

// Tasks and pipelines by namespace and id. Changes are made in place: one event may be one of thousands.
export interface TaskList {
  tasks: Map<string, Task>;
  pipelines: Map<string, Pipeline>;
}

export function keyOf({ metadata }: Task | Pipeline, id = ""): string {
  return `${metadata.namespace}/${id}`;
}

export const keyOfTask = (task: Task) => keyOf(task, task.task_id);

export function applyEvent(list: TaskList | null, name: string, data: unknown): TaskList | null {
  if (name === "tasks") {
    const whole = data as { tasks: Task[]; pipelines: Pipeline[] };
    return {
      tasks: new Map(whole.tasks.map((task) => [keyOfTask(task), task])),
      pipelines: new Map(whole.pipelines.map((pipeline) => [keyOf(pipeline, pipeline.pipeline_id), pipeline])),
    };
  }
  if (!list) return null;
  if (name === "more") {
    const more = data as { tasks: Task[]; pipelines: Pipeline[] };
    for (const task of more.tasks) list.tasks.set(keyOfTask(task), task);
    for (const pipeline of more.pipelines) list.pipelines.set(keyOf(pipeline, pipeline.pipeline_id), pipeline);
  }
  if (name === "task") list.tasks.set(keyOfTask(data as Task), data as Task);
  if (name === "pipeline")
    list.pipelines.set(keyOf(data as Pipeline, (data as Pipeline).pipeline_id), data as Pipeline);
  if (name === "gone") {
    const { namespace, id } = data as { namespace: string; id: string };
    list.tasks.delete(`${namespace}/${id}`);
    list.pipelines.delete(`${namespace}/${id}`);
  }
  return { ...list };
}

export const isFinished = ({ status }: Task) => status === "completed" || status === "failed";

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

// What the address says of the list: which tasks it shows, in which order.
export interface Filter {
  allUsers: boolean;
  allNamespaces: boolean;
  status: string; // "deleted": tasks of the history
  text: string;
  since: string; // hours
  order: string; // as in `sorted`
}

export function filterOf(query: URLSearchParams): Filter {
  return {
    allUsers: query.get("all_users") === "true",
    allNamespaces: query.get("all_namespaces") === "true",
    status: query.get("status") ?? "",
    text: query.get("filter") ?? "",
    since: query.get("since") ?? "",
    order: query.get("sort") ?? "age",
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
