import assert from "node:assert/strict";
import test from "node:test";
import {
  age,
  amount,
  bytes,
  duration,
  LONGEST_LINE,
  localTime,
  logText,
  plural,
  quantity,
  ranges,
  sizes,
  span,
} from "../src/format";
import { makeTask } from "./builders";

test("span is written as kubectl writes ages", () => {
  const spans = { 0: "0s", 119: "119s", 120: "2m", 3599: "59m", 3600: "1h", 12000: "3h20m", 86400: "1d" };
  for (const [seconds, text] of Object.entries(spans)) assert.equal(span(Number(seconds)), text);
  assert.equal(span(2 * 86_400 + 3 * 3600 + 59), "2d3h");
  assert.equal(span(10 * 86_400 + 3 * 3600), "10d");
});

test("span before now is zero: clocks differ", () => {
  assert.equal(span(-5), "0s");
});

test("age without a valid time is empty", () => {
  const now = Date.parse("2026-01-01T00:05:00Z");
  assert.equal(age("2026-01-01T00:00:00Z", now), "5m");
  for (const time of [null, undefined, "", "soon"]) assert.equal(age(time, now), "");
  assert.equal(localTime("soon"), "");
});

test("duration ends at the end, or now", () => {
  assert.equal(duration("2026-01-01T00:00:00Z", "2026-01-01T00:00:45Z"), "45s");
  assert.equal(duration(new Date().toISOString(), null), "0s");
  assert.equal(duration(undefined, "2026-01-01T00:00:45Z"), "");
});

test("bytes have a binary unit and three digits at most", () => {
  const texts = { 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", [200 * 2 ** 20]: "200 MiB" };
  for (const [count, text] of Object.entries(texts)) assert.equal(bytes(Number(count)), text);
  assert.equal(bytes(2 ** 60), "1024 PiB");
});

test("quantity is the number that Kubernetes reads", () => {
  const numbers = { "500m": 0.5, "16Gi": 16 * 2 ** 30, "1k": 1000, "2": 2, "1e3": 1000, "0.5": 0.5, " 4Ki ": 4096 };
  for (const [text, number] of Object.entries(numbers)) assert.equal(quantity(text), number);
});

test("quantity of other text is null", () => {
  for (const text of [null, "", "many", "4 Gi", "4GiB", "1.2.3", "4gi"]) assert.equal(quantity(text), null);
});

test("amount of memory and storage is in bytes", () => {
  assert.equal(amount("requests.memory", "2Gi"), "2.0 GiB");
  assert.equal(amount("requests.storage", "500Gi"), "500 GiB");
  assert.equal(amount("requests.cpu", "1500m"), "1.5");
  assert.equal(amount("requests.nvidia.com/gpu", "8"), "8");
  assert.equal(amount("pods", "unlimited"), "unlimited");
  assert.equal(amount("pods", null), "?");
});

test("sizes of a task leave out what it does not request", () => {
  const sized = (resources: object) => sizes(makeTask({ metadata: { resources } }));
  assert.equal(sized({ cpus: "4", memory: "16Gi" }), "4 CPU, 16.0 GiB");
  assert.equal(sized({ cpus: "500m" }), "0.5 CPU");
  assert.equal(sized({}), "");
});

test("plural has an s except for one", () => {
  assert.deepEqual(
    [0, 1, 2].map((count) => plural(count, "node")),
    ["0 nodes", "1 node", "2 nodes"],
  );
});

test("ranges of ranks are sorted and joined", () => {
  assert.equal(ranges([7, 2, 0, 1], "node-"), "node-0 to node-2, node-7");
  assert.equal(ranges([3], "replica "), "replica 3");
  assert.equal(ranges([], "node-"), "");
});

test("log text has no escape sequences and shows what a progress bar showed last", () => {
  assert.equal(logText("\x1b[1;31mred\x1b[0m"), "red");
  assert.equal(logText("\x1b]0;title\x07text"), "text");
  assert.equal(logText("10%\r50%\r100%"), "100%");
  assert.equal(logText("windows\r"), "windows");
  assert.equal(logText("a\tb"), "a\tb");
});

test("log text shows control and bidirectional characters as dots", () => {
  assert.equal(logText("bell\x07"), "bell·");
  assert.equal(logText("user\u202etxt.exe"), "user·txt.exe");
});

test("log text is bounded and says how much is missing", () => {
  const text = logText("x".repeat(LONGEST_LINE + 7));
  assert.ok(text.startsWith("x".repeat(LONGEST_LINE)));
  assert.ok(text.endsWith("… 7 more characters; the download has all"));
});
