"""Doctor rules on recorded snapshots of real clusters, and on constructed messages."""

import json
import re
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.observe import status
from kubectl_sky.observe.findings import Rule, Stage, diagnose
from kubectl_sky.observe.room import find_room
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import ALL_PODS, SignalSource, TaskSnapshot
from kubectl_sky.observe.verdict import StageResult, judge
from kubectl_sky.plan.accelerators import NVIDIA, models
from kubectl_sky.plan.devices import Device, with_devices
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import Node
from tests.builders import (
    CREATED,
    ID,
    condition,
    make_job,
    make_pod,
    make_pod_group,
    make_whole,
    terminated,
)
from tests.observe.said import SAID, Said, make_snapshot
from tests.observe.test_cluster_messages import TEXTS
from tests.observe.troubles import REFUSALS, TROUBLES, Refusal, Trouble
from tests.reading import edit_pods, read_list, read_objects, read_spec

Json = dict[str, Any]
SNAPSHOTS = Path(__file__).parent / "snapshots"
_NOISE = ("managedFields", "images", "nodeInfo", "volumesAttached", "volumesInUse")


def dump(seen: TaskSnapshot, namespace: str) -> str:
    """Serialize a snapshot without unused fields and names of the cluster."""
    lists = {
        kind: [_plain(msgspec.to_builtins(item)) for item in items]
        for kind, items in seen.objects.items()
    }
    value = {"objects": {k: v for k, v in lists.items() if v}, "logs": dict(seen.logs)}
    return json.dumps(value, indent=1, sort_keys=True).replace(namespace, "default") + "\n"


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items() if key not in _NOISE}
    return [_plain(value) for value in item] if isinstance(item, list) else item


def load(name: str) -> TaskSnapshot:
    read = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    objects = {kind: tuple(items) for kind, items in read["objects"].items()}
    logs = {int(rank): tuple(lines) for rank, lines in read["logs"].items()}
    return TaskSnapshot("trouble1", "default", read_objects(objects), logs)


@pytest.mark.parametrize("trouble", (*TROUBLES, *REFUSALS), ids=lambda trouble: trouble.name)
def test_doctor_recorded_snapshot_has_expected_finding(trouble: Trouble | Refusal) -> None:
    seen = load(trouble.name)
    (task,) = status.tasks(seen.workloads, seen.of(kinds.POD))
    verdict = judge(task, seen)
    first = verdict.findings[0]
    assert (first.rule, trouble.says in first.what) == (trouble.rule, True), verdict.findings
    assert first.then and "{" not in first.what + first.then
    steps = dict(verdict.stages)
    assert steps[first.stage] is StageResult.PROBLEM
    order = list(Stage)
    before = order[: order.index(first.stage)]
    assert {steps[stage] for stage in before} <= {StageResult.PASSED}, "earlier stages passed"


def test_doctor_rules_are_all_tested() -> None:
    tried = {trouble.rule for trouble in TROUBLES} | {said.rule for said in SAID}
    tried |= {text.rule for text in TEXTS}
    tried |= {"gang-incomplete", "resource-claim-missing"}  # below
    assert {rule.name for rule in RULES} == tried
    assert len({(rule.name, rule.source) for rule in RULES}) == len(RULES) >= 30


@pytest.mark.parametrize("said", SAID, ids=lambda said: said.rule)
def test_doctor_message_has_expected_finding(said: Said) -> None:
    found = {finding.rule: finding for finding in diagnose(make_snapshot(said), RULES)}
    assert said.rule in found, found
    assert said.says in found[said.rule].what
    assert "{" not in found[said.rule].what + found[said.rule].then


def test_doctor_groups_nodes_by_finding() -> None:
    pods = [make_pod(rank, "Failed", terminated(1 + rank // 2)) for rank in range(4)]
    jobs = [make_job(rank, 4, "Failed") for rank in range(4)]
    found = diagnose(
        TaskSnapshot(ID, "default", read_objects({"Job": tuple(jobs), "Pod": tuple(pods)})), RULES
    )
    assert [finding.ranks for finding in found] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (("KeyError: 'lr'", "saved"), "exit code 9: KeyError: 'lr'"),
        (("epoch 1", "saved"), "exit code 9; last lines: epoch 1 / saved"),
        (("\x1b[32mINFO\x1b[0m rank 2",), "exit code 9; last lines: INFO rank 2"),
        (("\x1b[31mKeyError: 'lr'\x1b[0m", "saved"), "exit code 9: KeyError: 'lr'"),
    ],
)
def test_doctor_failure_names_the_last_error_or_the_last_lines(
    log: tuple[str, ...], says: str
) -> None:
    pod = make_pod(phase="Failed", state=terminated(9))
    snapshot = TaskSnapshot(
        ID, "default", read_objects({"Job": (make_job(),), "Pod": (pod,)}), {0: log}
    )
    assert [finding.what for finding in diagnose(snapshot, RULES)] == [says]


def test_doctor_unknown_failure_is_reported_beside_known() -> None:
    waiting = {"waiting": {"reason": "InvalidImageName", "message": 'name "X:": bad'}}
    pods = (make_pod(0, "Failed", terminated(9)), make_pod(1, "Pending", waiting))
    jobs = (make_job(0, 2), make_job(1, 2))
    found = diagnose(TaskSnapshot(ID, "default", read_objects({"Job": jobs, "Pod": pods})), RULES)
    assert {finding.rule for finding in found} == {"image-name", "failed"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_notice_quotes_no_message(rule: Rule) -> None:
    words = defaultdict(lambda: "hunter2", id=ID, namespace="default", end="exit code 1", code="1")
    notice = rule.notice(words)
    assert notice and "hunter2" not in notice


@given(st.text(), st.sampled_from(RULES), st.text())
def test_doctor_random_messages_are_one_line(message: str, rule: Rule, reason: str) -> None:
    said = Said(rule.name, message, "", reason)
    if said.source is not SignalSource.ENDED:
        found = diagnose(make_snapshot(said), RULES)
        assert not any("\n" in finding.what for finding in found)


def make_pending(message: str, spec: Json, *claims: Json) -> TaskSnapshot:
    """Return a task whose pod the scheduler cannot bind, and a cluster node with four GPUs."""
    text = f"0/1 nodes are available: {message}."
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    pod = make_pod(0, "Pending", conditions=[said]) | {"spec": spec}
    node = {"metadata": {"name": "a"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
    devices = [Device(("d", "p", f"gpu-{n}"), "a", "nvidia.com/gpu", "H100") for n in range(4)]
    nodes = with_devices(read_list(Node, [node]), devices)
    items: dict[str, Any] = {"Job": [make_job()], "Pod": [pod], "Node": nodes}
    items["ResourceClaim"] = claims
    return TaskSnapshot(ID, "default", read_objects(items))


def test_doctor_devices_that_cannot_be_allocated_are_counted() -> None:
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "3"}}}]}
    (finding,) = diagnose(make_pending("1 cannot allocate all claims", spec), RULES)
    assert finding.what == (
        "1/1 cluster nodes cannot allocate nvidia.com/gpu: a node requests 3;"
        " cluster nodes have up to 4, which is in use"
    )
    assert finding.then == "wait until other workloads finish, or request less"


def test_doctor_unallocated_claim_has_its_request() -> None:
    spec: Json = {"containers": [], "resourceClaims": [{"resourceClaimName": "shared"}]}
    request = {"exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    claims = [
        {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        for name in ("other", "shared")
    ]
    state = make_pending("1 cannot allocate all claims", spec, *claims)
    (finding,) = diagnose(state, RULES)
    assert finding.what == (
        'ResourceClaim "shared" is not allocated: it requests 2 of DeviceClass "gpu.example.com":'
        " cannot allocate all claims"
    )
    assert finding.then.endswith("see `kubectl get resourceclaims -n default`")


def test_doctor_host_of_devices_is_named_by_its_gpu() -> None:
    hosts = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": hosts}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec: Json = {"containers": [], "affinity": {"nodeAffinity": required}}
    message = "1 node(s) didn't match Pod's node affinity/selector"
    (finding,) = diagnose(make_pending(message, spec), RULES)
    assert finding.what.endswith("do not have the GPU that the task requires: H100")


def test_doctor_missing_device_class_is_named() -> None:
    message = "request gpu: device class gpu.example.com does not exist"
    (finding,) = diagnose(make_pending(message, {"containers": []}), RULES)
    assert finding.what == 'DeviceClass "gpu.example.com" not found'


def make_gang(cpu: str, *cluster_nodes: str) -> TaskSnapshot:
    """Return a Volcano gang of two unscheduled nodes with 1.5 CPUs each."""
    jobs = [make_job(rank, 2) for rank in range(2)]
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are unavailable: 1 Insufficient cpu.",
    }
    pods = [make_pod(rank, "Pending", conditions=[said]) for rank in range(2)]
    for pod in pods:
        pod["spec"] = {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "0"}}}]}
    group = make_pod_group("Inqueue", "2/2 tasks in gang unschedulable: pod group is not ready")
    nodes = make_cluster_nodes(*cluster_nodes)
    objects = {"Job": tuple(jobs), "Pod": tuple(pods), "PodGroup": (group,), "Node": nodes}
    return TaskSnapshot(ID, "default", read_objects(objects))


def make_cluster_nodes(*cpus: str) -> tuple[Json, ...]:
    return tuple(
        {
            "metadata": {"name": f"n{number}", "labels": {"rack": f"r{(number + 1) // 2}"}},
            "status": {"allocatable": {"cpu": size, "pods": "110"}},
        }
        for number, size in enumerate(cpus, 1)
    )


OTHER = {"spec": {"nodeName": "n2", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
SIZE = "2 nodes × 1.5 CPUs start together"  # noqa: RUF001


@pytest.mark.parametrize(
    ("cluster_nodes", "running", "what"),
    [
        (("2", "2"), (OTHER,), "; 1 fits now: n1 has 2 CPUs free, n2 has 1 CPU free"),
        (("1", "1", "1"), (), "; none fits now: n1, n2, n3 have 1 CPU free each"),
        (("2", "1"), None, "; 1 fits if nothing else runs"),
        (
            ("2", "2"),
            (),
            "; all fit now: n1, n2 have 2 CPUs free each: 2/2 tasks in gang unschedulable:"
            " pod group is not ready",
        ),
    ],
)
def test_doctor_gang_that_does_not_fit_says_how_many_do(
    cluster_nodes: tuple[str, ...], running: tuple[Json, ...] | None, what: str
) -> None:
    gang = make_gang("1500m", *cluster_nodes)
    pods = {} if running is None else read_objects({ALL_PODS: running})
    (finding,) = diagnose(replace(gang, objects={**gang.objects, **pods}), RULES)
    assert (finding.rule, finding.ranks) == ("gang-waits", (0, 1))
    assert finding.what == SIZE + what


def test_doctor_gang_without_known_cluster_nodes_quotes_scheduler() -> None:
    (finding,) = diagnose(make_gang("1500m"), RULES)
    assert finding.what == (
        "2 nodes start together: 2/2 tasks in gang unschedulable: pod group is not ready"
    )


def make_native_gang(
    *, members: int = 2, topology: str = "", phase: str = "Pending"
) -> TaskSnapshot:
    """Return a snapshot of a gang of Kubernetes: two nodes with 1.5 CPUs each."""
    constraints = {"topology": [{"key": topology}]} if topology else {}
    said = {"type": "PodGroupScheduled", "status": "False", "message": "pod group is unschedulable"}
    group = {
        "metadata": {"name": "train-x"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": members}},
            "schedulingConstraints": constraints,
        },
        "status": {"conditions": [said]},
    }

    gang = make_gang("1500m", "2", "2", "2")
    first, *others = gang.of(kinds.POD)
    pods = (replace(first, status=replace(first.status, phase=phase)), *others)
    more = read_objects({kinds.GANG.resource: (group,), ALL_PODS: (OTHER,), "PodGroup": ()})
    return replace(gang, objects={**gang.objects, **more, "Pod": pods})


@pytest.mark.parametrize(
    ("gang", "what"),
    [
        (make_native_gang(), f"{SIZE}; all fit now: n1, n3 have 2 CPUs free each, n2 has 1 CPU"),
        (make_native_gang(topology="rack"), f"{SIZE} in one rack; 1 fits in rack r1 now: n1 has 2"),
        (make_native_gang(topology="zone"), f"{SIZE}; no cluster node accepts them"),
    ],
)
def test_doctor_native_gang_says_how_many_fit_in_topology(gang: TaskSnapshot, what: str) -> None:
    (finding,) = diagnose(gang, RULES)
    assert finding.rule == "gang-waits" and finding.what.startswith(what)
    assert finding.ranks == (0, 1), "and no finding of a single pod"


def test_doctor_native_gang_with_scheduling_gates_names_them() -> None:
    gang = make_native_gang()
    message = "Scheduling is blocked due to non-empty scheduling gates"
    gated = {"reason": "SchedulingGated", "message": message}
    gang = edit_pods(gang, lambda pod: pod["status"]["conditions"][0].update(gated))
    assert [finding.rule for finding in diagnose(gang, RULES)] == ["gated"]


def test_doctor_gang_without_requests_counts_pods() -> None:
    gang = make_native_gang()
    gang = edit_pods(gang, lambda pod: pod.update(spec={"containers": [{}]}))
    status = {"allocatable": {"pods": "1"}}
    node = {"metadata": {"name": "n1"}, "status": status}
    more = read_objects({"Node": (node,), ALL_PODS: ()})
    (finding,) = diagnose(replace(gang, objects={**gang.objects, **more}), RULES)
    assert finding.what == "2 nodes start together; 1 fits now: n1 has 1 pods free"


@pytest.mark.parametrize("gang", [make_native_gang(members=3), make_native_gang(phase="Succeeded")])
def test_doctor_native_gang_without_all_pods_says_how_many_exist(gang: TaskSnapshot) -> None:
    finding = next(item for item in diagnose(gang, RULES) if item.rule == "gang-incomplete")
    exist = 2 if gang.pods[0].status.phase == "Pending" else 1
    assert f"nodes start together, and only {exist} of their pods exist" in finding.what


@pytest.mark.parametrize(
    ("rule", "hosts"),
    [
        ({"key": "rack", "operator": "In", "values": ["r2"]}, ["n3"]),
        ({"key": "rack", "operator": "NotIn", "values": ["r2"]}, ["n1", "n2"]),
        ({"key": "rack", "operator": "Exists"}, ["n1", "n2", "n3"]),
        ({"key": "rack", "operator": "DoesNotExist"}, []),
    ],
)
def test_capacity_required_node_affinity_limits_cluster_nodes(rule: Json, hosts: list[str]) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec = {"containers": [], "affinity": {"nodeAffinity": affinity}}
    rooms = find_room(read_spec(spec), read_list(Node, make_cluster_nodes("1", "1", "1")), [])
    assert [room.host for room in rooms] == hosts


@pytest.mark.parametrize(
    ("spec", "phase", "rule"),
    [
        ({"weight": 1}, "Pending", "gang-waits"),
        ({"parent": "root"}, "Pending", "gang-waits"),
        ({"capability": {"cpu": "1"}}, "Pending", "gang-queued"),
        ({"parent": "team"}, "Pending", "gang-queued"),
        (None, "Pending", "gang-queued"),  # the user may not read it
        ({"weight": 1}, "", "gang-unseen"),
    ],
)
def test_doctor_pending_gang_blames_only_queue_with_limit(
    spec: Json | None, phase: str, rule: str
) -> None:
    gang = make_gang("1500m", "2")
    group = make_pod_group(phase, "queue resource quota insufficient: insufficient cpu")
    queues = () if spec is None else ({"metadata": {"name": "gold"}, "spec": spec},)
    objects = {**gang.objects, **read_objects({"PodGroup": (group,), "Queue": queues})}
    findings = diagnose(replace(gang, objects=objects), RULES)
    assert [finding.rule for finding in findings] == [rule]


UNMATCHED = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def test_doctor_selector_without_match_suggests_command() -> None:
    seen = make_snapshot(Said("labels", UNMATCHED, ""))
    seen = edit_pods(seen, lambda pod: pod["spec"].update(nodeSelector={"disk": "x"}))
    nodes: tuple[Json, ...] = (
        {"metadata": {"name": "a", "labels": {"disk": "y"}}},
        {"metadata": {"name": "b"}},
    )
    (finding,) = diagnose(
        replace(seen, objects={**seen.objects, **read_objects({"Node": nodes})}), RULES
    )
    assert (finding.rule, "kubectl get nodes --show-labels" in finding.then) == ("labels", True)
    assert finding.what.endswith(": disk in (x); cluster nodes have disk=y")
    assert finding.evidence == UNMATCHED.removeprefix("0/3 nodes are available: 3 ").rstrip(".")


def test_doctor_task_that_excludes_cluster_nodes_says_which() -> None:
    seen = make_snapshot(Said("labels", UNMATCHED, ""))
    rule = {"key": "metadata.name", "operator": "NotIn", "values": ["n3"]}
    required = {"nodeSelectorTerms": [{"matchFields": [rule]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    seen = edit_pods(seen, lambda pod: pod["spec"].update(affinity=affinity))
    (finding,) = diagnose(seen, RULES)
    assert finding.what.endswith("cluster nodes do not match: the task excludes n3")
    assert finding.then == "submit it without --exclude-node of a good one"


@pytest.mark.parametrize(
    ("name", "product", "what"),
    [
        ("A100", "Tesla-T4", "no cluster node has an A100; there are T4 (8)"),
        (
            "RTX3090-TI",
            "NVIDIA-GeForce-RTX-3090",
            "no cluster node has an RTX3090-TI; there are RTX3090 (8)",
        ),
    ],
)
def test_doctor_gpu_without_cluster_node_names_the_existing_gpus(
    name: str, product: str, what: str
) -> None:
    seen = make_snapshot(Said("labels", UNMATCHED, ""))
    terms = [
        {"matchExpressions": [{"key": rule.key, "operator": "In", "values": rule.values}]}
        for (rule,) in NVIDIA.terms(models(name))
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": required}
    seen = edit_pods(seen, lambda pod: pod["spec"].update(affinity=affinity))
    labels = {"nvidia.com/gpu.product": product}
    sizes = {"nvidia.com/gpu": "4"}
    node: Json = {"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": sizes}}
    nodes: tuple[Json, ...] = node, node, {"metadata": {"name": "b"}}
    (finding,) = diagnose(
        replace(seen, objects={**seen.objects, **read_objects({"Node": nodes})}), RULES
    )
    assert (finding.rule, "kubectl sky gpus" in finding.then) == ("labels", True)
    assert finding.what == what

    unread = {kind: items for kind, items in seen.objects.items() if kind != "Node"}
    (finding,) = diagnose(replace(seen, objects=unread), RULES)
    assert what.startswith(f"{finding.what}; there are ")
    assert finding.then.startswith("ask a cluster admin"), "gpus would be forbidden, too"

    requests = {"requests": {"nvidia.com/gpu": "1"}}
    containers = [{"name": "main", "resources": requests}]
    seen = edit_pods(seen, lambda pod: pod["spec"].update(containers=containers))
    other: Json = {"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "4"}}}
    (finding,) = diagnose(
        replace(seen, objects={**seen.objects, **read_objects({"Node": (other,)})}), RULES
    )
    assert finding.what == f"{what.partition(';')[0]}; there are no GPUs"


@pytest.mark.parametrize(
    ("tolerations", "shown"),
    [
        ([{"key": "gpu", "operator": "Exists"}], "slow:NoExecute"),
        ([{"key": "gpu", "value": "no"}], "gpu=yes:NoSchedule, slow:NoExecute"),
    ],
)
def test_doctor_lists_taints_that_the_task_does_not_tolerate(
    tolerations: list[Json], shown: str
) -> None:
    (said,) = (said for said in SAID if said.rule == "tainted")
    seen = make_snapshot(said)
    seen = edit_pods(seen, lambda pod: pod["spec"].update(tolerations=tolerations))
    taints = [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "slow", "effect": "NoExecute"},
        {"key": "busy", "effect": "PreferNoSchedule"},
    ]
    node = {"metadata": {"name": "a"}, "spec": {"taints": taints}}
    objects = {**seen.objects, **read_objects({"Node": (node,)})}
    found = {item.rule: item for item in diagnose(replace(seen, objects=objects), RULES)}
    assert found["tainted"].what.endswith(f"does not tolerate: {shown}")


def test_doctor_pvc_being_deleted_says_what_it_waits_for() -> None:
    (said,) = (said for said in SAID if said.rule == "claim-ending")
    seen = replace(make_snapshot(said), deletions={"data": "waits for pod/x to be stopped"})
    (finding,) = diagnose(seen, RULES)
    assert finding.what == 'PVC "data" is being deleted: waits for pod/x to be stopped'


@pytest.mark.parametrize(
    ("scheduler", "advice"),
    [("default-scheduler", "ask a cluster admin"), ("volcano", "check that volcano is installed")],
)
def test_doctor_idle_scheduler_has_advice(scheduler: str, advice: str) -> None:
    pod = make_pod(phase="Pending")
    pod["spec"] = {"schedulerName": scheduler}
    (finding,) = diagnose(
        TaskSnapshot(ID, "default", read_objects({"Job": (make_job(),), "Pod": (pod,)})), RULES
    )
    assert finding.rule == "no-scheduler" and finding.then.startswith(advice)


@pytest.mark.parametrize("change", [{"involvedObject": {"name": "other"}}, {"type": "Normal"}])
def test_doctor_event_of_other_pod_or_without_warning_is_ignored(change: Json) -> None:
    (said,) = (said for said in SAID if said.rule == "sandbox-failed")
    seen = make_snapshot(said)
    assert diagnose(seen, RULES)
    events = [{**msgspec.to_builtins(event), **change} for event in seen.of(kinds.EVENT)]
    objects = {**seen.objects, **read_objects({"Event": events})}
    assert diagnose(replace(seen, objects=objects), RULES) == []


@pytest.mark.parametrize(("name", "about"), [("main", ""), ("side", "container side ")])
def test_doctor_missing_program_names_other_container(name: str, about: str) -> None:
    state = terminated(128, "StartError")
    state["terminated"]["message"] = 'exec: "python9": not found'
    pod = make_pod(phase="Failed", containerStatuses=[])
    pod["status"]["containerStatuses"] = [{"name": name, "state": state}]
    (finding,) = diagnose(
        TaskSnapshot(ID, "default", read_objects({"Job": (make_job(),), "Pod": (pod,)})), RULES
    )
    assert finding.what == f'{about}cannot start: "python9" not found in the image'


def make_oversized(
    message: str, *cluster_nodes: Json, gpu: str = "8", cpu: str = "96"
) -> TaskSnapshot:
    """Return an unscheduled node that requests CPU, memory and GPUs."""
    pod = make_pod(0, "Pending", conditions=[UNSCHEDULABLE | {"message": message}])
    sizes = {"cpu": cpu, "memory": "900Gi", "nvidia.com/gpu": gpu}
    pod["spec"] = {"containers": [{"resources": {"requests": sizes}}]}
    nodes = tuple({"metadata": {}, "status": {"allocatable": item}} for item in cluster_nodes)
    return TaskSnapshot(
        ID, "default", read_objects({"Job": (make_job(),), "Pod": (pod,), "Node": nodes})
    )


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
SMALL = {"cpu": "16", "memory": "64Gi"}


@pytest.mark.parametrize(
    "reasons",
    [
        "2 Insufficient cpu, 2 Insufficient memory, 2 Insufficient nvidia.com/gpu.",
        "2 Insufficient memory.",
        "1 Insufficient cpu, 1 node(s) were unschedulable.",
    ],
)
def test_doctor_names_all_resources_that_do_not_fit(reasons: str) -> None:
    """The scheduler may report only the first reason why a cluster node does not fit."""
    found = make_oversized(f"0/2 nodes are available: {reasons}", SMALL, SMALL | {"cpu": "32"})
    finding = next(one for one in diagnose(found, RULES) if one.rule == "insufficient")
    for words in ("96 cpu", "900 GiB memory", "8 nvidia.com/gpu", "32 cpu", "64 GiB", "no nvidia"):
        assert words in finding.what, finding.what
    assert finding.what.startswith("2/2 cluster nodes have insufficient ")
    assert finding.headline in (
        "2/2 cluster nodes have insufficient cpu, memory and nvidia.com/gpu",
        "2/2 cluster nodes have insufficient memory, cpu and nvidia.com/gpu",
    )
    assert "kubectl sky gpus" in finding.then


def test_doctor_resource_that_is_in_use_is_distinguished_from_too_large() -> None:
    message = "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory."
    large = {"cpu": "128", "memory": "64Gi", "nvidia.com/gpu": "8"}
    (finding,) = diagnose(make_oversized(message, large, large), RULES)
    assert finding.what == (
        "2/2 cluster nodes have insufficient cpu and memory: a node requests 96 cpu and 900 GiB"
        " memory; the largest cluster node has 128 cpu and 64 GiB memory; cpu is in use"
    )
    fits = large | {"memory": "2000Gi"}
    (finding,) = diagnose(make_oversized(message, fits, fits), RULES)
    assert finding.what.endswith("up to 128 cpu and 2000 GiB memory, which is in use")
    assert finding.then.startswith("wait until other workloads finish")


def test_doctor_gpu_labels_are_folded() -> None:
    """A GPU is requested by the labels that several clouds and operators use."""
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    seen = make_oversized(message, SMALL)
    terms = [
        {"matchExpressions": [{"key": f"{key}/gpu", "operator": "In", "values": values}]}
        for key, values in (("a", [f"A100-{n}" for n in range(8)]), ("b", ["x", "y"] * 8))
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": required}
    seen = edit_pods(seen, lambda pod: pod["spec"].update(affinity=affinity))
    (task,) = status.tasks(seen.workloads, seen.of(kinds.POD))
    verdict = judge(task, seen)
    first, second = verdict.findings
    assert verdict.summary == "1/1 cluster nodes do not have the GPU that the task requires"
    assert ": a/gpu in (A100-0, A100-1, A100-2) and 21 more; no cluster node has" in first.what
    assert second.rule == "insufficient", "CPU and memory do not fit either"


@pytest.mark.parametrize(
    ("claims", "rule"),
    [
        ({"ResourceClaim": ()}, "resource-claim-missing"),
        ({"ResourceClaim": ({"metadata": {"name": "gpus"}},)}, "no-scheduler"),
        ({}, "no-scheduler"),
    ],
    ids=["missing", "existing", "not read"],
)
def test_doctor_claim_that_the_scheduler_waits_for_is_missing(claims: Json, rule: str) -> None:
    pod = make_pod(phase="Pending")
    named = [{"name": "gpu", "resourceClaimName": "gpus"}]
    pod["spec"] = {"containers": [], "resourceClaims": named}
    objects = {"Job": (make_job(),), "Pod": (pod,)} | claims
    (finding,) = diagnose(TaskSnapshot(ID, "default", read_objects(objects)), RULES)
    assert finding.rule == rule


@pytest.mark.parametrize(
    ("seconds", "host", "rules"),
    [(60, "", ["no-scheduler"]), (1, "", []), (60, "worker-1", [])],
    ids=["unhandled", "new", "bound"],
)
def test_doctor_pod_without_conditions_has_no_scheduler_unless_new_or_bound(
    seconds: int, host: str, rules: list[str]
) -> None:
    pod = make_pod(phase="Pending")
    pod["spec"] = {"nodeName": host, "containers": []}
    objects = {"Job": (make_job(),), "Pod": (pod,)}
    now = datetime.fromisoformat(CREATED) + timedelta(seconds=seconds)
    found = diagnose(TaskSnapshot(ID, "default", read_objects(objects), now=now), RULES)
    assert [finding.rule for finding in found] == rules


def make_event(kind: str, name: str, reason: str, message: str = "") -> Json:
    about = {"kind": kind, "name": name}
    return {"type": "Normal", "involvedObject": about, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("reasons", "rule"),
    [
        (["Killing", "Preempted"], "preempted"),
        (["Evicted", "Killing"], "evicted"),
        (["Killing"], "pod-deleted"),
        (["Started"], "pod-not-found"),
    ],
)
def test_doctor_pod_that_is_gone_is_explained_by_its_events(reasons: list[str], rule: str) -> None:
    events = tuple(make_event("Pod", f"train-{ID}-node-0-abcde", reason) for reason in reasons)
    jobs = (make_job(end="Failed"),)
    (finding,) = diagnose(
        TaskSnapshot(ID, "default", read_objects({"Job": jobs, "Event": events})), RULES
    )
    assert (finding.rule, finding.ranks) == (rule, (0,))


def test_doctor_pods_of_indexed_job_that_are_gone_are_explained_by_their_events() -> None:
    """The Job's events name the pods that it deleted after another one had failed."""
    whole = make_whole(2, conditions=[condition("Failed", "BackoffLimitExceeded")])
    pods = [f"train-{ID}-{index}-abcde" for index in range(2)]
    events = (
        *(make_event("Pod", pod, "Killing", "Stopping container main") for pod in pods),
        make_event("Job", f"train-{ID}", "SuccessfulDelete", f"Deleted pod: {pods[0]}"),
    )
    seen = TaskSnapshot(ID, "default", read_objects({"Job": (whole,), "Event": events}))
    (task,) = status.tasks(seen.workloads, ())
    verdict = judge(task, seen)
    assert [(finding.rule, finding.ranks) for finding in verdict.findings] == [
        ("pod-deleted", (1,))
    ]
    assert verdict.summary == "its pod was deleted"
    assert verdict.stages[-1] == (Stage.RUN, StageResult.PROBLEM)


def test_doctor_headlines_are_short() -> None:
    found = [finding for said in SAID for finding in diagnose(make_snapshot(said), RULES)]
    names = [trouble.name for trouble in TROUBLES] + [refusal.name for refusal in REFUSALS]
    found += [finding for name in names for finding in diagnose(load(name), RULES)]
    for finding in found:
        assert finding.what.startswith(finding.headline.removesuffix("…"))
        assert "; " not in finding.headline and 0 < len(finding.headline) <= 120, finding.headline


def test_steps_in_a_namespace_need_no_right_that_the_role_lacks() -> None:
    described = re.compile(r"kubectl describe (\S+) (?:\S+ )?-n \{namespace\}")
    may_get = {"pod", "{kind}"}  # a Secret or ConfigMap
    steps = {rule.name: set(described.findall(rule.then)) - may_get for rule in RULES}
    assert {name for name, kinds_of_step in steps.items() if kinds_of_step} == set()
