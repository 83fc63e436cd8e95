// A queue as its users see it: their places, and what is lent and borrowed.
import type { Queue, Task } from "./api";
import { amount, span } from "./format";

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

// What is used beyond the quota comes from the cohort; what is not used, others of the cohort may take.
export function loanOf(used: number, quota: number, resource: string): string {
  const size = (value: number) => amount(resource, String(Math.abs(value)));
  if (used > quota) return `${size(used - quota)} borrowed from the cohort`;
  return used < quota ? `${size(quota - used)} free, which the cohort may borrow` : "";
}
