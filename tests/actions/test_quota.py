"""Submit over quota: refused before anything is sent, with requested, used and limit."""

from typing import Any

import pytest

from kubectl_sky.errors import Refused
from kubectl_sky.tasks import doctor
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

Json = dict[str, Any]

HELLO = "name: hello\nrun: echo hello\n"
TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
SIZED = f"{TWO}resources: {{cpus: 2, memory: 1, accelerators: 'A100:4'}}\n"
GROUP = PIPELINE.replace("name: both\n", "name: both\nexecution: parallel\n", 1)
VOLUME = "name: hello\nrun: echo\nvolumes: {/data: {size: 2}}\n"


def put_quota(api: FakeCluster, hard: Json, used: Json | None = None) -> None:
    api.put(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": used or {}},
        }
    )


def refusal(send: Submitter, text: str, **flags: Any) -> str:
    with pytest.raises(Refused) as caught:
        send(text, **flags)
    assert "kubectl sky users show" in caught.value.hint
    assert send.cluster.changes == []
    return caught.value.what


def test_submit_over_quota_is_refused_and_names_resources(
    api: FakeCluster, send: Submitter
) -> None:
    gpu = "requests.nvidia.com/gpu"
    hard = {"pods": "4", gpu: "8", "limits.cpu": "4", "requests.memory": "1Gi"}
    put_quota(api, hard, {"pods": "3", gpu: "2"})
    assert refusal(send, SIZED).splitlines() == [
        "quota few is full: pods: requested 2, used 3 of 4",
        f"quota few is full: {gpu}: requested 8, used 2 of 8",
        "quota few is too small: requests.memory: requested 2Gi, used 0 of 1Gi",
    ]


def test_submit_under_quota_is_sent(api: FakeCluster, send: Submitter) -> None:
    put_quota(api, {"pods": "3", "limits.cpu": "4"}, {"pods": "1"})
    send(SIZED)
    assert api.count("create jobs") == 2


def test_submit_again_at_quota_limit_is_unchanged(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    put_quota(api, {"pods": "2"}, {"pods": "2"})
    api.requests.clear()
    assert send(TWO).results[-1].unchanged
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    send(TWO)  # the existing node uses the quota


@pytest.mark.parametrize(
    ("text", "hard", "message"),
    [
        (PIPELINE, {"pods": "0"}, "pods: requested 1, used 0 of 0"),
        (PIPELINE, {"count/jobs.batch": "1"}, "count/jobs.batch: requested 2, used 0 of 1"),
        (PIPELINE, {"count/pods": "1"}, "count/pods: requested 2, used 0 of 1"),
        (GROUP, {"pods": "1"}, "pods: requested 2, used 0 of 1"),
        (TWO, {"secrets": "0"}, "secrets: requested 1, used 0 of 0"),
        (TWO, {"count/services": "0"}, "count/services: requested 1, used 0 of 0"),
        (VOLUME, {"requests.storage": "1Gi"}, "requests.storage: requested 2Gi, used 0 of 1Gi"),
        (VOLUME, {"persistentvolumeclaims": "0"}, "persistentvolumeclaims: requested 1"),
    ],
)
def test_submit_quota_counts_all_tasks_and_objects_of_file(
    api: FakeCluster, send: Submitter, text: str, hard: dict[str, str], message: str
) -> None:
    metadata = {
        "name": "fast",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    }
    api.put({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})
    put_quota(api, hard)
    assert message in refusal(send, text)


def test_submit_pipeline_counts_single_stage_against_pod_quota(
    api: FakeCluster, send: Submitter
) -> None:
    put_quota(api, {"pods": "1"})
    send(PIPELINE)
    assert api.count("create jobs") == 2


def test_submit_array_larger_than_pod_quota_is_accepted(api: FakeCluster, send: Submitter) -> None:
    put_quota(api, {"pods": "1"})
    send(HELLO, array="0-9")
    assert api.count("create jobs") == 1


@pytest.mark.parametrize(
    ("backend", "kind"), [("jobset", kinds.JOB_SET), ("mpijob", kinds.MPI_JOB)]
)
def test_submit_other_backend_counts_pods_and_jobs_of_controller(
    api: FakeCluster, send: Submitter, backend: str, kind: kinds.Kind
) -> None:
    api.kinds.add(kind)
    put_quota(api, {"pods": "2"})
    with pytest.raises(Refused, match="pods: requested 3, used 0 of 2"):
        send(TWO, backend=backend, num_nodes="3")
    put_quota(api, {"pods": "3", "count/jobs.batch": "0"})
    with pytest.raises(Refused, match=r"count/jobs.batch: requested 1, used 0 of 0"):
        send(TWO, backend=backend, num_nodes="3")


def test_submit_outside_limit_range_is_refused(api: FakeCluster, send: Submitter) -> None:
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    item = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}}
    api.put(item | {"spec": {"limits": limits}})
    with pytest.raises(Refused, match="LimitRange small: cpu requested 2, maximum 1 per Container"):
        send(SIZED)
    assert api.changes == []


def test_submit_without_right_to_list_quotas_is_sent(api: FakeCluster, send: Submitter) -> None:
    put_quota(api, {"pods": "0"})
    api.forbidden |= {"list resourcequotas", "list limitranges"}
    send(HELLO)
    assert api.count("create jobs") == 1


def test_submit_minimum_cpus_under_quota_of_limits_is_refused_and_names_plus(
    api: FakeCluster, send: Submitter
) -> None:
    put_quota(api, {"limits.cpu": "9"})
    assert refusal(send, SIZED.replace("cpus: 2", "cpus: 2+")) == (
        "quota few requires limits.cpu: set cpus and memory under resources, without +"
    )


def put_queue(api: FakeCluster, **spec: Any) -> None:
    """Create a Kueue queue for up to 4 CPUs and 1 GiB."""
    api.kinds |= {kinds.LOCAL_QUEUE, kinds.CLUSTER_QUEUE}
    quotas = {"cpu": 4, "memory": "1Gi", "nvidia.com/gpu": 8}
    sizes = [{"name": name, "nominalQuota": size} for name, size in quotas.items()]
    groups = [{"flavors": [{"name": "plain", "resources": sizes}]}]
    for kind, content in (
        ("LocalQueue", {"clusterQueue": "gold"}),
        ("ClusterQueue", {"resourceGroups": groups, "namespaceSelector": {}} | spec),
    ):
        item = {"kind": kind, "metadata": {"name": "gold"}, "spec": content}
        api.put({"apiVersion": "kueue.x-k8s.io/v1beta2", **item})


def test_submit_to_queue_at_pod_count_quota_is_sent(api: FakeCluster, send: Submitter) -> None:
    put_queue(api)
    put_quota(api, {"pods": "1", "count/pods": "1"}, {"pods": "1", "count/pods": "1"})
    send(HELLO, queue="gold")
    assert sum(text.startswith("create jobs") for text in api.changes) == 1


@pytest.mark.parametrize("backend", ["jobs", "indexed", "jobset"])
def test_submit_nodes_larger_than_kueue_quota_is_refused(
    api: FakeCluster, send: Submitter, backend: str
) -> None:
    put_queue(api)
    api.kinds.add(kinds.JOB_SET)
    with pytest.raises(Refused) as caught:
        send(SIZED, queue="gold", backend=backend, num_nodes="3")
    assert caught.value.what == (
        'can never be admitted: queue "gold": cpu: requested 6, at most 4,'
        " memory: requested 3Gi, at most 1Gi, nvidia.com/gpu: requested 12, at most 8"
        " of flavor plain"
    )
    assert "kubectl sky queues status gold" in caught.value.hint
    assert api.changes == []


def test_submit_later_stage_larger_than_kueue_quota_is_refused(
    api: FakeCluster, send: Submitter
) -> None:
    put_queue(api)
    script = f"{PIPELINE}resources: {{cpus: 5}}\n"
    with pytest.raises(Refused, match="cpu: requested 5, at most 4"):
        send(script, queue="gold")
    assert api.changes == []


@pytest.mark.parametrize("condition", ["tasks of a group", "cohort", "forbidden"])
def test_submit_not_certainly_larger_than_kueue_quota_is_sent(
    api: FakeCluster, send: Submitter, condition: str
) -> None:
    spec = {"cohortName": "all"} if condition == "cohort" else {}
    put_queue(api, **spec)
    if condition == "cohort":
        api.kinds.add(kinds.COHORT)
        api.forbidden.add("list cohorts")
    if condition == "forbidden":
        api.forbidden.add("list clusterqueues")
    if condition == "tasks of a group":  # each of its tasks fits, and they need not run together
        task = SIZED.replace("memory: 1", "memory: 0.5")
        other = task.replace("name: train", "name: other")
        text = f"name: all\nexecution: parallel\n---\n{task}---\n{other}"
    else:
        text = SIZED.replace("memory: 1", "memory: 9")
    send(text, queue="gold")
    assert any(text.startswith("create jobs") for text in api.changes)


PENDING = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "job-other"},
    "spec": {"queueName": "gold", "priority": 5},
}


@pytest.mark.parametrize(
    ("used", "forbidden", "forecast"),
    [
        ("1", "", "queue gold admits it now with flavor plain; starts where"),
        ("3", "", "waits in queue gold: it needs 1 more cpu of flavor plain; would be second"),
        ("1", "list clusterqueues", "not checked: the quota of the queue: you may not read it"),
        ("1", "list workloads", "queue gold admits it now"),
    ],
)
def test_submit_dry_run_of_server_says_when_queue_admits_task(
    api: FakeCluster, send: Submitter, used: str, forbidden: str, forecast: str
) -> None:
    put_queue(api)
    api.kinds |= {kinds.QUEUED_WORKLOAD}
    api.put(PENDING)
    queue = api.get(kinds.CLUSTER_QUEUE, "gold")
    reserved = [{"name": "plain", "resources": [{"name": "cpu", "total": used}]}]
    api.put(queue | {"status": {"flavorsReservation": reserved}})
    api.forbidden |= {forbidden}
    task = "name: train\nresources: {cpus: 2, memory: 0.5}\nrun: echo\n"
    noted = send(task, queue="gold", dry_run="server").noted
    assert any(forecast in note for note in noted), noted
    assert api.changes == []


def test_submit_dry_run_of_server_orders_task_by_its_priority_class(
    api: FakeCluster, send: Submitter
) -> None:
    put_queue(api)
    api.kinds |= {kinds.QUEUED_WORKLOAD, kinds.QUEUE_PRIORITY}
    api.put(PENDING)
    queue = api.get(kinds.CLUSTER_QUEUE, "gold")
    reserved = [{"name": "plain", "resources": [{"name": "cpu", "total": 3}]}]
    api.put(queue | {"status": {"flavorsReservation": reserved}})
    urgent = {"kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    api.put({"apiVersion": "kueue.x-k8s.io/v1beta2", **urgent})
    sizes = "cpus: 2, memory: 0.5, priority_class: urgent"
    task = f"name: train\nresources: {{{sizes}}}\nrun: echo\n"
    noted = send(task, queue="gold", dry_run="server").noted
    assert any("flavor plain; would be first in queue" in note for note in noted), noted


@pytest.mark.parametrize(
    ("backend", "queue", "warns"),
    [
        ("jobs", "gold", True),
        ("indexed", "gold", False),
        ("jobset", "gold", False),
        ("appwrapper", "gold", False),
        ("indexed", None, True),
        ("appwrapper", None, True),
    ],
)
def test_submit_several_nodes_warns_of_no_gang_scheduler_unless_queue_admits_all(
    api: FakeCluster, send: Submitter, backend: str, queue: str | None, warns: bool
) -> None:
    put_queue(api)
    api.kinds |= {kinds.JOB_SET, kinds.APP_WRAPPER}
    noted = send(TWO, backend=backend, queue=queue).noted
    assert any("no gang scheduler" in note for note in noted) is warns


def test_submit_later_stage_in_queue_does_not_warn_of_no_gang_scheduler(
    api: FakeCluster, send: Submitter
) -> None:
    put_queue(api)
    script = f"{PIPELINE}num_nodes: 2\n"
    noted = send(script, backend="indexed", queue="gold").noted
    assert not any("no gang scheduler" in note for note in noted)


def test_doctor_names_what_no_quota_limits(api: FakeCluster) -> None:
    assert doctor.check_cluster(api.session()).unlimited == ()  # nobody limits anything here
    put_quota(api, {"requests.cpu": "1", "requests.memory": "1Gi", "pods": "3", "services": "9"})
    unlimited = ("GPUs", "storage", "PVCs", "ConfigMaps", "Services with externalIPs")
    assert doctor.check_cluster(api.session()).unlimited == unlimited
    assert api.changes == []
