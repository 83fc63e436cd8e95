"""Tasks of pipelines and groups: ids, labels, variables, and reading them back."""

from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.plan.pipeline import (
    PipelineMember,
    member_of,
    members,
    title_of,
    with_member,
    with_names,
)
from kubectl_sky.spec.pipeline import Pipeline
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import names
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_plan

TASKS = with_names([Task(name="train"), Task(name=None), Task(name="eval")], "p")


def test_pipeline_tasks_without_name_are_numbered() -> None:
    assert [task.name for task in TASKS] == ["train", "p-1", "eval"]
    assert title_of(Pipeline("p"), "bcdf2345") == "p"
    assert title_of(Pipeline(), "bcdf2345") == "pipeline-bcdf2345"
    assert title_of(Pipeline(parallel=True), "bcdf2345") == "group-bcdf2345"


@given(st.from_regex(names.ID, fullmatch=True), st.integers(1, 1000))
def test_part_id_is_valid_and_deterministic(whole: str, stage: int) -> None:
    assert names.ID.fullmatch(names.part_id(whole, stage))
    assert names.part_id(whole, stage) == names.part_id(whole, stage)
    assert names.part_id(whole, stage) != names.part_id(whole, stage + 1)


def test_pipeline_only_first_stage_is_not_suspended() -> None:
    stages = members(Pipeline("p"), "bcdf2345", TASKS)
    assert [stage.suspended for stage in stages] == [False, True, True]
    assert [stage.awaited for stage in stages] == [True, True, False]
    group = members(Pipeline("g", parallel=True), "bcdf2345", TASKS)
    assert not any(place.suspended or place.awaited for place in group)


def test_pipeline_member_is_read_back_from_metadata() -> None:
    pipelines = (Pipeline("p"), Pipeline("g", True, ("train",), {"eval": 9}))
    for pipeline in pipelines:
        for place in members(pipeline, "bcdf2345", TASKS):
            found = member_of(place.labels, place.annotations)
            assert found is not None
            assert found.labels == place.labels
            assert found.annotations == place.annotations
    assert [place.delay for place in members(pipelines[1], "bcdf2345", TASKS)] == [0, 0, 9]
    assert member_of({}, {}) is None
    assert member_of({names.PIPELINE: "x"}, {}) == PipelineMember("x", "x", 0, 0)


def test_pipeline_plan_has_labels_and_variables_of_stage() -> None:
    first, _, last = members(Pipeline("p"), "bcdf2345", TASKS)
    task = Task(
        name="eval",
        num_nodes=2,
        resources=Resources(labels={names.STAGE: "9"}, ttl_seconds=60),
        envs={"SKYPILOT_TASK_IDS": "mine"},
        secrets={"SKYPILOT_MANAGED_JOB_ID": Secret("mine")},
    )
    plan = make_plan(task, FACTS, Settings(), names.part_id("bcdf2345", 3))

    found = with_member(plan, last)
    assert found.suspended
    assert found.ttl_seconds == 60
    assert found.env["SKYPILOT_TASK_IDS"].split("\n")[2] == found.env["SKYPILOT_TASK_ID"]
    assert found.env["SKYPILOT_MANAGED_JOB_ID"] == "bcdf2345"
    assert set(found.secrets) == {"KUBECTL_SKY_TOKEN"}
    assert [variable.name for variable in found.secret_env] == ["KUBECTL_SKY_TOKEN"]
    for labels in (found.labels, *(node.labels for node in found.nodes)):
        assert labels[names.PIPELINE] == "bcdf2345"
        assert labels[names.STAGE] == "3"
    assert with_member(plan, first).ttl_seconds is None  # a later task waits for its result


def test_group_plans_share_service_and_have_host_names() -> None:
    stages = members(Pipeline("My_Group", parallel=True), "bcdf2345", TASKS)
    plans = [
        with_member(
            make_plan(task, FACTS, Settings(), names.part_id("bcdf2345", place.stage)), place
        )
        for task, place in zip(TASKS, stages, strict=True)
    ]
    assert {plan.service for plan in plans} == {"my-group-bcdf2345"}
    assert {plan.env["SKYPILOT_JOBGROUP_NAME"] for plan in plans} == {"my-group-bcdf2345"}
    assert [plan.nodes[0].hostname for plan in plans] == ["train-0", "p-1-0", "eval-0"]
    assert plans[0].nodes[0].env["KUBECTL_SKY_HOSTS"] == "train-"
    assert plans[0].group == plans[2].group
    assert plans[0].service_owner is plans[0].group
    assert names.TASK_ID not in plans[0].service_owner.labels


def test_group_without_inter_connection_has_no_host_names() -> None:
    pipeline = Pipeline("g", parallel=True, connected=False)
    (place, *_) = members(pipeline, "bcdf2345", TASKS)
    plan = with_member(make_plan(TASKS[0], FACTS, Settings(), names.part_id("bcdf2345", 1)), place)
    assert (plan.service, plan.nodes[0].hostname, plan.group) == (None, None, None)
    assert plan.service_owner == plan.companion_metadata
    assert plan.env["SKYPILOT_JOBGROUP_NAME"] == "g"
