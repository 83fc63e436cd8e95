"""The GPUs of this machine, as a stand-in for nvidia-smi lists them."""

import os
from pathlib import Path

import pytest

from kubectl_sky.actions import local
from kubectl_sky.errors import UserError
from kubectl_sky.local.driver import Gpus
from kubectl_sky.local.state_dir import StateDir

STANDIN = Path(__file__).parent.parent / "standins" / "gpu"
TWO = "GPU-aaaa-1, NVIDIA H100 80GB HBM3\nGPU-bbbb-2, NVIDIA H100 80GB HBM3"


@pytest.fixture(autouse=True)
def nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{STANDIN}:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_GPUS", TWO)


def test_gpus_of_host_are_counted_and_named() -> None:
    gpus = Gpus.read("host")
    assert gpus == Gpus("NVIDIA-H100-80GB-HBM3", 2, ("GPU-aaaa-1", "GPU-bbbb-2"))
    assert str(gpus) == "NVIDIA-H100-80GB-HBM3:2 of this machine"
    assert Gpus.read(str(gpus)) == gpus


def test_gpus_of_host_with_several_models_are_the_most_frequent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STANDIN_GPUS", f"GPU-cc, NVIDIA T4\n{TWO}")
    assert str(Gpus.read("host")) == "NVIDIA-H100-80GB-HBM3:2 of this machine"


@pytest.mark.parametrize(
    ("path", "problem"), [("", "it shows no gpu"), ("/empty", "no such file or directory")]
)
def test_gpus_of_host_without_any_are_an_error(
    monkeypatch: pytest.MonkeyPatch, path: str, problem: str
) -> None:
    monkeypatch.delenv("STANDIN_GPUS")
    if path:
        monkeypatch.setenv("PATH", path)
    with pytest.raises(UserError, match=f"no GPU found by nvidia-smi: {problem}"):
        Gpus.read("host")


def test_local_up_with_gpus_of_host_is_one_node_of_practice_cluster(tmp_path: Path) -> None:
    requested = local.ClusterOptions(gpus="host", nodes=2)
    with pytest.raises(UserError, match="those of one node of a practice cluster"):
        local.up(StateDir(tmp_path), requested, use=False, waiting=lambda: None)
