"""`gpus --fit`: where the GPUs of a task are free."""

from pathlib import Path

import pytest

from kubectl_sky.gpus.fit import describe
from kubectl_sky.gpus.model import AcceleratorNode
from tests.actions.conftest import Run
from tests.actions.drafts import drafted

NODES = [("gpu-1", "A100", 8), ("gpu-2", "A100", 2), ("gpu-3", "H100", 4), ("gpu-4", "T4", 0)]
MACHINES = [
    AcceleratorNode(name, model, "nvidia.com/gpu", 8, 8 - free, free, True, {})
    for name, model, free in NODES
]


@pytest.mark.parametrize(
    ("gpus", "nodes", "lines"),
    [
        ("A100:2", 1, ["a: A100:2 fits now on gpu-1, gpu-2"]),
        ("A100:2", 5, ["a: A100:2 on each of 5 nodes fits now on gpu-1, gpu-2"]),
        ("A100:8", 2, ["a: A100:8 on each of 2 nodes does not fit now"]),
        (
            "T4",
            1,
            [
                "a: T4:1 does not fit now",
                *(f"with {m}:1 it would fit now" for m in ("A100", "H100")),
            ],
        ),
        ("'24GB+:4'", 1, ["a: 24GB+:4 fits now on gpu-1, gpu-3"]),
        ("4", 1, ["a: GPUs:4 fits now on gpu-1, gpu-3"]),
        ("{T4: 1, H100: 1}", 1, ["a: T4:1 does not fit now", "a: H100:1 fits now on gpu-3"]),
    ],
)
def test_fit_names_cluster_nodes_or_other_models(
    tmp_path: Path, gpus: str, nodes: int, lines: list[str]
) -> None:
    text = f"name: a\nnum_nodes: {nodes}\nresources: {{accelerators: {gpus}}}\nrun: a\n"
    (task,) = drafted(text, tmp_path).tasks
    assert list(describe(task, MACHINES)) == lines


def test_fit_unknown_usage_promises_nothing(tmp_path: Path) -> None:
    machine = AcceleratorNode("gpu-1", "A100", "nvidia.com/gpu", 8, None, 8, True, {})
    (task,) = drafted("name: a\nresources: {accelerators: A100}\nrun: a\n", tmp_path).tasks
    assert list(describe(task, [machine])) == ["a: A100:1 does not fit now"]


def test_gpus_fit_checks_the_file_and_prints_no_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cpu.yaml").write_text("name: cpu\nrun: a\n")
    assert run("gpus", "--fit", "cpu.yaml")[:2] == (0, "cpu requests no GPUs\n")
    (tmp_path / "cpu.yaml").write_text("rnu: a\n")
    assert run("gpus", "--fit", "cpu.yaml")[0] == 2
