"""Common properties of all backends."""

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.pipeline import deferred_queueing, without_queue_until_resumed
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.pipeline import parse_array
from kubectl_sky.spec.service import ServiceSpec
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import names
from kubectl_sky.words.objects import Object
from kubectl_sky.words.secret import Secret
from kubectl_sky.workloads import registry
from tests.builders import make_plan
from tests.reading import read_as, read_job

HOSTILE = "a: b\nkind: Secret\n---\n{{ x }} \u2028 \"' # \x7f"
BACKENDS = sorted(registry.BACKENDS)
SERVED = ("rayservice", "service")


def plan_of(backend: str) -> Plan:
    task = Task(
        name=f"train {HOSTILE}",
        num_nodes=3,
        run="true",
        resources=Resources(
            image="rayproject/ray", cpus="1", ttl_seconds=60, recovery=Recovery(2, (3, 4))
        ),
        envs={"A": HOSTILE},
        secrets={"B": Secret(HOSTILE)},
        backend=backend,
    )
    if backend == "array":
        task = replace(task, num_nodes=1, array=parse_array("0-9%3"))

    if backend in SERVED:
        service = ServiceSpec(8080)
        task = replace(task, num_nodes=1, run="serve run app:main", service=service)

    return make_plan(task)


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_hostile_text_stays_value(name: str) -> None:
    plan = plan_of(name)
    backend = registry.BACKENDS[name]
    for manifest in manifests.render(plan).workload:
        assert manifest.object["kind"] == backend.kind.kind
        assert manifest.object["metadata"]["annotations"][names.ORIGINAL_NAME] == plan.title
        for pod in backend.templates(manifest.object):
            (container,) = pod["spec"]["containers"]
            env = {one["name"]: one for one in container["env"]}
            assert len(env) == len(container["env"])
            assert env["A"]["value"] == HOSTILE
            assert "valueFrom" in env["B"]
            assert plan.selector.items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_rendered_objects_are_recognized(name: str) -> None:
    plan = plan_of(name)
    found = [manifest.object for manifest in manifests.render(plan).workload]
    assert {registry.of(read_as(Object, item)).name for item in found} == {name}
    ranks = [
        rank for item in found for rank in registry.of(read_as(Object, item)).ranks(read_job(item))
    ]
    head = int(name == "rayservice")
    count = 10 if name == "array" else len(plan.nodes)
    assert ranks == list(range(count + head))


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_rendering_is_deterministic(name: str) -> None:
    """The same plan renders to the same bytes."""
    first, second = (manifests.as_yaml(manifests.render(plan_of(name)).all) for _ in range(2))
    assert first == second


def queued(queue: str | None, suspended: bool, backend: str | None = None) -> Plan:
    plan = make_plan(Task(run="x", kubernetes=Kubernetes(queue=queue), backend=backend))
    return replace(plan, suspended=suspended)


@pytest.mark.parametrize("name", ["jobs", "indexed", "jobset", "mpijob", "appwrapper"])
def test_hold_later_stage_joins_queue_when_resumed(name: str) -> None:
    """The queue does not know the order of stages."""
    backend = registry.find(name)
    plan = without_queue_until_resumed(queued("gold", suspended=True, backend=name))
    for manifest in manifests.render(plan).workload:
        assert registry.is_suspended(manifest.object)
        assert names.QUEUE not in manifest.object["metadata"]["labels"]
        labels = deferred_queueing(manifest.object["metadata"]["annotations"])
        assert backend.resuming(labels) == {"metadata": {"labels": {names.QUEUE: "gold"}}}


def test_hold_first_stage_joins_queue_at_once() -> None:
    for plan in (queued("gold", suspended=False), queued(None, suspended=True)):
        assert without_queue_until_resumed(plan) is plan


@pytest.mark.parametrize("live", [{"suspend": False, "x": 1}, {"x": 1}])
def test_hold_copied_keeps_resumed_state(live: dict[str, object]) -> None:
    """Resumed objects have `suspend: false` or no such field."""
    wanted = {"metadata": {}, "spec": {"suspend": True, "parallelism": 2}}
    found = registry.with_suspend_field(wanted, {"metadata": {}, "spec": live})
    suspend = {"suspend": False} if "suspend" in live else {}
    assert found["spec"] == {"parallelism": 2} | suspend
    assert wanted["spec"] == {"suspend": True, "parallelism": 2}
    held = {"metadata": {}, "spec": {"suspend": True}}
    assert registry.with_suspend_field(wanted, held) == wanted
