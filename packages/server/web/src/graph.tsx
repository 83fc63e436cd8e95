// The stages of a pipeline as a graph: boxes with their states, in rows as wide as the page.
import { useRef } from "preact/hooks";
import type { Pipeline, Task } from "./api";
import { useSize } from "./parts";
import { href, type TaskScope } from "./route";
import { took } from "./stages";

const WIDTH = 196;
const HEIGHT = 62;
const GAP = 36;
const LONGEST_NAME = 18; // characters that fit into a box

export function Graph({ pipeline, scope }: { pipeline: Pipeline; scope: TaskScope }) {
  const element = useRef<HTMLDivElement>(null);
  const width = useSize(element)?.width ?? 0;
  const stages = pipeline.tasks as Task[];
  const columns = Math.max(1, Math.min(stages.length, Math.floor((width + GAP) / (WIDTH + GAP))));
  const rows = Math.ceil(stages.length / columns);
  const at = (index: number) => ({
    x: (index % columns) * (WIDTH + GAP),
    y: Math.floor(index / columns) * (HEIGHT + GAP),
  });
  return (
    <div class="card graph" ref={element}>
      <svg
        width={columns * (WIDTH + GAP) - GAP}
        height={rows * (HEIGHT + GAP) - GAP}
        role="group"
        aria-label="Graph of the stages"
      >
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
          <path d="M0 0 8 4 0 8z" />
        </marker>
        {stages.slice(1).map((stage, index) => (
          <path key={stage.task_id} class="arrow" d={arrow(at(index), at(index + 1))} marker-end="url(#arrow)" />
        ))}
        {stages.map((stage, index) => (
          <Stage key={stage.task_id} stage={stage} scope={scope} {...at(index)} />
        ))}
      </svg>
    </div>
  );
}

interface Point {
  x: number;
  y: number;
}

// To the next box of the row, or to the first one of the next row.
function arrow(from: Point, to: Point): string {
  if (from.y === to.y) return `M${from.x + WIDTH} ${from.y + HEIGHT / 2}H${to.x - 2}`;
  return `M${from.x + WIDTH / 2} ${from.y + HEIGHT}v${GAP / 2}H${to.x + WIDTH / 2}V${to.y - 2}`;
}

function Stage({ stage, scope, x, y }: Point & { stage: Task; scope: TaskScope }) {
  const name = `${stage.metadata.stage}. ${stage.name}`;
  const time = took(stage);
  return (
    <a href={href("tasks", [stage.task_id], scope)} class={`stage ${stage.status}`}>
      <title>{[`${name}: ${stage.status}`, time, stage.metadata.note].filter(Boolean).join(", ")}</title>
      <rect x={x + 1} y={y + 1} width={WIDTH - 2} height={HEIGHT - 2} rx="10" />
      <text x={x + 14} y={y + 26} class="stage-name">
        {name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name}
      </text>
      <text x={x + 14} y={y + 46}>
        {stage.status}
        {time && ` · ${time}`}
      </text>
    </a>
  );
}
