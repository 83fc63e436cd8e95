"""Every field has a text, and `explain` shows it with type, default and example."""

import pytest
from click.testing import CliRunner
from msgspec.structs import fields

from kubectl_sky.cli.main import sky
from kubectl_sky.errors import UnknownName
from kubectl_sky.spec.explain import ROOTS, Field, explain
from kubectl_sky.words.settings import DEFAULT_IMAGE, Settings

ALL = [field for root in ROOTS for field in explain(root).walk()]
# What happens for these is decided by the fields below them, or by the fields next to them.
WITHOUT_POD = ("resources", "config", "gpus")


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(sky, ["explain", *arguments], prog_name="kubectl sky")
    assert done.exit_code == 0, done.output
    return done.output


def test_explain_knows_all_schemas() -> None:
    names = {field.name for field in ALL}
    assert {"run", "resources.gpus", "resources.any_of", "config.kubernetes.dws.enabled"} <= names
    assert {"settings.stores.*.csi.driver", "volume.size", "header.execution"} <= names
    assert len(names) > 200


@pytest.mark.parametrize("field", ALL, ids=lambda field: field.name)
def test_explain_every_field_has_description_type_and_example(field: Field) -> None:
    assert field.description
    assert field.types != "any"
    assert field.example or field.fields() or field.default, "an example, a default or fields"


def test_explain_every_supported_field_says_what_it_becomes() -> None:
    for prefix in ("", "resources", "config.kubernetes", "config.kubectl_sky"):
        for field in explain(prefix).fields():
            name = field.path[-1]
            unsupported = field.skypilot.startswith("Not supported")
            assert field.pod or unsupported or field.fields() or name in WITHOUT_POD, field.name


def test_explain_defaults_of_settings_are_those_of_the_code() -> None:
    used = Settings()
    for field in fields(Settings):
        rules = explain(f"settings.{field.name}").rules
        if "default" in rules:
            expected = {"image": DEFAULT_IMAGE, "backend": "jobs"}
            assert rules["default"] == expected.get(field.name, getattr(used, field.name))
        else:
            assert not getattr(used, field.name), f"{field.name} has a default"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("resources.cpus", "resources.cpus"),
        ("task.resources.cpus", "resources.cpus"),
        ("file_mounts.mode", "file_mounts.*.mode"),
        ("file_mounts./data.mode", "file_mounts.*.mode"),
        ("settings.stores.s3.csi.driver", "settings.stores.*.csi.driver"),
        ("resources.any_of.cpus", "resources.any_of.cpus"),
        ("config.kubernetes.pod_config.spec.containers.image",) * 2,
    ],
)
def test_explain_path_is_found(text: str, name: str) -> None:
    assert explain(text).name == name


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cpus", 'did you mean "resources.cpus"?'),
        ("resources.acelerators", 'did you mean "resources.accelerators"?'),
        ("nmu_nodes", 'did you mean "num_nodes"?'),
        ("settings.qeue", 'did you mean "settings.queue"?'),
        ("zzzzzz", "run `kubectl sky explain` for all"),
        ("settings.nope", "run `kubectl sky explain settings` for all"),
    ],
)
def test_explain_unknown_field_suggests_similar_one(text: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        explain(text)
    assert caught.value.what == f'field "{text}" not found'
    assert caught.value.hint == hint


def test_explain_field_prints_all_sections() -> None:
    text = shown("resources.cpus")
    assert text.startswith("FIELD: resources.cpus <string|number>\n\nDESCRIPTION:\n    CPUs of")
    assert "EXAMPLE:\n    resources:\n      cpus: 4\n" in text
    assert "BECOMES:\n    Request and limit of cpu." in text
    assert "SKYPILOT:\n    SkyPilot requests 2 CPUs" in text
    assert "DEFAULT:\n    1\n" in shown("num_nodes")
    assert "SKYPILOT:\n    Not supported, ignored: prices are not known." in shown(
        "resources.max_hourly_cost"
    )


def test_explain_without_field_lists_top_level() -> None:
    text = shown()
    assert "\n  run  " in text and "\n  resources  " in text and "_metadata" not in text
    assert "cpus" not in text
    assert "see `kubectl explain pod.spec.tolerations`" in shown(
        "config.kubernetes.pod_config.spec.tolerations"
    )


@pytest.mark.parametrize("field", ["", ".", "..", "*", "\x1b[2J", "a" * 100_000, "task", "run."])
def test_explain_hostile_field_is_explained_or_not_found(field: str) -> None:
    done = CliRunner().invoke(sky, ["explain", "--", field], prog_name="kubectl sky")
    assert done.exception is None or isinstance(done.exception, UnknownName)
