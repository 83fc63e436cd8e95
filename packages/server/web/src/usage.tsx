// What a task uses over time: as Prometheus knows it, else as this page has polled it.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { type Usage as Answer, get, taskPath } from "./api";
import { bytes } from "./format";
import { Empty, ErrorNote } from "./parts";
import type { TaskScope } from "./route";
import { lines, MAX_LINES, type Measure, type Sample, samplesOf, type Use } from "./samples";
import { mayRetry } from "./stream";
import { onTheme } from "./theme";

const INTERVAL = 10_000;
const HISTORY_INTERVAL = 60_000;
const YEAR = 31_622_400; // seconds
const SHORTEST_SPAN = 300; // seconds on the axis
const MAX_SAMPLES = 2_000;

const POWERS_OF_TWO = Array.from({ length: 60 }, (_, exponent) => 2 ** exponent);

const cpus = (amount: number) => `${amount >= 10 ? amount.toFixed(0) : amount.toFixed(2)}`;

const MEASURES: Measure[] = [
  { title: "CPU (cores)", value: (node) => node.cpus, asked: (node) => node.cpus_asked, format: cpus },
  {
    title: "Memory",
    value: (node) => node.memory_bytes,
    asked: (node) => node.memory_bytes_asked,
    format: bytes,
    steps: POWERS_OF_TWO,
  },
  { title: "GPU use", value: (node) => node.gpu_percent, format: (amount) => `${amount.toFixed(0)}%`, mean: true },
  { title: "GPU memory", value: (node) => node.gpu_memory_bytes, format: bytes, steps: POWERS_OF_TWO },
  { title: "GPUs (allocated)", value: (node) => node.gpus_asked, format: String, steps: POWERS_OF_TWO },
];

const polled = new Map<string, Sample[]>(); // kept while the page is open

export function Usage({ id, scope, running }: { id: string; scope: TaskScope; running: boolean }) {
  const [seconds, setSeconds] = useState(YEAR);
  const { samples, error, reason, problem, recorded } = useSamples(id, scope, running, seconds);
  const last = samples.at(-1);
  const measures = MEASURES.filter(({ value }) =>
    samples.some(({ nodes }) => nodes.some((node) => value(node) != null)),
  );
  let missing = running || recorded ? "No measurements yet" : "No measurements: the task has finished";
  if (reason && !recorded) missing = `No measurements: ${reason}`;
  return (
    <section class="card" aria-labelledby="usage">
      <div class="card-head">
        <h2 id="usage">Usage</h2>
        {recorded ? (
          <Span seconds={seconds} onChange={setSeconds} />
        ) : (
          <span class="muted">since this page was opened</span>
        )}
      </div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {!recorded && !error && (
        <p class="muted">
          {problem || (
            <>
              For the use of GPUs and the time before, an admin names a Prometheus: the setting{" "}
              <code>prometheus: URL</code>.
            </>
          )}
        </p>
      )}
      {!error && !last && <Empty title={missing} />}
      {last && (
        <>
          <div class="charts">
            {measures.map((measure) => (
              <Chart key={measure.title} measure={measure} samples={samples} />
            ))}
          </div>
          <Latest measures={measures} nodes={last.nodes} />
        </>
      )}
    </section>
  );
}

// Poll the use of a task while it runs, and its history less often.
function useSamples(id: string, scope: TaskScope, running: boolean, seconds: number) {
  const key = `${scope.namespace ?? ""}/${id}`;
  const [samples, setSamples] = useState<Sample[]>(polled.get(key) ?? []);
  const [error, setError] = useState<unknown>(null);
  const [reason, setReason] = useState(""); // why nothing can be measured
  const [problem, setProblem] = useState(""); // of Prometheus
  const [recorded, setRecorded] = useState(false); // by Prometheus
  useEffect(() => {
    let timer = 0;
    let due = 0; // when Prometheus is asked again
    const controller = new AbortController();
    const poll = async () => {
      let interval = INTERVAL;
      try {
        if (!document.hidden || !running) {
          const asks = Date.now() >= due;
          const result = await get<Answer>(
            taskPath(id, "/usage"),
            { ...scope, seconds: asks ? seconds : 0 },
            controller.signal,
          );
          const { history } = result;
          if (asks && history?.series.length !== 0) due = Date.now() + HISTORY_INTERVAL;
          if (history?.series.length) interval = HISTORY_INTERVAL;
          const sample = { time: Date.now() / 1000, nodes: result.nodes };
          if (result.nodes.length) polled.set(key, [...(polled.get(key) ?? []), sample].slice(-MAX_SAMPLES));
          setSamples(history ? samplesOf(history, result.nodes) : (polled.get(key) ?? []));
          setError(null);
          setReason(result.reason ?? "");
          if (asks) setProblem(result.history_reason ?? "");
          setRecorded(Boolean(history));
          if (result.reason && !history) {
            if (!asks || !result.history_reason) return;
            interval = HISTORY_INTERVAL;
          }
        }
      } catch (problem) {
        if (controller.signal.aborted) return;
        setError(problem);
        if (!mayRetry(problem as Error)) return;
      }
      if (running) timer = window.setTimeout(poll, interval);
    };
    void poll();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, running, seconds]);
  return { samples, error, reason, problem, recorded };
}

function Span({ seconds, onChange }: { seconds: number; onChange(seconds: number): void }) {
  return (
    <select aria-label="Time" value={seconds} onChange={(event) => onChange(Number(event.currentTarget.value))}>
      <option value={YEAR}>whole task</option>
      <option value={86_400}>last day</option>
      <option value={3_600}>last hour</option>
    </select>
  );
}

function Latest({ measures, nodes }: { measures: Measure[]; nodes: Use[] }) {
  return (
    <details>
      <summary>Latest values as a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label="Latest values">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              {measures.map(({ title }) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <tr key={node.node}>
                <th scope="row">node-{node.node}</th>
                {measures.map(({ title, value, asked, format }) => (
                  <td key={title}>
                    {value(node) == null ? "–" : format(value(node)!)}
                    {asked?.(node) ? <span class="muted"> of {format(asked(node)!)}</span> : ""}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Chart({ measure, samples }: { measure: Measure; samples: Sample[] }) {
  const element = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const { names, data } = lines(measure, samples);
  const latest = data.slice(1).map((values, index) => `${names[index]} ${measure.format(Number(values!.at(-1) ?? 0))}`);

  useEffect(() => {
    let stopped = false;
    const draw = async () => {
      const { default: UPlot } = await import("uplot");
      if (stopped || !element.current) return;
      chart.current?.destroy();
      chart.current = new UPlot(options(element.current, measure, names), data, element.current);
    };
    void draw();
    const stopListening = onTheme(draw);
    const observer = new ResizeObserver(() => {
      if (element.current) chart.current?.setSize({ width: element.current.clientWidth, height: 180 });
    });
    observer.observe(element.current!);
    return () => {
      stopped = true;
      observer.disconnect();
      stopListening();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [names.join()]);
  useEffect(() => chart.current?.setData(data), [samples]);
  return (
    <figure class="chart">
      <figcaption>{measure.title}</figcaption>
      <div role="img" aria-label={`${measure.title} over time. Now: ${latest.join(", ")}`}>
        <div ref={element} aria-hidden="true" />
      </div>
    </figure>
  );
}

function timeRange(times: ArrayLike<number>): [number, number] {
  const last = times[times.length - 1] ?? Date.now() / 1000;
  return [Math.min(times[0] ?? last, last - SHORTEST_SPAN), last];
}

function options(element: HTMLElement, measure: Measure, names: string[]): uPlot.Options {
  const color = (name: string) => {
    element.style.color = `var(${name})`; // a canvas knows neither var() nor light-dark()
    return getComputedStyle(element).color;
  };
  const axis: uPlot.Axis = {
    stroke: color("--muted"),
    grid: { stroke: color("--border"), width: 1 },
    ticks: { stroke: color("--border"), width: 1 },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height: 180,
    cursor: { y: false },
    scales: {
      x: { range: (chart) => timeRange(chart.data[0]) },
      y: { range: (_chart, _low, high) => [0, high > 0 ? high * 1.1 : 1] },
    },
    axes: [axis, { ...axis, size: 68, incrs: measure.steps, values: (_chart, ticks) => ticks.map(measure.format) }],
    series: [
      {},
      ...names.map((name, index) => ({
        label: name,
        stroke: color(`--line-${index % MAX_LINES}`),
        width: 2,
        points: { show: (chart: uPlot) => chart.data[0].length < 10, size: 5 },
        value: (_chart: uPlot, value: number | null) => (value === null ? "" : measure.format(value)),
      })),
    ],
  };
}
