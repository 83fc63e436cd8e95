"""PodGroups of Kubernetes itself, and what keeps the nodes of a task in one topology domain."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.render import manifests
from kubectl_sky.words.facts import ClusterNode, Facts, Gangs, Queues
from kubectl_sky.workloads.decide import Decision, decide
from tests.actions.drafts import FACTS, drafted

Json = dict[str, Any]

ALPHA = "scheduling.k8s.io/v1alpha2"
BETA = "scheduling.k8s.io/v1beta1"
NATIVE = replace(FACTS, gangs=Gangs(BETA, topology=True), context="real")
WITHOUT = replace(FACTS, gangs=Gangs(), context="real")
TEXT = "name: train\nnum_nodes: 4\nrun: x\nconfig: {kubectl_sky: {OWN}, kubernetes: {POD}}\n"


def decided(
    tmp_path: Path, facts: Facts, own: str = "", pod: str = "", **flags: Any
) -> tuple[Decision, list[Json]]:
    """Return the decision on a task of four nodes, and its objects."""
    text = TEXT.replace("OWN", own).replace("POD", pod)
    task_file = drafted(text, tmp_path, **flags)
    decision = decide(task_file.entries, facts, task_file.settings)
    return decision, [item.object for item in manifests.render(decision.plans[0]).own]


def group_of(objects: list[Json]) -> Json | None:
    return next((item for item in objects if item["kind"] == "PodGroup"), None)


def pod_specs(objects: list[Json]) -> list[Json]:
    return [item["spec"]["template"]["spec"] for item in objects if item["kind"] == "Job"]


@pytest.mark.parametrize("version", [ALPHA, BETA])
@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_gang_where_served_is_default_of_several_nodes(
    tmp_path: Path, backend: str, version: str
) -> None:
    facts = replace(NATIVE, gangs=Gangs(version))
    decision, objects = decided(tmp_path, facts, backend=backend)
    group = group_of(objects)
    name = f"train-{decision.plans[0].id}"
    assert group and group["apiVersion"] == version
    assert group["metadata"]["name"] == name
    assert group["metadata"]["labels"]["task-id"] == decision.plans[0].id
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}}
    specs = pod_specs(objects)
    assert [spec["schedulingGroup"] for spec in specs] == [{"podGroupName": name}] * len(specs)
    assert objects.index(group) < len(objects) - len(specs), "sent before the Jobs"


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        (WITHOUT, {}),
        (FACTS, {}),
        (NATIVE, {"num_nodes": "1"}),
        (NATIVE, {"backend": "jobset"}),
        (NATIVE, {"backend": "volcano"}),
        (NATIVE, {"gang": "off"}),
        (replace(NATIVE, gangs=Gangs(ALPHA)), {"gang": "off"}),
        (NATIVE, {"gang": "off", "backend": "indexed"}),
    ],
)
def test_gang_is_not_made_without_need(tmp_path: Path, facts: Facts, flags: Json) -> None:
    decision, objects = decided(tmp_path, facts, **flags)
    assert decision.plans[0].gang is None
    assert not any("schedulingGroup" in spec for spec in pod_specs(objects))


@pytest.mark.parametrize("own", ["gang: off", "gang: 'off'"])
def test_gang_off_lets_pods_of_indexed_job_start_alone_in_first_version(
    tmp_path: Path, own: str
) -> None:
    facts = replace(NATIVE, gangs=Gangs(ALPHA))
    _, objects = decided(tmp_path, facts, own, backend="indexed")
    group = group_of(objects)
    assert group and group["spec"] == {"schedulingPolicy": {"basic": {}}}


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_tasks_of_an_array_start_alone(tmp_path: Path, mode: str) -> None:
    flags = {"num_nodes": "1", "array": "0-4", "gang": mode}
    for version, spec in ((ALPHA, {"schedulingPolicy": {"basic": {}}}), (BETA, None)):
        facts = replace(NATIVE, gangs=Gangs(version))
        group = group_of(decided(tmp_path, facts, **flags)[1])
        assert (group and group["spec"]) == spec


def test_gang_of_user_in_pod_config_is_kept(tmp_path: Path) -> None:
    pod = "pod_config: {spec: {schedulingGroup: {podGroupName: mine}}}"
    _, objects = decided(tmp_path, NATIVE, "gang: required", pod=pod)
    assert not group_of(objects)
    assert {spec["schedulingGroup"]["podGroupName"] for spec in pod_specs(objects)} == {"mine"}


def test_gang_has_priority_class_of_pods(tmp_path: Path) -> None:
    group = group_of(decided(tmp_path, NATIVE, priority="high")[1])
    assert group and group["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("facts", "backend"), [(WITHOUT, "jobs"), (WITHOUT, "indexed"), (NATIVE, "jobset")]
)
def test_gang_required_without_scheduler_is_refused_at_its_field(
    tmp_path: Path, facts: Facts, backend: str
) -> None:
    with pytest.raises(InvalidFiles) as caught:
        decided(tmp_path, facts, "gang: required", backend=backend)
    message = f'nothing starts all nodes of backend "{backend}" together; use --backend indexed'
    assert f"tasks.yaml:4:30: config.kubectl_sky.gang: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        (NATIVE, {}),
        (FACTS, {}),
        (WITHOUT, {"backend": "volcano"}),
        (WITHOUT, {"backend": "indexed", "queue": "gold"}),
        (NATIVE, {"num_nodes": "1"}),
    ],
)
def test_gang_required_is_allowed_with_gang_or_without_cluster(
    tmp_path: Path, facts: Facts, flags: Json
) -> None:
    decision, *_ = decided(tmp_path, replace(facts, queues=Queues()), "gang: required", **flags)
    assert decision.plans


def test_gang_setting_is_default_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("gang: off\n")
    assert decided(tmp_path, NATIVE)[0].plans[0].gang is None
    assert decided(tmp_path, NATIVE, gang="auto")[0].plans[0].gang


def rack_nodes(*keys: str) -> tuple[ClusterNode, ...]:
    return tuple(ClusterNode({key: "r1"}, {}) for key in keys)


TAS = Queues(topologies={"gold": ("cloud.provider.com/topology-rack",)})
ANNOTATION = "kueue.x-k8s.io/podset-required-topology"


@pytest.mark.parametrize(
    ("facts", "topology", "key"),
    [
        (NATIVE, "rack", "rack"),
        (replace(NATIVE, cluster_nodes=rack_nodes("rack", "a/rack")), "rack", "rack"),
        (replace(NATIVE, cluster_nodes=rack_nodes("x/y", "a/b-rack")), "rack", "a/b-rack"),
        (
            replace(NATIVE, cluster_nodes=rack_nodes("a/zone", "topology.kubernetes.io/zone")),
            "zone",
            "topology.kubernetes.io/zone",
        ),
        (replace(NATIVE, cluster_nodes=rack_nodes("a/rack")), "other.io/rack", "other.io/rack"),
    ],
)
def test_topology_is_constraint_of_pod_group(
    tmp_path: Path, facts: Facts, topology: str, key: str
) -> None:
    decision, objects = decided(tmp_path, facts, f"topology: {topology}")
    group = group_of(objects)
    assert group and group["spec"]["schedulingConstraints"] == {"topology": [{"key": key}]}
    assert f"topology: the scheduler starts all nodes in one {key}" in decision.notes
    assert all("affinity" not in spec for spec in pod_specs(objects))


def test_topology_without_gang_still_keeps_nodes_together(tmp_path: Path) -> None:
    group = group_of(decided(tmp_path, NATIVE, "topology: rack, gang: off")[1])
    assert group and group["spec"] == {
        "schedulingPolicy": {"basic": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }


@pytest.mark.parametrize("facts", [WITHOUT, replace(NATIVE, gangs=Gangs(ALPHA))])
def test_topology_without_support_prefers_domain_and_says_so(tmp_path: Path, facts: Facts) -> None:
    decision, objects = decided(tmp_path, facts, "topology: rack")
    assert any("topology: best effort: pod affinity prefers one rack" in n for n in decision.notes)
    for spec in pod_specs(objects):
        (term,) = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["podAffinityTerm"]["topologyKey"] == "rack"
        selector = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
        assert selector["task-id"] == decision.plans[0].id


def test_topology_of_queue_is_annotation_of_kueue_for_one_object(tmp_path: Path) -> None:
    facts = replace(NATIVE, queues=TAS)
    decision, objects = decided(tmp_path, facts, "topology: rack", backend="indexed", queue="gold")
    (job,) = (item for item in objects if item["kind"] == "Job")
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert annotations[ANNOTATION] == "cloud.provider.com/topology-rack"
    assert any("Kueue starts all nodes in one cloud" in note for note in decision.notes)
    group = group_of(objects)
    assert group and "schedulingConstraints" not in group["spec"]
    decision, _ = decided(tmp_path, facts, "topology: rack", queue="gold")
    assert ANNOTATION not in decision.plans[0].pod_annotations, "Kueue places each Job alone"


def test_topology_without_labelled_cluster_node_warns(tmp_path: Path) -> None:
    facts = replace(NATIVE, cluster_nodes=rack_nodes("zone"))
    decision, _ = decided(tmp_path, facts, "topology: rack")
    assert 'warning: topology: no cluster node has the label "rack"' in decision.notes
    decision, _ = decided(tmp_path, NATIVE, "topology: rack", num_nodes="1")
    assert "topology: ignored: the task has one node" in decision.notes
