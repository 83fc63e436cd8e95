"""Comments that explain the origin of lines are correct and change no objects."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.plan.placement import choose_placement
from kubectl_sky.plan.provenance import Origins, with_origins
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.task import task_of
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_plan
from tests.spec.documents import make_document, read

FULL = """\
name: train
num_nodes: 2
resources:
  memory: 8
  labels: {team: research}
  job_recovery: {max_restarts_on_errors: 2}
  any_of:
    - cpus: 4
      accelerators: A100:2
      image_id: python:3.11
  use_spot: true
  disk_size: 100
envs: {EPOCHS: 10}
secrets: {TOKEN: s3cr3t}
setup: |
  true
run: |
  echo "# no comment"
"""
ORIGIN = re.compile(r"task\.yaml:(\d+):(\d+) (\S+)")


def rendered(document: Document, explain: bool, settings: Settings | None = None) -> Manifests:
    settings = settings or Settings()
    task = task_of(document)
    plan = manifests.redact(make_plan(task, FACTS, settings))
    if explain:
        plan = with_origins(
            plan, Origins(document, choose_placement(task, FACTS).resources, settings)
        )
    return manifests.render(plan)


def comments(text: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their origins, without comments of scripts."""
    for line in text.split("\n"):
        code, _, origin = line.partition("  # ")
        if re.match("task\\.yaml:|default$|settings: |--", origin):
            yield code.strip(), origin


def said(document: Document, settings: Settings | None = None) -> dict[str, str]:
    return dict(comments(manifests.as_yaml(rendered(document, True, settings).all)))


def test_explain_lines_name_their_fields() -> None:
    (document,) = read(FULL)
    found = said(document)
    assert found['cpu: "4"'] == "task.yaml:8:7 resources.any_of[0].cpus"
    assert found["memory: 8Gi"] == "task.yaml:4:3 resources.memory"
    assert found["ephemeral-storage: 100Gi"] == "task.yaml:12:3 resources.disk_size"
    assert found["image: python:3.11"] == "task.yaml:10:7 resources.any_of[0].image_id"
    assert found["team: research"] == "task.yaml:5:12 resources.labels.team"
    assert found["backoffLimit: 2"] == "task.yaml:6:3 resources.job_recovery"
    assert found['nvidia.com/gpu: "2"'] == "task.yaml:7:3 resources.any_of"
    assert found['- {name: EPOCHS, value: "10"}'] == "task.yaml:13:8 envs.EPOCHS"
    assert found["TOKEN: UkVEQUNURUQ="] == "task.yaml:14:11 secrets.TOKEN"
    assert found["run.sh: |"] == "task.yaml:17:1 run"
    assert found["name: train-bcdf2345-node-1"] == "task.yaml:1:1 name"


def test_explain_positions_point_to_fields() -> None:
    (document,) = read(FULL)
    lines = FULL.split("\n")
    origins = {origin for _, origin in comments(manifests.as_yaml(rendered(document, True).all))}
    assert len(origins) > 12
    for origin in origins - {"default"}:
        found = ORIGIN.fullmatch(origin)
        assert found, origin
        name = re.split(r"[.]", re.sub(r"\[\d+\]", "", found[3]))[-1]
        assert lines[int(found[1]) - 1][int(found[2]) - 1 :].startswith(name), origin


def test_explain_defaults_settings_and_flags_are_named() -> None:
    settings = Settings(image="ours:1", defaults="skypilot", priority_classes={"5": "high"})
    document = make_document(resources={"priority": 5}).override(("name",), "x", "--name")
    found = said(document, settings)
    assert found["image: ours:1"] == "settings: image"
    assert found['cpu: "2"'] == "settings: defaults"
    assert found["priorityClassName: high"] == "settings: priority_classes"
    assert found["backoffLimit: 0"] == "default"
    assert found["task-name: x"] == "--name name"
    assert said(make_document())["image: python:3.13-slim"] == "default"


TEXTS = st.text() | st.sampled_from(["a  # b", "\0x\0", '"', "\u2028", "\x85", "a\nb", "  # "])


@given(TEXTS, TEXTS, TEXTS)
def test_explain_comments_do_not_change_objects(value: str, label: str, script: str) -> None:
    document = make_document(
        run=f"echo\n{script}", envs={"A": value}, resources={"labels": {"a": label}}
    )
    plain = rendered(document, False)
    told = rendered(document, True)
    assert [each.object for each in told.all] == [each.object for each in plain.all]


@pytest.mark.parametrize(
    "file", sorted(Path("examples").glob("*.yaml")), ids=lambda file: file.stem
)
def test_explain_examples_have_unchanged_objects(file: Path) -> None:
    for document in read(file.read_bytes()):
        task = task_of(document)
        missing = None in [*task.envs.values(), *task.secrets.values()]
        if document.is_header or missing or task.files:
            continue
        plain = rendered(document, False)
        told = rendered(document, True)
        assert [each.object for each in told.all] == [each.object for each in plain.all]
        assert manifests.as_yaml(told.all) == manifests.as_yaml(rendered(document, True).all)
