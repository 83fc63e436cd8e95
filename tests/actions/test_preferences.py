"""The settings file: reading, validation with positions, and effect."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kubectl_sky.actions.config import preferences, read
from kubectl_sky.errors import InvalidFiles
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.render import offline_facts, render
from kubectl_sky.submitting.taskfile import Source, prepare
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import assets
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.decide import decide


def wrong(text: bytes) -> list[str]:
    with pytest.raises(InvalidFiles) as caught:
        read(text, "settings.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_settings_schema_fields_match_settings_class() -> None:
    properties = json.loads(assets.read("schemas", "settings.json"))["properties"]
    assert list(properties) == [field.name for field in structs.fields(Settings)]


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"image:\n"])
def test_settings_empty_file_gives_defaults(text: bytes) -> None:
    assert read(text, "settings.yaml") == Settings()


def test_settings_all_fields_are_read() -> None:
    text = b"image: a:1\ndefaults: skypilot\nbackend: jobs\nqueue: q\n"
    settings = read(text + b"priority_classes: {500: high, -1000..-1: low}\n", "settings.yaml")
    classes = {"500": "high", "-1000..-1": "low"}
    assert settings == Settings("a:1", "skypilot", "jobs", "q", classes)


def test_settings_problems_are_reported_with_positions() -> None:
    assert wrong(b"imag: x\ndefaults: skypilto\npriority_classes: {high: 5, 1..2..3: x}\n") == [
        'settings.yaml:1:1: imag: unknown field; did you mean "image"?',
        'settings.yaml:2:11: defaults: expected one of skypilot, got "skypilto";'
        ' did you mean "skypilot"?',
        "settings.yaml:3:20: priority_classes.high: expected a priority such as 500,"
        " or a range such as 500..1000",
        "settings.yaml:3:26: priority_classes.high: expected the name of a PriorityClass, got 5;"
        " put it in quotes",
        'settings.yaml:3:29: priority_classes."1..2..3": expected a priority such as 500,'
        " or a range such as 500..1000",
    ]

    assert wrong(b"- image") == [
        'settings.yaml:1:1: expected fields such as "image: …", got a list'
    ]
    assert wrong(b"image: x\n---\nimage: y\n") == [
        "settings.yaml:3:1: document 2: settings must be a single document"
    ]


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_settings_random_file_is_read_or_refused(text: bytes) -> None:
    try:
        assert isinstance(read(text, "settings.yaml"), Settings)
    except InvalidFiles as error:
        assert error.problems


def test_settings_missing_file_gives_defaults_and_unreadable_is_error(tmp_path: Path) -> None:
    assert preferences({"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}) == Settings()
    (tmp_path / "settings.yaml").mkdir()
    with pytest.raises(InvalidFiles, match=r"settings\.yaml: cannot be read: is a directory"):
        preferences({"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)})


def test_settings_apply_to_fields_not_in_task_and_are_noted(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("image: base:1\ndefaults: skypilot\n")
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    task = io.BytesIO(b"run: x\nresources: {cpus: 1, accelerators: 2}\n")
    task_file = prepare(Source("-", Overrides(), environ, task), UI())
    facts = offline_facts("alice", None, environ)
    decision = decide(task_file.entries, facts, task_file.settings)
    assert decision.notes == (
        "settings: defaults: skypilot requests memory 4Gi",
        "settings: the image is base:1",
    )
    (job,) = render(task_file, decision, show_secrets=False).workload
    (container,) = job.object["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "base:1"
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "4Gi"}
