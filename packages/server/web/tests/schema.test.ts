import assert from "node:assert/strict";
import test from "node:test";
import { parents } from "../src/schema";

// The keys that the last line of a text is in.
function parentsOf(text: string): string {
  const lines = text.split("\n");
  const [, space = "", dashes = ""] = /^(\s*)((?:- +)*)/.exec(lines.at(-1)!)!;
  return parents(lines, lines.length - 1, space.length, dashes).join("/");
}

test("key without indentation has no parents", () => {
  assert.equal(parentsOf("name: train\nresources:\n  cpus: 1\nru"), "");
});

test("parents are the keys with less indentation, across comments and empty lines", () => {
  assert.equal(parentsOf("resources:\n  cpus: 1\n\n# sizes\n  mem"), "resources");
  assert.equal(parentsOf("config:\n  kubernetes:\n    kueue:\n      local"), "config/kubernetes/kueue");
});

test("parents are found in text that is not valid YAML", () => {
  assert.equal(parentsOf("resources:\n  cpus: [1\n  mem"), "resources");
});

test("item of a list is a step of its own", () => {
  assert.equal(parentsOf("resources:\n  any_of:\n    - cpus: 1\n      mem"), "resources/any_of/-");
  assert.equal(parentsOf("resources:\n  any_of:\n    - cp"), "resources/any_of/-");
  assert.equal(parentsOf("items:\n- na"), "items/-");
});

test("parents have no quotes", () => {
  assert.equal(parentsOf('"file_mounts":\n  "/data":\n    so'), "file_mounts//data");
});

test("parents are of the same document", () => {
  assert.equal(parentsOf("resources:\n---\n  na"), "");
});
