// A pipeline or group: its stages, and a button that resumes the next one.
import { useEffect, useState } from "preact/hooks";
import { get, type Pipeline, post, type Task, taskPath } from "./api";
import { age, localTime } from "./format";
import { Graph } from "./graph";
import { isOver } from "./list";
import { announce, Badge, ErrorNote, NodeProgress, Title, useClock, usePolled } from "./parts";
import { go, href, type TaskScope } from "./route";
import { suspended } from "./stages";
import { SubmitAgain } from "./submit";
import { TaskPage } from "./task";
import { RowActions, StopPipeline, StopTasks } from "./tasks";
import { Timeline } from "./timeline";

const INTERVAL = 3_000;

// An id may be that of a task, a pipeline or a group: only the server knows.
export function TargetPage({ id, scope }: { id: string; scope: TaskScope }) {
  const [target, setTarget] = useState<Task | Pipeline | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () => {
    get<Task | Pipeline>(taskPath(id), scope).then((result) => {
      setTarget(result);
      setError(null);
    }, setError);
  };
  useEffect(load, []);
  const pipeline = target && "pipeline_id" in target ? target : null;
  const running = pipeline !== null && !isOver(pipeline);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => !document.hidden && load(), INTERVAL);
    return () => clearInterval(timer);
  }, [running]);
  if (!target) return <Missing id={id} error={error} />;
  if (!pipeline) return <TaskPage first={target as Task} scope={scope} />;
  return <PipelinePage pipeline={pipeline} scope={scope} error={error} reload={load} />;
}

// What is shown before the server has answered, or if it does not know the id.
function Missing({ id, error }: { id: string; error: unknown }) {
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumbs">
        <a href={href("tasks")}>Tasks</a>
      </nav>
      <div class="heading">
        <Title text={`Task ${id}`} />
      </div>
      {error ? <ErrorNote error={error} /> : <p class="muted">Loading…</p>}
    </>
  );
}

interface Props {
  pipeline: Pipeline;
  scope: TaskScope;
  error: unknown;
  reload(): void;
}

function PipelinePage({ pipeline, scope, error, reload }: Props) {
  const [stopping, setStopping] = useState(false);
  const id = pipeline.pipeline_id;
  const word = pipeline.execution === "parallel" ? "group" : "pipeline";
  useClock();
  const [stoppingTask, setStoppingTask] = useState<Task | null>(null);
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumbs">
        <a href={href("tasks")}>Tasks</a>
      </nav>
      <div class="heading">
        <Title text={pipeline.name}>{pipeline.name}</Title>
        <Badge state={pipeline.status} />
        <span class="muted">
          {word} <code>{id}</code> of {pipeline.username},{" "}
          <span title={localTime(pipeline.created_at)}>{age(pipeline.created_at)}</span>
        </span>
        <div class="heading-actions">
          <a class="button" href={href("tasks", [id, "logs"], scope)}>
            Logs
          </a>
          <SubmitAgain id={id} scope={scope} />
          <button type="button" class="danger-quiet" onClick={() => setStopping(true)}>
            {isOver(pipeline) ? "Delete" : "Stop"}
          </button>
        </div>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {pipeline.metadata.note && <p class={`banner ${pipeline.status}`}>{pipeline.metadata.note}</p>}
      <Resume pipeline={pipeline} scope={scope} onDone={reload} />
      {word === "pipeline" && <Graph pipeline={pipeline} scope={scope} />}
      <StageTable tasks={pipeline.tasks as Task[]} word={word} scope={scope} onStop={setStoppingTask} />
      <Timeline
        id={id}
        scope={scope}
        state={pipeline.tasks.map(({ updated_at: time, metadata }) => `${time} ${metadata.detailed_status}`).join()}
      />
      {stopping && (
        <StopPipeline
          pipeline={pipeline}
          scope={scope}
          onClose={() => setStopping(false)}
          onStopped={() => go("tasks")}
        />
      )}
      {stoppingTask && (
        <StopTasks tasks={[stoppingTask]} scope={scope} onClose={() => setStoppingTask(null)} onStopped={reload} />
      )}
    </>
  );
}

interface StageTableProps {
  tasks: Task[];
  word: "group" | "pipeline";
  scope: TaskScope;
  onStop(task: Task): void;
}

function StageTable({ tasks, word, scope, onStop }: StageTableProps) {
  return (
    <div class="card table">
      <table>
        <caption class="visually-hidden">Tasks of the {word}</caption>
        <thead>
          <tr>
            <th scope="col">{word === "group" ? "Task" : "Stage"}</th>
            <th scope="col">Status</th>
            <th scope="col">Nodes</th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr key={task.task_id}>
              <th scope="row">
                <a class="task-name" href={href("tasks", [task.task_id], scope)}>
                  {task.metadata.stage}. {task.name}
                </a>
                <span class="sub">
                  <code>{task.task_id}</code>
                </span>
              </th>
              <td>
                <Badge state={task.status} />
                {task.metadata.note && <span class="sub reason">{task.metadata.note}</span>}
              </td>
              <td>
                <NodeProgress task={task} />
              </td>
              <td class="row-actions">
                <RowActions task={task} query={scope} onStop={() => onStop(task)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Resume({ pipeline, scope, onDone }: { pipeline: Pipeline; scope: TaskScope; onDone(): void }) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [controller, unknown] = usePolled<{ leads: boolean }>("/controllers/tasks", { namespace: scope.namespace });
  const stage = suspended(pipeline);
  const stages = pipeline.execution === "serial" && pipeline.tasks.length > 1;
  if (!stages || pipeline.status === "completed" || pipeline.status === "failed") return null;
  if (controller ? controller.leads : !unknown) return null;
  const resume = async () => {
    setBusy(true);
    try {
      announce((await post<{ message: string }>(taskPath(pipeline.pipeline_id, "/resume"), scope)).message);
      setError(null);
      onDone();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return (
    <div class="note">
      <p>
        No tasks controller is seen here: a stage begins when a client that follows the pipeline resumes it. Without
        one, resume each stage here.
      </p>
      {error ? <ErrorNote error={error} /> : null}
      {stage && (
        <button type="button" class="primary" disabled={busy} onClick={resume}>
          Resume {stage.name}
        </button>
      )}
    </div>
  );
}
