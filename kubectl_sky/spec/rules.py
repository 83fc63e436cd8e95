"""Rules that a schema cannot express.

They compare the fields of one task, and check what Kubernetes accepts.

A rule takes the document and yields problems. It skips values of the wrong type, because the schema
has already reported them.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec import (
    buckets,
    files,
    groups,
    image,
    infra,
    kubernetes,
    mounts,
    pod_config,
    ports,
    recovery,
    secret,
    serving,
    sizes,
    variables,
    yaml_gotchas,
)
from kubectl_sky.spec.document import Data, Document, Path, entries

MAX_NODES = 10_000
MAX_MOUNTS = 1000  # a pod with more exceeds etcd's limit of 1.5 MiB per object

Rule = Callable[[Document], Iterator[Problem]]
Table = tuple[tuple[frozenset[str], tuple[Rule, ...]], ...]

_NAME = re.compile(r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*")  # SkyPilot's rule for task names


def problems(document: Document) -> list[Problem]:
    """Return the problems that the rules find in a task."""
    applicable = [*_ANY, *_fitting(_RULES, document.data)]
    if document.resources.maps:
        applicable += _fitting(_OF_RESOURCES, document.resources.fields)
    return [problem for rule in applicable for problem in rule(document)]


def _fitting(table: Table, there: Iterable[Data]) -> list[Rule]:
    return [rule for fields, rules in table if not fields.isdisjoint(there) for rule in rules]


def _manifest(document: Document) -> Iterator[Problem]:
    kind = document.get("kind")
    if document.get("apiVersion") and isinstance(kind, str):
        hint = "use kubectl apply"
        yield document.problem((), f"this is a Kubernetes {kind}, not a task", hint)


def _name(document: Document) -> Iterator[Problem]:
    name = document.get("name")
    if isinstance(name, str) and name and not _NAME.fullmatch(name):
        message = "in names of objects, dashes replace what Kubernetes does not allow"
        yield document.problem(("name",), message, severity="warning")


def header_problems(document: Document) -> list[Problem]:
    """Return the problems of the header of a file with several tasks."""
    primary, delays = document.get("primary_tasks"), document.get("termination_delay")
    references: list[tuple[Path, Data]] = [
        (("primary_tasks", index), name)
        for index, name in enumerate(primary if isinstance(primary, list) else [])
    ]
    references += [(("termination_delay", name), name) for name, _ in entries(delays)]
    delay_names = (*document.names, "default")
    return [
        document.problem(path, "no task in the file has this name", key=path[-1] == name)
        for path, name in references
        if name not in (delay_names if path[0] == "termination_delay" else document.names)
    ]


def _nodes(document: Document) -> Iterator[Problem]:
    nodes = document.get("num_nodes")
    if isinstance(nodes, float) and nodes.is_integer():  # JSON Schema accepts 2.0 as an integer
        yield document.problem(("num_nodes",), "expected a whole number, without a decimal point")
    elif isinstance(nodes, int) and nodes > MAX_NODES:
        yield document.problem(("num_nodes",), f"more than {MAX_NODES:,} nodes are not supported")


def _mounts(document: Document) -> Iterator[Problem]:
    for field in ("file_mounts", "volumes"):
        count = len(dict(entries(document.get(field))))
        if count > MAX_MOUNTS:
            message = f"{count:,} entries; the limit is {MAX_MOUNTS:,}"
            yield document.problem((field,), message, key=True)


def _commands(document: Document) -> Iterator[Problem]:
    run, setup = document.get("run"), document.get("setup")
    for field, script in (("run", run), ("setup", setup)):
        if isinstance(script, str) and "\0" in script:
            yield document.problem((field,), "contains a NUL character, which no shell can read")


# Rules, and the fields of which at least one must be set for them to apply.
_ANY: tuple[Rule, ...] = (_commands, *groups.RULES, *yaml_gotchas.RULES)
_RULES: Table = (
    (frozenset({"apiVersion"}), (_manifest,)),
    (frozenset({"name"}), (_name,)),
    (frozenset({"num_nodes"}), (_nodes,)),
    (frozenset({"file_mounts", "volumes"}), (_mounts,)),
    (frozenset({"envs", "secrets"}), variables.RULES),
    (frozenset({"secrets", "managed_secrets"}), secret.RULES),
    (frozenset({"workdir", "file_mounts"}), files.RULES),
    (frozenset({"file_mounts"}), buckets.RULES),
    (frozenset({"volumes"}), mounts.RULES),
    (frozenset({"service", "pool"}), serving.RULES),
    (frozenset({"config"}), kubernetes.RULES + pod_config.RULES),
)
_OF_RESOURCES: Table = (
    *sizes.RULES,
    *image.RULES,
    *yaml_gotchas.RULES_OF_RESOURCES,
    *recovery.RULES,
    *infra.RULES,
    *ports.RULES,
)
