// The phases of nodes, from queued to run: rows of bars, their lengths, and the marks of the axis.
import type { Timeline } from "./api";
import { span } from "./format";

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];
// Seconds between marks; then days.
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200];
const MAX_MARKS = 6;
export const UNKNOWN = "unknown";
export const PHASES = ["queued", "scheduling", "starting", "image", "files", "meeting", "setup", "run", UNKNOWN];
export const LOOKS = [...PHASES, "running", "failed"];

export interface Phase {
  name: string;
  look: string; // its colour: the last phase has that of the outcome
  start: number; // milliseconds
  end: number;
  open: boolean; // it goes on
}

export interface Row {
  name: string;
  phases: Phase[];
  unknown: string[];
}

export function rowsOf({ tasks }: Timeline, now: number): Row[] {
  return tasks.flatMap((task) =>
    task.nodes.map((node) => ({
      name: tasks.length === 1 ? node.name : task.nodes.length === 1 ? task.name : `${task.name}/${node.name}`,
      phases: node.phases.map(({ phase, start, end }, index) => ({
        name: phase,
        look: lookOf(phase, node.state, index === node.phases.length - 1),
        start: Date.parse(start),
        end: end ? Date.parse(end) : now,
        open: !end,
      })),
      unknown: node.unknown,
    })),
  );
}

function lookOf(phase: string, state: string, isLast: boolean): string {
  if (isLast && state === "failed") return state;
  return isLast && phase === "run" && state === "running" ? state : phase;
}

export function took({ name, start, end, open }: Phase): string {
  return `${name} ${span((end - start) / 1000)}${open ? " until now" : ""}`;
}

export function seconds({ phases }: Row, name: string): string {
  const times = phases.filter((phase) => phase.name === name).map(({ start, end }) => end - start);
  return times.length ? span(times.reduce((sum, time) => sum + time, 0) / 1000) : "";
}

export function total({ phases }: Row): string {
  return phases.length ? span((phases.at(-1)!.end - phases[0]!.start) / 1000) : "";
}

// The marks of an axis of some seconds, all in one unit, at percents of its length.
export function marks(length: number): { at: number; label: string }[] {
  const step = STEPS.find((seconds) => length / seconds < MAX_MARKS) ?? 86_400 * Math.ceil(length / 86_400 / MAX_MARKS);
  const [size, unit] = UNITS.find(([seconds]) => step % seconds === 0)!;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, index) => ({
    at: (100 * index * step) / length,
    label: `${(index * step) / size}${unit}`,
  }));
}
