"""Volcano: plain Jobs with a PodGroup for gang scheduling."""

from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.observe.status import tasks
from kubectl_sky.plan.fair_share import class_name
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.words import kinds, names
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.volcano import GROUP
from kubectl_sky_server.fairshare.model_state import PodGroup
from tests.builders import FACTS, make_job, make_plan
from tests.reading import read, read_jobs

GOLD = Kubernetes(queue="gold")


def plan_of(asked: Kubernetes = GOLD, **resources: Any) -> Plan:
    given = Resources(**resources) if resources else Resources("1500m", "2Gi")
    task = Task(name="train", num_nodes=3, run="true", resources=given, kubernetes=asked)
    return make_plan(replace(task, backend="volcano"))


def rendered(plan: Plan) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = manifests.render(plan)
    (group,) = (one.object for one in found.auxiliary if one.object["kind"] == "PodGroup")
    return group, [one.object for one in found.workload]


def test_volcano_pod_group_has_members_queue_and_resources() -> None:
    group, _ = rendered(plan_of())
    assert group["metadata"]["name"] == "train-bcdf2345"
    assert group["metadata"]["labels"]["task-id"] == "bcdf2345"
    assert group["spec"] == {
        "minMember": 3,
        "queue": "gold",
        "minResources": {"cpu": "4500m", "memory": "6Gi"},
    }


def test_volcano_pod_group_without_fields_is_minimal() -> None:
    group, _ = rendered(plan_of(Kubernetes(), labels={}))
    assert group["spec"] == {"minMember": 3}


def test_volcano_priority_and_gpus_are_set() -> None:
    plan = plan_of(accelerator=Accelerator("V100", 2), priority_class="urgent")
    group, jobs = rendered(plan)
    assert group["spec"]["priorityClassName"] == "urgent"
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == "6"
    assert jobs[0]["spec"]["template"]["spec"]["priorityClassName"] == "urgent"


FAIR = Settings(fair_share={"gold": {}})


def test_volcano_fair_share_sets_class_of_user_and_queue() -> None:
    task = Task(name="train", run="true", kubernetes=GOLD, backend="volcano")
    group, jobs = rendered(make_plan(task, settings=FAIR))
    metadata = group["metadata"] | {"uid": "1", "namespace": "default"}
    expected = class_name(
        "gold", PodGroup.read(read(kinds.POD_GROUP, group | {"metadata": metadata})).user
    )
    assert expected == class_name("gold", FACTS.user.name)
    assert group["spec"]["priorityClassName"] == expected
    assert jobs[0]["spec"]["template"]["spec"]["priorityClassName"] == expected


@pytest.mark.parametrize(
    ("queue", "backend", "resources", "expected"),
    [
        ("silver", "volcano", Resources(), None),
        ("gold", "jobs", Resources(), None),
        ("gold", "volcano", Resources(priority_class="urgent"), "urgent"),
    ],
)
def test_fair_share_of_other_queue_backend_or_class_of_task_is_ignored(
    queue: str, backend: str, resources: Resources, expected: str | None
) -> None:
    task = Task(
        name="train",
        run="true",
        resources=resources,
        kubernetes=Kubernetes(queue=queue),
        backend=backend,
    )
    assert make_plan(task, settings=FAIR).priority_class == expected


def test_volcano_pod_config_disables_min_resources() -> None:
    own = {"spec": {"containers": [{"resources": {"requests": {"cpu": "9"}}}]}}
    group, _ = rendered(plan_of(Kubernetes(queue="gold", pod=own)))
    assert "minResources" not in group["spec"]


def test_volcano_jobs_have_scheduler_and_group() -> None:
    _, jobs = rendered(plan_of(Kubernetes(queue="gold", annotations={"a": "b"})))
    assert [job["metadata"]["name"] for job in jobs] == [f"train-bcdf2345-node-{n}" for n in "012"]
    for job in jobs:
        assert job["metadata"]["annotations"]["kubectl-sky/backend"] == "volcano"
        assert "kueue.x-k8s.io/queue-name" not in job["metadata"]["labels"]
        assert "suspend" not in job["spec"], "Volcano starts it; no controller would resume it"
        pod = job["spec"]["template"]
        assert pod["metadata"]["annotations"] == {
            "a": "b",
            GROUP: "train-bcdf2345",
            names.AWAITS_NODES: "true",
        }
        assert pod["spec"]["schedulerName"] == "volcano"


def test_volcano_is_not_mentioned_by_other_backends() -> None:
    plan = make_plan(Task(name="train", num_nodes=2, run="true"))
    text = manifests.as_yaml(manifests.render(plan).all)
    assert "volcano" not in text and "schedulerName" not in text


def test_volcano_status_follows_jobs() -> None:
    jobs = [make_job(node, 2, end) for node, end in enumerate(("Complete", ""))]
    for job in jobs:
        job["metadata"]["annotations"]["kubectl-sky/backend"] = "volcano"
    (task,) = tasks(read_jobs(jobs), [])
    assert task.backend == "volcano"
    assert [node.state for node in task.nodes] == ["completed", "pending"]
