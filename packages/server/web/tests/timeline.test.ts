import assert from "node:assert/strict";
import test from "node:test";
import { marks, rowsOf, seconds, took, total } from "../src/phases";
import { suspended, took as tookStage } from "../src/stages";
import { makeNode, makePipeline, makeTask } from "./builders";

const NOW = Date.parse("2026-01-01T00:10:00Z");
const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`;

function timeline(...tasks: [name: string, nodes: string[]][]) {
  const phases = [
    { phase: "queued", start: at(0), end: at(2) },
    { phase: "run", start: at(2), end: null },
  ];
  const node = (name: string, index: number) => ({
    index,
    name,
    state: "running",
    restarts: 0,
    pod: "",
    phases,
    unknown: [],
  });
  const rows = tasks.map(([name, nodes]) => ({ task_id: name, name, status: "running", nodes: nodes.map(node) }));
  return { now: at(9), tasks: rows };
}

test("rows have the name of the node, and of the task if there are several", () => {
  const names = (...tasks: Parameters<typeof timeline>) => rowsOf(timeline(...tasks), NOW).map(({ name }) => name);
  assert.deepEqual(names(["train", ["node-0", "node-1"]]), ["node-0", "node-1"]);
  assert.deepEqual(names(["prepare", ["node-0"]], ["train", ["node-0", "node-1"]]), [
    "prepare",
    "train/node-0",
    "train/node-1",
  ]);
});

test("phase without an end goes on until now", () => {
  const [row] = rowsOf(timeline(["train", ["node-0"]]), NOW);
  assert.deepEqual(row!.phases.map(took), ["queued 2m", "run 8m until now"]);
  assert.equal(total(row!), "10m");
});

test("times of a phase that came twice are added up", () => {
  const [row] = rowsOf(timeline(["train", ["node-0"]]), NOW);
  row!.phases.push(row!.phases[0]!);
  assert.deepEqual([seconds(row!, "queued"), seconds(row!, "setup")], ["4m", ""]);
  assert.equal(total({ name: "node-0", phases: [], unknown: [] }), "");
});

test("marks of an axis have one unit and are at most six", () => {
  const labels = (length: number) =>
    marks(length)
      .map(({ label }) => label)
      .join(" ");
  assert.equal(labels(1), "0s 1s");
  assert.equal(labels(45), "0s 10s 20s 30s 40s");
  assert.equal(labels(300), "0m 1m 2m 3m 4m 5m");
  assert.equal(labels(320), "0m 1m 2m 3m 4m 5m");
  assert.equal(labels(5 * 3600), "0h 1h 2h 3h 4h 5h");
  assert.equal(labels(30 * 86_400), "0d 5d 10d 15d 20d 25d 30d");
  for (let length = 1; length < 1e7; length = Math.ceil(length * 1.3)) assert.ok(marks(length).length <= 7);
});

test("marks of an axis are at their part of its length", () => {
  assert.deepEqual(
    marks(40).map(({ at }) => at),
    [0, 25, 50, 75, 100],
  );
});

test("stage took from the start of the first node to the end of the last one", () => {
  const nodes = [makeNode({ started_at: at(1), ended_at: at(3) }), makeNode({ started_at: at(2), ended_at: at(6) })];
  assert.equal(tookStage(makeTask({ metadata: { nodes } })), "5m");
  const pending = makeNode({ state: "pending" });
  assert.equal(tookStage(makeTask({ metadata: { nodes: [...nodes, pending] } })), "5m");
  assert.equal(tookStage(makeTask()), "");
});

test("stage of which a node runs takes until now", () => {
  const started = new Date(Date.now() - 60_000).toISOString();
  const nodes = [makeNode({ started_at: started }), makeNode({ started_at: started, ended_at: started })];
  assert.equal(tookStage(makeTask({ metadata: { nodes } })), "60s");
});

test("stage can be resumed if it is suspended and those before it have completed", () => {
  const waiting = makeTask({ name: "two", metadata: { stage: 2, nodes: [makeNode({ reason: "Suspended" })] } });
  const first = (status: "completed" | "running") => makeTask({ name: "one", status, metadata: { stage: 1 } });
  assert.equal(suspended(makePipeline({ tasks: [first("completed"), waiting] }))?.name, "two");
  assert.equal(suspended(makePipeline({ tasks: [first("running"), waiting] })), undefined);
  const running = makeTask({ metadata: { stage: 2, nodes: [makeNode()] } });
  assert.equal(suspended(makePipeline({ tasks: [first("completed"), running] })), undefined);
  const queued = makeTask({ metadata: { stage: 1, nodes: [makeNode({ reason: "Suspended" })] } });
  assert.equal(suspended(makePipeline({ tasks: [queued, waiting] })), undefined);
  assert.equal(suspended(makePipeline({ execution: "parallel", tasks: [first("completed"), waiting] })), undefined);
});

test("last phase of a node has the look of its outcome", () => {
  const looks = (state: string) => {
    const times = timeline(["train", ["node-0"]]);
    times.tasks[0]!.nodes[0]!.state = state;
    return rowsOf(times, NOW)[0]!.phases.map(({ look }) => look);
  };
  assert.deepEqual(looks("completed"), ["queued", "run"]);
  assert.deepEqual(looks("running"), ["queued", "running"]);
  assert.deepEqual(looks("failed"), ["queued", "failed"]);
});
