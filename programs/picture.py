"""Make the pictures of terminals in docs/images: what commands print, on a cluster.

Usage: .venv/bin/python programs/picture.py [SCENE...]

A scene without a practice cluster uses the one of KUBECONFIG:
`eval "$(.venv/bin/python -m tests.cluster up)"` starts a real one.
"""

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS = 100
TASK = """\
name: train
num_nodes: 2
resources: {accelerators: A100:8, cpus: 0.1, memory: 0.1}
run: |
  for epoch in 1 2; do
    echo "epoch $epoch: rank $SKYPILOT_NODE_RANK, $SKYPILOT_NUM_GPUS_PER_NODE GPUs"; sleep 1
  done
"""
LOOP = """\
name: train
num_nodes: 4
resources: {cpus: 0.1, memory: 64Mi}
envs: {LR: 0.1}
run: |
  echo "step 1: learning rate $LR"
  [ "$SKYPILOT_NODE_RANK" != 2 ] || echo "step 1: loss is nan"
  sleep 3; echo "step 2: saved"
"""
MISTAKES = """\
name: train
num_nodes: 2
resources:
  acelerators: A100:8
run: python3 train.py
"""
EVAL = """\
name: eval
resources: {accelerators: H100:8}
envs: {HF_TOKEN: hf_x7}
run: python3 eval.py
"""


SWEEP = """\
name: train
resources: {cpus: 0.1, memory: 64Mi}
envs: {LR: null, SEED: null}
run: |
  awk -v lr="$LR" -v seed="$SEED" 'BEGIN {
    srand(seed); print "loss=" 0.21 + 4 * (lr - 0.1) ^ 2 + rand() / 50 }'
"""


class Scene(NamedTuple):
    """What a picture shows: files, commands, and where they run."""

    files: Mapping[str, str]
    commands: Sequence[str]
    before: Sequence[str] = ()  # commands that are not shown
    practice: Sequence[str] = ()  # flags of `local up`; without, the cluster of KUBECONFIG


SCENES = {
    "terminal": Scene(
        {"train.yaml": TASK},
        [
            "kubectl sky submit train.yaml",
            "kubectl sky submit train.yaml --name eval --num-nodes 1 --gpus H100:8 --detach",
            "kubectl sky list",
            "kubectl sky doctor eval",
        ],
        practice=["--nodes", "2", "--gpus", "A100:8"],
    ),
    "terminal-loop": Scene(
        {"train.yaml": LOOP},
        [
            "kubectl sky submit train.yaml",
            "kubectl sky rerun --env LR=0.2",
            "kubectl sky logs train --diff-ranks",
        ],
        before=["kubectl sky config set backend indexed"],
    ),
    "terminal-sweep": Scene(
        {"train.yaml": SWEEP},
        [
            "kubectl sky submit train.yaml --sweep LR=0.3,0.1,0.03 --sweep SEED=1..8 --detach",
            "kubectl sky wait train",
            "kubectl sky compare train",
        ],
        practice=["--nodes", "1"],
    ),
    "terminal-mistakes": Scene(
        {"train.yaml": MISTAKES, "small.yaml": LOOP},
        [
            "kubectl sky validate train.yaml",
            "kubectl sky submit smal.yaml",
            "kubectl sky logs trian",
            "kubectl sky list --context tset",
        ],
        before=["kubectl sky config set backend indexed", "kubectl sky submit small.yaml"],
    ),
    "terminal-gpus": Scene(
        {},
        [
            "kubectl sky init --list | grep PyTorch",
            "kubectl sky init --example pytorch-ddp",
            "kubectl sky gpus --fit pytorch-ddp.yaml",
        ],
        practice=["--nodes", "2", "--gpus", "A100:8"],
    ),
    "terminal-ticket": Scene(
        {"eval.yaml": EVAL},
        ["kubectl sky doctor eval --share | head -n 39"],
        before=["kubectl sky submit eval.yaml --detach"],
        practice=["--nodes", "2", "--gpus", "A100:8"],
    ),
}
# rich's, without the font that it loads from another server.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Return what a command prints on a terminal, in colour."""
    controller, terminal = pty.openpty()
    subprocess.run(["stty", "cols", str(COLUMNS), "rows", "40"], stdin=terminal, check=True)
    process = subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    printed = b""
    while chunk := _read(controller):
        printed += chunk
    os.close(controller)
    process.wait()
    return _without_erased(printed.decode()).replace(str(folder), "~")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has closed the terminal
        return b""


def _without_erased(printed: str) -> str:
    """Return the lines that stay; progress is erased, and this is no cluster with images."""
    lines = printed.replace("\r\n", "\n").split("\n")
    kept = (line.rpartition("\x1b[K")[2].rpartition("\r")[2] for line in lines)
    return "\n".join(line for line in kept if "practice cluster: " not in line)


def main(names: Sequence[str]) -> None:
    """Make the pictures of scenes, by default of all."""
    for name in names or SCENES:
        svg = record(SCENES[name])
        (IMAGES / f"{name}.svg").write_text(svg)


def record(scene: Scene) -> str:
    """Run the commands of a scene in a new home, and return the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    with tempfile.TemporaryDirectory() as home, cluster(scene, home) as environment:
        for name, text in scene.files.items():
            Path(home, name).write_text(text)
        for command in scene.before:
            run(command, Path(home), environment)
        for command in scene.commands:
            console.print(Text.from_markup(f"[bold green]$[/] [bold]{command}[/]"))
            console.print(Text.from_ansi(run(command, Path(home), environment)))
    return console.export_svg(title="kubectl sky", code_format=SVG, unique_id="sky")


@contextmanager
def cluster(scene: Scene, home: str) -> Iterator[dict[str, str]]:
    """Yield the environment of commands that use the cluster of a scene."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": home, "PATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    if not scene.practice:
        Path(home, ".kube").mkdir()
        shutil.copy(os.environ["KUBECONFIG"], Path(home, ".kube", "config"))
        yield environment
        return
    up = ["kubectl-sky", "local", "up", "--use", *scene.practice]
    subprocess.run(up, env=environment, check=True)
    try:
        yield environment
    finally:
        subprocess.run(["kubectl-sky", "local", "down", "--purge"], env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
