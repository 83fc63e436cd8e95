// Services and their replicas.
import { useEffect, useState } from "preact/hooks";
import { type Deleted, post, request, type Service, stillDeleting, url, type Whoami } from "./api";
import { age, localTime, plural } from "./format";
import { AllUsers, announce, Badge, Confirm, Dialog, Empty, ErrorNote, Title, useClock, usePolled } from "./parts";
import { href, type TaskScope } from "./route";
import { Cause } from "./task";

// What a button of a service does: its dialog.
interface Asked {
  service: Service;
  verb: "scale" | "delete";
}

const pathOf = (service: Service, rest = "") =>
  url(`/services/${encodeURIComponent(service.name)}${rest}`, { namespace: service.namespace });

export function Services({ user }: { user: Whoami }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [round, setRound] = useState(0);
  const [allUsers, setAllUsers] = useState(false);
  const [changing, setChanging] = useState(false);
  const [result, error] = usePolled<{ services: Service[] }>(
    "/services",
    { all_users: allUsers },
    changing ? 2 : 15,
    round,
  );
  useEffect(
    () => setChanging(Boolean(result?.services.some(({ status }) => status === "starting" || status === "updating"))),
    [result],
  );
  useClock();
  const done = (text: string) => {
    announce(text);
    setRound((count) => count + 1);
  };
  return (
    <>
      <div class="heading">
        <Title text="Services" />
        <div class="heading-actions">
          <a class="button" href={href("serve")}>
            Create a service
          </a>
        </div>
      </div>
      <div class="toolbar">
        <AllUsers checked={allUsers} onChange={setAllUsers} />
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {!result && !error && <p class="muted">Loading…</p>}
      {result && !result.services.length && (
        <Empty title="No services">
          <p>
            A task file with <code>service:</code> makes one.
          </p>
        </Empty>
      )}
      {result?.services.map((service) => (
        <ServiceCard
          key={service.name}
          service={service}
          ask={!allUsers || service.username === user.user ? setAsked : undefined}
        />
      ))}
      {asked?.verb === "scale" && <Scale service={asked.service} onDone={done} onClose={() => setAsked(null)} />}
      {asked?.verb === "delete" && <Delete service={asked.service} onDone={done} onClose={() => setAsked(null)} />}
    </>
  );
}

function ServiceCard({ service, ask }: { service: Service; ask?(asked: Asked): void }) {
  const { name, replicas } = service;
  const scope = { namespace: service.namespace, all_users: ask ? undefined : "true" };
  const current = service.pods.filter((pod) => pod.ready && pod.version === service.version).length;
  const earlier = replicas.ready > 0 && current === 0 ? ", of an earlier version, which serves" : "";
  const ready = `${replicas.ready} of ${plural(replicas.wanted, "replica")} ready${earlier}`;
  return (
    <article class="card" aria-label={name}>
      <div class="card-head">
        <h2 class="with-badge">
          {name} <Badge state={service.status} />
        </h2>
        <span class="muted">
          version {service.version} of {service.username},{" "}
          <span title={localTime(service.created_at)}>{age(service.created_at)}</span>
        </span>
        <ServiceActions service={service} scope={scope} ask={ask} />
      </div>
      {service.endpoints.length > 0 && (
        <p class="endpoints">
          {service.endpoints.map((endpoint) => (
            <code key={endpoint}>{endpoint}</code>
          ))}
        </p>
      )}
      <p>
        {ready}
        {replicas.most !== null && `, at most ${replicas.most}`}
      </p>
      {service.message && !service.findings.length && <p class="note">{service.message}</p>}
      {service.findings.map((finding) => (
        <Cause key={`${finding.rule} ${finding.what}`} finding={finding} scope={scope} word="replica " />
      ))}
      {service.pods.length > 0 && <Replicas service={service} scope={scope} />}
    </article>
  );
}

interface ServiceActionsProps {
  service: Service;
  scope: TaskScope;
  ask?(asked: Asked): void;
}

function ServiceActions({ service, scope, ask }: ServiceActionsProps) {
  const { name, replicas } = service;
  const what = <span class="visually-hidden"> {name}</span>;
  return (
    <div class="row-actions">
      <a class="button small" href={href("services", [name, "logs"], scope)}>
        Logs{what}
      </a>
      {ask && (
        <a class="button small" href={href("serve", [name], { namespace: service.namespace })}>
          Update{what}
        </a>
      )}
      {ask && replicas.most === null && (
        <button type="button" class="small" onClick={() => ask({ service, verb: "scale" })}>
          Scale{what}
        </button>
      )}
      {ask && (
        <button type="button" class="small" onClick={() => ask({ service, verb: "delete" })}>
          Delete{what}
        </button>
      )}
    </div>
  );
}

function Replicas({ service, scope }: { service: Service; scope: TaskScope }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={`Replicas of ${service.name}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Replica</th>
            <th scope="col">Status</th>
            <th scope="col">Version</th>
            <th scope="col">Restarts</th>
            <th scope="col">Age</th>
            <th scope="col">Cluster node</th>
            <th scope="col">Pod</th>
          </tr>
        </thead>
        <tbody>
          {service.pods.map((pod) => (
            <tr key={pod.pod}>
              <th scope="row">
                <a href={href("services", [service.name, "logs"], { ...scope, rank: String(pod.number) })}>
                  {pod.number}
                </a>
              </th>
              <td>
                {pod.ready ? <Badge state="ready" /> : <span class="badge pending">not ready</span>}
                {pod.reason && (
                  <span class="sub reason" title={pod.reason}>
                    {pod.reason}
                  </span>
                )}
              </td>
              <td>{pod.version}</td>
              <td>{pod.restarts || ""}</td>
              <td title={localTime(pod.created_at)}>{age(pod.created_at)}</td>
              <td>{pod.host}</td>
              <td>
                <code>{pod.pod}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface DialogProps {
  service: Service;
  onDone(text: string): void;
  onClose(): void;
}

function Delete({ service, onDone, onClose }: DialogProps) {
  const remove = async () => {
    const { remaining } = await request<Deleted>("DELETE", pathOf(service));
    onDone(remaining?.length ? stillDeleting(remaining) : `Service ${service.name} deleted`);
  };
  return (
    <Confirm
      title={`Delete service ${service.name}?`}
      text="This deletes its replicas, their logs, its addresses and all its other objects. Volumes are kept."
      action="Delete service"
      run={remove}
      onClose={onClose}
    />
  );
}

function Scale({ service, onDone, onClose }: DialogProps) {
  const [replicas, setReplicas] = useState(String(service.replicas.wanted));
  const [error, setError] = useState<unknown>(null);
  const scale = async (event: Event) => {
    event.preventDefault();
    try {
      await post(
        `/services/${encodeURIComponent(service.name)}/scale`,
        { namespace: service.namespace },
        { replicas: Number(replicas) },
      );
      onDone(`Service ${service.name} scaled to ${replicas}`);
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title={`Scale service ${service.name}`} onClose={onClose}>
      <form onSubmit={scale} class="fields">
        <label for="replicas">
          Replicas <span class="muted">(until the next update of its file)</span>
        </label>
        <input
          id="replicas"
          type="number"
          min="0"
          max="10000"
          required
          value={replicas}
          onInput={(event) => setReplicas(event.currentTarget.value)}
        />
        {error ? <ErrorNote error={error} /> : null}
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Scale
          </button>
        </div>
      </form>
    </Dialog>
  );
}
