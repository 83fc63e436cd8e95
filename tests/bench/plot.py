"""Plot how commands grow with the number of tasks, from the points of tests.bench.scale."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rcParams
from matplotlib.figure import Figure

from tests.bench import measure

FILE = measure.ROOT / "docs" / "images" / "growth.svg"
COMMANDS = ("kubectl get jobs", "floor: pages of 500", "list", "gpus", "doctor TASK", "stop --all")


def growth(points: Sequence[Mapping[str, Any]]) -> None:
    """Write seconds by number of tasks, both logarithmic, with a line per command."""
    rcParams["svg.hashsalt"] = "kubectl-sky"  # the same file for the same points
    figure = Figure(figsize=(7, 4.5), layout="tight")
    axes = figure.add_subplot()
    for command in COMMANDS:
        mine = sorted((p["size"], p["seconds"]) for p in points if p["command"] == command)
        if len(mine) > 1:
            sizes, seconds = zip(*mine, strict=True)
            style = "--" if command.startswith(("kubectl", "floor")) else "-"
            axes.plot(sizes, seconds, style, marker="o", markersize=4, label=command)
    axes.set(xscale="log", yscale="log", xlabel="tasks", ylabel="seconds")
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(FILE, metadata={"Date": None})
