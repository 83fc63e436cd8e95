// Services and their replicas.
import { useState } from "preact/hooks";
import type { Service } from "./api";
import { age, localTime, plural } from "./format";
import { AllUsers, Badge, Empty, ErrorNote, Title, useClock, usePolled } from "./parts";
import { Cause } from "./task";

export function Services() {
  const [allUsers, setAllUsers] = useState(false);
  const [result, error] = usePolled<{ services: Service[] }>("/services", { all_users: allUsers });
  useClock();
  return (
    <>
      <div class="heading"><Title text="Services" /></div>
      <div class="toolbar"><AllUsers checked={allUsers} onChange={setAllUsers} /></div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {!result && !error && <p class="muted">Loading…</p>}
      {result && !result.services.length && (
        <Empty title="No services"><p>Create one of a task file with <code>service:</code> by <code>kubectl sky serve up FILE</code></p></Empty>
      )}
      {result?.services.map((service) => <ServiceCard key={service.name} service={service} />)}
    </>
  );
}

function ServiceCard({ service }: { service: Service }) {
  const { name, replicas } = service;
  const ready = `${replicas.ready} of ${plural(replicas.wanted, "replica")} ready`;
  return (
    <article class="card" aria-label={name}>
      <div class="card-head">
        <h2 class="with-badge">{name} <Badge state={service.status} /></h2>
        <span class="muted">version {service.version} of {service.username}, <span title={localTime(service.created_at)}>{age(service.created_at)}</span></span>
      </div>
      {service.endpoints.length > 0 && (
        <p class="endpoints">{service.endpoints.map((endpoint) => <code key={endpoint}>{endpoint}</code>)}</p>
      )}
      <p>{ready}{replicas.most !== null && `, at most ${replicas.most}`}</p>
      {service.message && !service.findings.length && <p class="note">{service.message}</p>}
      {service.findings.map((finding) => <Cause key={`${finding.rule} ${finding.what}`} finding={finding} word="replica " />)}
      {service.pods.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`Replicas of ${name}`}>
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
                  <th scope="row">{pod.number}</th>
                  <td>
                    {pod.ready ? <Badge state="ready" /> : <span class="badge pending">not ready</span>}
                    {pod.reason && <span class="sub reason" title={pod.reason}>{pod.reason}</span>}
                  </td>
                  <td>{pod.version}</td>
                  <td>{pod.restarts || ""}</td>
                  <td title={localTime(pod.created_at)}>{age(pod.created_at)}</td>
                  <td>{pod.host}</td>
                  <td><code>{pod.pod}</code></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </article>
  );
}
