import assert from "node:assert/strict";
import test from "node:test";
import type { Task } from "../src/api";
import {
  applyRows,
  changedWithin,
  filterOf,
  inStages,
  isFirst,
  isOver,
  keyOfTask,
  matches,
  select,
  sorted,
  stopWord,
  totalOf,
  windowOf,
} from "../src/list";
import { makePipeline, makeTask } from "./builders";

const ids = (tasks: Task[]) => tasks.map(({ task_id: id }) => id).join(" ");

test("filter of an address without a query shows your own tasks, newest first", () => {
  const filter = { allUsers: false, namespaces: "", status: "", text: "", since: "", order: "age" };
  assert.deepEqual(filterOf(new URLSearchParams()), filter);
});

test("filter of an address has all that its query names", () => {
  const query = "all_users=true&namespaces=mine&status=failed&filter=a+b&since=24&sort=-name";
  const filter = { allUsers: true, namespaces: "mine", status: "failed", text: "a b", since: "24", order: "-name" };
  assert.deepEqual(filterOf(new URLSearchParams(query)), filter);
});

test("filter words are in the name, id, user, namespace, GPUs or image", () => {
  const task = makeTask({ metadata: { resources: { accelerators: "H100:8" } } });
  for (const word of ["train", "TRAIN", "aaaa", "alice", "team", "h100", "python", ""]) assert.ok(matches(task, word));
  assert.ok(!matches(task, "bob"));
});

test("filter matches if each of its words does", () => {
  const task = makeTask();
  assert.ok(matches(task, "train alice"));
  assert.ok(matches(task, " train,alice "));
  assert.ok(!matches(task, "train bob"));
});

test("filter of a label compares its value", () => {
  const task = makeTask({ metadata: { labels: { team: "vision" } } });
  assert.ok(matches(task, "team=vision"));
  assert.ok(matches(task, "team==vision"));
  assert.ok(!matches(task, "team=vis"));
  assert.ok(!matches(task, "team!=vision"));
  assert.ok(matches(task, "owner!=bob"));
});

test("task has changed within hours, or any time", () => {
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
  const task = makeTask({ updated_at: hoursAgo(2) });
  assert.deepEqual(
    ["", "1", "24"].map((hours) => changedWithin(task, hours)),
    [true, false, true],
  );
});

test("tasks are sorted by age, newest first, unless the address says otherwise", () => {
  const times = ["2026-01-02", "2026-01-03", "2026-01-01"];
  const tasks = times.map((time, index) => makeTask({ task_id: `id${index}`, created_at: `${time}T00:00:00Z` }));
  assert.equal(ids(sorted(tasks, "age")), "id1 id0 id2");
  assert.equal(ids(sorted(tasks, "-age")), "id2 id0 id1");
  assert.equal(ids(sorted(tasks, "unknown")), "id1 id0 id2");
});

test("tasks with equal values are sorted by age in both directions", () => {
  const tasks = [makeTask({ task_id: "old" }), makeTask({ task_id: "new", created_at: "2026-02-01T00:00:00Z" })];
  assert.equal(ids(sorted(tasks, "name")), "new old");
  assert.equal(ids(sorted(tasks, "-name")), "new old");
});

test("tasks are sorted by names without case, with those of their pipeline", () => {
  const tasks = [
    makeTask({ task_id: "B", name: "B" }),
    makeTask({ task_id: "a", name: "a" }),
    makeTask({ task_id: "p", name: "a", metadata: { pipeline_name: "p" } }),
  ];
  assert.equal(ids(sorted(tasks, "name")), "a B p");
});

test("tasks are sorted by the GPUs of all nodes", () => {
  const gpus = (id: string, accelerators: string, nodes: number) =>
    makeTask({ task_id: id, metadata: { num_nodes: nodes, resources: { accelerators } } });
  const tasks = [gpus("ten", "A100:10", 1), gpus("sixteen", "A100:8", 2), makeTask({ task_id: "none" })];
  assert.equal(ids(sorted(tasks, "gpus")), "none ten sixteen");
});

test("select keeps matching tasks of any status, in order", () => {
  const tasks = [makeTask({ task_id: "one", status: "failed" }), makeTask({ task_id: "two", name: "other" })];
  const filter = filterOf(new URLSearchParams("filter=train&status=running"));
  assert.equal(ids(select(tasks, filter)), "one");
});

const rows = (order: string[], tasks: Task[]) => ({ order, tasks, pipelines: [], counts: { running: order.length } });

test("rows are in the order of the server, and keep those that have not changed", () => {
  const one = makeTask({ task_id: "one" });
  const two = makeTask({ task_id: "two" });
  const first = applyRows(null, rows(["team/one", "team/two"], [one, two]));
  const changed = makeTask({ task_id: "two", status: "failed" });
  const second = applyRows(first, rows(["team/two", "team/one"], [changed]));
  assert.deepEqual([...second.tasks.values()], [changed, one]);
  assert.deepEqual([...first.tasks.values()], [one, two]); // the page is drawn again
});

test("rows that the server does not name any more are gone", () => {
  const list = applyRows(null, rows(["team/aaaaaaaa"], [makeTask()]));
  assert.equal(applyRows(list, rows([], [])).tasks.size, 0);
});

test("pipelines of rows are known by their namespace and id", () => {
  const list = applyRows(null, { ...rows([], []), pipelines: [makePipeline()] });
  assert.deepEqual([...list.pipelines.keys()], ["team/pppppppp"]);
});

test("total is the sum of all statuses", () => {
  assert.equal(totalOf({ running: 2, failed: 1 }), 3);
  assert.equal(totalOf(undefined), 0);
});

test("server is asked for what the address says, if it knows it", () => {
  const known = filterOf(new URLSearchParams("filter=a&status=failed&since=24&sort=-name"));
  const { filter, status, since, sort } = windowOf(known, 200);
  assert.deepEqual([filter, status, since, sort], ["a", "failed", "24", "-name"]);
  const odd = windowOf(filterOf(new URLSearchParams("status=deleted&since=x&sort=y")), 5000);
  assert.deepEqual([odd.status, odd.since, odd.sort, odd.rows], [undefined, "", "age", 1000]);
});

test("key of a task has its namespace: ids are unique in one", () => {
  assert.equal(keyOfTask(makeTask({ metadata: { namespace: "other" } })), "other/aaaaaaaa");
});

test("first task of a pipeline comes after its row", () => {
  const stage = (pipeline?: string) => makeTask({ metadata: { pipeline } });
  const tasks = [stage(), stage("p"), stage("q"), stage("p")];
  assert.deepEqual(
    tasks.map((_, index) => isFirst(tasks, index)),
    [false, true, true, false],
  );
});

test("stop says that it deletes finished tasks", () => {
  const running = makeTask();
  const failed = makeTask({ status: "failed" });
  assert.equal(stopWord([running]), "Stop");
  assert.equal(stopWord([failed, makeTask({ status: "completed" })]), "Delete");
  assert.equal(stopWord([running, failed]), "Stop and delete");
});

test("failed task is stopped while its other nodes run, then deleted", () => {
  const failed = (running: number) => makeTask({ status: "failed", metadata: { running_nodes: running } });
  assert.deepEqual(
    [failed(2), failed(0)].map((task) => stopWord([task])),
    ["Stop", "Delete"],
  );
});

test("pipeline is over when it has completed, or failed and nothing runs", () => {
  const running = makeTask({ metadata: { running_nodes: 1 } });
  const waiting = makeTask({ status: "pending" });
  const over = (status: string, tasks: Task[]) => isOver(makePipeline({ status, tasks }));
  assert.deepEqual([over("completed", []), over("failed", [waiting])], [true, true]);
  assert.deepEqual([over("failed", [running]), over("running", [waiting])], [false, false]);
});

test("tasks of a pipeline are together, in the order of its stages", () => {
  const stage = (id: string, number: number) =>
    makeTask({ task_id: id, metadata: { pipeline: "pppppppp", stage: number } });
  const tasks = [stage("c", 3), makeTask({ task_id: "x" }), stage("a", 1), stage("b", 2)];
  assert.equal(ids(inStages(tasks)), "a b c x");
});
