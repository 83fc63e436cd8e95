import assert from "node:assert/strict";
import test from "node:test";
import { LogLines, MAX_LINES, split } from "../src/loglines";

const line = (text: string) => ({ rank: 0, node: "node-0", time: "2026-01-01T00:00:00Z", text });

function makeLog(...texts: string[]): LogLines {
  const log = new LogLines();
  for (const text of texts) log.add(line(text));
  return log;
}

test("search finds lines by text without case, also those that arrive later", () => {
  const log = makeLog("Loss 0.5", "step", "loss 0.4");
  log.search("LOSS");
  assert.deepEqual(log.matches, [0, 2]);
  log.add(line("no loss"));
  log.add(line("step"));
  assert.deepEqual(log.matches, [0, 2, 3]);
});

test("search for nothing matches nothing", () => {
  const log = makeLog("loss");
  log.search("loss");
  log.search("");
  log.add(line("loss"));
  assert.deepEqual(log.matches, []);
});

test("log keeps the text that is shown, and the length of the longest line", () => {
  const log = makeLog("\x1b[31mred\x1b[0m", "longer");
  assert.deepEqual(
    log.lines.map(({ text }) => text),
    ["red", "longer"],
  );
  assert.equal(log.longest, 6);
});

test("full log drops its oldest lines and moves the matches", () => {
  const log = new LogLines();
  for (let index = 0; index < MAX_LINES; index += 1) log.add(line(String(index)));
  log.search(String(MAX_LINES - 1));
  log.add(line("last"));
  assert.equal(log.dropped, 20_000);
  assert.equal(log.lines.length, MAX_LINES - 20_000 + 1);
  assert.equal(log.lines[0]?.text, "20000");
  assert.deepEqual(
    log.matches.map((index) => log.lines[index]?.text),
    [String(MAX_LINES - 1)],
  );
});

test("split puts every match at an odd position", () => {
  assert.deepEqual(split("a Loss, a loss", "loss"), ["a ", "Loss", ", a ", "loss", ""]);
  assert.deepEqual(split("text", "loss"), ["text"]);
  assert.deepEqual(split("text", ""), ["text"]);
});

test("split marks nothing in text whose length changes in lower case", () => {
  assert.deepEqual(split("İ loss", "loss"), ["İ loss"]);
});
