// What the time of a task went into: read when it is asked for, as that reads a whole log.
import { useState } from "preact/hooks";
import { get, type TaskGoodput, taskPath, type Goodput as Uses } from "./api";
import { span } from "./format";
import { ErrorNote } from "./parts";
import type { TaskScope } from "./route";

export function Goodput({ id, scope }: { id: string; scope: TaskScope }) {
  const [found, setFound] = useState<TaskGoodput | null>(null);
  const [reading, setReading] = useState(false);
  const [error, setError] = useState<unknown>(null);

  function read() {
    setReading(true);
    setError(null);
    get<Uses>(taskPath(id, "/goodput"), scope)
      .then((uses) => setFound(uses.tasks[0] ?? null), setError)
      .finally(() => setReading(false));
  }

  return (
    <section class="card" aria-labelledby="goodput">
      <div class="card-head">
        <h2 id="goodput">Goodput</h2>
        <button type="button" onClick={read} disabled={reading}>
          {reading ? "Reading the log…" : found ? "Read again" : "Read the log"}
        </button>
      </div>
      <p class="muted">How much of the time went into new steps, by the steps in the log of rank 0.</p>
      {error ? <ErrorNote error={error} quiet /> : null}
      {found && <UsesTable found={found} />}
    </section>
  );
}

function UsesTable({ found }: { found: TaskGoodput }) {
  const hasGpus = found.shares.some((it) => it.gpu_hours !== undefined);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Uses of the time">
        <table>
          <thead>
            <tr>
              <th scope="col">Time for</th>
              <th scope="col">Time</th>
              <th scope="col">Share</th>
              {hasGpus && <th scope="col">GPU-hours</th>}
            </tr>
          </thead>
          <tbody>
            {found.shares.map((it) => (
              <tr key={it.use}>
                <th scope="row">{it.use}</th>
                <td>{span(it.seconds)}</td>
                <td>{it.percent}%</td>
                {hasGpus && <td>{it.gpu_hours ?? "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.notes?.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
    </>
  );
}
