"""The index of the tasks controller: what it remembers, and when something is due."""

from typing import Any

import pytest

from kubectl_sky.words import names
from kubectl_sky.words.objects import Object
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky_server.controllers.task_index import Key, TaskIndex, key_of, without_unused_fields
from tests.builders import ID, make_job, make_whole
from tests.observe.test_pipelines import stage
from tests.reading import read_as, read_job

PIPELINE = Key("default", names.PIPELINE, ID)
TASK = Key("default", names.TASK_ID, ID)


def index_of(*jobs: dict[str, Any] | TaskObject) -> TaskIndex:
    index = TaskIndex()
    for job in jobs:
        index.apply(read_job(job))
    return index


def named(job: dict[str, Any], number: int) -> dict[str, Any]:
    job["metadata"] |= {"name": f"stage-{number}", "uid": f"uid-stage-{number}"}
    return job


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (stage(1), PIPELINE),
        (make_job(0, 3), TASK),
        (make_job(0, 1), None),
        (make_whole(3), None),  # the cluster stops the other nodes
    ],
)
def test_key_of_plain_task_and_fail_fast_backend_is_none(
    job: dict[str, Any], key: Key | None
) -> None:
    assert key_of(read_as(Object, job)) == key


@pytest.mark.parametrize("label", ["", "x" * 64])
def test_key_of_invalid_label_is_none(label: str) -> None:
    job = stage(1)
    job["metadata"]["labels"] |= {names.PIPELINE: label, names.TASK_ID: label}
    assert key_of(read_as(Object, job)) is None


def test_key_of_job_with_controller_is_none() -> None:
    job = stage(1)
    job["metadata"]["ownerReferences"] = [{"kind": "JobSet", "uid": "x", "controller": True}]
    assert key_of(read_as(Object, job)) is None


@pytest.mark.parametrize(
    ("ends", "due"),
    [(("", "", ""), False), (("Complete", "", ""), True), (("Failed", "", ""), True)],
)
def test_index_pipeline_needs_action_when_stage_ended(ends: tuple[str, ...], due: bool) -> None:
    jobs = [named(stage(n, end, held=n > 1), n) for n, end in enumerate(ends, 1)]
    assert index_of(*jobs).needs_action(PIPELINE) is due


def test_index_pipeline_without_earlier_stage_needs_no_action() -> None:
    jobs = [named(stage(1, "Complete"), 1), named(stage(3, held=True), 3)]
    assert not index_of(*jobs).needs_action(PIPELINE)


def test_index_failed_node_needs_action_until_others_are_stopping() -> None:
    jobs = [make_job(0, 2, "Failed"), make_job(1, 2)]
    assert index_of(*jobs).needs_action(TASK)
    jobs[1]["metadata"]["annotations"][names.STOPPED_FOR] = "node-0"
    assert not index_of(*jobs).needs_action(TASK)


def test_index_missing_node_needs_action_after_pause() -> None:
    index = index_of(make_job(0, 2))
    assert index.needs_action(TASK) and index.lacks_nodes(TASK)


def test_index_forgets_deleted_objects() -> None:
    jobs = [make_job(0, 2), make_job(1, 2)]
    index = index_of(*jobs)
    assert len(index) == 2
    for job in (*jobs, jobs[0]):
        index.apply(read_job(job), deleted=True)
    assert len(index) == 0
    assert not index.needs_action(TASK)


def test_index_forgets_only_the_given_objects() -> None:
    index = index_of(make_job(0, 2))
    known = index.uids(TASK)
    index.apply(read_job(make_job(1, 2)))
    index.forget(TASK, known)
    assert len(index) == 1 and index.uids(TASK).isdisjoint(known)
    index.forget(TASK, index.uids(TASK))
    assert len(index) == 0


def test_unused_fields_are_template_and_foreign_annotations() -> None:
    job = make_job(0, 2)
    job["spec"] |= {"template": {"spec": {"nodeName": "x" * 1000}}, "selector": {}}
    job["metadata"] |= {"managedFields": ["x" * 1000]}
    job["metadata"]["annotations"]["example.com/large"] = "x" * 1000
    kept = without_unused_fields(read_job(job))
    assert len(str(kept)) < 1500
    assert index_of(kept).needs_action(TASK)
