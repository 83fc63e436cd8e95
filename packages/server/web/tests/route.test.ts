import assert from "node:assert/strict";
import test from "node:test";
import { ApiError, setNamespace, taskPath, url } from "../src/api";
import { href, parseRoute } from "../src/route";
import { lostAs, mayRetry } from "../src/stream";

test("address without a page is that of the tasks", () => {
  for (const hash of ["", "#", "#/"]) assert.equal(parseRoute(hash).page, "tasks");
});

test("address has a page, parts and a query", () => {
  const { page, parts, query } = parseRoute("#/tasks/ab%2Fc/logs?rank=0&search=a%3Fb");
  assert.equal(page, "tasks");
  assert.deepEqual(parts, ["ab/c", "logs"]);
  assert.deepEqual(Object.fromEntries(query), { rank: "0", search: "a?b" });
});

test("address that is not well encoded is taken as it is", () => {
  assert.deepEqual(parseRoute("#/tasks/%zz").parts, ["%zz"]);
});

test("link leads to the page that it is made of", () => {
  const link = href("tasks", ["a/b", "logs"], { search: "x & y", rank: undefined, namespace: "" });
  assert.equal(link, "#/tasks/a%2Fb/logs?search=x+%26+y");
  const { parts, query } = parseRoute(link);
  assert.deepEqual([parts, query.get("search")], [["a/b", "logs"], "x & y"]);
});

test("request leaves out what is not set", () => {
  const query = { all_users: false, filter: "", rank: undefined, days: 0, follow: true };
  assert.equal(url("/tasks", query), "/tasks?days=0&follow=true");
  assert.equal(url("/tasks"), "/tasks");
});

test("request names the namespace of the page unless it has another", () => {
  setNamespace("team");
  assert.equal(url("/tasks"), "/tasks?namespace=team");
  assert.equal(url("/tasks", { namespace: "other" }), "/tasks?namespace=other");
  setNamespace("");
});

test("request of a task has its id as one part of the path", () => {
  assert.equal(taskPath("../x", "/logs"), "/tasks/..%2Fx/logs");
});

test("retry helps if the server is away or busy, not if it refuses", () => {
  const retried = [0, 429, 500, 503].map((status) => mayRetry(new ApiError(status, "")));
  assert.deepEqual(retried, [true, true, true, true]);
  assert.deepEqual(
    [400, 401, 403, 404].map((status) => mayRetry(new ApiError(status, ""))),
    [false, false, false, false],
  );
  assert.equal(lostAs(new TypeError("network")), "reconnecting");
  assert.equal(lostAs(new ApiError(404, "")), "disconnected");
});
