// A queue as its users see it: their places, and what is lent and borrowed.
import type { Queue, Task } from "./api";
import { amount, quantity, span } from "./format";

type Share = Queue["resources"][number];

export interface Place {
  waiting: Queue["waiting"][number];
  task?: Task; // yours
  position: number;
  wait: string; // a guess of the time until it is admitted; may be empty
}

// What waits in a queue, in order, and which of it belongs to one of these tasks.
export function placesOf({ waiting, interval_seconds: interval }: Queue, tasks: Task[]): Place[] {
  return waiting.map((entry) => ({
    waiting: entry,
    task: tasks.find(({ metadata }) => metadata.node_jobs.some((name) => entry.workload.endsWith(`/${name}`))),
    position: entry.position,
    wait: interval === null ? "" : span(interval * entry.position),
  }));
}

// What is used beyond the quota is borrowed; what is neither used nor free is lent to others of the cohort.
export function loanOf({ resource, used_by_all: used, quota, free }: Share): string {
  const all = quantity(used);
  const own = quantity(quota);
  const left = quantity(free ?? null);
  if (all === null || own === null) return "";
  const size = (value: number) => amount(resource, String(value));
  if (all > own) return `${size(all - own)} borrowed`;
  if (left !== null && left < own - all) return `${size(own - all - left)} lent`;
  return left === null ? "" : `${size(left)} free, also by borrowing`;
}
