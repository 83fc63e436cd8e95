// What a task uses over time; the server measures, this page keeps what it has polled.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { get, taskPath, type NodeUsage } from "./api";
import { bytes } from "./format";
import type { TaskScope } from "./route";
import { mayRetry } from "./stream";
import { Empty, ErrorNote } from "./parts";
import { onTheme } from "./theme";

const INTERVAL = 10_000;
const SHORTEST_SPAN = 300; // seconds on the axis
const MAX_SAMPLES = 2_000;
const MAX_LINES = 6; // nodes with a line of their own; more are added up

interface Sample {
  time: number;
  nodes: NodeUsage[];
}

interface Measure {
  title: string;
  value(node: NodeUsage): number | null | undefined;
  asked(node: NodeUsage): number | null | undefined;
  format(amount: number): string;
  steps?: number[]; // between the marks of the axis
}

const POWERS_OF_TWO = Array.from({ length: 60 }, (_, exponent) => 2 ** exponent);

const cpus = (amount: number) => `${amount >= 10 ? amount.toFixed(0) : amount.toFixed(2)}`;

const MEASURES: Measure[] = [
  { title: "CPU (cores)", value: (node) => node.cpus, asked: (node) => node.cpus_asked, format: cpus },
  { title: "Memory", value: (node) => node.memory_bytes, asked: (node) => node.memory_bytes_asked, format: bytes, steps: POWERS_OF_TWO },
  { title: "GPUs (allocated)", value: (node) => node.gpus_asked, asked: () => null, format: String, steps: POWERS_OF_TWO },
];

const history = new Map<string, Sample[]>(); // kept while the page is open

export function Usage({ id, scope, running }: { id: string; scope: TaskScope; running: boolean }) {
  const key = `${scope.namespace ?? ""}/${id}`;
  const [samples, setSamples] = useState<Sample[]>(history.get(key) ?? []);
  const [error, setError] = useState<unknown>(null);
  const [reason, setReason] = useState(""); // why nothing can be measured
  useEffect(() => {
    let timer = 0;
    const controller = new AbortController();
    const poll = async () => {
      try {
        if (!document.hidden) {
          const result = await get<{ nodes: NodeUsage[]; reason?: string }>(taskPath(id, "/usage"), scope, controller.signal);
          const kept = [...(history.get(key) ?? []), { time: Date.now() / 1000, nodes: result.nodes }].slice(-MAX_SAMPLES);
          if (result.nodes.length) history.set(key, kept);
          setSamples(history.get(key) ?? []);
          setError(null);
          setReason(result.reason ?? "");
          if (result.reason) return;
        }
      } catch (problem) {
        if (controller.signal.aborted) return;
        setError(problem);
        if (!mayRetry(problem as Error)) return;
      }
      if (running) timer = window.setTimeout(poll, INTERVAL);
    };
    void poll();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, running]);
  const last = samples.at(-1);
  const measures = MEASURES.filter(({ value }) => last?.nodes.some((node) => value(node) != null));
  return (
    <section class="card" aria-labelledby="usage">
      <div class="card-head"><h2 id="usage">Usage</h2><span class="muted">since this page was opened</span></div>
      {error ? <ErrorNote error={error} quiet /> : null}
      {!error && !last && (
        <Empty title={reason ? `No measurements: ${reason}` : running ? "No measurements yet" : "No measurements: the task has finished"} />
      )}
      {last && (
        <>
          <div class="charts">
            {measures.map((measure) => <Chart key={measure.title} measure={measure} samples={samples} />)}
          </div>
          <Latest measures={measures} nodes={last.nodes} />
        </>
      )}
    </section>
  );
}

function Latest({ measures, nodes }: { measures: Measure[]; nodes: NodeUsage[] }) {
  return (
    <details>
      <summary>Latest values as a table</summary>
      <div class="scroll" tabIndex={0} role="group" aria-label="Latest values">
        <table>
          <thead>
            <tr><th scope="col">Node</th>{measures.map(({ title }) => <th key={title} scope="col">{title}</th>)}</tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <tr key={node.node}>
                <th scope="row">node-{node.node}</th>
                {measures.map(({ title, value, asked, format }) => (
                  <td key={title}>
                    {format(value(node) ?? 0)}{asked(node) ? <span class="muted"> of {format(asked(node)!)}</span> : ""}
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

// The lines of a chart: one for each node, or their sum if there are many.
function lines(measure: Measure, samples: Sample[]): { names: string[]; data: uPlot.AlignedData } {
  const ranks = [...new Set(samples.flatMap(({ nodes }) => nodes.map(({ node }) => node)))].sort((a, b) => a - b);
  const times = samples.map(({ time }) => time);
  if (ranks.length > MAX_LINES) {
    const sums = samples.map(({ nodes }) => nodes.reduce((sum, node) => sum + (measure.value(node) ?? 0), 0));
    return { names: [`sum of ${ranks.length} nodes`], data: [times, sums] };
  }
  const values = ranks.map((rank) =>
    samples.map(({ nodes }) => {
      const node = nodes.find((entry) => entry.node === rank);
      return node ? measure.value(node) ?? null : null;
    }),
  );
  return { names: ranks.map((rank) => `node-${rank}`), data: [times, ...values] };
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
      <div role="img" aria-label={`${measure.title} over time. Now: ${latest.join(", ")}`}><div ref={element} aria-hidden="true" /></div>
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
