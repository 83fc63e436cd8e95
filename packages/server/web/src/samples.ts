// What the nodes of a task use, at times: of Prometheus or polled, as the lines of a chart.
import type uPlot from "uplot";
import type { NodeUsage, UsageHistory } from "./api";

export const MAX_LINES = 6; // nodes with a line of their own; more are added up

export type Use = Partial<NodeUsage> & { node: number; gpu_percent?: number; gpu_memory_bytes?: number };

export interface Sample {
  time: number;
  nodes: Use[];
}

export interface Measure {
  title: string;
  value(node: Use): number | null | undefined;
  asked?(node: Use): number | null | undefined;
  format(amount: number): string;
  mean?: boolean; // of many nodes, instead of their sum
  steps?: number[]; // between the marks of the axis
}

// The samples of Prometheus, without the times before the first and after the last.
export function samplesOf({ start, step, series }: UsageHistory, nodes: NodeUsage[]): Sample[] {
  const measured = series.some(({ measure }) => measure === "gpu_percent");
  const samples: Sample[] = Array.from({ length: series[0]?.values.length ?? 0 }, (_, position) => {
    const uses = new Map<number, Use>();
    for (const { node, measure, values } of series) {
      if (values[position] == null) continue;
      const { cpus_asked, memory_bytes_asked, gpus_asked } = nodes.find((entry) => entry.node === node) ?? {};
      const asked = { node, cpus_asked, memory_bytes_asked, gpus_asked: measured ? null : gpus_asked };
      uses.set(node, { ...(uses.get(node) ?? asked), [measure]: values[position] });
    }
    return { time: start + position * step, nodes: [...uses.values()] };
  });
  while (samples.length && !samples.at(-1)!.nodes.length) samples.pop();
  const first = samples.findIndex(({ nodes }) => nodes.length);
  return samples.slice(Math.max(first, 0));
}

// The lines of a chart: one for each node, or their sum if there are many.
export function lines(measure: Measure, samples: Sample[]): { names: string[]; data: uPlot.AlignedData } {
  const ranks = [...new Set(samples.flatMap(({ nodes }) => nodes.map(({ node }) => node)))].sort((a, b) => a - b);
  const times = samples.map(({ time }) => time);
  if (ranks.length > MAX_LINES) {
    const sums = samples.map(({ nodes }) => {
      const values = nodes.map(measure.value).filter((value) => value != null);
      const sum = values.reduce((total, value) => total + value, 0);
      return values.length ? sum / (measure.mean ? values.length : 1) : null;
    });
    return { names: [`${measure.mean ? "mean" : "sum"} of ${ranks.length} nodes`], data: [times, sums] };
  }
  const values = ranks.map((rank) =>
    samples.map(({ nodes }) => {
      const node = nodes.find((entry) => entry.node === rank);
      return node ? (measure.value(node) ?? null) : null;
    }),
  );
  return { names: ranks.map((rank) => `node-${rank}`), data: [times, ...values] };
}
