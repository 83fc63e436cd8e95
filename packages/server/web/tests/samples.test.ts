import assert from "node:assert/strict";
import test from "node:test";
import { lines, type Measure, samplesOf } from "../src/samples";

const asked = { pod: "", cpus: 0, memory_bytes: 0, cpus_asked: 4, memory_bytes_asked: 8, gpus_asked: 1 };
const CPUS: Measure = { title: "CPU", value: ({ cpus }) => cpus, format: String };

test("samples begin with the first value and end with the last", () => {
  const history = { start: 100, step: 10, series: [{ node: 0, measure: "cpus", values: [null, 1, null, 2, null] }] };
  const samples = samplesOf(history, []);
  assert.deepEqual(
    samples.map(({ time }) => time),
    [110, 120, 130],
  );
  assert.deepEqual(
    samples.map(({ nodes }) => nodes[0]?.cpus),
    [1, undefined, 2],
  );
});

test("samples without any value are none", () => {
  assert.deepEqual(samplesOf({ start: 0, step: 10, series: [] }, []), []);
  assert.deepEqual(samplesOf({ start: 0, step: 10, series: [{ node: 0, measure: "cpus", values: [null] }] }, []), []);
});

test("samples join the measures of a node and what it requests", () => {
  const series = [
    { node: 0, measure: "cpus", values: [1] },
    { node: 0, measure: "memory_bytes", values: [2] },
  ];
  const [sample] = samplesOf({ start: 0, step: 10, series }, [{ node: 0, ...asked }]);
  const { cpus, memory_bytes: memory, cpus_asked: requested, gpus_asked: gpus } = sample!.nodes[0]!;
  assert.deepEqual([cpus, memory, requested, gpus], [1, 2, 4, 1]);
});

test("samples have no allocated GPUs if their use is measured", () => {
  const series = [{ node: 0, measure: "gpu_percent", values: [50] }];
  assert.equal(samplesOf({ start: 0, step: 10, series }, [{ node: 0, ...asked }])[0]!.nodes[0]!.gpus_asked, null);
});

test("lines are those of the nodes, with gaps", () => {
  const samples = [
    { time: 1, nodes: [{ node: 1, cpus: 3 }] },
    { time: 2, nodes: [{ node: 0, cpus: 4 }, { node: 1 }] },
  ];
  const { names, data } = lines(CPUS, samples);
  assert.deepEqual(names, ["node-0", "node-1"]);
  assert.deepEqual(data, [
    [1, 2],
    [null, 4],
    [3, null],
  ]);
});

test("lines of many nodes are their sum, or their mean", () => {
  const nodes = Array.from({ length: 7 }, (_, node) => ({ node, cpus: node === 6 ? undefined : 2 }));
  const samples = [
    { time: 1, nodes },
    { time: 2, nodes: [{ node: 0 }] },
  ];
  assert.deepEqual(lines(CPUS, samples), {
    names: ["sum of 7 nodes"],
    data: [
      [1, 2],
      [12, null],
    ],
  });
  assert.deepEqual(lines({ ...CPUS, mean: true }, samples), {
    names: ["mean of 7 nodes"],
    data: [
      [1, 2],
      [2, null],
    ],
  });
});
