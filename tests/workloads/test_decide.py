"""Choice of the backend."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_sky.cli.submit import command
from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.words import assets
from kubectl_sky.words.facts import Access, Queues
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.decide import AUTO, Decision, choices, decide, list_needed_kinds
from tests.actions.drafts import FACTS, drafted, plans


def chosen(
    wanted: str | None, nodes: int = 3, access: Mapping[Kind, Access] | None = None
) -> tuple[str, str]:
    choice = next(choices(wanted, nodes, access or {}))
    return choice.backend.name, choice.note


def test_backend_default_is_jobs() -> None:
    assert chosen(None) == ("jobs", "")
    assert chosen("indexed") == ("indexed", "")
    assert list_needed_kinds(None, 3) == []


def test_backend_auto_explains_choice() -> None:
    assert chosen(AUTO, nodes=1) == ("jobs", "backend jobs: the task has one node")
    name, note = chosen(AUTO)
    assert name == "indexed"
    assert note.startswith("backend indexed: one Job for all nodes")


def test_backend_unknown_lists_existing() -> None:
    with pytest.raises(SkyError) as caught:
        chosen("slurm")
    assert str(caught.value) == (
        f'backend "slurm" not found; choose one of: {", ".join(registry.NAMED)}'
    )
    assert caught.value.exit_code == 2


def test_task_file_in_plan_has_flags_but_no_secrets(tmp_path: Path) -> None:
    login = {f"SKYPILOT_DOCKER_{name}": "hidden.io" for name in ("USERNAME", "PASSWORD", "SERVER")}
    text = f"""name: both
---
x-common: &common {{TOKEN: hidden}}
run: echo
envs: {json.dumps({"A": 1, "TOKEN": "hidden"} | login)}
secrets: *common
---
name: second
run: echo
secrets: ['secrets:HF_TOKEN']
"""
    found = drafted(text, tmp_path, env=("B=2",), secret=("KEY=hidden",), num_nodes="2")
    first, second = (plan.task_file for plan in plans(found))
    envs = {"A": 1, "TOKEN": None, **dict.fromkeys(login), "B": "2"}
    own = {"name": "both-0", "run": "echo", "envs": envs, "secrets": {"TOKEN": None, "KEY": None}}
    assert first == ({"name": "both"}, own | {"num_nodes": 2})

    secrets = {"secrets:HF_TOKEN": None, "KEY": None}
    own = {"name": "second", "run": "echo", "secrets": secrets, "envs": {"B": "2"}}
    assert second == (own | {"num_nodes": 2},)


@pytest.mark.parametrize(
    "place", [("settings", "backend"), ("config", "kubectl_sky", "properties", "backend")]
)
def test_backend_schemas_list_every_backend(place: tuple[str, ...]) -> None:
    found = json.loads(assets.read("schemas", f"{place[0]}.json"))["properties"]
    for key in place[1:]:
        found = found[key]
    assert found["enum"] == [AUTO, *registry.NAMED]


def test_backend_help_lists_every_backend() -> None:
    (option,) = (one for one in command.params if one.name == "backend")
    names = f"jobs (default), {', '.join(registry.NAMED[1:])}, or auto."
    assert option.help == f"Backend: {names}"


def test_backend_automatic_order_is_fixed() -> None:
    assert registry.AUTOMATIC == ("jobset", "indexed", "jobs")


JOBSETS = registry.find("jobset").kind


def test_backend_auto_uses_installed_and_allowed() -> None:
    assert list_needed_kinds(AUTO, 3) == [JOBSETS]
    assert list_needed_kinds(AUTO, 1) == []
    assert chosen(AUTO, access={JOBSETS: Access.USABLE})[0] == "jobset"
    name, note = chosen(AUTO, access={JOBSETS: Access.FORBIDDEN})
    assert (name, note.rpartition("; ")[2]) == ("indexed", "you may not create JobSets")
    name, note = chosen(AUTO, access={JOBSETS: Access.ABSENT})
    assert (name, note.rpartition("; ")[2]) == ("indexed", "JobSet is not installed")


@pytest.mark.parametrize(("head", "word"), [("", "pipeline"), ("execution: parallel\n", "group")])
def test_decision_has_the_name_of_the_whole(tmp_path: Path, head: str, word: str) -> None:
    tasks = "---\nname: a\nrun: x\n---\nname: b\nrun: x\n"
    found = drafted(f"name: My band\n{head}{tasks}", tmp_path)
    decision = decide(found.entries, FACTS, found.settings)
    assert (decision.word, decision.title) == (word, "My band")


def test_backend_not_installed_is_cluster_error() -> None:
    assert list_needed_kinds("jobset", 1) == [JOBSETS]
    assert chosen("jobset", access={JOBSETS: Access.USABLE})[0] == "jobset"
    assert chosen("jobset")[0] == "jobset", "the cluster is not contacted, as in render"
    with pytest.raises(SkyError) as caught:
        chosen("jobset", access={JOBSETS: Access.ABSENT})
    assert str(caught.value) == (
        "backend jobset needs JobSet, and the cluster does not serve jobsets"
        " (jobset.x-k8s.io/v1alpha2); install it, or choose another backend: jobs, indexed"
    )
    assert caught.value.exit_code == 3


QUEUED = {
    "name": "x",
    "run": "true",
    "config": {"kubernetes": {"kueue": {"local_queue_name": "q"}}},
}


@pytest.mark.parametrize(
    ("nodes", "backend", "chosen"),
    [(1, None, "jobs"), (2, None, "indexed"), (2, "auto", "indexed"), (2, "indexed", "indexed")],
)
def test_backend_for_multikueue_makes_one_job(
    tmp_path: Path, nodes: int, backend: str | None, chosen: str
) -> None:
    assert _for_multikueue(tmp_path, num_nodes=nodes, backend=backend).plans[0].backend == chosen


def test_backend_for_multikueue_with_a_job_per_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='backend "jobs" cannot use a queue of MultiKueue') as error:
        _for_multikueue(tmp_path, num_nodes=2, backend="jobs")
    assert error.value.hint == "use --backend indexed"


def test_pipeline_for_multikueue_is_refused(tmp_path: Path) -> None:
    text = "".join(f"---\n{json.dumps(QUEUED | {'name': name})}\n" for name in ("a", "b"))
    found = drafted(f"name: both\n{text}", tmp_path)
    with pytest.raises(UserError, match="pipeline or group cannot use a queue of MultiKueue"):
        decide(found.entries, MULTIKUEUE, found.settings)


MULTIKUEUE = replace(FACTS, queues=Queues(multikueue=True))


def _for_multikueue(tmp_path: Path, num_nodes: int, backend: str | None) -> Decision:
    found = drafted(json.dumps(QUEUED | {"num_nodes": num_nodes}), tmp_path)
    return decide(found.entries, MULTIKUEUE, replace(found.settings, backend=backend))


def test_hold_is_refused_by_backends_that_stop_all_nodes(tmp_path: Path) -> None:
    text = "num_nodes: 2\nrun: echo\nconfig: {kubectl_sky: {hold_on_failure: 30m}}\n"
    (plan,) = plans(drafted(text, tmp_path))
    assert plan.env["KUBECTL_SKY_HOLD"] == "1800 30m"
    assert plan.runtime
    assert {"hold.sh", "held.sh"} <= plan.runtime.scripts.keys()
    assert plans(drafted(text, tmp_path, backend="indexed", num_nodes="1"))
    with pytest.raises(SkyError, match="it stops the other nodes only when a held container ends"):
        plans(drafted(text, tmp_path, backend="indexed"))


@pytest.mark.parametrize(
    ("fields", "flags", "expected"),
    [
        ("on_hang: fail", {}, ""),
        ("on_hang: dump", {"num_nodes": "1"}, "only the nodes of a task are compared"),
        ("on_hang: restart", {}, "job_recovery has no restarts"),
    ],
)
def test_on_hang_is_written_on_the_task_or_refused(
    tmp_path: Path, fields: str, flags: dict[str, str], expected: str
) -> None:
    text = f"num_nodes: 2\nrun: echo\nconfig: {{kubectl_sky: {{{fields}}}}}\n"
    if expected:
        with pytest.raises(SkyError, match=expected):
            plans(drafted(text, tmp_path, **flags))
        return
    (plan,) = plans(drafted(text, tmp_path))
    assert plan.annotations["kubectl-sky/on-hang"] == "fail 10m"
    assert plan.env["KUBECTL_SKY_ON_HANG"] == "fail 10m"


def test_on_hang_is_refused_by_mpijob(tmp_path: Path) -> None:
    text = "num_nodes: 2\nrun: echo\nconfig: {kubectl_sky: {on_hang: dump}}\n"
    with pytest.raises(SkyError, match="no program that on_hang could stop"):
        plans(drafted(text, tmp_path, backend="mpijob"))


def test_on_hang_fail_is_refused_with_restarts(tmp_path: Path) -> None:
    config = "config: {kubectl_sky: {on_hang: {action: fail, after: 5m}}}\n"
    recovery = "resources: {job_recovery: {max_restarts_on_errors: 2}}\n"
    with pytest.raises(SkyError, match="job_recovery would start the node again"):
        plans(drafted(f"num_nodes: 2\nrun: echo\n{config}{recovery}", tmp_path))


def test_hold_is_refused_with_restarts_after_failures(tmp_path: Path) -> None:
    text = "run: echo\nresources: {job_recovery: {max_restarts_on_errors: 2}}\n"
    with pytest.raises(SkyError, match="a failed node cannot both be held and start again"):
        drafted(text, tmp_path, hold="30m")
