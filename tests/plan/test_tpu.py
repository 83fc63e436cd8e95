"""TPU slices: names, chips, cluster nodes and topologies of GKE."""

from typing import Any

import pytest

from kubectl_sky.plan.tpu import check_nodes, find_slice, spans_nodes, spread
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.pipeline import parse_array
from kubectl_sky.spec.task import Accelerator, Resources, Task

SLICE = "tpu-v5litepod-16"


def make_task(*names: str, **fields: Any) -> Task:
    first, *others = (Resources(accelerator=Accelerator(name, 1)) for name in names)
    return Task(resources=first, choices=tuple(others), run="true", **fields)


@pytest.mark.parametrize(
    ("name", "count", "hosts", "chips", "kind", "topology"),
    [
        ("tpu-v6e-8", 1, 1, 8, "tpu-v6e-slice", "2x4"),
        ("tpu-v5litepod-4", 1, 1, 4, "tpu-v5-lite-podslice", "2x2"),
        ("tpu-v5lite-1", 1, 1, 1, "tpu-v5-lite-device", "1x1"),
        ("tpu-v5-lite-podslice", 4, 1, 4, "tpu-v5-lite-podslice", "2x2"),
        ("tpu-v5p-8", 1, 1, 4, "tpu-v5p-slice", "2x2x1"),
        ("tpu-v4-16", 1, 2, 4, "tpu-v4-podslice", "2x2x2"),
        (SLICE, 1, 4, 4, "tpu-v5-lite-podslice", "4x4"),
        ("tpu-v6e-256", 1, 64, 4, "tpu-v6e-slice", "16x16"),
        ("tpu-v5p-slice", 64, 16, 4, "tpu-v5p-slice", "4x4x4"),
    ],
)
def test_find_slice_gives_cluster_nodes_and_chips_of_each(
    name: str, count: int, hosts: int, chips: int, kind: str, topology: str
) -> None:
    found = find_slice(name, count)
    assert (found.hosts, found.chips) == (hosts, chips)
    assert [rule.values for rule in found.term] == [(kind,), (topology,)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu-v2-8", "GKE has no TPU of this name for pods; the names are tpu-v4-N"),
        ("tpu-v6e-12", "GKE has no slice with 12 chips of this kind; slices have 1, 4, 8, 16"),
        ("tpu-v5lite-16", "no slice with 16 chips"),
    ],
)
def test_find_slice_that_gke_does_not_have_is_an_error(name: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        find_slice(name, 1)
    assert message in str(caught.value)


@pytest.mark.parametrize("nodes", [1, 4])
def test_slice_of_several_cluster_nodes_has_a_node_for_each(nodes: int) -> None:
    task = make_task(SLICE, num_nodes=nodes)
    check_nodes(task)
    spreaded = spread(task)
    assert (spreaded.num_nodes, spreaded.backend) == (4, "jobset")


def test_nodes_with_a_slice_each_span_no_slice() -> None:
    assert spans_nodes(make_task(SLICE))
    assert not spans_nodes(make_task("tpu-v5litepod-8", num_nodes=2))


@pytest.mark.parametrize("task", [make_task("tpu-v6e-8"), make_task("A100", num_nodes=2)])
def test_task_on_whole_cluster_nodes_stays_as_it_is(task: Task) -> None:
    check_nodes(task)
    assert spread(task) == task


@pytest.mark.parametrize(
    ("task", "path", "message"),
    [
        (make_task(SLICE, num_nodes=2), "num_nodes", "has 4 cluster nodes"),
        (make_task(SLICE, "A100"), "resources", "is no alternative to one cluster node"),
        (make_task(SLICE, backend="indexed"), "resources", "unlike backend indexed"),
        (make_task(SLICE, array=parse_array("0-1")), "config", "is one pod"),
    ],
)
def test_slice_that_cannot_be_spread_is_an_error(task: Task, path: str, message: str) -> None:
    with pytest.raises(FieldError, match=message) as caught:
        check_nodes(task)
    assert caught.value.path[0] == path
