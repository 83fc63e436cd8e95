"""Make docs/images/terminal.svg of README.md: what a terminal shows, on a practice cluster.

Usage: .venv/bin/python .ci/picture.py
"""

import io
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
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
CLUSTER = ("local", "up", "--use", "--nodes", "2", "--gpus", "A100:8")
COMMANDS = (
    "kubectl sky submit train.yaml",
    "kubectl sky submit train.yaml --name eval --num-nodes 1 --gpus H100:8 --detach",
    "kubectl sky list",
    "kubectl sky doctor eval",
)
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
    return _without_erased(printed.decode())


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


def main() -> None:
    """Run the commands and write the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.yaml").write_text(TASK)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {
            "HOME": temporary,
            "PATH": path,
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
        }
        subprocess.run(["kubectl-sky", *CLUSTER], env=environment, check=True)
        try:
            for command in COMMANDS:
                console.print(Text.from_markup(f"[bold green]$[/] [bold]{command}[/]"))
                console.print(Text.from_ansi(run(command, folder, environment)))
        finally:
            subprocess.run(["kubectl-sky", "local", "down", "--purge"], env=environment, check=True)
    PICTURE.write_text(console.export_svg(title="kubectl sky", code_format=SVG, unique_id="sky"))


if __name__ == "__main__":
    main()
