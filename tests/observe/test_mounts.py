"""Which volume has a path of a node."""

from collections.abc import Sequence

import pytest

from kubectl_sky.cli.volume_pods import bucket_task
from kubectl_sky.observe.mounts import BucketMount, PvcMount, locate
from kubectl_sky.observe.requested import requested
from kubectl_sky.observe.status import tasks
from kubectl_sky.words.pod_objects import EnvVar, PodTemplate, TaskContainer, Volume
from tests.builders import ID, make_job
from tests.reading import read_jobs


def _locate(mounts: Sequence[PvcMount], path: str) -> tuple[str, str] | None:
    """Return the PVC and the path in it."""
    location = locate(mounts, path)
    if location is None:
        return None
    mount, path = location
    assert isinstance(mount, PvcMount)
    return mount.pvc, path


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
    assert _locate(MOUNTS, path) == location


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
    assert _locate([PvcMount(mount, "home")], path) == ("home", location)


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
    assert requested(item)[0].mounts == (PvcMount("/data", "data", "a"), PvcMount("~/x", "data"))


def test_bucket_of_a_csi_driver_is_read_in_a_volume_of_that_driver() -> None:
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "runs"}}
    job = make_job()
    mount = {"name": "bucket-0", "mountPath": "/out", "subPath": "llm"}
    annotations = {"gke-gcsfuse/volumes": "true"}
    spec = {
        "serviceAccountName": "trainer",
        "volumes": [{"name": "bucket-0", "csi": csi}, {"name": "bucket-list", "csi": csi}],
        "containers": [
            {
                "name": "main",
                "volumeMounts": [mount, {"name": "bucket-list", "mountPath": "/list"}],
            }
        ],
    }
    job["spec"]["template"] = {"metadata": {"annotations": annotations}, "spec": spec}
    (item,) = read_jobs([job])
    _, (bucket,) = requested(item)
    assert (bucket.title, bucket.read_only) == ("/out", False)
    assert locate([bucket], "/out/run7") == (bucket, "llm/run7")

    config = bucket_task(bucket)["config"]["kubernetes"]["pod_config"]
    assert config["metadata"]["annotations"] == annotations
    assert config["spec"]["serviceAccountName"] == "trainer"
    assert config["spec"]["volumes"] == [{"name": "volume", "csi": {**csi, "readOnly": True}}]
    (container,) = config["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": "volume", "mountPath": "/volume", "readOnly": True}
    ]


@pytest.mark.parametrize(
    ("url", "endpoint", "hint"),
    [
        (
            "s3://b/$(id)",
            "https://e;id",
            "`aws s3 cp 's3://b/$(id)' . --endpoint-url 'https://e;id' --recursive`",
        ),
        ("https://e/;id", "", "read 'https://e/;id' with a program of its store"),
    ],
)
def test_copy_hint_of_a_bucket_quotes_words_of_the_task(url: str, endpoint: str, hint: str) -> None:
    variables = {"KUBECTL_SKY_SOURCE": url, "RCLONE_CONFIG_SRC_ENDPOINT": endpoint}
    env = tuple(EnvVar(name=name, value=value) for name, value in variables.items())
    bucket = BucketMount("/out", PodTemplate(), Volume(), TaskContainer(env=env))
    assert hint in bucket.copy_hint(".")


def test_results_step_of_a_task_quotes_the_path() -> None:
    job = make_job()
    mounts = [{"name": "v", "mountPath": "/a $(id)"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    containers = [{"name": "main", "volumeMounts": mounts}]
    job["spec"]["template"] = {"spec": {"volumes": volumes, "containers": containers}}
    (task,) = tasks(read_jobs([job]), [])
    assert task.results_step == f"kubectl sky cp '{ID}:/a $(id)' ."
