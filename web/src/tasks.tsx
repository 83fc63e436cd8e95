// All tasks, with their live state.
import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { taskPath, post, url, type Pipeline, type State, type Task, type Whoami } from "./api";
import { age, localTime, plural, sizes } from "./format";
import { AllUsers, announce, Badge, Confirm, Empty, ErrorNote, NodeProgress, Title, useClock } from "./parts";
import { href, type Route, type TaskScope } from "./route";
import { follow } from "./stream";

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
  const [stopping, setStopping] = useState<Task | null>(null);
  useClock();

  const target = url("/tasks/events", { all_users: allUsers, all_namespaces: allNamespaces });
  useEffect(() => setList(null), [target]);
  const interrupted = useStream(target, (name, data) => setList((before) => applyEvent(before, name, data)));

  const tasks = useMemo(() => list && [...list.tasks.values()].sort(newestFirst), [list]);
  const matching = useMemo(() => (tasks ?? []).filter((task) => matches(task, text)), [tasks, text]);
  const visible = matching.filter((task) => !state || task.status === state);
  const set = (name: string, value: string) => {
    const next = Object.fromEntries(query);
    next[name] = value;
    setShown(PAGE_SIZE);
    location.replace(href("tasks", [], next)); // not a step of the history for each key
  };
  return (
    <>
      <div class="heading">
        <Title text="Tasks" />
        <Live interrupted={interrupted} />
      </div>
      <div class="toolbar" role="search">
        <input
          type="search"
          aria-label="Filter tasks by name, id or user"
          placeholder="Filter by name, id or user"
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
        </div>
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
      {interrupted && !tasks && <ErrorNote error={interrupted} />}
      {!tasks && !interrupted && <p class="muted">Loading…</p>}
      {tasks && !visible.length && <NoTasks filtered={Boolean(text || state)} />}
      {visible.length > 0 && (
        <div class="card table">
          <table>
            <caption class="visually-hidden">Tasks, newest first</caption>
            <thead>
              <tr>
                <th scope="col">Task</th>
                <th scope="col">Status</th>
                <th scope="col">Nodes</th>
                <th scope="col" class="wide-only">Resources of a node</th>
                {allUsers && <th scope="col" class="wide-only">User</th>}
                {allNamespaces && <th scope="col" class="wide-only">Namespace</th>}
                <th scope="col" class="wide-only">Age</th>
                <th scope="col" class="wide-only"><span class="visually-hidden">Actions</span></th>
              </tr>
            </thead>
            <tbody>
              {visible.slice(0, shown).map((task, index) => (
                <Fragment key={`${task.metadata.namespace}/${task.task_id}`}>
                  {isFirst(visible, index) && <PipelineRow pipeline={list?.pipelines.get(keyOf(task, task.metadata.pipeline))} allUsers={allUsers} allNamespaces={allNamespaces} />}
                  <Row task={task} allUsers={allUsers} allNamespaces={allNamespaces} onStop={() => setStopping(task)} />
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
      {stopping && <StopTask task={stopping} scope={{ all_users: allUsers ? "true" : undefined }} onClose={() => setStopping(null)} />}
    </>
  );
}

// Tasks and pipelines by namespace and id. Changes are made in place: one event may be one of thousands.
interface TaskList {
  tasks: Map<string, Task>;
  pipelines: Map<string, Pipeline>;
}

function keyOf({ metadata }: Task | Pipeline, id = ""): string {
  return `${metadata.namespace}/${id}`;
}

export function applyEvent(list: TaskList | null, name: string, data: unknown): TaskList | null {
  if (name === "tasks") {
    const whole = data as { tasks: Task[]; pipelines: Pipeline[] };
    return {
      tasks: new Map(whole.tasks.map((task) => [keyOf(task, task.task_id), task])),
      pipelines: new Map(whole.pipelines.map((pipeline) => [keyOf(pipeline, pipeline.pipeline_id), pipeline])),
    };
  }
  if (!list) return null;
  if (name === "task") list.tasks.set(keyOf(data as Task, (data as Task).task_id), data as Task);
  if (name === "pipeline") list.pipelines.set(keyOf(data as Pipeline, (data as Pipeline).pipeline_id), data as Pipeline);
  if (name === "gone") {
    const { namespace, id } = data as { namespace: string; id: string };
    list.tasks.delete(`${namespace}/${id}`);
    list.pipelines.delete(`${namespace}/${id}`);
  }
  return { ...list };
}

function newestFirst(one: Task, other: Task): number {
  const [a, b] = [one, other].map((task) => `${task.created_at} ${task.task_id} ${task.metadata.namespace}`);
  return a! < b! ? 1 : -1;
}

const INTERVAL = 10_000;

// Since when the API server has been away: the stream itself is silent then. The server asks it once for all pages.
function useStale(): Date | null {
  const [stale, setStale] = useState<Date | null>(null);
  const seen = useRef(new Date());
  useEffect(() => {
    const check = async () => {
      if (document.hidden) return;
      const ready = await fetch("/readyz").then(({ ok }) => ok, () => false);
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
  if (stale) return <span class="live off" role="status">stale since {stale.toLocaleTimeString()}: the cluster does not answer</span>;
  return <span class={`live ${interrupted ? "off" : ""}`}>{interrupted ? "reconnecting" : "live"}</span>;
}

function isFirst(tasks: Task[], index: number): boolean {
  const pipeline = tasks[index]!.metadata.pipeline;
  return Boolean(pipeline) && tasks.findIndex(({ metadata }) => metadata.pipeline === pipeline) === index;
}

function PipelineRow({ pipeline, allUsers, allNamespaces }: { pipeline?: Pipeline; allUsers: boolean; allNamespaces: boolean }) {
  if (!pipeline) return null;
  const { namespace, note, num_tasks: total } = pipeline.metadata;
  const done = pipeline.tasks.filter(({ status }) => status === "completed").length;
  const word = pipeline.execution === "parallel" ? "group" : "pipeline";
  return (
    <tr>
      <th scope="row">
        <a class="task-name" href={href("tasks", [pipeline.pipeline_id], { namespace, all_users: allUsers ? "true" : undefined })}>{pipeline.name}</a>
        <span class="sub">{word} <code>{pipeline.pipeline_id}</code></span>
      </th>
      <td><Badge state={pipeline.status} />{note && <span class="sub reason" title={note}>{note}</span>}</td>
      <td>{done} of {plural(total, word === "group" ? "task" : "stage")}</td>
      <td class="wide-only" />
      {allUsers && <td class="wide-only">{pipeline.username}</td>}
      {allNamespaces && <td class="wide-only">{namespace}</td>}
      <td class="wide-only" title={localTime(pipeline.created_at)}>{age(pipeline.created_at)}</td>
      <td class="wide-only" />
    </tr>
  );
}

function matches(task: Task, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const value = `${task.name} ${task.task_id} ${task.username} ${task.metadata.namespace}`.toLowerCase();
  return words.every((word) => value.includes(word));
}

function Chip({ label, count, active, onClick }: { label: string; count: number; active: boolean; onClick(): void }) {
  return (
    <button type="button" class={`chip ${label}`} aria-pressed={active} onClick={onClick}>
      {label} <span class="number">{count}</span>
    </button>
  );
}

function NoTasks({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No task matches the filter" />;
  return (
    <Empty title="No tasks">
      <p><a class="button primary" href={href("submit")}>Submit a task</a></p>
    </Empty>
  );
}

interface RowProps {
  task: Task;
  allUsers: boolean;
  allNamespaces: boolean;
  onStop(): void;
}

function Row({ task, allUsers, allNamespaces, onStop }: RowProps) {
  const { namespace, note, pipeline_name: pipeline, image, resources } = task.metadata;
  const query = { namespace, all_users: allUsers ? "true" : undefined };
  return (
    <tr>
      <th scope="row">
        <a class="task-name" href={href("tasks", [task.task_id], query)}>
          {pipeline ? `${pipeline}/` : ""}{task.name}
        </a>
        <span class="sub"><code>{task.task_id}</code><span class="narrow-only"> · {age(task.created_at)}{resources.accelerators && ` · ${resources.accelerators}`}</span></span>
      </th>
      <td>
        <Badge state={task.status} />
        {note && <span class="sub reason" title={note}>{note}</span>}
      </td>
      <td><NodeProgress task={task} /></td>
      <td class="wide-only">
        {[resources.accelerators, sizes(task)].filter(Boolean).join(", ")}
        <code class="sub image" title={image}>{image}</code>
      </td>
      {allUsers && <td class="wide-only">{task.username}</td>}
      {allNamespaces && <td class="wide-only">{namespace}</td>}
      <td class="wide-only" title={localTime(task.created_at)}>{age(task.created_at)}</td>
      <td class="wide-only row-actions">
        <a class="button small" href={href("tasks", [task.task_id, "logs"], query)}>
          Logs<span class="visually-hidden"> of {task.name} {task.task_id}</span>
        </a>
        <button type="button" class="small" onClick={onStop}>
          Stop<span class="visually-hidden"> {task.name} {task.task_id}</span>
        </button>
      </td>
    </tr>
  );
}

interface StopProps {
  task: Task;
  scope: TaskScope;
  onClose(): void;
  onStopped?(): void;
}

export function StopTask({ task, scope, onClose, onStopped }: StopProps) {
  const finished = task.status === "completed" || task.status === "failed";
  const stop = async () => {
    await post(taskPath(task.task_id, "/stop"), { ...scope, namespace: task.metadata.namespace });
    announce(`Task ${task.name} (${task.task_id}) stopped`);
    onStopped?.();
  };
  return (
    <Confirm
      title={`Stop task ${task.name}?`}
      text={
        finished
          ? `Task ${task.task_id} has finished. This deletes its Jobs, its pods and their logs. Volumes are kept.`
          : `This deletes the Jobs of task ${task.task_id}, its pods and their logs. Volumes are kept.`
      }
      action="Stop task"
      run={stop}
      onClose={onClose}
    />
  );
}
