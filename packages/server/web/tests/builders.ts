// Valid objects of the server; a test names only what it is about.
import type { Node, Pipeline, Task } from "../src/api";

type TaskChanges = Partial<Omit<Task, "metadata">> & { metadata?: Record<string, unknown> };

export function makeNode(changes: Partial<Node> = {}): Node {
  return { index: 0, name: "node-0", job: "train", state: "running", restarts: 0, detailed_status: "", ...changes };
}

export function makeTask({ metadata, ...changes }: TaskChanges = {}): Task {
  const task = {
    task_id: "aaaaaaaa",
    name: "train",
    status: "running",
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
    username: "alice",
    ...changes,
  };
  const details = { namespace: "team", num_nodes: 1, image: "python:3.13-slim", resources: {}, nodes: [], ...metadata };
  return { ...task, metadata: details } as unknown as Task;
}

export function makePipeline(changes: Partial<Pipeline> = {}): Pipeline {
  const pipeline = { pipeline_id: "pppppppp", name: "steps", status: "running", execution: "serial", tasks: [] };
  return { ...pipeline, metadata: { namespace: "team", num_tasks: 2, note: "" }, ...changes } as unknown as Pipeline;
}
