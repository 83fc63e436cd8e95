// When each node was queued, scheduled, started and run: bars in SVG.
import { useEffect, useState } from "preact/hooks";
import { get, type Timeline as Times, taskPath } from "./api";
import { localTime } from "./format";
import { ErrorNote } from "./parts";
import { LOOKS, marks, PHASES, type Row, rowsOf, seconds, took, total, UNKNOWN } from "./phases";
import type { TaskScope } from "./route";

const SHOWN_ROWS = 20;

// A change of `state` is one of the task, after which the times are read again.
export function Timeline({ id, scope, state }: { id: string; scope: TaskScope; state: string }) {
  const [times, setTimes] = useState<(Times & { read: number }) | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [all, setAll] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    get<Times>(taskPath(id, "/timeline"), scope, controller.signal).then(
      (result) => {
        setTimes({ ...result, read: Date.now() });
        setError(null);
      },
      (problem) => !controller.signal.aborted && setError(problem),
    );
    return () => controller.abort();
  }, [id, scope.namespace, state]);
  const rows = times ? rowsOf(times, Date.parse(times.now) + Date.now() - times.read) : [];
  const phases = rows.flatMap((row) => row.phases);
  if (!phases.length && !error) return null;
  const start = Math.min(...phases.map((phase) => phase.start));
  const length = Math.max(1000, ...phases.map((phase) => phase.end - start));
  const names = PHASES.filter((name) => phases.some((phase) => phase.name === name));
  const looks = LOOKS.filter((look) => phases.some((phase) => phase.look === look));
  const shown = all ? rows : rows.slice(0, SHOWN_ROWS);
  const missing = [...new Set(rows.flatMap(({ unknown }) => unknown))];
  return (
    <section class="card" aria-labelledby="timeline">
      <div class="card-head">
        <h2 id="timeline">Timeline</h2>
        <Legend looks={looks} />
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      <svg width="0" height="0" class="definitions" aria-hidden="true">
        <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <path d="M0 0V6" />
        </pattern>
      </svg>
      <Bars rows={shown} start={start} length={length} />
      {missing.length > 0 && <p class="muted">Unknown for some nodes, because events expire: {missing.join(", ")}</p>}
      {shown.length < rows.length && (
        <button type="button" class="wide" onClick={() => setAll(true)}>
          Show all {rows.length} nodes
        </button>
      )}
      <TimesTable rows={shown} names={names} />
    </section>
  );
}

function Legend({ looks }: { looks: string[] }) {
  return (
    <ul class="legend" aria-label="Phases">
      {looks.map((look) => (
        <li key={look}>
          <svg width="12" height="12" aria-hidden="true">
            <Bar look={look} x="0" width="12" />
          </svg>
          {look}
        </li>
      ))}
    </ul>
  );
}

// A bar for each row, from `start`, in milliseconds.
function Bars({ rows, start, length }: { rows: Row[]; start: number; length: number }) {
  const percent = (time: number) => `${(100 * time) / length}%`;
  return (
    <ol class="timeline">
      {rows.map((row) => (
        <li key={row.name}>
          <span class="bar-name">{row.name}</span>
          <svg width="100%" height="18" role="img" aria-label={`${row.name}: ${row.phases.map(took).join(", ")}`}>
            {row.phases.map((phase, index) => (
              <Bar
                key={index}
                look={phase.look}
                x={percent(phase.start - start)}
                width={percent(phase.end - phase.start)}
                title={`${took(phase)}, from ${localTime(new Date(phase.start).toISOString())}`}
              />
            ))}
          </svg>
          <span class="number">{total(row)}</span>
        </li>
      ))}
      <Axis seconds={length / 1000} />
    </ol>
  );
}

function Axis({ seconds: length }: { seconds: number }) {
  return (
    <li class="axis" aria-hidden="true">
      <span />
      <svg class="marks" width="100%" height="16" aria-hidden="true">
        {marks(length).map(({ at, label }) => (
          <text key={at} x={`${at}%`} y="12">
            {label}
          </text>
        ))}
      </svg>
      <span />
    </li>
  );
}

function TimesTable({ rows, names }: { rows: Row[]; names: string[] }) {
  return (
    <details>
      <summary>Times as a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label="Times">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              {names.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">{row.name}</th>
                {names.map((name) => (
                  <td key={name}>{row.unknown.includes(name) ? UNKNOWN : seconds(row, name)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Bar({ look, x, width, title }: { look: string; x: string; width: string; title?: string }) {
  return (
    <rect class={`phase ${look}`} x={x} width={width} height="100%" fill={look === UNKNOWN ? "url(#hatch)" : undefined}>
      {title && <title>{title}</title>}
    </rect>
  );
}
