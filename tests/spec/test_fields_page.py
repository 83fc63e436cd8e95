"""docs/task-file.md says of each field of SkyPilot's language what it becomes, or why nothing."""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from kubectl_sky import assets
from kubectl_sky.spec.unsupported import Entry, listed
from tests.spec.test_unsupported import once, properties, texts

FIELDS = Path(__file__).parents[2] / "docs" / "task-file.md"
TABLE = re.compile(r"\| `([\w.*]+)`[^|]*\|[^|\n]*\|\n\|---\|---\|\n((?:\|.*\n)+)")
FIELD = re.compile(r"`([\w.*]+)[^`]*`")
GENERATED = re.compile(
    r"(<!-- made of schemas/unsupported\.yaml.*? -->\n)(.*?)(<!-- end -->)", re.S
)
FILES = {"volume", "header"}  # they are files and documents of their own

Field = tuple[str, ...]


def rows() -> Iterator[tuple[Field, str]]:
    """The fields that the page explains, with what it says of them."""
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
def known() -> set[Field]:
    """All fields, a candidate's as those of resources, and those of files under their name."""
    schemas = texts() | {"header.json": json.loads(assets.read("schemas", "header.json"))}
    found = {once(path) for path in properties("task.json", schemas["task.json"], ())}
    for name in FILES:
        fields = schemas[f"{name}.json"]["properties"]
        found |= {(name, field) for field in fields}
    return found


def outcome(entry: Entry) -> tuple[str, str]:
    how = "refused" if entry.refuse else "ignored"
    if entry.as_task:
        how += " without `--as-task`"
    elif entry.unless:
        how += " in some forms"
    return how, entry.reason


def generated() -> str:
    """The table of what is listed as not carried out, fields of one reason on one line."""
    lines = ["| field | | why |", "|---|---|---|"]
    for (how, reason), entries in groupby(sorted(listed(), key=outcome), outcome):
        fields = ", ".join(f"`{'.'.join(entry.field)}`" for entry in entries)
        lines.append(f"| {fields} | {how} | {reason} |")
    return "\n".join(lines) + "\n"


def covered(path: Field, by: set[Field]) -> bool:
    return any(path[:end] in by for end in range(1, len(path) + 1))


def test_every_field_has_its_line() -> None:
    explained = {field for field, _ in rows()}
    listed_fields = {entry.field for entry in listed()}
    # a line for `resources`, `config` or `config.kubernetes` as a whole would explain nothing
    assert not explained & {("resources",), ("config",), ("config", "kubernetes")}
    whole = {path[:end] for path in known() for end in range(len(path))}
    missing = {
        ".".join(path)
        for path in known() - whole
        if not covered(path, explained) and not covered(path, listed_fields)
    }
    assert missing == set()


def test_lines_name_only_fields_that_there_are() -> None:
    assert len(list(rows())) > 50
    assert {".".join(field) for field, _ in rows()} - {".".join(path) for path in known()} == set()


def test_what_is_never_carried_out_has_no_line_but_the_list() -> None:
    never = {entry.field for entry in listed() if not (entry.unless or entry.as_task)}
    assert {".".join(field) for field, _ in rows() if covered(field, never)} == set()


@pytest.mark.parametrize("word", ["ignored", "refused"])
def test_what_is_not_listed_is_not_said_to_be_nothing(word: str) -> None:
    assert [field for field, said in rows() if said.startswith(word)] == []


def test_the_list_is_as_it_is_carried_out() -> None:
    """`UPDATE_GOLDEN=1` writes it anew."""
    text = FIELDS.read_text(encoding="utf-8")
    written = GENERATED.sub(lambda found: found[1] + "\n" + generated() + "\n" + found[3], text)
    if os.environ.get("UPDATE_GOLDEN"):
        FIELDS.write_text(written, encoding="utf-8")
    else:
        assert text == written, "UPDATE_GOLDEN=1 pytest tests/spec/test_readme.py, and review it"
