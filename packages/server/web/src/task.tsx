// One task: nodes, diagnosis, usage, events and manifests.
import { useEffect, useState } from "preact/hooks";
import {
  ApiError,
  type ClusterEvent,
  type Finding,
  get,
  type Node,
  type Task,
  taskPath,
  url,
  type Verdict,
} from "./api";
import { age, duration, localTime, ranges, sizes } from "./format";
import { Goodput } from "./goodput";
import { isFinished } from "./list";
import type { RankActivity } from "./models";
import { Badge, copy, Empty, ErrorNote, NodeProgress, Title, useClock, withLinks } from "./parts";
import { go, href, type TaskScope } from "./route";
import { SubmitAgain, taskFile } from "./submit";
import { Live, StopTasks, useStream } from "./tasks";
import { Timeline } from "./timeline";
import { Usage } from "./usage";

const SHOWN_NODES = 100;
const SHOWN_RANKS = 16;

export function TaskPage({ first, scope }: { first: Task; scope: TaskScope }) {
  const [task, setTask] = useState(first);
  const [stopping, setStopping] = useState(false);
  const id = first.task_id;
  useClock();
  const interrupted = useStream(url(taskPath(id, "/events"), scope), (name, data) => {
    if (name === "task") setTask(data as Task);
  });
  const finished = isFinished(task);
  const setups = task.metadata.nodes.map((node) => node.setup_since ?? "").join();
  const gone = interrupted instanceof ApiError && interrupted.status === 404;
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumbs">
        <a href={href("tasks")}>Tasks</a>
      </nav>
      <div class="heading">
        <Title text={task.name}>{task.name}</Title>
        <Badge state={task.status} />
        {!finished && <Live interrupted={interrupted} />}
        <div class="heading-actions">
          <a class="button" href={href("tasks", [id, "logs"], scope)}>
            Logs
          </a>
          <SubmitAgain id={id} scope={scope} />
          <button type="button" class="danger-quiet" onClick={() => setStopping(true)}>
            {finished ? "Delete" : "Stop"}
          </button>
        </div>
      </div>
      {gone && <ErrorNote error={interrupted} />}
      {task.metadata.note && <p class={`banner ${task.status}`}>{task.metadata.note}</p>}
      <Facts task={task} />
      <Doctor id={id} scope={scope} state={`${task.status} ${task.metadata.note ?? ""}`} />
      <Timeline id={id} scope={scope} state={`${task.updated_at} ${task.metadata.detailed_status} ${setups}`} />
      <Goodput id={id} scope={scope} />
      <Nodes task={task} scope={scope} />
      <Usage id={id} scope={scope} running={!finished} />
      <Events id={id} scope={scope} state={task.updated_at} />
      <YamlText title="Task file" note="as submitted, without the values of secrets" load={() => taskFile(id, scope)} />
      <YamlText
        title="Manifests"
        note="as in the cluster; the values of Secrets are hidden"
        load={() => manifests(id, scope)}
      />
      {stopping && (
        <StopTasks tasks={[task]} scope={scope} onClose={() => setStopping(false)} onStopped={() => go("tasks")} />
      )}
    </>
  );
}

function Facts({ task }: { task: Task }) {
  const details = task.metadata;
  const facts: [string, string][] = [
    ["Id", task.task_id],
    ["Namespace", details.namespace],
    ["User", task.username],
    ["Backend", details.backend ?? ""],
    ["Pipeline", details.pipeline_name ?? ""],
    ["Age", age(task.created_at)],
    ["Created", localTime(task.created_at)],
    ["GPUs per node", details.resources.accelerators ?? ""],
    ["Resources per node", sizes(task)],
    ["Image", details.image],
    [
      "Labels",
      Object.entries(details.labels ?? {})
        .map(([key, text]) => `${key}=${text}`)
        .join(", "),
    ],
    ["Restarts", details.restarts ? String(details.restarts) : ""],
  ];
  return (
    <section class="card facts" aria-label="Summary">
      <dl>
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        <div>
          <dt>Nodes</dt>
          <dd>
            <NodeProgress task={task} />
          </dd>
        </div>
      </dl>
    </section>
  );
}

const STEPS: Record<string, string> = { ok: "✓", problem: "!", unknown: "?", "not reached": "" };

function Doctor({ id, scope, state }: { id: string; scope: TaskScope; state: string }) {
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    get<Verdict>(taskPath(id, "/doctor"), scope, controller.signal).then(
      (result) => {
        setVerdict(result);
        setError(null);
      },
      (problem) => !controller.signal.aborted && setError(problem),
    );
    return () => controller.abort();
  }, [id, scope.namespace, state, round]);
  return (
    <section class="card" aria-labelledby="doctor">
      <div class="card-head">
        <h2 id="doctor">Doctor</h2>
        <button type="button" class="small" onClick={() => setRound(round + 1)}>
          Check again
        </button>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {verdict && (
        <>
          {!verdict.findings.some(({ what }) => what === verdict.summary) && (
            <p class={verdict.findings.length ? "summary problem" : "summary"}>{verdict.summary}</p>
          )}
          <ol class="stages" aria-label="Stages">
            {Object.entries(verdict.stages).map(([stage, step]) => (
              <li key={stage} class={step.replace(" ", "-")}>
                <span class="mark" aria-hidden="true">
                  {STEPS[step] ?? ""}
                </span>
                {stage}
                <span class="visually-hidden">: {step}</span>
              </li>
            ))}
          </ol>
          {verdict.findings.map((finding) => (
            <Cause key={`${finding.rule} ${finding.what}`} finding={finding} scope={scope} />
          ))}
          {verdict.ranks && verdict.ranks.length > 0 && <Ranks ranks={verdict.ranks} />}
          {verdict.not_readable.length > 0 && (
            <p class="muted">Not checked, because you may not list them: {verdict.not_readable.join(", ")}</p>
          )}
        </>
      )}
    </section>
  );
}

// What the nodes of a running task do, those first that have printed nothing for longest.
function Ranks({ ranks }: { ranks: RankActivity[] }) {
  const longest = [...ranks].sort((a, b) => (a.last_output ?? "9").localeCompare(b.last_output ?? "9"));
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="What the nodes do">
      <table>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Last output</th>
            <th scope="col">Restarts</th>
            <th scope="col">CPUs</th>
            <th scope="col">GPU</th>
          </tr>
        </thead>
        <tbody>
          {longest.slice(0, SHOWN_RANKS).map((rank) => (
            <tr key={rank.rank}>
              <th scope="row">{rank.rank}</th>
              <td>{rank.last_output ? `${age(rank.last_output)} ago` : "never"}</td>
              <td>{rank.restarts || ""}</td>
              <td>{rank.cpus?.toFixed(2) ?? ""}</td>
              <td>{rank.gpu_percent === undefined ? "" : `${Math.round(rank.gpu_percent)}%`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {ranks.length > SHOWN_RANKS && <p class="muted">and {ranks.length - SHOWN_RANKS} more</p>}
    </div>
  );
}

export function Cause({ finding, scope = {}, word = "node-" }: { finding: Finding; scope?: TaskScope; word?: string }) {
  return (
    <div class="finding">
      <p class="finding-title">
        <span class="tag">{finding.stage}</span>
        {finding.nodes.length > 0 && <span class="tag">{ranges(finding.nodes, word)}</span>}
      </p>
      <p>{finding.what}</p>
      <p class="hint">
        <strong>Next:</strong> {withLinks(finding.then, scope)}
      </p>
    </div>
  );
}

function Nodes({ task, scope }: { task: Task; scope: TaskScope }) {
  const [all, setAll] = useState(false);
  const nodes = task.metadata.nodes ?? [];
  const order = ["failed", "running", "pending", "completed"];
  const sorted =
    nodes.length > SHOWN_NODES && !all
      ? [...nodes].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state)).slice(0, SHOWN_NODES)
      : nodes;
  return (
    <section class="card table" aria-labelledby="nodes">
      <div class="card-head">
        <h2 id="nodes">Nodes</h2>
      </div>
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Status</th>
              <th scope="col">Exit code</th>
              <th scope="col">Restarts</th>
              <th scope="col">Duration</th>
              <th scope="col">Cluster node</th>
              <th scope="col">Pod</th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((node) => (
              <NodeRow key={node.name} node={node} id={task.task_id} scope={scope} />
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length < nodes.length && (
        <button type="button" class="wide" onClick={() => setAll(true)}>
          Show all {nodes.length} nodes
        </button>
      )}
    </section>
  );
}

function NodeRow({ node, id, scope }: { node: Node; id: string; scope: TaskScope }) {
  const rank = String(node.index);
  const message =
    [node.reason, node.message].filter(Boolean).join(": ") || (node.setup_since && `setup ${age(node.setup_since)}`);
  return (
    <tr>
      <th scope="row">
        <a href={href("tasks", [id, "logs"], { ...scope, rank })}>{node.name}</a>
      </th>
      <td>
        <Badge state={node.state} />
        {message && (
          <span class="sub reason" title={message}>
            {message}
          </span>
        )}
      </td>
      <td>{node.exit_code ?? ""}</td>
      <td>{node.restarts || ""}</td>
      <td>{duration(node.started_at, node.ended_at)}</td>
      <td>{node.host ?? ""}</td>
      <td>
        <code>{node.pod ?? ""}</code>
      </td>
    </tr>
  );
}

function Events({ id, scope, state }: { id: string; scope: TaskScope; state: string }) {
  const [events, setEvents] = useState<ClusterEvent[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const controller = new AbortController();
    get<{ events: ClusterEvent[] }>(taskPath(id, "/cluster-events"), scope, controller.signal).then(
      (result) => setEvents(result.events),
      (problem) => !controller.signal.aborted && setError(problem),
    );
    return () => controller.abort();
  }, [id, scope.namespace, state]);
  return <EventTable title="Events" events={events} error={error} />;
}

export function EventTable({ title, events, error }: { title: string; events: ClusterEvent[] | null; error: unknown }) {
  return (
    <section class="card table" aria-labelledby="events">
      <div class="card-head">
        <h2 id="events">{title}</h2>
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {events && !events.length && <Empty title="No events" />}
      {events && events.length > 0 && (
        <div class="scroll tall" tabIndex={0} role="group" aria-label="Table of events">
          <table>
            <thead>
              <tr>
                <th scope="col">Age</th>
                <th scope="col">Type</th>
                <th scope="col">Reason</th>
                <th scope="col">Object</th>
                <th scope="col">Message</th>
              </tr>
            </thead>
            <tbody>
              {events.map((event, index) => (
                <tr key={index}>
                  <td title={localTime(event.time)}>
                    {age(event.time)}
                    {event.count > 1 && <span class="muted"> ×{event.count}</span>}
                  </td>
                  <td class={event.type === "Warning" ? "warning" : ""}>{event.type}</td>
                  <td>{event.reason}</td>
                  <td>
                    <code>{event.object}</code>
                  </td>
                  <td class="message">{event.message}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

async function manifests(id: string, scope: TaskScope): Promise<string> {
  return (await get<{ manifests: string }>(taskPath(id, "/manifests"), scope)).manifests;
}

// A text that is fetched when it is opened.
function YamlText({ title, note, load }: { title: string; note: string; load(): Promise<string> }) {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const toggled = (event: Event) => {
    if ((event.currentTarget as HTMLDetailsElement).open && text === null) load().then(setText, setError);
  };
  return (
    <details class="card" onToggle={toggled}>
      <summary>
        <h2>{title}</h2>
        <span class="muted">{note}</span>
      </summary>
      {error ? <ErrorNote error={error} /> : null}
      {text === null && !error && <p class="muted">Loading…</p>}
      {text !== null && (
        <>
          <button type="button" class="small" onClick={() => copy(text)}>
            Copy
          </button>
          <pre tabIndex={0} role="group" aria-label={`${title} in YAML`}>
            {text}
          </pre>
        </>
      )}
    </details>
  );
}
