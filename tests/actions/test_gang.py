"""The warning of no gang scheduler: only where the nodes of a task do not all fit now."""

from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.actions import queues
from kubectl_sky.tasks import room
from kubectl_sky.words import kinds, names
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
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
    assert UNKNOWN in warning and "gang scheduling (from 1.36), or install Kueue" in warning
    api.kinds |= {kinds.QUEUED_WORKLOAD, kinds.POD_GROUP}
    (warning,) = warnings(send, task_id="bcdg6789")
    assert "use --backend indexed --queue NAME or --backend volcano, or the" in warning


def test_gang_warning_on_large_cluster_assumes_free_space_and_lists_no_pods(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_CLUSTER_NODES", 1)
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


GANG = replace(kinds.GANG, version="v1alpha2")
NAME = f"train-{ID}"
GROUP = f"podgroups {NAME}"


@pytest.fixture
def native(api: FakeCluster) -> FakeCluster:
    """The cluster, which schedules PodGroups."""
    api.kinds.add(GANG)
    return api


def test_gang_is_owned_by_jobs_and_submitted_once(native: FakeCluster, send: Submitter) -> None:
    put_node(native, "a", cpu="2")
    put_node(native, "b", cpu="1")
    assert warnings(send) == [], "all nodes start together, or none"
    owners = native.get(GANG, NAME)["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == [f"{NAME}-node-0", f"{NAME}-node-1"]
    assert native.count("list nodes") == 0
    before = len(native.writes)
    send(TWO)
    assert native.writes[before:] == [], "the same id changes nothing"


def test_gang_costs_one_access_review_where_served_and_none_elsewhere(
    native: FakeCluster, send: Submitter
) -> None:
    send(TWO)
    assert native.count("create selfsubjectaccessreviews") == 1
    assert native.count("get /apis") == 1
    native.kinds.remove(GANG)
    native.requests.clear()
    send(TWO, task_id="bcdg6789")
    assert native.count("create selfsubjectaccessreviews") == 0
    native.requests.clear()
    send(TWO, task_id=None, num_nodes="1")
    assert native.count("get /apis") == 0


def test_gang_without_right_is_left_out_and_warning_names_it(
    native: FakeCluster, send: Submitter
) -> None:
    put_node(native, "a", cpu="2")
    put_node(native, "b", cpu="1")
    native.forbidden = {"create podgroups"}
    (warning,) = warnings(send)
    assert "ask for the right to create podgroups.scheduling.k8s.io" in warning
    assert GROUP not in native.names()
    native.kinds |= {kinds.POD_GROUP}
    (warning,) = warnings(send, task_id="bcdg6789")
    assert "create podgroups.scheduling.k8s.io, or use --backend volcano, or the" in warning


def test_gang_of_other_backend_is_advised_and_off_is_not_warned_of(
    native: FakeCluster, send: Submitter
) -> None:
    put_node(native, "a", cpu="2")
    put_node(native, "b", cpu="1")
    native.kinds |= {kinds.JOB_SET}
    (warning,) = warnings(send, backend="jobset")
    assert warning.endswith("to start all or none, use --backend indexed")
    assert warnings(send, task_id="bcdg6789", gang="off") == []


RACK = f"{TWO}config: {{kubectl_sky: {{topology: rack}}}}\n"


@pytest.mark.parametrize("drops", [True, False])
def test_topology_is_tried_with_dry_run_first(
    native: FakeCluster, send: Submitter, drops: bool
) -> None:
    def drop(request: str, body: Json) -> Json:
        if request.startswith("create podgroups") and drops:
            body["spec"].pop("schedulingConstraints", None)
        return body

    native.alter = drop
    noted = send(RACK).noted
    best_effort = any("topology: best effort" in note for note in noted)
    assert best_effort is drops
    assert ("schedulingConstraints" in native.get(GANG, NAME)["spec"]) is not drops


def make_wait(api: FakeCluster) -> None:
    """Let the scheduler find no room for the pods of the task."""
    for rank in range(2):
        pod = api.start(f"{NAME}-node-{rank}")
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        message = "pod group is unschedulable, waiting for minCount pods from a gang"
        status = {"phase": "Pending", "conditions": [said | {"message": message}]}
        api.change(kinds.POD, pod, status=status)
    said = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable"}
    api.change(GANG, NAME, status={"conditions": [said | {"message": "pod group"}]})


def test_gang_that_waits_is_explained_in_numbers_by_list_and_doctor(
    native: FakeCluster, send: Submitter, run: Run
) -> None:
    put_node(native, "a", cpu="3")
    put_node(native, "b", cpu="1")
    send(TWO)
    make_wait(native)
    sizes = "2 nodes \N{MULTIPLICATION SIGN} 2 CPUs and 1 GiB memory start together"
    text = f"{sizes}; 1 fits now: a has 3 CPUs free, b has 1 CPU free"
    assert f"node-0: {text}" in run("list")[1]
    native.requests.clear()
    assert text in run("status", "train")[1]
    assert native.count("list podgroups") == native.count("list nodes") == 1
    assert text in " ".join(run("doctor", "train")[1].split())
    native.forbidden = {"list nodes"}
    assert "2 nodes start together: pod group" in " ".join(run("doctor", "train")[1].split())


def test_gang_of_interrupted_submit_is_found_by_clean(
    native: FakeCluster, send: Submitter, run: Run
) -> None:
    send(TWO)
    group = native.get(GANG, NAME)
    del group["metadata"]["ownerReferences"]
    native.put(group)
    for rank in range(2):
        native.remove(kinds.JOB, f"{NAME}-node-{rank}")
    assert GROUP in native.names()
    assert run("clean", "--yes", "--older-than", "0s")[0] == 0
    assert GROUP not in native.names()


def put_queue(api: FakeCluster) -> None:
    """Create a queue of Kueue whose only flavor has a topology."""
    levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    quota = [{"name": "cpu", "nominalQuota": "100"}, {"name": "memory", "nominalQuota": "1Ti"}]
    flavors = [{"name": name, "resources": quota} for name in ("racks", "plain")]
    group = {"coveredResources": ["cpu", "memory"], "flavors": flavors}

    for kind, spec in (
        (kinds.TOPOLOGY, {"levels": levels}),
        (kinds.RESOURCE_FLAVOR, {"topologyName": "racks"}),
        (kinds.CLUSTER_QUEUE, {"resourceGroups": [group]}),
        (kinds.LOCAL_QUEUE, {"clusterQueue": "racks"}),
    ):
        api.kinds.add(kind)
        metadata = {"name": "racks"}
        item = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        api.put({**item, "spec": spec})

    api.kinds |= {kinds.QUEUE_PRIORITY, kinds.QUEUED_WORKLOAD}


@pytest.mark.parametrize("forbidden", [False, True])
def test_topology_of_queue_is_read_from_its_flavors(
    api: FakeCluster, send: Submitter, forbidden: bool
) -> None:
    put_queue(api)
    api.forbidden = {"list topologies"} if forbidden else set()
    noted = send(RACK, backend="indexed", queue="racks").noted
    job = api.get(kinds.JOB, NAME)["spec"]["template"]
    annotations = job["metadata"].get("annotations", {})
    by_kueue = "topology: Kueue starts all nodes in one example.com/rack" in noted
    assert by_kueue is (annotations.get(names.REQUIRED_TOPOLOGY) == "example.com/rack")
    assert by_kueue is not forbidden
    assert ("affinity" in job["spec"]) is forbidden


def test_topologies_of_kueue_that_does_not_serve_them_are_not_known(api: FakeCluster) -> None:
    put_queue(api)
    api.kinds.add(kinds.COHORT)

    def read_topologies() -> object:
        queue = queues.read_local_queues(api.session(), "default")["racks"]
        assert queue.cluster_queue
        return queue.cluster_queue.topologies

    assert read_topologies() == {"racks": ["example.com/rack", "kubernetes.io/hostname"]}
    api.kinds.remove(kinds.TOPOLOGY)
    assert read_topologies() is None
