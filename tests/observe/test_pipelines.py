"""Status of pipelines and groups, folded from their tasks."""

import re
from typing import Any

import pytest

from kubectl_sky.cli.tasks import nodes, pipeline_details
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus, grouped, pipelines
from kubectl_sky.observe.status import tasks
from kubectl_sky.plan.pipeline import PipelineMember
from kubectl_sky.words import names
from tests.builders import make_job, make_pod
from tests.reading import read_job, read_jobs, read_pod

Json = dict[str, Any]


def stage(number: int, end: str = "", held: bool = False, **place: Any) -> Json:
    """Return the Job of a stage in a pipeline of three."""
    job = make_job(end=end, task_id=names.part_id("bcdf2345", number))
    member = PipelineMember("bcdf2345", "chain", number, 3, **place)
    job["metadata"]["labels"] |= member.labels
    job["metadata"]["annotations"] |= member.annotations
    job["spec"]["suspend"] = held
    return job


def fold(*jobs: Json) -> PipelineStatus:
    (found,) = pipelines(tasks(read_jobs(jobs), []))
    return found


@pytest.mark.parametrize(
    ("jobs", "state", "note"),
    [
        ([stage(1), stage(2, held=True), stage(3, held=True)], State.PENDING, ""),
        (
            [stage(1, "Complete"), stage(2, held=True), stage(3, held=True)],
            State.RUNNING,
            "stage 2, train, is suspended",
        ),
        ([stage(n, "Complete") for n in (1, 2, 3)], State.COMPLETED, ""),
        (
            [stage(1, "Complete"), stage(2, "Failed"), stage(3, held=True)],
            State.FAILED,
            "stage 2, train: node-0: PodNotFound",
        ),
        (
            [stage(1, "Complete"), stage(2, "Failed")],
            State.FAILED,
            "stage 2, train: node-0: PodNotFound",
        ),
        (
            [stage(1, "Complete"), stage(3, "Complete")],
            State.RUNNING,
            "incomplete: 2 of 3 tasks found",
        ),
    ],
)
def test_pipeline_state_and_note_follow_stages(jobs: list[Json], state: State, note: str) -> None:
    found = fold(*reversed(jobs))
    assert (found.state, found.note) == (state, note)
    assert [found.stage(task) for task in found.tasks] == sorted(map(found.stage, found.tasks))


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ({1: "Complete", 2: "Complete", 3: ""}, State.RUNNING),
        ({1: "Complete", 2: "Complete"}, State.COMPLETED),
        ({1: "Complete", 2: "", 3: "Complete"}, State.RUNNING),
        ({1: "Complete", 3: "Complete"}, State.RUNNING),
        ({1: "Complete", 2: "Failed"}, State.FAILED),
    ],
)
def test_group_is_completed_without_auxiliary_tasks(ends: dict[int, str], state: State) -> None:
    jobs = [stage(n, end, parallel=True, auxiliary=(3,), delay=5) for n, end in ends.items()]
    found = fold(*jobs)
    assert found.state is state
    assert found.word == "group"
    assert found.primaries_ended == (ends.get(2) != "")


def test_pipeline_repr_is_one_short_line() -> None:
    pipeline = fold(stage(1, "Complete"), stage(2, held=True), stage(3, held=True))
    note = "running, 1/3 tasks, stage 2, train, is suspended>"
    assert repr(pipeline) == f"<PipelineStatus bcdf2345 (chain): {note}"


def test_grouped_tasks_of_pipeline_are_together() -> None:
    alone = make_job(task_id="alone001")
    folded = tasks(
        [read_job(stage(2)), read_job(alone), read_job(stage(1))], [read_pod(make_pod())]
    )
    found = grouped(folded)
    assert {type(each).__name__ for each in found} == {"TaskStatus", "PipelineStatus"}
    assert sorted(each.id for each in found) == ["alone001", "bcdf2345"]
    whole = next(each for each in found if isinstance(each, PipelineStatus))
    assert whole.as_json()["tasks"] == [task.as_json() for task in whole.tasks]
    assert whole.missing == (3,)


def test_group_stopped_auxiliary_task_is_done_and_not_completed() -> None:
    jobs = [stage(n, "Complete", parallel=True, auxiliary=(3,), delay=5) for n in (1, 2)]
    group = fold(*jobs)
    assert (group.state, nodes(group)) == (State.COMPLETED, "3/3 tasks")
    assert re.search(
        r"^Tasks: +2 of 3 completed, 1 stopped$", pipeline_details(group), re.MULTILINE
    )


def test_pipeline_cancelled_stage_keeps_its_name_and_id() -> None:
    task_names = ("prepare", "train, long", "report")
    jobs = [stage(1, "Complete"), stage(2, "Failed")]
    for job in jobs:
        member = PipelineMember("bcdf2345", "chain", 1, 3, task_names=task_names)
        job["metadata"]["annotations"] |= member.annotations
    pipeline = fold(*jobs)
    assert (pipeline.missing, pipeline.title(3)) == ((3,), "report")
    row = rf"^3 +{names.part_id('bcdf2345', 3)} +report +cancelled$"
    assert re.search(row, pipeline_details(pipeline), re.MULTILINE)


def test_pipeline_of_older_version_has_no_names_of_deleted_stages() -> None:
    jobs = [stage(1, "Complete"), stage(2, "Failed")]
    for job in jobs:
        del job["metadata"]["annotations"][names.STAGE_NAMES]
    assert fold(*jobs).title(3) == ""
