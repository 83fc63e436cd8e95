"""What holds for every backend."""

import pytest

from kubectl_sky import names
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render import manifests
from kubectl_sky.secret import Secret
from kubectl_sky.spec.arrays import array
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.workloads import registry
from tests.plan.test_resolve import make_plan

HOSTILE = "a: b\nkind: Secret\n---\n{{ x }} \u2028 \"' # \x7f"
BACKENDS = sorted(registry.BACKENDS)


def plan_of(backend: str) -> Plan:
    return make_plan(
        Task(
            name=f"train {HOSTILE}",
            num_nodes=1 if backend == "array" else 3,
            run="true",
            resources=Resources(cpus="1", ttl_seconds=60, recovery=Recovery(2, (3, 4))),
            envs={"A": HOSTILE},
            secrets={"B": Secret(HOSTILE)},
            backend=backend,
            array=array("0-9%3") if backend == "array" else None,
        )
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_what_a_user_writes_stays_a_value(name: str) -> None:
    plan, backend = plan_of(name), registry.BACKENDS[name]
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
def test_its_own_objects_are_known_again(name: str) -> None:
    plan = plan_of(name)
    found = [manifest.object for manifest in manifests.render(plan).workload]
    assert {registry.of(item).name for item in found} == {name}
    ranks = [rank for item in found for rank in registry.of(item).ranks(item)]
    assert ranks == list(range(plan.array.count if plan.array else len(plan.nodes)))


@pytest.mark.parametrize("name", BACKENDS)
def test_what_is_not_rendered_twice(name: str) -> None:
    """The same plan gives the same bytes."""
    first, second = (manifests.as_yaml(manifests.render(plan_of(name)).all) for _ in range(2))
    assert first == second
