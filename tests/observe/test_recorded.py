"""Tasks of released versions, as recorded in clusters."""

from collections import Counter
from typing import Any

import pytest

from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.observe.status import TaskStatus, tasks
from kubectl_sky.workloads import registry
from tests import recorded

RUN = {kind.kind for kind in registry.KINDS}


def statuses(version: str) -> dict[str, TaskStatus]:
    items: list[dict[str, Any]] = recorded.objects(version)
    pods = [item for item in items if item["kind"] == "Pod"]
    jobs = [item for item in items if item["kind"] in RUN]
    return {task.name: task for task in tasks(jobs, pods)}


@pytest.mark.parametrize("version", recorded.VERSIONS)
def test_recorded_tasks_of_older_version_have_states(version: str) -> None:
    found = statuses(version)
    states = {name: f"{task.state} {task.num_nodes}" for name, task in found.items()}
    assert states == {
        "hello": "completed 1",
        "bad": "failed 1",
        "ring": "completed 3",
        "files": "completed 2",
        "squares": "completed 3",
        "indexed": "completed 3",
        "prepare": "completed 1",
        "train": "pending 1",
    }
    assert {task.user for task in found.values()} == {"alice@example.com"}
    assert found["bad"].nodes[0].exit_code == 3
    assert [node.index for node in found["squares"].nodes] == [1, 2, 3]


@pytest.mark.parametrize("version", recorded.VERSIONS)
def test_recorded_pipeline_of_older_version_has_stages(version: str) -> None:
    (chain,) = pipelines(list(statuses(version).values()))
    assert (chain.id, chain.name) == (recorded.IDS["chain"], "chain")
    assert Counter(str(task.state) for task in chain.tasks) == {"completed": 1, "pending": 1}
