"""Which backend runs a task, and why."""

import json
from collections.abc import Mapping

import pytest

from kubectl_sky import assets
from kubectl_sky.cli.submit import command
from kubectl_sky.errors import SkyError
from kubectl_sky.facts import Access
from kubectl_sky.kinds import Kind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.decide import AUTO, choices, needed_kinds


def chosen(
    wanted: str | None, nodes: int = 3, access: Mapping[Kind, Access] | None = None
) -> tuple[str, str]:
    choice = next(choices(wanted, nodes, access or {}))
    return choice.backend.name, choice.note


def test_what_nobody_chose_is_the_default() -> None:
    assert chosen(None) == ("jobs", "")
    assert chosen("indexed") == ("indexed", "")
    assert needed_kinds(None, 3) == []


def test_auto_says_why() -> None:
    assert chosen(AUTO, nodes=1) == ("jobs", "backend jobs: the task has one node")
    name, note = chosen(AUTO)
    assert name == "indexed"
    assert note.startswith("backend indexed: one Job for all nodes")


def test_an_unknown_one_is_told_with_those_there_are() -> None:
    with pytest.raises(SkyError) as caught:
        chosen("slurm")
    assert str(caught.value) == (
        f'backend "slurm" not found; choose one of: {", ".join(registry.NAMED)}'
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "place", [("settings", "backend"), ("config", "kubectl_sky", "properties", "backend")]
)
def test_the_schemas_know_the_backends(place: tuple[str, ...]) -> None:
    found = json.loads(assets.read("schemas", f"{place[0]}.json"))["properties"]
    for key in place[1:]:
        found = found[key]
    assert found["enum"] == [AUTO, *registry.NAMED]


def test_help_of_backend_lists_the_selectable_backends() -> None:
    (option,) = (one for one in command.params if one.name == "backend")
    names = f"jobs (default), {', '.join(registry.NAMED[1:])}, or auto."
    assert option.help == f"Backend: {names}"


def test_backend_that_auto_chooses_has_a_reason_and_an_order() -> None:
    assert registry.AUTOMATIC == ("jobset", "indexed", "jobs")


JOBSETS = registry.named("jobset").kind


def test_auto_takes_what_is_installed_and_allowed() -> None:
    assert needed_kinds(AUTO, 3) == [JOBSETS]
    assert needed_kinds(AUTO, 1) == []
    assert chosen(AUTO, access={JOBSETS: Access.USABLE})[0] == "jobset"
    name, note = chosen(AUTO, access={JOBSETS: Access.FORBIDDEN})
    assert (name, note.rpartition("; ")[2]) == ("indexed", "you may not create JobSets")
    name, note = chosen(AUTO, access={JOBSETS: Access.ABSENT})
    assert (name, note.rpartition("; ")[2]) == ("indexed", "JobSet is not installed")


def test_one_that_is_not_installed() -> None:
    assert needed_kinds("jobset", 1) == [JOBSETS]
    assert chosen("jobset", access={JOBSETS: Access.USABLE})[0] == "jobset"
    assert chosen("jobset")[0] == "jobset", "nobody was asked, as by render"
    with pytest.raises(SkyError) as caught:
        chosen("jobset", access={JOBSETS: Access.ABSENT})
    assert str(caught.value) == (
        "backend jobset needs JobSet, and the cluster does not serve jobsets"
        " (jobset.x-k8s.io/v1alpha2); install it, or choose another backend: jobs, indexed"
    )
    assert caught.value.exit_code == 3
