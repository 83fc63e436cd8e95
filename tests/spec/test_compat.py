"""What SkyPilot 0.14 refuses of what is valid here, and what both accept."""

import pytest

from kubectl_sky.spec.compat import differences
from kubectl_sky.spec.validate import validate
from tests.spec.documents import RUN, read

NARROWER = {
    "envs:": (
        "task.yaml:2:1: envs: envs has nothing under it, at which SkyPilot fails; leave it out"
    ),
    "resources: {cpus: 500m}": (
        "task.yaml:2:19: resources.cpus: SkyPilot reads no Kubernetes quantity here;"
        " such as 0.5 or 4+"
    ),
    "resources: {memory: 16G}": (
        "task.yaml:2:21: resources.memory: SkyPilot does not know this unit;"
        " such as 8, 16GB or 512Mi"
    ),
    "resources: {any_of: [{cpus: 1}, {memory: 512k}]}": (
        "task.yaml:2:42: resources.any_of[1].memory: SkyPilot does not know this unit;"
        " such as 8, 16GB or 512Mi"
    ),
    "resources: {disk_size: 1500MB}": (
        "task.yaml:2:24: resources.disk_size: SkyPilot takes whole GB only; such as 256 or 1TB"
    ),
    "resources: {accelerators: 8}": (
        "task.yaml:2:27: resources.accelerators: SkyPilot needs the GPU's name; such as V100:2"
    ),
    "resources: {gpus: 1}": (
        "task.yaml:2:19: resources.gpus: SkyPilot needs the GPU's name; such as V100:2"
    ),
}
BOTH = (
    "name: x",
    "envs: {A: 1}",
    "resources: {cpus: 4+, memory: 8+}",
    "resources: {cpus: 0.5, memory: 16GB+}",
    "resources: {memory: 4Gi, disk_size: 1TB}",
    "resources: {disk_size: 256, accelerators: V100:2}",
    "resources: {gpus: {V100: 2}}",
    "resources:",
)


@pytest.mark.parametrize("field", NARROWER)
def test_narrower(field: str) -> None:
    (document,) = read(RUN + field)
    assert not [found for found in validate(document) if found.severity == "error"]
    assert [str(found) for found in differences(document)] == [NARROWER[field]]


@pytest.mark.parametrize("field", BOTH)
def test_both(field: str) -> None:
    (document,) = read(RUN + field)
    assert differences(document) == []


def test_a_volume_is_no_task() -> None:
    (document,) = read("name: v\ntype: k8s-pvc\nsize: 10Gi\n")
    assert [found.message for found in differences(document)] == ["a volume is no task"]
