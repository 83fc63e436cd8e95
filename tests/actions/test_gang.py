"""The warning of no gang scheduler: only where the nodes of a task do not all fit now."""

from typing import Any

import pytest

from kubectl_sky.submitting import gang
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter
from tests.fake_cluster import FakeCluster

Json = dict[str, Any]
TWO = "name: train\nnum_nodes: 2\nrun: echo hello\nresources: {cpus: 2, memory: 1}\n"
UNKNOWN = "some of the 2 nodes may start and then wait for the others"


def put_node(api: FakeCluster, name: str, cpu: str = "4", **spec: Any) -> None:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    api.put(node | {"status": {"allocatable": allocatable}})


def put_pod(api: FakeCluster, host: str, cpu: str) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": host, "containers": [container]}
    metadata = {"name": f"other-on-{host}"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    api.put(pod | {"status": {"phase": "Running"}})


def warnings(send: Submitter, text: str = TWO, **flags: Any) -> list[str]:
    send.ui.noted.clear()
    noted = send(text, **flags).noted
    return [note for note in noted if "gang scheduler" in note]


def test_gang_warning_is_given_only_if_nodes_do_not_all_fit_now(
    api: FakeCluster, send: Submitter
) -> None:
    put_node(api, "a", cpu="2")
    put_node(api, "b")
    put_pod(api, "b", "2")
    assert warnings(send) == []
    put_pod(api, "b", "3")
    (warning,) = warnings(send, task_id="bcdg6789")
    assert "only 1 of 2 nodes fit now, and would wait for the others; " in warning


@pytest.mark.parametrize(
    "spec",
    [
        {"unschedulable": True},
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    ],
)
def test_gang_warning_counts_no_cluster_node_that_refuses_the_pods(
    api: FakeCluster, send: Submitter, spec: Json
) -> None:
    put_node(api, "a", cpu="2")
    put_node(api, "b", **spec)
    assert "only 1 of 2 nodes fit now" in warnings(send)[0]


def test_gang_warning_counts_only_cluster_nodes_with_required_labels(
    api: FakeCluster, send: Submitter
) -> None:
    put_node(api, "a", cpu="2")
    put_node(api, "b")
    config = "config: {kubernetes: {pod_config: {spec: {nodeSelector: {HOST: NAME}}}}}\n"
    chosen = config.replace("HOST", "kubernetes.io/hostname")
    assert warnings(send, TWO + chosen.replace("NAME", "b")) == []
    (warning,) = warnings(send, TWO + chosen.replace("NAME", "a"), task_id="bcdg6789")
    assert "only 1 of 2 nodes fit now" in warning


def test_gang_warning_is_never_given_on_one_cluster_node(api: FakeCluster, send: Submitter) -> None:
    put_node(api, "a", cpu="1")
    assert warnings(send) == []
    assert api.count("list pods") == 0


@pytest.mark.parametrize("forbidden", ["list nodes", "list pods"])
def test_gang_warning_names_a_remedy_if_capacity_is_unknown(
    api: FakeCluster, send: Submitter, forbidden: str
) -> None:
    put_node(api, "a")
    put_node(api, "b")
    api.forbidden = {forbidden}
    (warning,) = warnings(send)
    assert UNKNOWN in warning and "can install Kueue or Volcano" in warning
    api.kinds |= {kinds.QUEUED_WORKLOAD, kinds.POD_GROUP}
    (warning,) = warnings(send, task_id="bcdg6789")
    assert "use --backend indexed --queue NAME or --backend volcano, or the" in warning


def test_gang_warning_on_large_cluster_assumes_free_space_and_lists_no_pods(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "_MAX_CLUSTER_NODES", 1)
    put_node(api, "a", cpu="2")
    put_node(api, "b")
    put_pod(api, "b", "3")
    assert warnings(send) == []
    put_node(api, "b", cpu="1")
    assert "only 1 of 2 nodes fit now" in warnings(send, task_id="bcdg6789")[0]
    assert api.count("list pods") == 0


def test_detached_submit_says_how_the_cluster_stops_other_nodes(
    api: FakeCluster, send: Submitter
) -> None:
    noted = send(TWO).noted
    assert any("keep their resources" in note for note in noted)
    assert any("kubectl sky config set backend indexed" in note for note in noted)
    send.ui.noted.clear()
    noted = send(TWO, task_id="bcdg6789", backend="indexed").noted
    assert not any("keep their" in note for note in noted)
