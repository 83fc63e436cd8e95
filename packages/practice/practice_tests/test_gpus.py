"""GPUs of this machine: no container sees those of another one."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky_practice.environment import ConfigError
from kubectl_sky_practice.gpus import Gpus
from practice_tests.machine import Machine, machine

pytestmark = pytest.mark.anyio

SHOW = 'echo "[$CUDA_VISIBLE_DEVICES]"; sleep 100'


def make_container(gpus: int, name: str = "main") -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}


def limits(gpus: int) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}


def test_gpus_are_given_once_and_kept_until_the_pod_ends() -> None:
    gpus = Gpus(["GPU-a", "GPU-b", "GPU-c"])
    assert gpus.take("one", make_container(1)) == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert gpus.take("one", make_container(1, "other")) == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    assert gpus.take("one", make_container(1)) == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    with pytest.raises(ConfigError, match="2 GPUs requested, 1 free"):
        gpus.take("two", make_container(2))
    gpus.release("one")
    assert gpus.take("two", make_container(2)) == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_gpus_are_hidden_from_containers_without_any() -> None:
    assert Gpus(["GPU-a"]).take("one", {"name": "main"}) == {"CUDA_VISIBLE_DEVICES": ""}


def test_gpus_that_are_simulated_change_no_variable() -> None:
    assert Gpus().take("one", make_container(1)) == {}


async def started(m: Machine, name: str, gpus: int) -> str:
    m.pod(name, SHOW, **limits(gpus), env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2"}])
    await m.wait_for_log(name, "]")
    return (await m.log(name)).strip()


async def test_pods_share_no_gpu_and_get_those_of_deleted_pods(tmp_path: Path) -> None:
    uuids = ["GPU-a", "GPU-b", "GPU-c"]
    async with machine(tmp_path / "d", gpus="T4:3", uuids=uuids) as m:
        assert await started(m, "one", 2) == "[GPU-a,GPU-b]"
        assert await started(m, "two", 1) == "[GPU-c]"
        assert await started(m, "none", 0) == "[]"
        m.delete("one", grace=0)
        await m.gone("one")
        assert await started(m, "three", 2) == "[GPU-a,GPU-b]"
