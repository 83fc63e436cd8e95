"""The JSON Schemas of tasks, headers, volumes and settings.

They are plain JSON Schema 2020-12 with annotations that other validators ignore:
`x-expected` describes a value in words, `x-values` lists the values that a pattern stands for,
`x-form: duration` is for hints, and `x-unknown: warning` reports unknown fields of an open mapping.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from kubectl_sky.spec import other_names
from kubectl_sky.spec.document import Data, Path, printable
from kubectl_sky.words import assets

BASE = "https://raw.githubusercontent.com/kubectl-sky/kubectl-sky/main/schemas/"  # of each $id
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]")
_LOGIN = re.compile(r"(?<=://)[^/?#@\s]+@")  # of a URL: it may be a secret
NAMES = ("config", "header", "resources", "service", "settings", "storage", "task", "volume")


class SchemaError(Struct, frozen=True):
    """An error at a path; `key` is set if the field itself is wrong, not its value.

    `needs_quotes` is set if YAML read a text as something else.
    """

    path: Path
    message: str
    hint: str = ""
    key: bool = False
    severity: str = "error"
    needs_quotes: bool = False


def fields(schema: str) -> frozenset[str]:
    return frozenset(load(f"{schema}.json")["properties"])


@cache
def load(file: str) -> Any:
    """Return a schema file without `$schema`.

    With it, jsonschema would drop our own keywords.
    """
    content = json.loads(assets.read("schemas", file))
    del content["$schema"]
    return content


def resolve(reference: str) -> Any:
    """Return the part of a schema that a reference such as `task.json#/$defs/x` names."""
    file, _, pointer = reference.partition("#")
    part = load(file)
    for step in pointer.split("/")[1:]:
        part = part[step]
    return part


def find_unfilled(value: Data) -> str:
    """Return the hint for an invalid value if it names a variable; "" if it does not."""
    names_variable = isinstance(value, str) and _VARIABLE.search(value)
    return "variables are not filled in here; write the value" if names_variable else ""


def describe(value: Data) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        kind, count = ("a map", len(value)) if isinstance(value, dict) else ("a list", len(value))
        return kind if count else f"an empty {kind[2:]}"
    if isinstance(value, str):
        return f'"{printable(_LOGIN.sub("…@", value))}"'
    return printable(str(value))


# Sections of ~/.sky/config.yaml that no task has.
_SETTINGS_OF_SKYPILOT = frozenset(
    {
        "active_workspace",
        "admin_policy",
        "allowed_clouds",
        "api_server",
        "aws",
        "azure",
        "gcp",
        "nebius",
        "oci",
        "provision",
        "rbac",
        "vast",
        "workspaces",
    }
)
_REMOVED = {
    "experimental": "its new name is config; move the fields of config_overrides there",
    "hooks": "hooks belongs under config",
    "spot_recovery": "its new name is job_recovery",
}
_OTHER_LEVEL = (("resources.json", "under resources"), ("task.json", "at the top level"))
_POD = ("config", "kubernetes", "pod_config")
# Where a misplaced field may belong: a schema, its path in a task, and its description.
_LEVELS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("resources.json", ("resources",), "under resources"),
    ("task.json", (), "at the top level"),
    ("config.json", ("config",), "under config"),
    ("config.json#/properties/kubernetes", ("config", "kubernetes"), "under config.kubernetes"),
    ("service.json", ("service",), "under service"),
    (
        "service.json#/properties/replica_policy",
        ("service", "replica_policy"),
        "under service.replica_policy",
    ),
    (
        "resources.json#/properties/job_recovery",
        ("resources", "job_recovery"),
        "under resources.job_recovery",
    ),
    ("config.json#/properties/kubectl_sky", ("config", "kubectl_sky"), "under config.kubectl_sky"),
    ("pod.json", _POD, "under config.kubernetes.pod_config"),
    ("pod.json#/$defs/PodSpec", (*_POD, "spec"), "under config.kubernetes.pod_config.spec"),
    ("header.json", (), "in the header: a document before the tasks"),
)
PARENTS = frozenset(path for _, path, _ in _LEVELS)
_ANSWERED = ((), ("resources",), ("config",), ("config", "kubernetes"))  # where tasks are described
_MAX_LENGTH = 100  # characters; comparing 3 MB takes seconds, and no field name is this long
_INTERNAL = ("_", "file_mounts_mapping", "volume_mounts")


def closest(text: str, candidates: Iterable[str]) -> str:
    if len(text) > _MAX_LENGTH:
        return ""
    by_case = {name.lower(): name for name in candidates}
    swapped = [name for name in by_case if sorted(name) == sorted(text.lower())]
    matches = swapped or difflib.get_close_matches(text.lower(), by_case, n=1, cutoff=0.7)
    return f'did you mean "{by_case[matches[0]]}"?' if matches else ""


def field_hint(path: Path, candidates: Sequence[str]) -> str:
    """Return a hint for an unknown field: a similar field, or where it belongs."""
    key = str(path[-1])
    parent = path[:-1]
    if key.startswith(("\u00a0", "-\u00a0")):
        return "it begins with a no-break space (U+00A0), write a space"
    if key in _REMOVED and key not in candidates:
        return _REMOVED[key]
    public = [name for name in candidates if not name.startswith(_INTERNAL)]
    is_of_pod = parent[: len(_POD)] == _POD  # whose names are those of Kubernetes
    intended = key if is_of_pod else other_names.rename(key, public)
    spelled = next((name for name in public if other_names.is_same(name, key)), intended)
    if spelled in public:
        return f'did you mean "{spelled}"?'
    if parent == () and key in _SETTINGS_OF_SKYPILOT:
        return "it is a section of SkyPilot's settings, which is no task file"
    return (
        _level_hint(key, key, parent)
        or (closest(key, public) if is_of_pod else _misspelt(key, public))
        or (other_names.answer(key) if parent in _ANSWERED else "")
        or _level_hint(key, intended, parent)
        or _containing(key, public)
        or _typo_hint(key, parent)
        or closest(key, public)
    )


def _misspelt(key: str, names: Sequence[str]) -> str:
    """Return the hint for a name that is nearly a field's; a word of other tools is none."""
    return "" if other_names.is_known(key) else closest(key, names)


def _containing(key: str, names: Sequence[str]) -> str:
    """Return the hint for a part of a field's name, such as timeout for timeout_seconds."""
    folded = other_names.fold(key)
    words = {*folded.split("_")}
    matches = [name for name in names if words < {*name.split("_")}]
    matches = [name for name in matches if name.startswith(folded)] or matches
    return f'did you mean "{matches[0]}"?' if len(matches) == 1 else ""


def _level_hint(key: str, intended: str, parent: Path) -> str:
    """Return a hint for a field that belongs to another level of the task."""
    if parent not in PARENTS and parent[:1] != ("resources",):
        return ""
    folded = other_names.fold(intended)
    for reference, path, description in _LEVELS:
        names = {other_names.fold(field): field for field in _field_names(reference)}
        is_other = path != parent or reference == "header.json"
        if is_other and folded in names:
            name = "it" if names[folded] == key else f'"{names[folded]}"'
            return f"{name} belongs {description}"
    return ""


def find_place(field: str) -> str:
    """Return where a field is in a task, such as `under resources`; "" if it is unknown."""
    places = (place for reference, _, place in _LEVELS if field in _field_names(reference))
    return next(places, "")


def _typo_hint(key: str, parent: Path) -> str:
    if parent not in ((), ("resources",)) or len(key) > _MAX_LENGTH:
        return ""
    schema_file, location = _OTHER_LEVEL[len(parent)]
    matches = difflib.get_close_matches(key, _field_names(schema_file), n=1, cutoff=0.8)
    return f'did you mean "{matches[0]}" {location}?' if matches else ""


@cache
def _field_names(reference: str) -> tuple[str, ...]:
    properties = resolve(reference)["properties"]
    return tuple(name for name in properties if not name.startswith(_INTERNAL))
