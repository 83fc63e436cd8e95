"""What the user may have meant by a field or value that is not there."""

import difflib
from collections.abc import Iterable, Sequence
from functools import cache

from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Path

# Names that people write, and SkyPilot's. Spelling alone would not find them.
_RENAMED = {
    "args": "run",
    "cmd": "run",
    "command": "run",
    "container_image": "image_id",
    "cpu": "cpus",
    "docker_image": "image_id",
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
_GONE = {
    "experimental": "it is called config now: config_overrides' fields go there",
    "hooks": "hooks belong under config",
    "spot_recovery": "it is called job_recovery now",
}
_OTHER_LEVEL = (("resources.json", "under resources"), ("task.json", "at the top level"))
# Where fields belong that stand elsewhere: a schema, its path in a task, and words for it.
_PLACES: tuple[tuple[str, tuple[str, ...], str], ...] = (
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
    ("header.json", (), "in a header: a document before those of the tasks"),
)
_PARENTS = frozenset(path for _, path, _ in _PLACES)
_MAX_LENGTH = 100  # characters; comparing 3 MB takes seconds, and no field is so long
_INTERNAL = ("_", "file_mounts_mapping", "volume_mounts")


def closest(text: str, known: Iterable[str]) -> str:
    """Return the hint that names the known text most like this one, or ""."""
    if len(text) > _MAX_LENGTH:
        return ""
    by_case = {name.lower(): name for name in known}
    found = difflib.get_close_matches(text.lower(), by_case, n=1, cutoff=0.7)
    return f"did you mean {by_case[found[0]]!r}?" if found else ""


def field(path: Path, known: Sequence[str]) -> str:
    """Return a hint for an unknown field: a field that is like it here, or where it belongs."""
    key, parent = str(path[-1]), path[:-1]
    if key in _GONE and key not in known:
        return _GONE[key]
    meant = _RENAMED.get(key, key)
    public = [name for name in known if not name.startswith(_INTERNAL)]
    if meant in public:
        return f"did you mean {meant!r}?"
    return _elsewhere(key, meant, parent) or closest(key, public) or _nearly(key, parent)


def _elsewhere(key: str, meant: str, parent: Path) -> str:
    """Return a hint for a field that belongs to another level of the task."""
    name = "it" if meant == key else repr(meant)
    if parent not in _PARENTS and parent[:1] != ("resources",):
        return ""
    for reference, path, words in _PLACES:
        if path != parent and meant in _fields(reference):
            return f"{name} belongs {words}"
    if parent == () and meant in _fields("header.json"):
        return f"{name} belongs {_PLACES[-1][2]}"
    return ""


def _nearly(key: str, parent: Path) -> str:
    """Return a hint for a misspelt field at the wrong level."""
    if parent not in ((), ("resources",)) or len(key) > _MAX_LENGTH:
        return ""
    other, where = _OTHER_LEVEL[len(parent)]
    found = difflib.get_close_matches(key, _fields(other), n=1, cutoff=0.8)
    return f"did you mean {found[0]!r} {where}?" if found else ""


@cache
def _fields(reference: str) -> tuple[str, ...]:
    known = schema.resolve(reference)["properties"]
    return tuple(name for name in known if not name.startswith(_INTERNAL))
