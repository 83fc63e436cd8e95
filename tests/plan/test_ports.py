"""The Service of a task: its type, and tasks without a Service."""

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.ports import Ports
from kubectl_sky.spec.pipeline import Array
from kubectl_sky.spec.task import Kubernetes, Resources, Task
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_notes, make_plan, make_task

TASK = make_task(2, Resources(ports=(80,)))


def ports(task: Task, settings: Settings | None = None) -> Ports:
    found = make_plan(task, settings=settings).ports
    assert found
    return found


def test_ports_default_to_cluster_ip() -> None:
    assert ports(TASK) == Ports("train-bcdf2345-ports", "ClusterIP", False, {}, (80,))
    assert make_plan(make_task()).ports is None


@pytest.mark.parametrize(
    ("flag", "mode", "setting", "expected"),
    [
        (None, None, "nodeport", ("NodePort", False)),
        (None, None, "podip", ("ClusterIP", True)),
        (None, "loadbalancer", "nodeport", ("LoadBalancer", False)),
        (None, "podip", "nodeport", ("ClusterIP", True)),
        (None, "ingress", "nodeport", ("NodePort", False)),
        (None, "ingress", None, ("ClusterIP", False)),
        ("clusterip", "loadbalancer", "nodeport", ("ClusterIP", False)),
        ("nodeport", None, None, ("NodePort", False)),
    ],
)
def test_ports_flag_overrides_task_and_task_overrides_settings(
    flag: str | None, mode: str | None, setting: str | None, expected: tuple[str, bool]
) -> None:
    task = replace(TASK, expose=flag, kubernetes=Kubernetes(ports=mode))
    found = ports(task, Settings(ports={"expose": setting} if setting else {}))
    assert (found.type, found.headless) == expected


def test_ports_annotations_of_settings_exclude_those_of_task() -> None:
    given = {"internal": "true", "team": "a", "kubectl-sky/name": "forged"}
    task = replace(TASK, kubernetes=Kubernetes(annotations={"team": "b"}))
    assert ports(task, Settings(ports={"annotations": given})).annotations == {"internal": "true"}


def test_ports_inside_cluster_are_noted_with_both_ways_to_reach_them() -> None:
    assert make_notes(TASK, FACTS, Settings()) == (
        "ports: reached from inside the cluster only: use `kubectl sky port-forward train 80`, or"
        " set `ports.expose: loadbalancer` in the settings",
    )


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        (replace(TASK, expose="clusterip"), Settings()),
        (replace(TASK, kubernetes=Kubernetes(ports="podip")), Settings()),
        (TASK, Settings(ports={"expose": "clusterip"})),
    ],
)
def test_ports_inside_cluster_by_choice_are_not_noted(task: Task, settings: Settings) -> None:
    assert make_notes(task, FACTS, settings) == ()


def test_ports_outside_cluster_are_noted() -> None:
    (note,) = make_notes(replace(TASK, expose="loadbalancer"), FACTS, Settings())
    assert note.startswith("ports: reached from outside the cluster: ")
    (note,) = make_notes(replace(make_task(), expose="nodeport"), FACTS, Settings())
    assert note == "expose: nodeport: ignored: the task has no ports; set resources.ports"


def test_ports_of_array_are_ignored_with_note() -> None:
    task = replace(TASK, num_nodes=1, array=Array("0-9", 10, 10), backend="array")
    assert make_plan(task).ports is None
    (note,) = make_notes(task, FACTS, Settings())
    assert note.startswith("ports: an array has no Service; ")
