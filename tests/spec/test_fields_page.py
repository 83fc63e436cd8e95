"""docs/task-file.md explains every field of SkyPilot's YAML, supported or not."""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from kubectl_sky.spec.unsupported import UnsupportedField, list_fields
from kubectl_sky.words import assets
from tests.spec.test_unsupported import once, properties, texts

FIELDS = Path(__file__).parents[2] / "docs" / "task-file.md"
TABLE = re.compile(r"\| `([\w.*]+)`[^|]*\|[^|\n]*\|\n\|---\|---\|\n((?:\|.*\n)+)")
FIELD = re.compile(r"`([\w.*]+)[^`]*`")
GENERATED = re.compile(
    r"(<!-- made of schemas/unsupported\.yaml.*? -->\n)(.*?)(<!-- end -->)", re.S
)
FILES = {"volume", "header"}  # separate files and documents

Field = tuple[str, ...]


def rows() -> Iterator[tuple[Field, str]]:
    """Yield the explained fields with their explanations."""
    text = GENERATED.sub("", FIELDS.read_text(encoding="utf-8"))
    for prefix, body in TABLE.findall(text):
        above = () if prefix == "task" else tuple(prefix.split("."))
        for line in body.splitlines():
            cell, said = re.split(r"(?<!\\) \| ", line.removeprefix("| "), maxsplit=1)
            named = FIELD.findall(re.sub(r"\(.*?\)", "", cell))
            assert named, f"no field: {line}"
            for field in named:
                yield (*above, *field.split(".")), said


@cache
def all_fields() -> set[Field]:
    """Return all fields; fields of candidates count as fields of resources."""
    schemas = texts() | {"header.json": json.loads(assets.read("schemas", "header.json"))}
    found = {once(path) for path in properties("task.json", schemas["task.json"], ())}
    for name in FILES:
        fields = schemas[f"{name}.json"]["properties"]
        found |= {(name, field) for field in fields}
    return found


def outcome(entry: UnsupportedField) -> tuple[str, str]:
    how = "refused" if entry.refuse else "ignored"
    if entry.as_task:
        how += " without `--as-task`"
    elif entry.unless:
        how += " in some forms"
    return how, entry.reason


def generated() -> str:
    """Return the table of unsupported fields, grouped by reason."""
    lines = ["| field | | why |", "|---|---|---|"]
    for (how, reason), entries in groupby(sorted(list_fields(), key=outcome), outcome):
        fields = ", ".join(f"`{'.'.join(entry.field)}`" for entry in entries)
        lines.append(f"| {fields} | {how} | {reason} |")
    return "\n".join(lines) + "\n"


def covered(path: Field, by: set[Field]) -> bool:
    return any(path[:end] in by for end in range(1, len(path) + 1))


def test_docs_task_file_explains_every_field() -> None:
    explained = {field for field, _ in rows()}
    listed_fields = {entry.field for entry in list_fields()}
    # an entry for all of `resources`, `config` or `config.kubernetes` would explain nothing
    assert not explained & {("resources",), ("config",), ("config", "kubernetes")}
    whole = {path[:end] for path in all_fields() for end in range(len(path))}
    missing = {
        ".".join(path)
        for path in all_fields() - whole
        if not covered(path, explained) and not covered(path, listed_fields)
    }
    assert missing == set()


def test_docs_task_file_names_only_existing_fields() -> None:
    assert len(list(rows())) > 50
    assert {".".join(field) for field, _ in rows()} - {
        ".".join(path) for path in all_fields()
    } == set()


def test_docs_task_file_explains_no_unsupported_field() -> None:
    never = {entry.field for entry in list_fields() if not (entry.unless or entry.as_task)}
    assert {".".join(field) for field, _ in rows() if covered(field, never)} == set()


@pytest.mark.parametrize("word", ["ignored", "refused"])
def test_docs_task_file_unsupported_fields_are_in_list(word: str) -> None:
    assert [field for field, said in rows() if said.startswith(word)] == []


def test_docs_task_file_list_is_up_to_date() -> None:
    """`UPDATE_GOLDEN=1` regenerates the table."""
    text = FIELDS.read_text(encoding="utf-8")
    written = GENERATED.sub(lambda found: found[1] + "\n" + generated() + "\n" + found[3], text)
    if os.environ.get("UPDATE_GOLDEN"):
        FIELDS.write_text(written, encoding="utf-8")
    else:
        assert text == written, "UPDATE_GOLDEN=1 pytest tests/spec/test_readme.py, and review it"
