"""The JSON Schemas of tasks, headers, volumes and settings.

They are plain JSON Schema 2020-12 with three annotations that other validators ignore:
`x-expected` describes a value in words, `x-values` lists the values that a pattern stands for,
and `x-unknown: warning` reports unknown fields of an open mapping.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

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
# Common wrong names of fields, and SkyPilot's name for each. Their spelling is too different.
_RENAMED = {
    "args": "run",
    "branch": "ref",
    "cmd": "run",
    "command": "run",
    "commit": "ref",
    "container_image": "image_id",
    "cpu": "cpus",
    "docker_image": "image_id",
    "entrypoint": "run",
    "env": "envs",
    "environment": "envs",
    "gpu": "accelerators",
    "gpu_count": "accelerators",
    "image": "image_id",
    "mem": "memory",
    "mounts": "file_mounts",
    "node_count": "num_nodes",
    "nodes": "num_nodes",
    "ram": "memory",
    "replicas": "num_nodes",
    "script": "run",
    "spot": "use_spot",
    "storage": "file_mounts",
    "working_dir": "workdir",
}
_REMOVED = {
    "experimental": "its new name is config; move the fields of config_overrides there",
    "hooks": "hooks belongs under config",
    "spot_recovery": "its new name is job_recovery",
}
# Fields of other programs' files at the top level, and what is here for them.
_FOREIGN = {
    "env_file": "give it to `kubectl sky submit` as --env-file FILE",
    "depends_on": "submit it with --after TASK, or write a pipeline: a document for each task",
    "restart": "write job_recovery under resources",
    "schedule": "there are no schedules; run `kubectl sky submit` from cron",
    "tasks": "write each task as a document of its own, separated by ---",
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
    if parent == () and key in _FOREIGN and key not in candidates:
        return _FOREIGN[key]
    intended = _RENAMED.get(key, key)
    public = [name for name in candidates if not name.startswith(_INTERNAL)]
    if intended in public:
        return f'did you mean "{intended}"?'
    if parent == () and key in _SETTINGS_OF_SKYPILOT:
        return "it is a section of SkyPilot's settings, which is no task file"
    return _level_hint(key, intended, parent) or closest(key, public) or _typo_hint(key, parent)


def _level_hint(key: str, intended: str, parent: Path) -> str:
    """Return a hint for a field that belongs to another level of the task."""
    name = "it" if intended == key else f'"{intended}"'
    if parent not in PARENTS and parent[:1] != ("resources",):
        return ""
    for reference, path, description in _LEVELS:
        if path != parent and intended in _field_names(reference):
            return f"{name} belongs {description}"
    if parent == () and intended in _field_names("header.json"):
        return f"{name} belongs {_LEVELS[-1][2]}"
    return ""


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
