// The stages of a pipeline: which one waits to be resumed, and how long each took.
import type { Pipeline, Task } from "./api";
import { age, duration } from "./format";

// The stage that waits for somebody to resume it, if those before it have completed.
export function suspended(pipeline: Pipeline): Pipeline["tasks"][number] | undefined {
  const next = pipeline.tasks.find(({ status }) => status !== "completed");
  const waits = next?.metadata.nodes.some(({ reason }) => reason === "Suspended");
  return pipeline.execution === "serial" && (next?.metadata.stage ?? 0) > 1 && waits ? next : undefined;
}

// From the start of the first node to the end of the last one, or to now.
export function took({ metadata: { nodes = [] } }: Task): string {
  const start = nodes.flatMap(({ started_at: time }) => time ?? []).sort()[0];
  if (!start) return "";
  if (nodes.some(({ state, ended_at: end }) => !end && state !== "pending")) return age(start);
  const end = nodes
    .flatMap(({ ended_at: time }) => time ?? [])
    .sort()
    .at(-1);
  return end ? duration(start, end) : "";
}
