// All tasks, with their live state.
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  type Deleted,
  type Pipeline,
  post,
  postYaml,
  stillDeleting,
  type Task,
  taskPath,
  url,
  type Whoami,
} from "./api";
import { age, localTime, plural, sizes } from "./format";
import {
  applyRows,
  type Filter,
  filterOf,
  inStages,
  isFirst,
  isOver,
  keyOf,
  keyOfTask,
  MOST_ROWS,
  queryOf,
  type Rows,
  SPANS,
  STATES,
  select,
  stopWord,
  type TaskList,
  totalOf,
  windowOf,
} from "./list";
import {
  AllUsers,
  announce,
  Badge,
  Confirm,
  Empty,
  ErrorNote,
  NamespaceChoice,
  NodeProgress,
  Title,
  useClock,
  usePolled,
} from "./parts";
import { href, type Route, type TaskScope } from "./route";
import { follow, lostAs } from "./stream";
import { taskFile } from "./submit";

const PAGE_SIZE = 100;

// Follow a stream while the page is visible: browsers allow few connections to one server.
export function useStream(target: string, onEvent: (name: string, data: unknown) => void, final?: string[]) {
  const [interrupted, setInterrupted] = useState<Error | null>(null);
  useEffect(() => {
    let stop = () => {};
    const start = () => {
      stop();
      if (document.hidden) return;
      stop = follow(target, { onEvent, onConnected: () => setInterrupted(null), onInterrupted: setInterrupted }, final);
    };
    start();
    document.addEventListener("visibilitychange", start);
    return () => {
      document.removeEventListener("visibilitychange", start);
      stop();
    };
  }, [target]);
  return interrupted;
}

const TYPING = 250; // milliseconds until a filter counts

// The value, once it has not changed for a moment.
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPING);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

// The rows that the page shows of the live tasks, and the tasks of the history if the filter asks for them.
function useTasks(filter: Filter, rows: number) {
  const { status, allUsers, namespaces } = filter;
  const [list, setList] = useState<TaskList | null>(null);
  const scope = { all_users: allUsers, ...queryOf(namespaces) };
  const text = useSettled(filter.text);
  useEffect(() => setList(null), [allUsers, namespaces]);
  const target = url("/tasks/events", windowOf({ ...filter, text }, rows));
  const interrupted = useStream(target, (name, data) => {
    if (name === "rows") setList((before) => applyRows(before, data as Rows));
  });

  const path = status === "deleted" ? "/tasks" : "";
  const total = totalOf(list?.counts);
  const [past, problem] = usePolled<{ tasks: Task[] }>(path, { ...scope, deleted: true }, 15, total);
  return { list, interrupted, past, problem };
}

export function Tasks({ user, route }: { user: Whoami; route: Route }) {
  const { query } = route;
  const filter = filterOf(query);
  const { status, text, since } = filter;
  const gone = status === "deleted";
  const [shown, setShown] = useState(PAGE_SIZE);
  const { list, interrupted, past, problem } = useTasks(filter, shown);
  const [stopping, setStopping] = useState<Task[]>([]);
  const [stoppingPipeline, setStoppingPipeline] = useState<Pipeline | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useClock();

  const deleted = select(past?.tasks ?? [], filter);
  const visible = gone ? deleted.slice(0, shown) : inStages([...(list?.tasks.values() ?? [])]);
  const total = gone ? deleted.length : status ? (list?.counts[status] ?? 0) : totalOf(list?.counts);
  const selected = gone ? [] : visible.filter((task) => chosen.has(keyOfTask(task)));
  const set = (name: string, value: string) => {
    const next = { ...Object.fromEntries(query), [name]: value };
    setShown(PAGE_SIZE);
    location.replace(href("tasks", [], next)); // not a step of the history for each key
  };
  const scope = { all_users: filter.allUsers ? "true" : undefined };
  const narrowed = text || since || (gone ? past?.tasks.length : status);
  return (
    <>
      <div class="heading">
        <Title text="Tasks" />
        <Live interrupted={interrupted} />
      </div>
      <Toolbar user={user} filter={filter} counts={list?.counts ?? {}} deleted={gone ? total : null} onChange={set} />
      {interrupted && !list && <ErrorNote error={interrupted} />}
      {gone && problem ? <ErrorNote error={problem} /> : null}
      {(gone ? !past && !problem : !list && !interrupted) && <p class="muted">Loading…</p>}
      {(gone ? past : list) && !visible.length && <NoTasks filtered={Boolean(narrowed)} gone={gone} />}
      {selected.length > 0 && (
        <Selection tasks={selected} onStop={() => setStopping(selected)} onClear={() => setChosen(new Set())} />
      )}
      {visible.length > 0 && (
        <div class="card table">
          <TaskTable
            tasks={visible}
            pipelines={list?.pipelines}
            filter={filter}
            chosen={chosen}
            allChosen={selected.length === visible.length}
            onChoose={(tasks, on) => setChosen(withTasks(chosen, tasks, on))}
            onSort={(column) => set("sort", column === "age" ? "" : column)}
            onStop={(task) => setStopping([task])}
            onStopPipeline={setStoppingPipeline}
          />
          {total > visible.length && shown < MOST_ROWS && (
            <button type="button" class="wide" onClick={() => setShown(shown + PAGE_SIZE)}>
              Show {Math.min(PAGE_SIZE, total - visible.length)} more of {total}
            </button>
          )}
        </div>
      )}
      {stopping.length > 0 && <StopTasks tasks={stopping} scope={scope} onClose={() => setStopping([])} />}
      {stoppingPipeline && (
        <StopPipeline pipeline={stoppingPipeline} scope={scope} onClose={() => setStoppingPipeline(null)} />
      )}
    </>
  );
}

function withTasks(chosen: ReadonlySet<string>, tasks: Task[], on: boolean): Set<string> {
  const next = new Set(chosen);
  for (const key of tasks.map(keyOfTask)) {
    if (on) next.add(key);
    else next.delete(key);
  }
  return next;
}

interface ToolbarProps {
  user: Whoami;
  filter: Filter;
  counts: TaskList["counts"]; // of what matches, by status
  deleted: number | null; // how many are shown, if they are
  onChange(name: string, value: string): void; // of the address
}

function Toolbar({ user, filter, counts, deleted, onChange }: ToolbarProps) {
  return (
    <div class="toolbar" role="search">
      <input
        type="search"
        aria-label="Filter tasks by name, id, user, GPU or label"
        placeholder="Name, id, user, GPU, label=value"
        value={filter.text}
        onInput={(event) => onChange("filter", event.currentTarget.value)}
      />
      <StatusChips
        status={filter.status}
        counts={counts}
        deleted={deleted}
        onChange={(status) => onChange("status", status)}
      />
      <label class="select">
        <span class="visually-hidden">Changed in</span>
        <select value={filter.since} onChange={(event) => onChange("since", event.currentTarget.value)}>
          {SPANS.map(([hours, title]) => (
            <option key={hours} value={hours}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <AllUsers checked={filter.allUsers} onChange={(on) => onChange("all_users", on ? "true" : "")} />
      <NamespaceChoice
        user={user}
        chosen={filter.namespaces}
        onChange={(namespaces) => onChange("namespaces", namespaces)}
      />
    </div>
  );
}

interface StatusChipsProps {
  status: string;
  counts: TaskList["counts"];
  deleted: number | null;
  onChange(status: string): void;
}

function StatusChips({ status, counts, deleted, onChange }: StatusChipsProps) {
  const chip = (name: string, count: number | string) => (
    <Chip
      key={name}
      label={name}
      count={count}
      active={status === name}
      onClick={() => onChange(status === name ? "" : name)}
    />
  );
  return (
    <div class="chips" role="group" aria-label="Filter by status">
      <Chip label="all" count={totalOf(counts)} active={!status} onClick={() => onChange("")} />
      {STATES.map((name) => chip(name, counts[name] ?? 0))}
      {chip("deleted", deleted ?? "")}
    </div>
  );
}

const wordOf = ({ execution }: Pipeline) => (execution === "parallel" ? "group" : "pipeline");

interface TaskTableProps {
  tasks: Task[];
  pipelines?: TaskList["pipelines"];
  filter: Filter;
  chosen: ReadonlySet<string>;
  allChosen: boolean;
  onChoose(tasks: Task[], on: boolean): void;
  onSort(order: string): void;
  onStop(task: Task): void;
  onStopPipeline(pipeline: Pipeline): void;
}

function TaskTable(props: TaskTableProps) {
  const { tasks, pipelines, filter, chosen, allChosen, onChoose, onSort, onStop, onStopPipeline } = props;
  const gone = filter.status === "deleted";
  return (
    <table>
      <caption class="visually-hidden">Tasks, newest first</caption>
      <thead>
        <tr>
          <th scope="col" class="choice">
            {!gone && (
              <input
                type="checkbox"
                aria-label="Select all tasks shown"
                checked={allChosen}
                onChange={(event) => onChoose(tasks, event.currentTarget.checked)}
              />
            )}
          </th>
          {columnsOf(filter).map(([column, title, wide]) => (
            <Column key={column} column={column} title={title} wide={wide} order={filter.order} onSort={onSort} />
          ))}
          <th scope="col" class="wide-only">
            <span class="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {tasks.map((task, index) => (
          <Fragment key={keyOfTask(task)}>
            {!gone && isFirst(tasks, index) && (
              <PipelineRow
                pipeline={pipelines?.get(keyOf(task, task.metadata.pipeline))}
                filter={filter}
                chosen={chosen}
                onChoose={onChoose}
                onStop={onStopPipeline}
              />
            )}
            <Row
              task={task}
              filter={filter}
              chosen={chosen.has(keyOfTask(task))}
              onChoose={(on) => onChoose([task], on)}
              onStop={() => onStop(task)}
            />
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

function columnsOf({ allUsers, namespaces }: Filter): [column: string, title: string, wide: boolean][] {
  return [
    ["name", "Task", false],
    ["status", "Status", false],
    ["nodes", "Nodes", false],
    ["gpus", "Resources of a node", true],
    ...(allUsers ? [["user", "User", true] as [string, string, boolean]] : []),
    ...(namespaces ? [["namespace", "Namespace", true] as [string, string, boolean]] : []),
    ["age", "Age", true],
  ];
}

const INTERVAL = 10_000;

// Since when the API server has been away: the stream itself is silent then. The server asks it once for all pages.
function useStale(): Date | null {
  const [stale, setStale] = useState<Date | null>(null);
  const seen = useRef(new Date());
  useEffect(() => {
    const check = async () => {
      if (document.hidden) return;
      const ready = await fetch("/readyz").then(
        ({ ok }) => ok,
        () => false,
      );
      if (ready) seen.current = new Date();
      setStale(ready ? null : seen.current);
    };
    void check();
    const timer = setInterval(check, INTERVAL);
    return () => clearInterval(timer);
  }, []);
  return stale;
}

export function Live({ interrupted }: { interrupted: Error | null }) {
  const stale = useStale();
  if (stale)
    return (
      <span class="live off" role="status">
        stale since {stale.toLocaleTimeString()}: the cluster does not answer
      </span>
    );
  return <span class={`live ${interrupted ? "off" : ""}`}>{interrupted ? lostAs(interrupted) : "live"}</span>;
}

interface PipelineRowProps {
  pipeline?: Pipeline;
  filter: Filter;
  chosen: ReadonlySet<string>;
  onChoose(tasks: Task[], on: boolean): void;
  onStop(pipeline: Pipeline): void;
}

function PipelineRow({ pipeline, filter, chosen, onChoose, onStop }: PipelineRowProps) {
  const { allUsers, namespaces } = filter;
  if (!pipeline) return null;
  const tasks = pipeline.tasks as Task[];
  const { namespace, note, num_tasks: total } = pipeline.metadata;
  const done = pipeline.tasks.filter(({ status }) => status === "completed").length;
  const word = wordOf(pipeline);
  const query = { namespace, all_users: allUsers ? "true" : undefined };
  const title = `${word} ${pipeline.name} ${pipeline.pipeline_id}`;
  const actions = <PipelineActions pipeline={pipeline} title={title} query={query} onStop={() => onStop(pipeline)} />;
  return (
    <tr>
      <td class="choice">
        <input
          type="checkbox"
          aria-label={`Select all of ${title}`}
          checked={tasks.every((task) => chosen.has(keyOfTask(task)))}
          onChange={(event) => onChoose(tasks, event.currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <a class="task-name" href={href("tasks", [pipeline.pipeline_id], query)}>
          {pipeline.name}
        </a>
        <span class="sub">
          {word} <code>{pipeline.pipeline_id}</code>
        </span>
        <span class="narrow-only row-actions">{actions}</span>
      </th>
      <td>
        <Badge state={pipeline.status} />
        {note && (
          <span class="sub reason" title={note}>
            {note}
          </span>
        )}
      </td>
      <td>
        {done} of {plural(total, word === "group" ? "task" : "stage")}
      </td>
      <td class="wide-only" />
      {allUsers && <td class="wide-only">{pipeline.username}</td>}
      {namespaces && <td class="wide-only">{namespace}</td>}
      <td class="wide-only" title={localTime(pipeline.created_at)}>
        {age(pipeline.created_at)}
      </td>
      <td class="wide-only row-actions">{actions}</td>
    </tr>
  );
}

interface PipelineActionsProps {
  pipeline: Pipeline;
  title: string;
  query: TaskScope;
  onStop(): void;
}

function PipelineActions({ pipeline, title, query, onStop }: PipelineActionsProps) {
  return (
    <>
      <a class="button small" href={href("tasks", [pipeline.pipeline_id, "logs"], query)}>
        Logs<span class="visually-hidden"> of {title}</span>
      </a>
      <button type="button" class="small" onClick={onStop}>
        {isOver(pipeline) ? "Delete" : "Stop"}
        <span class="visually-hidden"> {title}</span>
      </button>
    </>
  );
}

interface StopPipelineProps {
  pipeline: Pipeline;
  scope: TaskScope;
  onClose(): void;
  onStopped?(): void;
}

export function StopPipeline({ pipeline, scope, onClose, onStopped }: StopPipelineProps) {
  const { pipeline_id: id, name, metadata } = pipeline;
  const word = wordOf(pipeline);
  const verb = isOver(pipeline) ? "Delete" : "Stop";
  const stop = async () => {
    const { remaining } = await post<Deleted>(taskPath(id, "/stop"), { ...scope, namespace: metadata.namespace });
    const done = `${verb === "Stop" ? "Stopped" : "Deleted"} ${word} ${name} (${id})`;
    announce(remaining?.length ? stillDeleting(remaining) : done);
    onStopped?.();
  };
  return (
    <Confirm
      title={`${verb} ${word} ${name}?`}
      text="This deletes the Jobs of all its tasks, their pods and logs. Volumes are kept."
      action={`${verb} ${word}`}
      run={stop}
      onClose={onClose}
    />
  );
}

function Chip({
  label,
  count,
  active,
  onClick,
}: {
  label: string;
  count: number | string;
  active: boolean;
  onClick(): void;
}) {
  return (
    <button type="button" class={`chip ${label}`} aria-pressed={active} onClick={onClick}>
      {label} <span class="number">{count}</span>
    </button>
  );
}

function NoTasks({ filtered, gone }: { filtered: boolean; gone: boolean }) {
  if (filtered) return <Empty title="No task matches the filter" />;
  if (gone) {
    return (
      <Empty title="No deleted tasks">
        <p>
          Finished tasks stay here if a cluster admin sets <code>history: 1000</code> for the tasks controller.
        </p>
        <p>
          <a class="button" href={href("tasks")}>
            Show all tasks
          </a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No tasks">
      <p>
        <a class="button primary" href={href("submit")}>
          Submit a task
        </a>
      </p>
    </Empty>
  );
}

interface ColumnProps {
  column: string;
  title: string;
  wide: boolean;
  order: string;
  onSort(order: string): void;
}

function Column({ column, title, wide, order, onSort }: ColumnProps) {
  const current = order.replace(/^-/, "") === column;
  const descending = order.startsWith("-");
  return (
    <th
      scope="col"
      class={wide ? "wide-only" : ""}
      aria-sort={current ? (descending ? "descending" : "ascending") : undefined}
    >
      <button type="button" class="sort" onClick={() => onSort(current && !descending ? `-${column}` : column)}>
        {title}
        <span aria-hidden="true">{current ? (descending ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
}

function Selection({ tasks, onStop, onClear }: { tasks: Task[]; onStop(): void; onClear(): void }) {
  const [error, setError] = useState<unknown>(null);
  const again = async () => {
    setError(null);
    try {
      for (const task of tasks) {
        const scope = { namespace: task.metadata.namespace };
        await postYaml("/tasks/submit", scope, await taskFile(task.task_id, { ...scope, all_users: "true" }));
      }
      announce(`${plural(tasks.length, "task")} submitted again`);
      onClear();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <div class="card selection" role="group" aria-label="Selected tasks">
      <span>{plural(tasks.length, "task")} selected</span>
      <button type="button" class="small" onClick={onStop}>
        {stopWord(tasks)}
      </button>
      <button type="button" class="small" onClick={again}>
        Submit again
      </button>
      <button type="button" class="small quiet" onClick={onClear}>
        Clear
      </button>
      {error ? <ErrorNote error={error} /> : null}
    </div>
  );
}

interface RowProps {
  task: Task;
  filter: Filter;
  chosen: boolean;
  onChoose(on: boolean): void;
  onStop(): void;
}

function Row({ task, filter, chosen, onChoose, onStop }: RowProps) {
  const { allUsers, namespaces } = filter;
  const gone = filter.status === "deleted";
  const { namespace, note, image, resources, logs } = task.metadata;
  const query = { namespace, all_users: allUsers ? "true" : undefined };
  const title = `${task.name} ${task.task_id}`;
  const actions = gone ? null : <RowActions task={task} query={query} onStop={onStop} />;
  return (
    <tr>
      <td class="choice">
        {!gone && (
          <input type="checkbox" aria-label={`Select ${title}`} checked={chosen} onChange={() => onChoose(!chosen)} />
        )}
      </td>
      <th scope="row">
        <TaskName task={task} query={gone ? null : query} />
        <span class="narrow-only row-actions">{actions}</span>
      </th>
      <td>
        <Badge state={task.status} />
        {note && (
          <span class="sub reason" title={note}>
            {note}
          </span>
        )}
        {gone && logs && (
          <span class="sub">
            logs:{" "}
            <code>
              kubectl sky logs {task.task_id} -n {namespace}
            </code>
          </span>
        )}
      </td>
      <td>
        <NodeProgress task={task} />
      </td>
      <td class="wide-only">
        {[resources.accelerators, sizes(task)].filter(Boolean).join(", ")}
        <code class="sub image" title={image}>
          {image}
        </code>
      </td>
      {allUsers && <td class="wide-only">{task.username}</td>}
      {namespaces && <td class="wide-only">{namespace}</td>}
      <td
        class="wide-only"
        title={`${localTime(task.created_at)}${gone ? `, ended ${localTime(task.updated_at)}` : ""}`}
      >
        {age(task.created_at)}
      </td>
      <td class="wide-only row-actions">{actions}</td>
    </tr>
  );
}

interface RowActionsProps {
  task: Task;
  query: TaskScope;
  onStop(): void;
}

export function RowActions({ task, query, onStop }: RowActionsProps) {
  const title = `${task.name} ${task.task_id}`;
  return (
    <>
      <a class="button small" href={href("tasks", [task.task_id, "logs"], query)}>
        Logs<span class="visually-hidden"> of {title}</span>
      </a>
      <button type="button" class="small" onClick={onStop}>
        {stopWord([task])}
        <span class="visually-hidden"> {title}</span>
      </button>
    </>
  );
}

// The name of a task and its id; without a query, it has no page.
function TaskName({ task, query }: { task: Task; query: TaskScope | null }) {
  const { pipeline_name: pipeline, resources } = task.metadata;
  const name = `${pipeline ? `${pipeline}/` : ""}${task.name}`;
  return (
    <>
      {query ? (
        <a class="task-name" href={href("tasks", [task.task_id], query)}>
          {name}
        </a>
      ) : (
        <span class="task-name">{name}</span>
      )}
      <span class="sub">
        <code>{task.task_id}</code>
        <span class="narrow-only">
          {" "}
          · {age(task.created_at)}
          {resources.accelerators && ` · ${resources.accelerators}`}
        </span>
      </span>
    </>
  );
}

interface StopProps {
  tasks: Task[];
  scope: TaskScope;
  onClose(): void;
  onStopped?(): void;
}

export function StopTasks({ tasks, scope, onClose, onStopped }: StopProps) {
  const word = stopWord(tasks);
  const [first] = tasks;
  const what = tasks.length === 1 ? `task ${first!.name}` : plural(tasks.length, "task");
  const stop = async () => {
    const stopOne = (task: Task) =>
      post<Deleted>(taskPath(task.task_id, "/stop"), { ...scope, namespace: task.metadata.namespace });
    const remaining = (await Promise.all(tasks.map(stopOne))).flatMap((answer) => answer.remaining ?? []);
    const done =
      tasks.length === 1
        ? `Task ${first!.name} (${first!.task_id}) ${word === "Stop" ? "stopped" : "deleted"}`
        : `${what}: done`;
    announce(remaining.length ? stillDeleting(remaining) : done);
    onStopped?.();
  };
  const owner = tasks.length === 1 ? `of task ${first!.task_id}, its pods and their` : "of the tasks, their pods and";
  return (
    <Confirm
      title={`${word} ${what}?`}
      text={`This deletes the Jobs ${owner} logs. Volumes are kept.`}
      action={`${word} ${tasks.length === 1 ? "task" : what}`}
      run={stop}
      onClose={onClose}
    />
  );
}
