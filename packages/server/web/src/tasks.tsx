// All tasks, with their live state.
import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type Deleted,
  type Pipeline,
  post,
  postYaml,
  type State,
  stillDeleting,
  type Task,
  taskPath,
  url,
  type Whoami,
} from "./api";
import { age, localTime, plural, sizes } from "./format";
import { applyEvent, changedWithin, isFinished, keyOf, keyOfTask, matches, SPANS, sorted, type TaskList } from "./list";
import {
  AllUsers,
  announce,
  Badge,
  Confirm,
  Empty,
  ErrorNote,
  NodeProgress,
  Title,
  useClock,
  usePolled,
} from "./parts";
import { href, type Route, type TaskScope } from "./route";
import { follow, lostAs } from "./stream";
import { taskFile } from "./submit";

const STATES: State[] = ["running", "pending", "failed", "completed"];
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

export function Tasks({ user, route }: { user: Whoami; route: Route }) {
  const { query } = route;
  const allUsers = query.get("all_users") === "true";
  const allNamespaces = query.get("all_namespaces") === "true";
  const state = query.get("status") ?? "";
  const text = query.get("filter") ?? "";
  const [list, setList] = useState<TaskList | null>(null);
  const [shown, setShown] = useState(PAGE_SIZE);
  const [stopping, setStopping] = useState<Task[]>([]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const since = query.get("since") ?? "";
  const order = query.get("sort") ?? "age";
  useClock();

  const scope = { all_users: allUsers, all_namespaces: allNamespaces };
  const target = url("/tasks/events", scope);
  useEffect(() => setList(null), [target]);
  const interrupted = useStream(target, (name, data) => setList((before) => applyEvent(before, name, data)));

  const gone = state === "deleted";
  const [past, problem] = usePolled<{ tasks: Task[] }>(
    gone ? "/tasks" : "",
    { ...scope, deleted: true },
    15,
    list?.tasks.size,
  );

  const select = (tasks: Iterable<Task>) =>
    sorted(
      [...tasks].filter((task) => matches(task, text) && changedWithin(task, since)),
      order,
    );
  const matching = useMemo(() => select(list?.tasks.values() ?? []), [list, text, since, order]);
  const visible = gone ? select(past?.tasks ?? []) : matching.filter((task) => !state || task.status === state);
  const selected = gone ? [] : visible.filter((task) => chosen.has(keyOfTask(task)));
  const choose = (tasks: Task[], on: boolean) => {
    const next = new Set(chosen);
    for (const task of tasks)
      if (on) next.add(keyOfTask(task));
      else next.delete(keyOfTask(task));
    setChosen(next);
  };
  const set = (name: string, value: string) => {
    const next = Object.fromEntries(query);
    next[name] = value;
    setShown(PAGE_SIZE);
    location.replace(href("tasks", [], next)); // not a step of the history for each key
  };
  const columns: [column: string, title: string, wide: boolean][] = [
    ["name", "Task", false],
    ["status", "Status", false],
    ["nodes", "Nodes", false],
    ["gpus", "Resources of a node", true],
    ...(allUsers ? [["user", "User", true] as [string, string, boolean]] : []),
    ...(allNamespaces ? [["namespace", "Namespace", true] as [string, string, boolean]] : []),
    ["age", "Age", true],
  ];
  return (
    <>
      <div class="heading">
        <Title text="Tasks" />
        <Live interrupted={interrupted} />
      </div>
      <div class="toolbar" role="search">
        <input
          type="search"
          aria-label="Filter tasks by name, id, user, GPU or label"
          placeholder="Name, id, user, GPU, label=value"
          value={text}
          onInput={(event) => set("filter", event.currentTarget.value)}
        />
        <div class="chips" role="group" aria-label="Filter by status">
          <Chip label="all" count={matching.length} active={!state} onClick={() => set("status", "")} />
          {STATES.map((name) => (
            <Chip
              key={name}
              label={name}
              count={matching.filter((task) => task.status === name).length}
              active={state === name}
              onClick={() => set("status", state === name ? "" : name)}
            />
          ))}
          <Chip
            label="deleted"
            count={gone ? visible.length : ""}
            active={gone}
            onClick={() => set("status", gone ? "" : "deleted")}
          />
        </div>
        <label class="select">
          <span class="visually-hidden">Changed in</span>
          <select value={since} onChange={(event) => set("since", event.currentTarget.value)}>
            {SPANS.map(([hours, title]) => (
              <option key={hours} value={hours}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <AllUsers checked={allUsers} onChange={(on) => set("all_users", on ? "true" : "")} />
        {user.all_namespaces && (
          <label class="check">
            <input
              type="checkbox"
              checked={allNamespaces}
              onChange={() => set("all_namespaces", allNamespaces ? "" : "true")}
            />
            All namespaces
          </label>
        )}
      </div>
      {interrupted && !list && <ErrorNote error={interrupted} />}
      {gone && problem ? <ErrorNote error={problem} /> : null}
      {(gone ? !past && !problem : !list && !interrupted) && <p class="muted">Loading…</p>}
      {(gone ? past : list) && !visible.length && (
        <NoTasks filtered={Boolean(text || since || (gone ? past?.tasks.length : state))} gone={gone} />
      )}
      {selected.length > 0 && (
        <Selection tasks={selected} onStop={() => setStopping(selected)} onClear={() => setChosen(new Set())} />
      )}
      {visible.length > 0 && (
        <div class="card table">
          <table>
            <caption class="visually-hidden">Tasks, newest first</caption>
            <thead>
              <tr>
                <th scope="col" class="choice">
                  {!gone && (
                    <input
                      type="checkbox"
                      aria-label="Select all tasks shown"
                      checked={selected.length === visible.length}
                      onChange={(event) => choose(visible, event.currentTarget.checked)}
                    />
                  )}
                </th>
                {columns.map(([column, title, wide]) => (
                  <Column
                    key={column}
                    column={column}
                    title={title}
                    wide={wide}
                    order={order}
                    onSort={(name) => set("sort", name === "age" ? "" : name)}
                  />
                ))}
                <th scope="col" class="wide-only">
                  <span class="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {visible.slice(0, shown).map((task, index) => (
                <Fragment key={`${task.metadata.namespace}/${task.task_id}`}>
                  {!gone && isFirst(visible, index) && (
                    <PipelineRow
                      pipeline={list?.pipelines.get(keyOf(task, task.metadata.pipeline))}
                      allUsers={allUsers}
                      allNamespaces={allNamespaces}
                    />
                  )}
                  <Row
                    task={task}
                    gone={gone}
                    allUsers={allUsers}
                    allNamespaces={allNamespaces}
                    chosen={chosen.has(keyOfTask(task))}
                    onChoose={(on) => choose([task], on)}
                    onStop={() => setStopping([task])}
                  />
                </Fragment>
              ))}
            </tbody>
          </table>
          {visible.length > shown && (
            <button type="button" class="wide" onClick={() => setShown(shown + PAGE_SIZE)}>
              Show {Math.min(PAGE_SIZE, visible.length - shown)} more of {visible.length}
            </button>
          )}
        </div>
      )}
      {stopping.length > 0 && (
        <StopTasks
          tasks={stopping}
          scope={{ all_users: allUsers ? "true" : undefined }}
          onClose={() => setStopping([])}
        />
      )}
    </>
  );
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

function isFirst(tasks: Task[], index: number): boolean {
  const pipeline = tasks[index]!.metadata.pipeline;
  return Boolean(pipeline) && tasks.findIndex(({ metadata }) => metadata.pipeline === pipeline) === index;
}

function PipelineRow({
  pipeline,
  allUsers,
  allNamespaces,
}: {
  pipeline?: Pipeline;
  allUsers: boolean;
  allNamespaces: boolean;
}) {
  if (!pipeline) return null;
  const { namespace, note, num_tasks: total } = pipeline.metadata;
  const done = pipeline.tasks.filter(({ status }) => status === "completed").length;
  const word = pipeline.execution === "parallel" ? "group" : "pipeline";
  return (
    <tr>
      <td class="choice" />
      <th scope="row">
        <a
          class="task-name"
          href={href("tasks", [pipeline.pipeline_id], { namespace, all_users: allUsers ? "true" : undefined })}
        >
          {pipeline.name}
        </a>
        <span class="sub">
          {word} <code>{pipeline.pipeline_id}</code>
        </span>
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
      {allNamespaces && <td class="wide-only">{namespace}</td>}
      <td class="wide-only" title={localTime(pipeline.created_at)}>
        {age(pipeline.created_at)}
      </td>
      <td class="wide-only" />
    </tr>
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

// What stopping does to them: nothing runs in finished tasks any more.
function stopWord(tasks: Task[]): string {
  const finished = tasks.filter(isFinished).length;
  return finished === tasks.length ? "Delete" : finished ? "Stop and delete" : "Stop";
}

interface RowProps {
  task: Task;
  gone: boolean;
  allUsers: boolean;
  allNamespaces: boolean;
  chosen: boolean;
  onChoose(on: boolean): void;
  onStop(): void;
}

function Row({ task, gone, allUsers, allNamespaces, chosen, onChoose, onStop }: RowProps) {
  const { namespace, note, pipeline_name: pipeline, image, resources, logs } = task.metadata;
  const query = { namespace, all_users: allUsers ? "true" : undefined };
  const title = `${task.name} ${task.task_id}`;
  const name = `${pipeline ? `${pipeline}/` : ""}${task.name}`;
  const actions = gone ? null : (
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
  return (
    <tr>
      <td class="choice">
        {!gone && (
          <input type="checkbox" aria-label={`Select ${title}`} checked={chosen} onChange={() => onChoose(!chosen)} />
        )}
      </td>
      <th scope="row">
        {gone ? (
          <span class="task-name">{name}</span>
        ) : (
          <a class="task-name" href={href("tasks", [task.task_id], query)}>
            {name}
          </a>
        )}
        <span class="sub">
          <code>{task.task_id}</code>
          <span class="narrow-only">
            {" "}
            · {age(task.created_at)}
            {resources.accelerators && ` · ${resources.accelerators}`}
          </span>
        </span>
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
      {allNamespaces && <td class="wide-only">{namespace}</td>}
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
