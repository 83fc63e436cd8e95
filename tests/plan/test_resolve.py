"""The plan of a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan.storage import PodStorage
from kubectl_sky.spec.files import Repository
from kubectl_sky.spec.task import Accelerator, Resources
from kubectl_sky.words.expansion import literal, unescape
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_notes, make_plan, make_task


def test_plan_of_minimal_task_has_defaults() -> None:
    plan = make_plan()
    assert (plan.requests, plan.limits, plan.service) == ({}, {}, None)
    assert plan.storage == PodStorage()
    assert plan.image == "python:3.13-slim"


def test_plan_sizes_become_requests_and_limits() -> None:
    plan = make_plan(make_task(resources=Resources("4", "8Gi", Accelerator("V100", 2))))
    assert plan.requests == {"cpu": "4", "memory": "8Gi"}
    assert plan.limits == {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    assert plan.env["SKYPILOT_NUM_GPUS_PER_NODE"] == "2"


def test_plan_disk_is_requested_without_limit() -> None:
    plan = make_plan(make_task(resources=Resources(disk="512Gi")))
    assert (plan.requests, plan.limits) == ({"ephemeral-storage": "512Gi"}, {})


def test_plan_names_and_labels_follow_task() -> None:
    plan = make_plan(make_task(nodes=2))
    assert [node.job for node in plan.nodes] == ["train-bcdf2345-node-0", "train-bcdf2345-node-1"]
    assert plan.service == plan.name == "train-bcdf2345"
    assert plan.nodes[1].labels == {**plan.labels, "node-idx": "1"}
    assert plan.labels["username"] == "alice-example.com"


def test_plan_task_without_name_is_named_by_id() -> None:
    plan = make_plan(replace(make_task(), name=None))
    assert plan.title == "task-bcdf2345"


def test_plan_labels_of_user_do_not_override_task_labels() -> None:
    labels = {"username": "bob", "task-id": "zzzz2345", "team": "x", "kubectl-sky/pipeline": "x"}
    plan = make_plan(make_task(resources=Resources(labels=labels)))
    assert "kubectl-sky/pipeline" not in plan.labels
    assert plan.labels["username"] == "alice-example.com"
    assert plan.labels["task-id"] == "bcdf2345"
    assert plan.labels["team"] == "x"


def test_plan_rank_variables_of_user_are_ignored() -> None:
    envs = {"NODE_RANK": "7", "NUM_NODES": "7", "MASTER_ADDR": "mine", "A": "1"}
    plan = make_plan(replace(make_task(nodes=2), envs=envs))
    assert "NODE_RANK" not in plan.env, "written by the pod template, for each node"
    assert plan.env["NUM_NODES"] == "2"
    assert plan.env["MASTER_ADDR"] == "mine"
    assert plan.env["A"] == "1"


def test_plan_skypilot_variables_may_be_partly_overridden() -> None:
    info = '{"cluster_name": "train-bcdf2345", "cloud": "Kubernetes", "region": null, "zone": null}'
    plan = make_plan()
    assert plan.env["SKYPILOT_CLUSTER_INFO"] == info
    assert plan.env["SKYPILOT_TASK_ID"] == "train-bcdf2345"
    names = ("SKYPILOT_TASK_ID", "SKYPILOT_USER", "SKYPILOT_CLUSTER_INFO")
    plan = make_plan(replace(make_task(), envs=dict.fromkeys(names, "mine")))
    assert plan.env["SKYPILOT_TASK_ID"] == "mine"
    assert plan.env["SKYPILOT_USER"] == "alice@example.com"
    assert plan.env["SKYPILOT_CLUSTER_INFO"] == info


def test_plan_too_large_script_is_user_error() -> None:
    with pytest.raises(UserError, match="a ConfigMap can hold 900,000"):
        make_plan(replace(make_task(), run="x" * 1_000_000))


def expand(text: str) -> str:
    """Expand a value as Kubernetes does (third_party/forked/golang/expansion)."""
    out = ""
    at = 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        if text[at] == "$" and following == "$":
            out = out + "$"
            at = at + 2
        elif text[at] == "$" and following == "(" and ")" in text[at:]:
            out = out + "EXPANDED"
            at = text.index(")", at) + 1
        else:
            out = out + text[at]
            at = at + 1
    return out


@given(st.text("$()A{} "))
def test_literal_value_is_not_expanded_by_kubernetes(value: str) -> None:
    assert expand(literal(value)) == value
    assert unescape(literal(value)) == value


@pytest.mark.parametrize(
    ("repository", "directory"), [(None, "."), (Repository("https://git.example/x"), None)]
)
def test_start_directory_of_image_applies_without_workdir(
    repository: Repository | None, directory: str | None
) -> None:
    task = replace(make_task(), repository=repository)
    plan = make_plan(task, settings=Settings(start_directory="image"))
    assert plan.env.get("KUBECTL_SKY_START_DIRECTORY") == directory


def test_notes_context_of_file_is_for_submit() -> None:
    (note,) = make_notes(make_task(1, Resources(context="west")), FACTS, Settings())
    assert note.startswith("infra: submit uses context west, ")
