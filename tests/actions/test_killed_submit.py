"""A submit that is killed after any of its writes, with every backend."""

import json
from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from kubectl_sky.workloads import registry
from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster, Json

TASK = "name: pair\nnum_nodes: 2\nsecrets: {TOKEN: x}\nresources: {ports: 80}\nrun: sleep 600\n"
WRITES = 20  # at most, of a kind, in a submit
AUXILIARY = {kinds.CONFIG_MAP.kind, kinds.SECRET.kind, kinds.SERVICE.kind, kinds.POD_GROUP.kind}


def auxiliary(state: dict[str, Json]) -> list[Json]:
    """Return the objects of the task that its workload owns after a submit."""
    items = [item for item in state.values() if item["kind"] in AUXILIARY]
    return [item for item in items if item["metadata"]["labels"].get("task-id") == ID]


def check_shown(run: Run, nodes: int) -> None:
    """Check what the commands say of a task of which so many of two nodes exist."""
    cleaned = run("clean", "--older-than", "0s", "--dry-run=client")[1]
    assert (ID in cleaned) == (nodes == 0)
    _, listed, note = run("list", "-o", "wide")
    if nodes == 0:
        assert note.startswith("No tasks found")
        assert f'task "{ID}" not found' in run("doctor", ID)[2]
        return
    status = json.loads(run("status", ID, "-o", "json")[1])
    state = listed.splitlines()[1].split()[2]
    assert state == status["status"] == json.loads(run("doctor", ID, "-o", "json")[1])["status"]
    incomplete = "incomplete: 1 of 2 nodes submitted"
    assert (incomplete in note) == (f"--id {ID}" in note) == (nodes == 1), note
    assert (status["metadata"]["note"] == incomplete) == (nodes == 1)


@pytest.mark.parametrize(
    "backend", ["jobs", "indexed", "jobset", "mpijob", "appwrapper", "volcano"]
)
def test_submit_killed_after_any_write_is_shown_completed_and_stopped(
    run: Run, api: FakeCluster, backend: str
) -> None:
    workload = registry.find(backend)
    api.kinds |= {kind for kind in (workload.kind, workload.companion_kind) if kind}
    Path("task.yaml").write_text(TASK)
    submit = ("submit", "task.yaml", "--detach", "--id", ID, "--backend", backend)
    states: list[dict[str, Json]] = []
    for verb in ("create", "patch"):
        for number in range(1, WRITES):
            api.after(verb, lambda: states.append(api.saved()), number)
    assert run(*submit)[0] == 0

    complete = api.names()
    workloads = [name for name in complete if name.startswith(f"{workload.kind.plural} ")]
    counts = set()
    for state in [state for state in states if auxiliary(state)]:
        api.restore(state)
        existing = len(set(workloads) & set(api.names()))
        counts.add(existing)
        nodes = existing if len(workloads) == 2 else 2 * existing
        check_shown(run, nodes)
        code, _, err = run(*submit)
        assert (code, api.names()) == (0, complete), err
        assert all("ownerReferences" in item["metadata"] for item in auxiliary(api.saved()))
        api.restore(state)
        words = ("stop", ID) if existing else ("clean", "--older-than", "0s", "-y")
        assert run(*words)[0] == 0
        assert auxiliary(api.saved()) == []
        assert not set(workloads) & set(api.names())
    assert counts == set(range(len(workloads) + 1))
