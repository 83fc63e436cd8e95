"""Which volume has a path of a node."""

import pytest

from kubectl_sky.observe.mounts import PvcMount, locate
from kubectl_sky.observe.requested import requested
from tests.builders import make_job
from tests.reading import read_jobs

MOUNTS = (PvcMount("/data", "all"), PvcMount("/data/in", "inputs", "team/a"), PvcMount("~/x", "h"))


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/data/run7/model", ("all", "run7/model")),
        ("/data", ("all", ".")),
        ("/data/in/images", ("inputs", "team/a/images")),
        ("~/x/y", ("h", "y")),
        ("/database", None),
        ("results", None),
        ("/data/../etc", None),
    ],
)
def test_path_is_on_the_volume_of_the_deepest_mount(
    path: str, location: tuple[str, str] | None
) -> None:
    assert locate(MOUNTS, path) == location


@pytest.mark.parametrize(
    ("mount", "path", "location"),
    [
        ("~/sky_workdir", "results", "results"),
        ("~/sky_workdir", "", "."),
        ("~", "results", "sky_workdir/results"),
        ("~/sky_workdir/out", "./out/x", "x"),
    ],
)
def test_relative_path_is_on_the_volume_of_the_working_directory(
    mount: str, path: str, location: str
) -> None:
    assert locate([PvcMount(mount, "home")], path) == ("home", location)


def test_mounts_are_those_of_pvcs_in_the_pod_template() -> None:
    job = make_job()
    spec: dict[str, object] = {}
    job["spec"]["template"] = {"spec": spec}
    spec["volumes"] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    spec["containers"] = [
        {
            "name": "main",
            "env": [{"name": "KUBECTL_SKY_LINKS", "value": "/links/v x"}],
            "volumeMounts": [
                {"name": "v", "mountPath": "/data", "subPath": "a"},
                {"name": "v", "mountPath": "/links/v"},
                {"name": "scratch", "mountPath": "/tmp"},
            ],
        }
    ]
    (item,) = read_jobs([job])
    assert requested(item).mounts == (PvcMount("/data", "data", "a"), PvcMount("~/x", "data"))
