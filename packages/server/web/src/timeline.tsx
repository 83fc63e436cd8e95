// When each node was queued, scheduled, started and run: bars in SVG.
import { useEffect, useState } from "preact/hooks";
import { get, type Timeline as Times, taskPath } from "./api";
import { localTime, span } from "./format";
import { ErrorNote } from "./parts";
import type { TaskScope } from "./route";

const SHOWN_ROWS = 20;
const UNITS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200]; // seconds between marks; then days
const MAX_MARKS = 6;
const UNKNOWN = "unknown";
const PHASES = ["queued", "scheduling", "starting", "image", "files", "setup", "run", UNKNOWN];

interface Phase {
  name: string;
  start: number; // milliseconds
  end: number;
  open: boolean; // it goes on
}

interface Row {
  name: string;
  phases: Phase[];
  unknown: string[];
}

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
  const shown = all ? rows : rows.slice(0, SHOWN_ROWS);
  const missing = [...new Set(rows.flatMap(({ unknown }) => unknown))];
  return (
    <section class="card" aria-labelledby="timeline">
      <div class="card-head">
        <h2 id="timeline">Timeline</h2>
        <ul class="legend" aria-label="Phases">
          {names.map((name) => (
            <li key={name}>
              <svg width="12" height="12" aria-hidden="true">
                <Bar name={name} x="0" width="12" />
              </svg>
              {name}
            </li>
          ))}
        </ul>
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      <svg width="0" height="0" class="definitions" aria-hidden="true">
        <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <path d="M0 0V6" />
        </pattern>
      </svg>
      <ol class="timeline">
        {shown.map((row) => (
          <li key={row.name}>
            <span class="bar-name">{row.name}</span>
            <svg width="100%" height="18" role="img" aria-label={`${row.name}: ${row.phases.map(took).join(", ")}`}>
              {row.phases.map((phase, index) => (
                <Bar
                  key={index}
                  name={phase.name}
                  x={`${(100 * (phase.start - start)) / length}%`}
                  width={`${(100 * (phase.end - phase.start)) / length}%`}
                  title={`${took(phase)}, from ${localTime(new Date(phase.start).toISOString())}`}
                />
              ))}
            </svg>
            <span class="number">{total(row)}</span>
          </li>
        ))}
        <li class="axis" aria-hidden="true">
          <span />
          <svg class="marks" width="100%" height="16" aria-hidden="true">
            {marks(length / 1000).map(({ at, label }) => (
              <text key={at} x={`${at}%`} y="12">
                {label}
              </text>
            ))}
          </svg>
          <span />
        </li>
      </ol>
      {missing.length > 0 && <p class="muted">Unknown for some nodes, because events expire: {missing.join(", ")}</p>}
      {shown.length < rows.length && (
        <button type="button" class="wide" onClick={() => setAll(true)}>
          Show all {rows.length} nodes
        </button>
      )}
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
              {shown.map((row) => (
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
    </section>
  );
}

// The marks of an axis of some seconds, all in one unit, at percents of its length.
function marks(length: number): { at: number; label: string }[] {
  const step = STEPS.find((seconds) => length / seconds < MAX_MARKS) ?? 86_400 * Math.ceil(length / 86_400 / MAX_MARKS);
  const [size, unit] = UNITS.find(([seconds]) => step % seconds === 0)!;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, index) => ({
    at: (100 * index * step) / length,
    label: `${(index * step) / size}${unit}`,
  }));
}

function Bar({ name, x, width, title }: { name: string; x: string; width: string; title?: string }) {
  return (
    <rect class={`phase ${name}`} x={x} width={width} height="100%" fill={name === UNKNOWN ? "url(#hatch)" : undefined}>
      {title && <title>{title}</title>}
    </rect>
  );
}

function rowsOf({ tasks }: Times, now: number): Row[] {
  return tasks.flatMap((task) =>
    task.nodes.map((node) => ({
      name: tasks.length === 1 ? node.name : task.nodes.length === 1 ? task.name : `${task.name}/${node.name}`,
      phases: node.phases.map(({ phase, start, end }) => ({
        name: phase,
        start: Date.parse(start),
        end: end ? Date.parse(end) : now,
        open: !end,
      })),
      unknown: node.unknown,
    })),
  );
}

function took({ name, start, end, open }: Phase): string {
  return `${name} ${span((end - start) / 1000)}${open ? " until now" : ""}`;
}

function seconds({ phases }: Row, name: string): string {
  const times = phases.filter((phase) => phase.name === name).map(({ start, end }) => end - start);
  return times.length ? span(times.reduce((sum, time) => sum + time, 0) / 1000) : "";
}

function total({ phases }: Row): string {
  return phases.length ? span((phases.at(-1)!.end - phases[0]!.start) / 1000) : "";
}
