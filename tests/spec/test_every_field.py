"""Every field with a valid value changes the task or is reported once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.service import Flags, service_of
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.spec.validate import validate
from kubectl_sky.workloads.service import as_replica
from tests.spec.documents import make_document
from tests.spec.test_unsupported import texts

Step = str | int
Path = tuple[Step, ...]
BY_TYPE: dict[str, list[Any]] = {
    "boolean": [True, False],
    "integer": [3],
    "number": [3.5],
    "string": ["x"],
}
FREE = {"file_mounts": "/data", "volumes": "/data", "inputs": "s3://a", "outputs": "s3://a"}
# Values equal to the default behavior: no change and no message.
USUAL: set[tuple[str, Any]] = {
    ("infra", "k8s"),
    ("use_spot", False),
    ("disk_size", 256),
    ("ephemeral_storage", 256),
    ("network_tier", "standard"),
    ("api_server_access", False),
    ("enabled", False),
    ("admission_timeout", -1),
    ("dynamic_ondemand_fallback", False),
    ("min_replicas", 1),
    ("timeout_seconds", 15),
    ("endpoint_probe_interval_seconds", 10),
}


@dataclass(frozen=True)
class Case:
    """A property with a value, and the required sibling fields."""

    path: Path
    value: Any
    siblings: dict[Path, dict[str, Any]] = field(hash=False)

    @property
    def data(self) -> dict[str, Any]:
        return self._task(self._within(self.value, len(self.path)))

    def _task(self, fields: dict[str, Any]) -> dict[str, Any]:
        ports = {"resources": {"ports": 9000}} if self.path[0] == "service" else {}
        return {"run": "echo hi", **ports, **fields}

    @property
    def without(self) -> dict[str, Any]:
        """Return the data without the property, or a minimal task if that is invalid."""
        if len(self.path) == 1:
            return {"run": "other" if self.path == ("run",) else "echo hi"}
        data = self._task(self._within({}, len(self.path) - 1))
        return data if is_valid(data) else {"run": "other"}

    @property
    def usual(self) -> bool:
        return any((self.path[-1], self.value) == known for known in USUAL)

    def _within(self, data: Any, depth: int) -> Any:
        for end in range(depth, 0, -1):
            step = self.path[end - 1]
            data = (
                [data] if step == 0 else self.siblings.get(self.path[: end - 1], {}) | {step: data}
            )
        return data


def resolved(file: str, node: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Follow a reference; prefer examples next to it."""
    followed = ""
    examples = node.get("examples")
    while "$ref" in node:
        followed = f"{file} {node['$ref']}"
        target, _, pointer = node["$ref"].partition("#")
        file = target or file
        node = texts()[file]
        for step in pointer.strip("/").split("/") if pointer else []:
            node = node[step]
    return file, node | ({"examples": examples} if examples else {}), followed


def values(node: dict[str, Any]) -> list[Any]:
    listed: list[Any] = node.get("examples") or node.get("x-values") or node.get("enum") or []
    return listed or BY_TYPE.get(str(node.get("type")), [])


def cases(
    file: str, node: Any, path: Path, beside: dict[Path, dict[str, Any]], seen: tuple[str, ...] = ()
) -> Iterator[Case]:
    if not isinstance(node, dict):
        return
    file, node, followed = resolved(file, node)
    if followed in seen:
        return
    seen = (*seen, followed) if followed else seen
    if path:
        yield from (Case(path, value, beside) for value in values(node))
    below = node.get("properties", {})
    needed = {name: values(resolved(file, below[name])[1])[0] for name in node.get("required", ())}
    for name, inner in below.items():
        yield from cases(file, inner, (*path, name), beside | {path: needed}, seen)

    for inner in node.get("anyOf", []):
        found = cases(file, inner, path, beside, seen)
        yield from (case for case in found if case.path != path)

    field = str(path[-1]) if path else ""
    free = FREE.get(field, "a")
    yield from cases(file, node.get("additionalProperties"), (*path, free), beside, seen)
    yield from cases(file, node.get("items"), (*path, 0), beside, seen)


def about(document: Document) -> list[Problem]:
    found = validate(document)
    return found if any(p.severity == "error" for p in found) else [*found, *refused(document)]


def refused(document: Document) -> list[Problem]:
    """Return refusals without a warning by validate."""
    told = {problem.path for problem in validate(document)}
    served = document.get("service") is not None
    return [p for p in refusals(document, served=served) if p.path not in told]


def task(document: Document) -> Task:
    """Return the task, or that of a replica of the service."""
    plain = task_of(document)
    if document.get("service") is None:
        return plain
    return as_replica(plain, service_of(document, Flags(), ""))


ALL = list(cases("task.json", texts()["task.json"], (), {}))


def is_valid(data: dict[str, Any]) -> bool:
    return all(problem.severity != "error" for problem in validate(make_document(data)))


RIGHT = [case for case in ALL if is_valid(case.data)]


def test_language_cases_cover_most_fields() -> None:
    assert len(RIGHT) > 250
    paths = {case.path for case in ALL}
    tried = {case.path for case in RIGHT}
    assert len(tried) > 0.8 * len(paths), sorted(map(str, paths - tried))


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: ".".join(map(str, case.path)))
def test_language_field_changes_task_or_is_reported_once(case: Case) -> None:
    document = make_document(case.data)
    told = about(document)
    assert len(told) <= 1, [str(problem) for problem in told]
    if not told and not case.usual:
        assert task(document) != task(make_document(case.without)), (
            "the field has no effect and no message"
        )
