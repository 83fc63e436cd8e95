"""Backends and queues whose kinds a cluster lacks, or serves in other versions only."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

BACKENDS = {
    "jobset": (kinds.JOB_SET, "JobSet"),
    "mpijob": (kinds.MPI_JOB, "the MPI operator"),
    "appwrapper": (kinds.APP_WRAPPER, "AppWrapper"),
    "volcano": (kinds.POD_GROUP, "Volcano"),
}


@pytest.fixture(autouse=True)
def task(run: Run) -> None:
    Path("task.yaml").write_text("name: train\nnum_nodes: 2\nrun: 'true'\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_submit_backend_that_is_not_installed_is_cluster_error(
    run: Run, api: FakeCluster, backend: str
) -> None:
    kind, product = BACKENDS[backend]
    assert run("submit", "task.yaml", "--backend", backend) == (
        3,
        "",
        f"error: backend {backend} needs {product}, and the cluster does not serve {kind.plural}"
        f" ({kind.api_version})\nhint: install it, or choose another backend: jobs, indexed\n",
    )
    assert api.writes == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_submit_backend_of_another_version_is_cluster_error(
    run: Run, api: FakeCluster, backend: str
) -> None:
    kind = BACKENDS[backend][0]
    api.kinds.add(replace(kind, version="v0"))
    assert run("submit", "task.yaml", "--backend", backend) == (
        3,
        "",
        f"error: the cluster serves {kind.plural} only as {kind.group}/v0, but {kind.api_version}"
        " is required\nhint: update their controller, or choose another backend\n",
    )
    assert api.writes == []


def test_submit_backend_auto_names_choice_and_reason(run: Run, api: FakeCluster) -> None:
    def note(*flags: str) -> str:
        code, _, err = run("submit", "task.yaml", "--backend=auto", "--dry-run=client", *flags)
        assert code == 0, err
        return err.splitlines()[0]

    indexed = "backend indexed: one Job for all nodes, which the cluster stops together when one"
    assert note() == f"{indexed} fails; JobSet is not installed"
    api.kinds.add(kinds.JOB_SET)
    assert note().startswith("backend jobset: a JobSet, whose nodes fail together")
    assert note("--num-nodes", "1") == "backend jobs: the task has one node"
    api.forbidden = {"create jobsets"}
    assert note() == f"{indexed} fails; you may not create JobSets"


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (None, "Kueue is not installed in the cluster"),
        (
            "v1alpha1",
            "the cluster serves Kueue's kinds only as kueue.x-k8s.io/v1alpha1, but"
            " kueue.x-k8s.io/v1beta2 or kueue.x-k8s.io/v1beta1 is required\nhint: update Kueue\n",
        ),
    ],
    ids=["absent", "outdated"],
)
def test_queue_without_usable_kueue_is_cluster_error(
    run: Run, api: FakeCluster, served: str | None, message: str
) -> None:
    api.kinds |= {replace(kinds.LOCAL_QUEUE, version=served)} if served else set()
    for command in (("submit", "task.yaml", "--queue", "gold"), ("queues", "list")):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert message in err
    assert api.writes == []


def test_queue_that_does_not_exist_is_refused_with_existing_ones(
    run: Run, api: FakeCluster
) -> None:
    old: Kind = replace(kinds.LOCAL_QUEUE, version="v1beta1")
    api.kinds.add(old)
    api.put({"apiVersion": old.api_version, "kind": old.kind, "metadata": {"name": "team"}})
    message = 'error: queue "gold" not found in namespace "default"\nhint:'
    assert run("submit", "task.yaml", "--queue", "gold") == (
        2,
        "",
        f"{message} existing queues: team\n",
    )
    assert api.writes == []
    assert run("queues", "list", "-o", "name") == (0, "queue/team\n", "")
    assert run("queues", "status", "gold") == (2, "", f"{message} queues: team\n")


def test_submit_volcano_queue_is_the_one_of_pod_group(run: Run, api: FakeCluster) -> None:
    api.kinds |= {kinds.POD_GROUP, kinds.VOLCANO_QUEUE}
    words = ("submit", "task.yaml", "--backend", "volcano", "--queue", "gold")
    message = 'error: Volcano queue "gold" not found\nhint: no Volcano queue is open\n'
    assert run(*words) == (2, "", message)
    assert api.writes == []
    queue = {"apiVersion": kinds.VOLCANO_QUEUE.api_version, "kind": "Queue"}
    api.put(queue | {"metadata": {"name": "gold"}, "status": {"state": "Open"}})
    code, out, err = run(*words, "--dry-run=client", "-o", "json")
    assert code == 0, err
    (group,) = (item for item in json.loads(out)["items"] if item["kind"] == "PodGroup")
    assert group["spec"]["queue"] == "gold"
