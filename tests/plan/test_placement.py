"""Placement of a task, and the choice among its candidates."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.accelerators import GFD, GKE, SKYPILOT, RequiredLabel, family_of
from kubectl_sky.plan.placement import (
    Placement,
    Preference,
    choose_placement,
    without_other_contexts,
)
from kubectl_sky.render import manifests
from kubectl_sky.spec.accelerator import rtx_products
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.words.facts import ClusterNode
from tests.builders import FACTS, make_machine, make_plan


def gpus(text: str) -> Resources:
    name, _, count = text.partition(":")
    return Resources(accelerator=Accelerator(name or None, int(count or 1)))


def placed(
    *candidates: Resources, ordered: bool = False, on: tuple[ClusterNode, ...] = ()
) -> Placement:
    task = Task(resources=candidates[0], choices=candidates[1:], ordered=ordered, run="true")
    return choose_placement(task, replace(FACTS, cluster_nodes=on))


def values(placement: Placement) -> dict[str, tuple[str, ...]]:
    return {rule.key: rule.values for term in placement.terms for rule in term}


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu"])
def test_placement_gpu_without_name_matches_any_gpu_of_cluster(resource: str) -> None:
    placement = placed(gpus(":2"), on=(make_machine(resource=resource),))
    assert (placement.terms, placement.notes) == ((), ())
    assert placement.device and placement.device.resource == resource


def test_placement_names_gpus_of_equivalent_candidates() -> None:
    assert placed(Resources()).accelerators == ""
    assert placed(gpus(":2")).accelerators == "GPU:2"
    assert placed(gpus("A100:2"), gpus("L4:2"), gpus("H100:1")).accelerators == "A100:2 or L4:2"
    only = placed(gpus("A100:2"), gpus("L4:2"), on=(make_machine(product="NVIDIA-L4"),))
    assert only.accelerators == "L4:2"


def test_placement_without_cluster_lists_every_label_key() -> None:
    placement = placed(gpus("L4"))
    assert values(placement) == {
        GFD: ("NVIDIA-L4", "L4", "NVIDIA-L4-SHARED", "L4-SHARED"),
        "cloud.google.com/gke-accelerator": ("nvidia-l4",),
        "gpu.nvidia.com/class": ("L4",),
        SKYPILOT: ("l4",),
        "karpenter.k8s.aws/instance-gpu-name": ("l4",),
        "nebius.com/gpu-name": ("L4",),
    }
    assert all(len(term) == 1 for term in placement.terms)
    assert placement.notes == ()


def make_dra_machine(name: str, model: str) -> ClusterNode:
    """A cluster node without labels of GPUs, whose devices a DRA driver names."""
    labels = {"kubernetes.io/hostname": name}
    return ClusterNode(labels, {"nvidia.com/gpu": "4", "cpu": "16", "memory": "64Gi"}, {model: 4})


DRA = (make_dra_machine("n1", "H100"), make_dra_machine("n2", "A100"))


def test_placement_device_of_dra_driver_without_labels_matches_hosts() -> None:
    placement = placed(gpus("H100:2"), on=DRA)
    assert values(placement) == {"kubernetes.io/hostname": ("n1",)}
    assert (placement.notes, placement.device and placement.device.count) == ((), 2)


def test_placement_model_that_no_dra_driver_has_names_those_there_are() -> None:
    (note,) = placed(gpus("L4:1"), on=DRA).notes
    assert note == "no cluster node has an L4; there are A100 (4), H100 (4); the task waits for one"


def test_placement_labels_of_gpus_win_over_devices() -> None:
    labelled = make_machine(product="NVIDIA-L4")
    placement = placed(gpus("L4:1"), on=(replace(labelled, devices={"L4": 8}),))
    assert values(placement) == {GFD: ("NVIDIA-L4",)}


# The name that SkyPilot 0.14.1 gives each label value of the GPUs in its catalog.
SKYPILOT_LABELS = [
    line.split("\t")
    for line in Path(__file__).with_name("skypilot_labels.tsv").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(("name", "key", "value"), SKYPILOT_LABELS)
def test_placement_by_name_of_skypilot_matches_its_label(name: str, key: str, value: str) -> None:
    cluster_node = ClusterNode({key: value}, {family_of(name).resource: "8", "cpu": "8"})
    placement = placed(gpus(name), on=(cluster_node,))
    assert (values(placement), placement.notes) == ({key: (value,)}, ())
    without_cluster = placed(gpus(name))
    assert value in values(without_cluster)[key]
    assert without_cluster.notes == ()


GEFORCE = [row for row in SKYPILOT_LABELS if "-GeForce-" in row[2] and "-SHARED" not in row[2]]


@pytest.mark.parametrize(("name", "key", "value"), GEFORCE)
def test_placement_variants_of_a_card_do_not_fit_each_other(
    name: str, key: str, value: str
) -> None:
    on = tuple(make_machine(product=label) for _, _, label in GEFORCE)
    assert values(placed(gpus(name), on=on)) == {key: (value,)}
    rendered = set(values(placed(gpus(name)))[key])
    assert rendered & {label for _, _, label in GEFORCE} == {value}
    others = tuple(cluster_node for cluster_node in on if cluster_node.labels[key] != value)
    (note,) = placed(gpus(name), on=others).notes
    assert f"{name}; there are " in note


def test_placement_with_only_a_near_card_names_both() -> None:
    for name, near in (("RTX3090-TI", "RTX3090"), ("RTX4090", "RTX4090-LAPTOP")):
        product = next(iter(rtx_products(near)))
        (note,) = placed(gpus(name), on=(make_machine(product=product),)).notes
        assert (
            note == f"no cluster node has an {name}; there are {near} (8); the task waits for one"
        )


def test_placement_gpu_with_and_without_time_slicing_match_both() -> None:
    products = "NVIDIA-GeForce-RTX-4060", "NVIDIA-GeForce-RTX-4060-SHARED"
    on = tuple(make_machine(product=product) for product in products)
    for name in ("RTX4060", "RTX4060-SHARED"):
        assert values(placed(gpus(name), on=on)) == {GFD: products}
        assert set(products) <= set(values(placed(gpus(name)))[GFD])


def test_placement_unknown_gpu_is_noted() -> None:
    (note,) = placed(gpus("H10")).notes
    assert note == "H10:1 is not a known GPU; only cluster nodes with this label match"


def test_placement_with_cluster_lists_existing_labels() -> None:
    cluster_nodes = (
        make_machine(product="NVIDIA-A100-PCIE-40GB"),
        make_machine(product="NVIDIA-A100-SXM4-80GB"),
        make_machine(product="Tesla-T4"),
    )
    placement = placed(gpus("A100:8"), on=cluster_nodes)
    assert values(placement) == {GFD: ("NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB")}
    assert values(placed(gpus("A100-80GB"), on=cluster_nodes)) == {GFD: ("NVIDIA-A100-SXM4-80GB",)}


def test_placement_unavailable_gpu_is_noted() -> None:
    placement = placed(gpus("H100"), on=(make_machine(product="Tesla-T4"), make_machine(0)))
    assert placement.notes == (
        "no cluster node has an H100; there are T4 (8); the task waits for one",
    )
    assert placement.terms == placed(gpus("H100")).terms


def test_placement_more_gpus_than_any_cluster_node_has_is_noted() -> None:
    cluster_nodes = (make_machine(product="Tesla-T4"), make_machine(16, product="NVIDIA-L4"))
    (note,) = placed(gpus("T4:16"), on=cluster_nodes).notes
    assert note.startswith("a node requests 16 nvidia.com/gpu, and the largest cluster node has 8;")
    assert placed(gpus("L4:16"), on=cluster_nodes).notes == ()
    assert placed(gpus("T4:8"), on=cluster_nodes).notes == ()


def test_placement_nodes_without_gpu_labels_match_any_gpu() -> None:
    placement = placed(gpus("H100"), on=(make_machine(),))
    assert placement.terms == ()
    assert placement.notes == (
        "cluster nodes have no GPU labels; scheduling on any GPU for H100:1",
    )


def test_placement_candidate_fits_on_node_without_gpu_labels() -> None:
    placement = placed(gpus("A100:64"), gpus("A100:8"), on=(make_machine(8),))
    assert placement.resources == gpus("A100:8")
    assert placement.terms == ()


def test_placement_candidates_of_same_count_are_merged() -> None:
    placement = placed(gpus("L4:2"), gpus("T4:2"))
    assert values(placement)[GKE] == ("nvidia-l4", "nvidia-tesla-t4")
    assert (placement.notes, placement.preferred) == ((), ())


def test_placement_unavailable_candidates_are_dropped() -> None:
    placement = placed(gpus("T4"), gpus("L4"), ordered=True, on=(make_machine(product="L4"),))
    assert values(placement) == {GFD: ("L4",)}
    assert (placement.notes, placement.preferred) == ((), ())


def test_placement_ordered_candidates_become_preference() -> None:
    on = tuple(make_machine(sky=name) for name in ("l4", "t4", "v100"))
    placement = placed(gpus("L4"), gpus("T4"), gpus("V100"), ordered=True, on=on)
    assert values(placement) == {SKYPILOT: ("l4", "t4", "v100")}
    assert placement.preferred == (
        Preference(100, RequiredLabel(SKYPILOT, ("l4",))),
        Preference(90, RequiredLabel(SKYPILOT, ("t4",))),
    )


def test_placement_chooses_first_candidate_that_fits() -> None:
    cluster_node = make_machine(4, product="Tesla-T4")
    placement = placed(gpus("H100:8"), gpus("T4:8"), gpus("T4:4"), on=(cluster_node,))
    assert placement.resources == gpus("T4:4")
    assert placement.notes == (
        "of 3 candidates T4:4 is chosen: the first that fits on a cluster node",
    )
    sizes = placed(Resources("64"), Resources("8", "1Ti"), Resources("8"), on=(cluster_node,))
    assert sizes.resources == Resources("8")


def test_placement_without_fit_chooses_first_candidate() -> None:
    candidates = gpus("H100:8"), gpus("T4:4")
    for on, why in (
        ((), "the cluster nodes are unknown, so the first is used"),
        ((make_machine(0),), "none fits on a cluster node, so the first is used"),
    ):
        placement = placed(*candidates, on=on)
        assert placement.resources == gpus("H100:8")
        assert placement.notes[0] == f"of 2 candidates H100:8 is chosen: {why}"


@pytest.mark.parametrize(
    ("name", "resource", "count"),
    [("MI300X:8", "amd.com/gpu", 8), ("Trainium:2", "aws.amazon.com/neuron", 2)],
)
def test_placement_other_vendors_use_their_resource(name: str, resource: str, count: int) -> None:
    device = placed(gpus(name)).device
    assert device and (device.resource, device.count) == (resource, count)


def test_placement_tpu_requires_type_and_topology_labels() -> None:
    plan = make_plan(Task(resources=gpus("tpu-v6e-8"), run="true"))
    assert plan.limits == {"google.com/tpu": "8"}
    assert [tolerated.key for tolerated in plan.tolerations] == ["google.com/tpu"]
    (term,) = plan.terms
    assert [rule.values for rule in term] == [("tpu-v6e-slice",), ("2x4",)]
    on = (make_machine(8, "google.com/tpu", tpu="tpu-v6e-slice", topology="2x4"),)
    assert placed(gpus("tpu-v6e-8"), on=on).notes == ()
    other = (make_machine(8, "google.com/tpu", tpu="tpu-v6e-slice", topology="4x4"),)
    assert (
        placed(gpus("tpu-v6e-8"), on=other)
        .notes[0]
        .startswith("no cluster node has a tpu-v6e-8; there are tpu-v6e-slice (8)")
    )


SPOT = RequiredLabel("cloud.google.com/gke-spot", ("true",))


def test_placement_spot_nodes_are_required_if_known() -> None:
    on = (make_machine(product="Tesla-T4", spot="true"), make_machine(product="Tesla-T4"))
    asked = replace(gpus("T4"), spot=True)
    placement = placed(asked, on=on)
    assert placement.terms == ((RequiredLabel(GFD, ("Tesla-T4",)), SPOT),)
    assert (placement.preferred, placement.notes) == ((), ())
    assert placed(Resources(spot=True), on=on).terms == ((SPOT,),)


def test_placement_spot_without_known_nodes_is_preferred() -> None:
    for on in ((), (make_machine(),)):
        placement = placed(Resources(spot=True), on=on)
        assert placement.terms == ()
        assert Preference(100, SPOT) in placement.preferred
        assert placement.notes == (
            "use_spot: no node is known to be a spot node; spot nodes are preferred,"
            " and any will do",
        )


def test_placement_spot_candidates_without_spot_nodes_use_fitting_candidate() -> None:
    too_large = replace(gpus("H100"), spot=True)
    placement = placed(too_large, Resources(cpus="1", spot=True), on=(make_machine(0),))
    assert placement.resources.cpus == "1"
    assert "no node of this cluster could hold any" not in " ".join(placement.notes)


def test_placement_on_demand_is_chosen_without_spot_nodes() -> None:
    placement = placed(Resources(spot=True), Resources(), on=(make_machine(),))
    assert placement.resources == Resources()
    assert "the one without sizes is chosen" in placement.notes[0]


def test_plan_tolerates_taints_of_spot_nodes() -> None:
    plan = make_plan(Task(resources=replace(gpus("L4"), spot=True), run="true"))
    borne = {one.key: (one.operator, one.value) for one in plan.tolerations}
    assert borne["nvidia.com/gpu"] == ("Exists", None)
    assert borne["cloud.google.com/gke-spot"] == ("Equal", "true")
    assert make_plan(Task(run="true")).tolerations == ()


def test_candidates_of_other_contexts_are_dropped() -> None:
    here = Resources("1", context="here")
    there = Resources("2", context="there")
    task = Task(resources=there, choices=(here, Resources("1"), Resources("3")), run="true")
    kept = without_other_contexts(task, "here")
    assert kept.candidates == (Resources("1"), Resources("3")), "duplicates are dropped"
    only = replace(task, choices=(here,))
    assert without_other_contexts(only, "elsewhere").candidates == (Resources("2"), Resources("1"))


def test_exclude_nodes_is_in_each_term_of_the_node_affinity() -> None:
    alone = Task(run="true", exclude_nodes=("gpu-7", "gpu-8"))
    gpus = replace(alone, resources=Resources(accelerator=Accelerator("A100", 1)))
    for task in (alone, gpus):
        (job,) = manifests.render(make_plan(task)).workload
        affinity = job.object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert {len(term.get("matchExpressions", ())) for term in terms} == {int(task is gpus)}
        for term in terms:
            assert [rule["values"] for rule in term["matchFields"]] == [["gpu-7"], ["gpu-8"]]
            assert {(rule["key"], rule["operator"]) for rule in term["matchFields"]} == {
                ("metadata.name", "NotIn")
            }
