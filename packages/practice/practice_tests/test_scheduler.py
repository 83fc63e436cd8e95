"""The scheduler, with the messages of a real one."""

from typing import Any

import pytest

from practice_tests.world import NS, Json, World, settle

pytestmark = pytest.mark.anyio


def pod(requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"containers": [{"name": "main", "image": "x", "resources": resources}], **spec}


def scheduled_condition(stored: Json) -> Json:
    entries = stored["status"].get("conditions", [])
    return next((obj for obj in entries if obj["type"] == "PodScheduled"), {})


def refused(w: World, name: str) -> str:
    condition = scheduled_condition(w.get("pods", name))
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["observedGeneration"] == 1
    assert "nodeName" not in w.get("pods", name)["spec"]
    assert condition["message"] in w.events("FailedScheduling")
    return str(condition["message"])


async def test_scheduler_binds_pod_to_node(w: World) -> None:
    w.node()
    w.create("pods", "a", pod())
    await settle()
    stored = w.get("pods", "a")
    assert stored["spec"]["nodeName"] == "one"
    assert scheduled_condition(stored)["status"] == "True"
    assert stored["metadata"]["generation"] == 1
    assert w.events("Scheduled") == [f"Successfully assigned {NS}/a to one"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (pod({"cpu": "100"}), "1 Insufficient cpu."),
        (pod(limits={"nvidia.com/gpu": "1"}), "1 Insufficient nvidia.com/gpu."),
        (
            pod(
                {"cpu": "100", "memory": "10Ti"},
                {"nvidia.com/gpu": "100", "x.y/z": "1"},
            ),
            "1 Insufficient cpu, 1 Insufficient memory, 1 Insufficient nvidia.com/gpu,"
            " 1 Insufficient x.y/z.",
        ),
        (
            pod({"cpu": "100"}, nodeSelector={"a": "b"}),
            "1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
async def test_scheduler_impossible_pod_is_unschedulable(w: World, spec: Json, why: str) -> None:
    w.node()
    w.create("pods", "a", spec)
    await settle()
    assert refused(w, "a") == f"0/1 nodes are available: {why}"


async def test_scheduler_pod_limit_is_unschedulable_until_pod_finishes(w: World) -> None:
    w.node(pods="1")
    w.create("pods", "a", pod())
    w.create("pods", "b", pod())
    await settle()
    why = "0/1 nodes are available: 1 Too many pods."
    assert refused(w, "b") == why
    w.api.delete("pods", (NS, "a"))
    assert w.get("pods", "a")["metadata"]["deletionTimestamp"], "a terminating pod still counts"
    await settle()
    assert refused(w, "b") == why
    w.end(w.get("pods", "a"))
    await settle()
    assert w.get("pods", "b")["spec"]["nodeName"] == "one"


async def test_scheduler_spreads_pods_over_nodes(w: World) -> None:
    w.node()
    w.node("two")
    for name in "abcd":
        w.create("pods", name, pod({"cpu": "500m"}))
    await settle()
    nodes = sorted(obj["spec"]["nodeName"] for obj in w.pods())
    assert nodes == ["one", "one", "two", "two"]


async def test_scheduler_taints_require_tolerations(w: World) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    w.node()
    w.api.change("nodes", ("", "one"), lambda node: node["spec"].update(taints=[taint]))
    w.create("pods", "a", pod())
    same = {"key": "gpu", "operator": "Equal", "value": "yes"}
    w.create("pods", "b", pod(tolerations=[same]))
    w.create("pods", "c", pod(tolerations=[{"operator": "Exists"}]))
    w.create("pods", "d", pod(tolerations=[{**same, "value": "no"}]))
    await settle()
    why = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    assert refused(w, "a") == refused(w, "d") == why
    assert w.get("pods", "b")["spec"]["nodeName"] == "one"
    assert w.get("pods", "c")["spec"]["nodeName"] == "one"


async def test_scheduler_node_affinity_is_required(w: World) -> None:
    def wants(*expressions: Json) -> Json:
        terms = [{"matchExpressions": list(expressions)}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return pod(affinity={"nodeAffinity": required})

    w.node()
    w.node("two")
    label = "kubernetes.io/hostname"
    w.create("pods", "a", wants({"key": label, "operator": "In", "values": ["two"]}))
    w.create("pods", "b", wants({"key": label, "operator": "NotIn", "values": ["two"]}))
    w.create("pods", "c", wants({"key": "zone", "operator": "Exists"}))
    w.create("pods", "d", wants({"key": "zone", "operator": "DoesNotExist"}))
    w.create("pods", "e", wants({"key": "zone", "operator": "Gt", "values": ["1"]}))
    await settle()
    assert w.get("pods", "a")["spec"]["nodeName"] == "two"
    assert w.get("pods", "b")["spec"]["nodeName"] == "one"
    why = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert refused(w, "c") == refused(w, "e") == why
    assert w.get("pods", "d")["spec"]["nodeName"]


async def test_scheduler_pvcs_must_exist_and_be_bound(w: World) -> None:
    def uses(*names: str) -> Json:
        claims = [{"name": obj, "persistentVolumeClaim": {"claimName": obj}} for obj in names]
        return pod(volumes=claims)

    w.node()
    wanted: Json = {"accessModes": ["ReadWriteOnce"]}
    wanted["resources"] = {"requests": {"storage": "1Gi"}}
    w.create("persistentvolumeclaims", "strange", {**wanted, "storageClassName": "nosuch"})
    w.create("pods", "a", uses("later"))
    w.create("pods", "b", uses("strange"))
    await settle()
    none = "0/1 nodes are available:"
    assert refused(w, "a") == f'{none} persistentvolumeclaim "later" not found.'
    unbound = f"{none} pod has unbound immediate PersistentVolumeClaims."
    assert refused(w, "b") == unbound
    w.create("persistentvolumeclaims", "later", wanted)
    await settle()
    assert w.get("pods", "a")["spec"]["nodeName"] == "one"


async def test_scheduler_skips_gated_pods_and_other_schedulers(w: World) -> None:
    w.node()
    w.create("pods", "gated", pod(schedulingGates=[{"name": "a/b"}]))
    w.create("pods", "other", pod(schedulerName="volcano"))
    await settle()
    condition = scheduled_condition(w.get("pods", "gated"))
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    why = "Scheduling is blocked due to non-empty scheduling gates"
    assert condition["message"] == why
    assert not scheduled_condition(w.get("pods", "other")) and not w.events("FailedScheduling")
    w.api.change("pods", (NS, "gated"), lambda obj: obj["spec"].update(schedulingGates=[]))
    await settle()
    assert w.get("pods", "gated")["spec"]["nodeName"] == "one"


async def test_scheduler_pod_affinity_places_pods_together(w: World) -> None:
    def near(role: str, cpu: str = "1") -> Json:
        wanted = {"topologyKey": "kubernetes.io/hostname"}
        term = wanted | {"labelSelector": {"matchLabels": {"role": role}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return pod({"cpu": cpu}, affinity={"podAffinity": required})

    w.node("one")
    w.node("two")
    for name in ("a", "b", "c"):
        w.create("pods", name, near("x"), metadata={"labels": {"role": "x"}})
    w.create("pods", "alien", near("x"))
    await settle()
    bound = [obj["spec"].get("nodeName") for obj in w.pods()]
    assert bound[0] == bound[2] and bound[0] is not None, "a and b; two fit on a node"
    reasons = "1 Insufficient cpu, 1 node(s) didn't match pod affinity rules."
    assert reasons in refused(w, "c")
    w.create("pods", "stranger", near("y", "0"))
    await settle()
    assert "2 node(s) didn't match pod affinity rules." in refused(w, "stranger")


async def test_scheduler_pod_anti_affinity_keeps_pods_apart_in_both_directions(w: World) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {},
        "labelSelector": {"matchLabels": {"role": "x"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"labels": {"role": "x"}}
    w.node("one")
    w.create("pods", "alone", pod(affinity=apart), metadata=labels)
    w.create("pods", "stranger", pod())
    await settle()
    assert [obj["spec"].get("nodeName") for obj in w.pods()] == ["one", "one"]
    w.create("pods", "another", pod(affinity=apart), metadata=labels)
    w.create("pods", "plain", pod(), metadata=labels)
    await settle()
    assert "1 node(s) didn't match pod anti-affinity rules." in refused(w, "another")
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules." in refused(w, "plain")


async def test_scheduler_binds_200_pods_as_capacity_frees(w: World) -> None:
    w.node(pods="10")
    for at in range(200):
        w.create("pods", f"p{at}", pod())
    await settle(300)
    for _ in range(20):
        for obj in [obj for obj in w.pods() if obj["spec"].get("nodeName")]:
            if obj["status"]["phase"] == "Pending":
                w.end(obj)
        await settle(10)
    assert all(obj["spec"].get("nodeName") for obj in w.pods())
