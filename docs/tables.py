"""Generate the pages of the site that are tables: JSON, dangers, SkyPilot's commands."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import kubectl_sky
import kubectl_sky_server
from kubectl_sky.actions.local import LocalCluster
from kubectl_sky.spec.danger_fields import MEANINGS, METADATA, POD_FIELDS, ROWS, DangerClass
from kubectl_sky.tasks.describe import ClusterEvent
from kubectl_sky.words import documents
from kubectl_sky.words.skypilot_options import COMMON, OPTIONS
from kubectl_sky.words.skypilot_verbs import VERBS
from kubectl_sky_server.rest.cluster import WhoAmI

_DOCUMENTS_INTRO = """\
All documents that commands print with `-o json` and the REST API returns, then the types in them.
The page about [JSON](../json.md) says what they have in common. "No" in the second column means
that the field may be missing. Types with a capital are tables of this page.
"""
_DANGERS_INTRO = """\
What `kubectl sky validate` reports, see [Reviewing what runs](../reviewing.md). Fields are
recognized by name, at any depth, in containers, initContainers and volumes alike. Annotations and
labels are listed by their beginning; other `*` are any name or item.
"""
_SKYPILOT_INTRO = """\
What the error says if you type SkyPilot's commands and options from habit. All other options are
the same here.
[From SkyPilot](../from-skypilot.md) has the differences of task files.
"""

_PARTS = (LocalCluster, ClusterEvent, WhoAmI)  # which no other document has


def pages() -> Mapping[str, str]:
    """Return the text of each page, by its path in the site."""
    return {
        "reference/documents.md": "\n".join(_documents()),
        "reference/dangers.md": "\n".join(_dangers()),
        "reference/skypilot-commands.md": "\n".join(_skypilot()),
    }


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))
    return "".join(lines)


def _documents() -> Iterator[str]:
    yield f"# Fields of JSON\n\n{_DOCUMENTS_INTRO}"
    for package in (kubectl_sky, kubectl_sky_server):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)

    kinds = {kind.__name__: kind for kind in documents.Document.__subclasses__()}
    schemas = documents.schemas([*kinds.values(), *_PARTS], "{name}")[1]
    parts = (name for name in schemas if name not in kinds and "enum" not in schemas[name])

    for name in (*sorted(kinds), *sorted(parts)):
        schema = schemas[name]
        rows = []
        for field, value in schema["properties"].items():
            if field not in ("apiVersion", "kind"):
                always = "" if field in schema["required"] else "no"
                text = value.get("description", "")
                rows.append((f"`{field}`", always, _type(value, schemas), text))
        yield f"## {name}\n\n{schema['description']}\n"
        yield _table(["field", "always", "type", ""], rows)


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(item, schemas) for item in schema["anyOf"])
    if name := schema.get("$ref"):
        return "string" if "enum" in schemas[name] else f"[{name}](#{name.lower()})"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], schemas)}"
    return str(schema.get("type", "any"))


def _dangers() -> Iterator[str]:
    yield f"# Fields that reach beyond the task\n\n{_DANGERS_INTRO}"
    for danger_class, meaning in MEANINGS.items():
        yield f"## `{danger_class}` {{#{danger_class}}}\n\n{meaning[0].upper()}{meaning[1:]}.\n"
        rows = (
            (", ".join(f"`{name}`" for name in names), text)
            for names, text in _fields(danger_class)
        )
        yield _table(["field", "report"], rows)


def _fields(danger_class: DangerClass) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the names of fields with what is reported of them."""
    for name, text in POD_FIELDS.get(danger_class, {}).items():
        yield [name], text.replace("{}", "…")
    for prefixes, text in METADATA.get(danger_class, {}).items():
        yield [f"{prefix}*" for prefix in prefixes], text.replace("{}", "…")
    for row in ROWS:
        if row.danger_class is danger_class:
            yield row.names, row.message.replace("{}", "…")


def _skypilot() -> Iterator[str]:
    yield f"# SkyPilot's commands and options\n\n{_SKYPILOT_INTRO}"
    verbs = ((f"`sky {name}`", verb.answer) for name, verb in VERBS.items())
    yield _table(["SkyPilot", "here"], verbs)
    yield "## Options of every command\n"
    yield _answers(COMMON)
    for command, answers in OPTIONS.items():
        verb = VERBS.get(command)
        program = "sky" if verb and verb.command != command else "kubectl sky"
        yield f"## Options of `{program} {command}` {{#{command.replace(' ', '-')}}}\n"
        yield _answers(answers)


def _answers(answers: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for name, answer in answers.items():
        names.setdefault(answer, []).append(f"`{name}`")
    return _table(["option", "here"], ((", ".join(all_), text) for text, all_ in names.items()))
