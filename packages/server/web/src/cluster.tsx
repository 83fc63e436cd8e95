// The cluster's GPUs, the GPU-hours of tasks, and Kueue's queues, as bars.
import { useState } from "preact/hooks";
import type { AcceleratorNode, ClusterEvent, GpuHoursList, Queue, Quota, Task, Whoami } from "./api";
import { age, amount, plural, quantity } from "./format";
import { type Namespaces, queryOf } from "./list";
import { AllUsers, Bar, Empty, ErrorNote, NamespaceChoice, Title, usePolled } from "./parts";
import { loanOf, placesOf } from "./queues";
import { Limits, limitsOf } from "./quotas";
import { href } from "./route";
import { EventTable } from "./task";

export function ClusterPage({ user }: { user: Whoami }) {
  return (
    <>
      <div class="heading">
        <Title text="GPUs and queues" />
      </div>
      <Gpus />
      <GpuHours />
      <Queues />
      <Quotas user={user} />
      <Events />
    </>
  );
}

function Quotas({ user }: { user: Whoami }) {
  const [namespaces, setNamespaces] = useState<Namespaces>("");
  const [result, error] = usePolled<{ quotas: Quota[] }>("/quotas", queryOf(namespaces));
  return (
    <section aria-labelledby="quotas">
      <h2 id="quotas">Quotas</h2>
      <div class="toolbar">
        <NamespaceChoice user={{ ...user, all_namespaces: false }} chosen={namespaces} onChange={setNamespaces} />
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {result && !result.quotas.length && <Empty title="No quotas" />}
      <div class="grid">
        {limitsOf(result?.quotas ?? []).map(([key, limits]) => (
          <QuotaCard key={key} limits={limits} />
        ))}
      </div>
    </section>
  );
}

function QuotaCard({ limits }: { limits: Quota[] }) {
  const { namespace, quota } = limits[0]!;
  return (
    <article class="card" aria-label={`Quota ${quota} of namespace ${namespace}`}>
      <div class="card-head">
        <h3>{namespace}</h3>
        <span class="muted">{quota}</span>
      </div>
      <Limits limits={limits} />
    </article>
  );
}

function Events() {
  const [result, error] = usePolled<{ events: ClusterEvent[] }>("/cluster-events");
  return <EventTable title="Events of the namespace" events={result?.events ?? null} error={error} />;
}

function Gpus() {
  const [result, error] = usePolled<{ machines: AcceleratorNode[] }>("/gpus");
  const machines = result?.machines ?? [];
  const kinds = new Map<string, AcceleratorNode[]>();
  for (const machine of machines) {
    const kind = machine.accelerator || machine.resource;
    kinds.set(kind, [...(kinds.get(kind) ?? []), machine]);
  }
  return (
    <section aria-labelledby="gpus">
      <h2 id="gpus">GPUs</h2>
      {error ? <ErrorNote error={error} quiet /> : null}
      {result && !machines.length && (
        <Empty title="No GPUs">
          <p>No cluster node has accelerators.</p>
        </Empty>
      )}
      <div class="grid">
        {[...kinds].map(([kind, group]) => (
          <Kind key={kind} kind={kind} machines={group} />
        ))}
      </div>
    </section>
  );
}

function Kind({ kind, machines }: { kind: string; machines: AcceleratorNode[] }) {
  const total = machines.reduce((sum, machine) => sum + machine.total, 0);
  const known = machines.every(({ used }) => used !== null);
  const used = machines.reduce((sum, machine) => sum + (machine.used ?? 0), 0);
  const users = new Map<string, number>();
  for (const machine of machines) {
    for (const [user, count] of Object.entries(machine.users)) users.set(user, (users.get(user) ?? 0) + count);
  }
  const free = machines.reduce((sum, machine) => sum + (machine.free ?? 0), 0);
  return (
    <article class="card" aria-label={kind}>
      <div class="card-head">
        <h3>{kind}</h3>
        <span class="number">{known ? `${used} of ${total} used, ${free} free` : `${total} in all; use unknown`}</span>
      </div>
      {known && <Bar used={used} total={total} label={`${kind}: ${used} of ${total} used`} />}
      <ul class="bars" aria-label={`${plural(machines.length, "cluster node")} with ${kind}`}>
        {machines.map((machine) => (
          <li key={machine.node}>
            <span class="bar-name">
              {machine.node}
              {!machine.ready && <span class="tag">not ready</span>}
            </span>
            {machine.used === null ? (
              <span class="muted">{machine.total}</span>
            ) : (
              <>
                <Bar
                  used={machine.used}
                  total={machine.total}
                  label={`${machine.node}: ${machine.used} of ${machine.total} used`}
                />
                <span class="number">
                  {machine.used}/{machine.total}
                </span>
              </>
            )}
          </li>
        ))}
      </ul>
      {users.size > 0 && (
        <dl class="users">
          {[...users]
            .sort((a, b) => b[1] - a[1])
            .map(([user, count]) => (
              <div key={user}>
                <dt>{user}</dt>
                <dd>{count}</dd>
              </div>
            ))}
        </dl>
      )}
    </article>
  );
}

function Queues() {
  const [result, error] = usePolled<{ queues: Queue[] }>("/queues");
  const [mine] = usePolled<{ tasks: Task[] }>("/tasks", { limit: 1000 });
  const queues = result?.queues ?? [];
  return (
    <section aria-labelledby="queues">
      <h2 id="queues">Queues</h2>
      {error ? <ErrorNote error={error} quiet /> : null}
      {result && !queues.length && (
        <Empty title="No queues in the namespace">
          <p>With Kueue installed, a cluster admin can create a LocalQueue.</p>
        </Empty>
      )}
      <div class="grid">
        {queues.map((queue) => (
          <QueueCard key={`${queue.namespace}/${queue.name}`} queue={queue} tasks={mine?.tasks ?? []} />
        ))}
      </div>
    </section>
  );
}

const SHOWN_WAITING = 20;

function QueueCard({ queue, tasks }: { queue: Queue; tasks: Task[] }) {
  const entries = placesOf(queue, tasks);
  const mine = entries.filter(({ task }) => task);
  return (
    <article class="card" aria-label={queue.name}>
      <div class="card-head">
        <h3>{queue.name}</h3>
        <span class="number">
          {queue.admitted} admitted, {queue.pending} pending
        </span>
      </div>
      <p class="muted">
        ClusterQueue {queue.cluster_queue}
        {queue.cohort && ` of cohort ${queue.cohort}`}
        {queue.pending_in_cluster_queue !== null && `: ${queue.pending_in_cluster_queue} pending from all namespaces`}
      </p>
      {queue.stopped && <p class="note">{queue.stopped}</p>}
      {mine.map(({ task, position, wait }) => (
        <p key={position} class="note">
          <a href={href("tasks", [task!.task_id], { namespace: queue.namespace })}>{task!.name}</a> is number {position}{" "}
          of {entries.length} here{wait && `: about ${wait} until it is admitted, a guess`}
        </p>
      ))}
      <ul class="bars">
        {queue.resources.map((share) => (
          <QueueBar key={`${share.flavor}/${share.resource}`} share={share} cohort={queue.cohort} />
        ))}
      </ul>
      {entries.length > 0 && (
        <ol class="waiting" aria-label="Pending workloads, next one first">
          {entries.slice(0, SHOWN_WAITING).map(({ waiting, task }) => (
            <li key={waiting.workload}>
              <code>{waiting.workload}</code> <span class="muted">{age(waiting.since)}</span>
              {task && <span class="tag">yours</span>}
              {waiting.reason && <span class="sub">{waiting.reason}</span>}
            </li>
          ))}
        </ol>
      )}
    </article>
  );
}

function QueueBar({ share, cohort }: { share: Queue["resources"][number]; cohort: string }) {
  const used = quantity(share.used_by_all ?? share.used) ?? 0;
  const quota = quantity(share.quota);
  const format = (text: string | null) => amount(share.resource, text);
  const text = `${format(share.used_by_all ?? share.used)}/${format(share.quota)}`;
  return (
    <li>
      <span class="bar-name">
        {share.resource}
        <span class="sub">
          {share.flavor}, {format(share.used)} used here
        </span>
        {cohort && <span class="sub">{loanOf(share)}</span>}
      </span>
      {quota === null ? (
        <span />
      ) : (
        <Bar
          used={used}
          total={quota}
          label={`${share.resource} of ${share.flavor}: ${text.replace("/", " of ")} used`}
        />
      )}
      <span class="number">{text}</span>
    </li>
  );
}

const DAYS = [1, 7, 30, 90];

function GpuHours() {
  const [days, setDays] = useState(30);
  const [allUsers, setAllUsers] = useState(true);
  const query = { days, all_users: allUsers };
  const [byUser, error] = usePolled<GpuHoursList>("/usage", { ...query, by: "user" }, 60);
  const [byGpu] = usePolled<GpuHoursList>("/usage", { ...query, by: "gpu" }, 60);
  const inexact = byUser?.inexact_tasks ?? 0;
  const goodput = byUser?.goodput;
  return (
    <section aria-labelledby="hours">
      <h2 id="hours">GPU-hours</h2>
      <div class="toolbar">
        <label class="field">
          Last
          <select value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {DAYS.map((count) => (
              <option key={count} value={count}>
                {plural(count, "day")}
              </option>
            ))}
          </select>
        </label>
        <AllUsers checked={allUsers} onChange={setAllUsers} />
        <span class="muted">
          Deleted tasks are not counted.
          {inexact > 0 && ` Not exact: ${plural(inexact, "task")} with deleted pods or Jobs.`}
          {goodput &&
            ` ${goodput.percent}% went into new steps, as known of ${goodput.known} of ${plural(goodput.finished, "finished task")}.`}
        </span>
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      <div class="grid">
        {byUser && <HoursCard title="By user" usage={byUser} />}
        {byGpu && <HoursCard title="By GPU" usage={byGpu} />}
      </div>
    </section>
  );
}

function HoursCard({ title, usage }: { title: string; usage: GpuHoursList }) {
  const { rows, total } = usage;
  const most = Math.max(...rows.map((row) => row.gpu_hours));
  return (
    <article class="card" aria-label={`GPU-hours ${title}`}>
      <div class="card-head">
        <h3>{title}</h3>
        <span class="number">
          {hours(total)} of {plural(total.tasks, "task")}
        </span>
      </div>
      {rows.length > 0 && (
        <ul class="bars">
          {rows.map((row) => (
            <li key={row.key}>
              <span class="bar-name">{row.key}</span>
              <Bar used={row.gpu_hours} total={most} label={`${row.key}: ${hours(row)}`} plain />
              <span class="number" title={hours(row)}>
                {row.gpu_hours.toFixed(1)}
              </span>
            </li>
          ))}
        </ul>
      )}
    </article>
  );
}

function hours({ gpu_hours: count }: GpuHoursList["total"]): string {
  return `${count.toFixed(1)} GPU-hours`;
}
