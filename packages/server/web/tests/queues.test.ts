import assert from "node:assert/strict";
import test from "node:test";
import type { Queue } from "../src/api";
import { loanOf, placesOf } from "../src/queues";
import { makeTask } from "./builders";

const waits = (workload: string, position: number) => ({ workload, position, priority: 0, since: "", reason: "" });
const makeQueue = (interval: number | null) =>
  ({ waiting: [waits("Job/other-b", 1), waits("Job/train-a", 2)], interval_seconds: interval }) as unknown as Queue;

test("places of a queue name your tasks, and guess when they are admitted", () => {
  const mine = makeTask({ metadata: { node_jobs: ["train-a"] } });
  const places = placesOf(makeQueue(300), [mine]);
  assert.deepEqual(
    places.map(({ task, position, wait }) => [task?.name, position, wait]),
    [
      [undefined, 1, "5m"],
      ["train", 2, "10m"],
    ],
  );
  assert.equal(placesOf(makeQueue(null), [mine])[1]!.wait, "");
});

test("what a queue has beyond its quota is borrowed, and what it misses is lent", () => {
  const share = { flavor: "plain", resource: "cpu", used: "0", quota: "4" };
  assert.equal(loanOf({ ...share, used_by_all: "6", free: "0" }), "2 borrowed");
  assert.equal(loanOf({ ...share, used_by_all: "1", free: "1" }), "2 lent");
  assert.equal(loanOf({ ...share, used_by_all: "1", free: "5" }), "5 free, also by borrowing");
  assert.equal(loanOf({ ...share, used_by_all: null, free: null }), "");
});
