"""Submit on a cluster in memory: the requests it sends, and what it refuses."""

import re

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.plan.fair_share import LABEL, QUEUE
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter, disown
from tests.builders import ID
from tests.fake_cluster import FakeCluster, value_of

HELLO = "name: hello\nrun: echo hello\n"
TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
VOLUME = """
name: hello
run: echo hello
volumes: {/data: {size: 1}}
"""
CREATES = [
    "create pods (dry run)",
    f"create configmaps hello-{ID}",
    f"create jobs hello-{ID}",
    f"patch configmaps hello-{ID}",  # owned by the Job
]
LIMITS = {"list resourcequotas", "list limitranges"}
# With a given id: check whether it belongs to another task or an earlier submit.
CHECKS = [
    "list configmaps",
    "list services",
    f"get configmaps hello-{ID}",
    "list jobs",
    "get /apis",
    "list jobs",
]
FOLLOW = [
    "watch jobs",
    "watch pods",
    f"get pods/log hello-{ID}-0",  # the existing lines
    f"get pods/log hello-{ID}-0",  # follow
    f"get pods/log hello-{ID}-0",  # check for missing last lines
]


def test_submit_single_node_sends_minimal_requests(api: FakeCluster, send: Submitter) -> None:
    def run() -> None:
        api.log(api.start(f"hello-{send.ui.results[0].id}"), b"hello\n")
        api.finish(f"hello-{send.ui.results[0].id}")

    send.ui.then = run
    send(HELLO, follow=True, task_id=None)
    requests = [text.replace(send.ui.results[0].id, ID) for text in api.requests]
    assert requests[0] == "create selfsubjectreviews"
    assert set(requests[1:3]) == LIMITS
    assert requests[3:7] == CREATES
    late = f"get pods hello-{ID}-0"  # sent only if the log ends before the watch reports the pod
    assert sorted(text for text in requests[7:] if text != late) == sorted(FOLLOW)
    assert (send.ui.lines, send.ui.noted) == (["hello"], [])


def test_submit_with_id_checks_existing_objects_first(api: FakeCluster, send: Submitter) -> None:
    send(HELLO)
    assert sorted(api.requests) == sorted(["create selfsubjectreviews", *CHECKS, *LIMITS, *CREATES])
    assert api.requests[-4:] == CREATES
    [owner] = api.get(kinds.CONFIG_MAP, f"hello-{ID}")["metadata"]["ownerReferences"]
    assert owner["uid"] == api.get(kinds.JOB, f"hello-{ID}")["metadata"]["uid"]


def test_submit_same_id_twice_sends_no_writes(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    api.requests.clear()
    ui = send(TWO)
    assert api.writes == []
    assert [result.unchanged for result in ui.results] == [False, True]
    assert ui.results[0].target == ui.results[1].target


STANDARD = {
    "app.kubernetes.io/managed-by": "kubectl-sky",
    "app.kubernetes.io/name": "everything",
    "app.kubernetes.io/instance": f"everything-{ID}",
}
EVERYTHING = """\
name: everything
num_nodes: 2
secrets: {KEY: hunter2}
resources: {ports: 80}
run: 'true'
"""


def test_submit_sets_standard_labels_on_all_objects_and_pods(
    api: FakeCluster, send: Submitter
) -> None:
    send(EVERYTHING)
    created = [value_of(request) for request in api.sent if request.method == "POST"]
    task_objects = [item for item in created if "task-id" in str(item.get("metadata"))]
    assert {item["kind"] for item in task_objects} >= {"Job", "ConfigMap", "Secret", "Service"}
    for item in task_objects:
        assert item["metadata"]["labels"].items() >= STANDARD.items()
        if item["kind"] == "Job":
            pod_labels = item["spec"]["template"]["metadata"]["labels"]
            assert pod_labels.items() >= STANDARD.items()


def test_submit_labels_of_user_win_over_standard_labels(api: FakeCluster, send: Submitter) -> None:
    send("name: a\nresources: {labels: {app.kubernetes.io/name: mine}}\nrun: 'true'\n")
    metadata = api.get(kinds.JOB, f"a-{ID}")["metadata"]
    assert metadata["labels"]["app.kubernetes.io/name"] == "mine"
    assert metadata["labels"]["task-name"] == "a"


def test_submit_id_of_other_task_is_refused_with_fields(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    api.requests.clear()
    with pytest.raises(UserError) as caught:
        send(TWO.replace("echo", "sleep"))
    assert f"--id {ID} belongs to a different task" in caught.value.what
    assert re.findall(r"^  (.*?):", caught.value.what, re.M) == [f"ConfigMap/train-{ID}"]
    with pytest.raises(UserError, match=rf"Job/train-{ID}-node-0: not part of this file"):
        send(HELLO)
    assert api.writes == []


def test_submit_id_of_task_being_deleted_is_refused(api: FakeCluster, send: Submitter) -> None:
    send(HELLO)
    job = api.get(kinds.JOB, f"hello-{ID}")
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(job)
    with pytest.raises(UserError, match="is being deleted"):
        send(HELLO)


def test_submit_after_kill_creates_only_missing_objects(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    existing = api.get(kinds.JOB, f"train-{ID}-node-0")
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    disown(api)
    api.requests.clear()
    ui = send(TWO)
    assert sorted(text for text in api.writes if "-runtime-" not in text) == [
        f"create jobs train-{ID}-node-1",
        "create pods (dry run)",
        f"patch configmaps train-{ID}",
        f"patch secrets train-{ID}",
        f"patch services train-{ID}",
    ]
    assert api.get(kinds.JOB, f"train-{ID}-node-0") == existing

    owners = api.get(kinds.SERVICE, f"train-{ID}")["metadata"]["ownerReferences"]
    assert {owner["uid"] for owner in owners} == {
        item["metadata"]["uid"] for item in ui.results[-1].workloads
    }


def test_submit_dry_run_client_sends_no_writes(api: FakeCluster, send: Submitter) -> None:
    ui = send(TWO, dry_run="client")
    assert api.writes == []
    assert [manifest.name for manifest in ui.previews[0].own] == [
        f"ConfigMap/train-{ID}",
        f"Secret/train-{ID}",
        f"Service/train-{ID}",
        f"Job/train-{ID}-node-0",
        f"Job/train-{ID}-node-1",
    ]


def test_submit_dry_run_server_sends_only_dry_runs(api: FakeCluster, send: Submitter) -> None:
    send(TWO, dry_run="server")
    assert len(api.writes) == 7
    assert all(request.endswith("(dry run)") for request in api.writes)
    assert api.names() == []


def test_submit_pipeline_sends_suspended_jobs_first(api: FakeCluster, send: Submitter) -> None:
    ui = send(PIPELINE)
    first, second = (plan.id for plan in ui.results[0].decision.plans)
    jobs = [request for request in api.requests if request.startswith("create jobs")]
    assert jobs == [f"create jobs two-{second}", f"create jobs one-{first}"]
    assert api.get(kinds.JOB, f"two-{second}")["spec"]["suspend"] is True
    assert "suspend" not in api.get(kinds.JOB, f"one-{first}")["spec"]


def test_submit_without_right_to_create_pods_skips_admission_check(
    api: FakeCluster, send: Submitter
) -> None:
    api.forbidden.add("create pods")
    send(HELLO)
    assert api.names() == [f"configmaps hello-{ID}", f"jobs hello-{ID}"]


def test_submit_pod_rejected_by_admission_creates_no_objects(
    api: FakeCluster, send: Submitter
) -> None:
    api.before("create pods", lambda: 422)
    with pytest.raises(Exception, match="invalid"):
        send(HELLO)
    assert api.writes == ["create pods (dry run)"]


QUEUED = TWO + "config: {kubernetes: {quota: {queue: gold}}, kubectl_sky: {backend: volcano}}\n"


@pytest.mark.parametrize(
    ("queue", "settings", "warned"),
    [
        ("gold", "", True),
        ("iron", "", False),
        ("gold", "fair_share: {gold: {}}\n", False),
        ("gold", "fair_share: {iron: {}}\n", True),
    ],
)
def test_submit_to_queue_with_fair_share_that_settings_do_not_name_warns(
    api: FakeCluster, send: Submitter, queue: str, settings: str, warned: bool
) -> None:
    api.kinds |= {kinds.POD_GROUP, kinds.VOLCANO_QUEUE, kinds.PRIORITY_CLASS}
    kind = {"apiVersion": kinds.VOLCANO_QUEUE.api_version, "kind": "Queue"}
    api.put(kind | {"metadata": {"name": "gold"}, "status": {"state": "Open"}})
    metadata = {"labels": {LABEL: "owned"}, "annotations": {QUEUE: queue}}
    item = {"apiVersion": kinds.PRIORITY_CLASS.api_version, "kind": "PriorityClass", "value": 9}
    api.put(item | {"metadata": {"name": "fair-share-bob"} | metadata})
    (send.folder / "settings.yaml").write_text(settings)
    notes = "\n".join(send(QUEUED).noted)
    assert ('warning: queue "gold" has fair share' in notes) is warned


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ({}, 'Volcano queue "gold" not found; no Volcano queue is open'),
        ({"gold": "Closed", "iron": "Open"}, 'Volcano queue "gold" is closed; open queues: iron'),
    ],
)
def test_submit_volcano_queue_missing_or_closed_creates_no_objects(
    api: FakeCluster, send: Submitter, queues: dict[str, str], message: str
) -> None:
    api.kinds |= {kinds.POD_GROUP, kinds.VOLCANO_QUEUE}
    for name, state in queues.items():
        kind = {"apiVersion": kinds.VOLCANO_QUEUE.api_version, "kind": "Queue"}
        api.put(kind | {"metadata": {"name": name}, "status": {"state": state}})
    with pytest.raises(UserError) as caught:
        send(QUEUED)
    assert str(caught.value) == message
    assert api.writes == []


def make_class(default: bool) -> dict[str, object]:
    key = "storageclass.kubernetes.io/is-default-class"
    metadata = {"name": "fast", "annotations": {key: "true"} if default else {}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}


def test_submit_without_default_storage_class_creates_no_objects(
    api: FakeCluster, send: Submitter
) -> None:
    with pytest.raises(UserError, match="the cluster has no StorageClass"):
        send(VOLUME)
    api.put(make_class(default=False))
    with pytest.raises(UserError, match=r"no default StorageClass .* choose one of fast"):
        send(VOLUME)
    assert api.writes == []
    api.put(make_class(default=True))
    send(VOLUME)
    assert api.count("create persistentvolumeclaims") == 1
