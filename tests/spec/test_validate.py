"""Validate: all problems in order, without secrets, by schemas that editors can use."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kubectl_sky.spec import schema, schema_errors
from kubectl_sky.spec.document import Document, YamlNode
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.spec.validate import validate
from kubectl_sky.words import assets
from tests.spec.documents import RUN, found_in, make_document, problems, read


def test_validate_reports_all_problems_in_order() -> None:
    text = "nmae: x\nnum_nodes: 0\nresources:\n  cpus: -1\n  foo: 1\nrun: [a]\n"
    lines = [problem.line for problem in found_in(text) if problem.severity == "error"]
    assert lines == [1, 2, 4, 5, 6]


def test_validate_kubernetes_manifest_is_recognized() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n"
    expected = "task.yaml:1:1: this is a Kubernetes Pod, not a task; use kubectl apply"
    assert problems(text) == [expected]


def test_validate_internal_fields_are_not_suggested() -> None:
    for name in ("metadata", "metadat", "is_image_managed", "volume_mount", "requires_fuse"):
        for text in (f"{name}: 1", f"resources: {{{name}: 1}}"):
            (told,) = problems(RUN + text)
            assert "_metadata" not in told
            assert "'_" not in told
            assert "volume_mounts" not in told


def test_validate_unset_variable_hides_only_its_value() -> None:
    text = "envs: {A: }\nfile_mounts: {/a: {nmae: $A}}\n"
    assert problems(RUN + text) == [
        'task.yaml:3:20: file_mounts./a.nmae: unknown field; did you mean "name"?'
    ]


def test_validate_secrets_are_not_printed() -> None:
    text = (
        RUN
        + "secrets: {KEY: hunter2, N: 0123}\n"
        + "file_mounts: {/a: {store: $KEY}, /b: {mode: x$KEY}, /$KEY: {nmae: x}}\n"
        + "volumes: {'/${KEY}/..': '! $KEY', /c: {name: $KEY $KEY}}\n"
        + "service: {readiness_probe: $KEY}\n"
    )
    found = found_in(text) + refusals(read(text)[0])
    assert found
    assert not [str(problem) for problem in found if "hunter2" in str(problem)]
    assert not [str(problem) for problem in found if "'83'" in str(problem)]


def test_validate_substitutes_variables_before_schema() -> None:
    mount = "file_mounts: {/a: {store: $STORE}}\n"
    assert problems(RUN + "envs: {STORE: s3}\n" + mount) == []
    assert problems(RUN + "envs: {STORE: }\n" + mount) == []
    assert len(problems(RUN + "envs: {STORE: what}\n" + mount)) == 1
    assert len(problems(RUN + mount)) == 1


def test_validate_error_of_override_names_flag() -> None:
    document = make_document().override(("resources", "cpus"), "abc", "--cpus")
    assert [str(problem) for problem in validate(document)] == [
        "--cpus: resources.cpus:"
        " CPUs are a number such as 2, 0.5, \"4+\" or \"500m\", got \"abc\""
    ]  # fmt: skip
    document = make_document().override(("envs", "A-B"), "1", "--env")
    assert [str(problem) for problem in validate(document)] == [
        "--env: envs.A-B: expected a variable's name: letters, digits and _, no digit first"
    ]


def test_validate_fields_with_same_name_after_substitution_are_error() -> None:
    text = RUN + "envs: {A: x, B: x}\nvolumes:\n  /data/$A: v\n  /data/$B: w\n"
    assert problems(text) == [
        'task.yaml:4:13: volumes."/data/$A": is another field\'s name, too, with its variables set'
    ]
    assert problems(text.replace("B: x", "B: y")) == []


def test_validate_provider_with_control_characters_is_printable() -> None:
    text = RUN + 'resources: {any_of: [{infra: "a\\0\\e[31m"}, {infra: k8s}]}'
    (warning,) = problems(text, "warning")
    assert warning.isprintable()


@pytest.mark.parametrize("field", ["any_of", "ordered"])
def test_validate_null_in_candidate_counts_as_absent(field: str) -> None:
    assert problems(RUN + f"resources: {{{field}: [{{cpus: 1, disk_size: }}]}}\n") == []


@pytest.mark.parametrize("value", ["x", ""])
def test_validate_default_of_shell_in_substituted_field_is_error(value: str) -> None:
    text = RUN + f"envs: {{A: {value}}}\nfile_mounts: {{/a: 's3://${{A:-b}}/c'}}\n"
    assert problems(text) == [
        "task.yaml:3:19: file_mounts./a: only $NAME and ${NAME} are substituted, no other form of"
        " the shell"
    ]


def test_validate_gpus_flag_overrides_alias_in_file() -> None:
    document = make_document(resources={"gpus": "V100"})
    assert validate(document.override(("resources", "accelerators"), "2", "--gpus")) == []


def test_validate_headers_and_volumes_are_recognized() -> None:
    task = "\n---\nname: t\nrun: x\n"
    assert problems("name: p" + task) == []
    assert problems("name: p\nexecution: parallel\nprimary_tasks: [t]" + task) == []
    assert problems("name: p\nexecution: paralel" + task) == [
        'task.yaml:2:12: document 1: execution: expected one of serial, parallel, got "paralel";'
        ' did you mean "parallel"?'
    ]
    assert problems("name: p\nexecution: parallel\nprimary: [t]" + task, "warning") == [
        "task.yaml:3:1: document 1: primary: warning: unknown field, ignored;"
        ' did you mean "primary_tasks"?'
    ]

    group = "name: p\nexecution: parallel\nprimary_tasks: [t, x]"
    assert problems(group + task + "---\nrun: y\n---\nname: t\nrun: z\n") == [
        "task.yaml:3:20: document 1: primary_tasks[1]: no task in the file has this name",
        "task.yaml:8:1: document 3: a task of a parallel group needs a name; add name: …",
        "task.yaml:10:7: document 4: name: another task of the group has this name",
    ]
    assert problems("name: v\ntype: k8s-pvc\nsize: 10Gi\n") == []
    (wrong,) = problems("name: v\ntype: nfs\nsize: 10Gi\n")
    assert wrong.startswith("task.yaml:2:7: type: expected one of k8s-pvc, ")
    assert problems("name: v\ntype: k8s-pvc\nsize: lots\n") == [
        'task.yaml:3:7: size: expected a size such as "10Gi", got "lots"'
    ]


def test_validate_document_without_file_is_checked() -> None:
    document = Document("f", {"run": 1}, YamlNode({"run": 1}, (1, 1)))
    assert [str(found) for found in validate(document)] == [
        "f:1:1: run: expected a script: run: |, got 1; put it in quotes"
    ]


def test_schemas_are_valid_json_schemas() -> None:
    for name in (*schema.NAMES, "pod"):
        text = json.loads(assets.read("schemas", f"{name}.json"))
        Draft202012Validator.check_schema(text)
        assert text["$id"] == f"{schema.BASE}{name}.json"
        assert text["title"] and text["description"]


def undescribed(node: Any, where: str = "") -> list[str]:
    """Return properties without a description, or free-form properties without an example."""
    found = []
    for key, value in node.items() if isinstance(node, dict) else []:
        if key == "properties":
            for name, field in value.items():
                free = field.get("type") not in ("boolean", None) and not (
                    {"enum", "pattern", "properties", "items", "additionalProperties"}
                    & field.keys()
                )
                internal = field.get("description") == "Internal."
                if "description" not in field:
                    found.append(f"{where}.{name}: description")
                if free and not internal and "examples" not in field:
                    found.append(f"{where}.{name}: examples")
        found += undescribed(value, f"{where}.{key}")

    for item in node if isinstance(node, list) else []:
        found += undescribed(item, where)
    return found


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_properties_have_description_and_example(name: str) -> None:
    assert undescribed(json.loads(assets.read("schemas", f"{name}.json"))) == []


def examples(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the nodes of a schema with their examples."""
    if isinstance(node, dict):
        yield from ((node, example) for example in node.get("examples", []))
    for below in node.values() if isinstance(node, dict) else node:
        if isinstance(below, dict | list):
            yield from examples(below)


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_examples_are_valid(name: str) -> None:
    found = list(examples(schema.load(f"{name}.json")))
    assert found
    checker = schema_errors.validator(f"{name}.json")
    for node, example in found:
        assert checker.evolve(schema=node).is_valid(example), (node, example)


def test_validate_typical_task_is_fast() -> None:
    (document,) = read(
        "name: train\nnum_nodes: 2\nresources: {cpus: 4, memory: 16, accelerators: 8}\n"
        "envs: {EPOCHS: 10, MODEL: big, RATE: 0.1}\nsecrets: {TOKEN: }\nvolumes: {/data: data}\n"
        "setup: pip install torch\nrun: python train.py\n"
    )
    validate(document)
    times = []
    for _ in range(20):
        start = time.process_time()
        assert validate(document) == []
        times.append(time.process_time() - start)
    assert min(times) < 0.02, "the validator is compiled once per process"


FIELDS = ["run", "name", "resources", "envs", "secrets", "volumes", "service", "pool", "config"]
FIELDS += ["file_mounts", "cpus", "memory", "accelerators", "any_of", "labels", "kubernetes"]
FIELDS += ["infra", "image_id", "readiness_probe", "replica_policy", "execution", "type", "gpus"]
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5) | st.integers(), inner)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), DATA), st.integers(1, 3))
def test_validate_random_data_gives_single_line_messages(data: dict[str, Any], count: int) -> None:
    document = Document("f", data, YamlNode(data, (1, 1)), 0, count, count)
    for problem in [*validate(document), *refusals(document)]:
        text = str(problem)
        assert "\n" not in text
        assert "schema" not in problem.message
        assert "^" not in problem.message or "^" in str(data)


@pytest.mark.parametrize("value", ["600", "'600'", "0h", "ten", "10x", "-1h"])
def test_validate_max_duration_without_time_and_unit_is_error(value: str) -> None:
    (document,) = read(f"run: true\nmax_duration: {value}\n")
    (problem,) = [item for item in validate(document) if "max_duration" in str(item)]
    assert "expected a time with a unit such as 90m, 10h or 1h30m" in problem.message
    assert "quotes" not in problem.hint
