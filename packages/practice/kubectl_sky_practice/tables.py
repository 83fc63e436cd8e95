"""Tables of objects, as `kubectl get` prints them."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from kubectl_sky_practice.resources import Json, Resource

Cell = Callable[[Json], Any]
# A step of a JSONPath: `[?(@.type=="Ready")]`, `[0]` or `.name`.
_STEP = re.compile(r"""\[\?\(@\.(\w+) *== *["']([^"']*)["']\)\]|([^.\[\]]+)""")


def get(obj: Any, path: str) -> Any:
    """Return the value at a path such as `.status.phase`, `.spec.ports[0].port` or with a filter.

    A filter chooses the first item: `.status.conditions[?(@.type=="Ready")].status`.
    """
    for key, value, part in _STEP.findall(path):
        if key:
            items = obj if isinstance(obj, list) else ()
            matches = (item for item in items if isinstance(item, dict) and item.get(key) == value)
            obj = next(matches, None)
        elif isinstance(obj, list) and part.isdigit():
            obj = obj[int(part)] if int(part) < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _age(timestamp: str | None) -> str:
    if not timestamp:
        return "<unknown>"
    try:
        return _duration(datetime.fromisoformat(timestamp), datetime.now(UTC))
    except ValueError:  # Go's years begin with 0
        return "<invalid>"


def _duration(start: datetime, end: datetime) -> str:
    """Format a duration in its largest unit that fits at least twice: 90s, 5m, 3h, 4d."""
    seconds = max(int((end - start).total_seconds()), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _text(path: str) -> Cell:
    def cell(obj: Json) -> Any:
        value = get(obj, path)
        return "" if value is None else value

    return cell


def _or_none(path: str) -> Cell:
    return lambda obj: get(obj, path) or "<none>"


def _since(path: str) -> Cell:
    return lambda obj: _age(get(obj, path))


def _is_true(obj: Json, condition: str) -> bool:
    return bool(get(obj, f'.status.conditions[?(@.type=="{condition}")].status') == "True")


def _statuses(pod: Json) -> list[Json]:
    """Return the statuses of all containers but completed init containers."""
    init = get(pod, ".status.initContainerStatuses") or []
    unfinished = (status for status in init if get(status, ".state.terminated.exitCode") != 0)
    return [*unfinished, *(get(pod, ".status.containerStatuses") or ())]


def _pod_ready(pod: Json) -> str:
    statuses = get(pod, ".status.containerStatuses") or ()
    ready = sum(bool(status.get("ready")) for status in statuses)
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Json) -> str:
    phase = get(pod, ".status.reason") or get(pod, ".status.phase")
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    for status in _statuses(pod):
        for reason in (".state.waiting.reason", ".state.terminated.reason"):
            if get(status, reason) not in (None, "Completed", "PodInitializing"):
                return str(get(status, reason))
    return "Completed" if phase == "Succeeded" else str(phase)


def _pod_restarts(pod: Json) -> int:
    return sum(status["restartCount"] for status in _statuses(pod))


def _job_status(job: Json) -> str:
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _is_true(job, condition):
            return condition
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _job_completions(job: Json) -> str:
    return f"{get(job, '.status.succeeded') or 0}/{get(job, '.spec.completions') or 1}"


def _job_duration(job: Json) -> str:
    start = get(job, ".status.startTime")
    end = get(job, ".status.completionTime")
    if not start:
        return ""
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return _duration(datetime.fromisoformat(start), until)


def _node_status(node: Json) -> str:
    cordoned = ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    return ("Ready" if _is_true(node, "Ready") else "NotReady") + cordoned


def _involved_object(event: Json) -> str:
    return f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}"


_NAME = {"Name": _text(".metadata.name")}
_AGE = {"Age": _since(".metadata.creationTimestamp")}
# fmt: off
_COLUMNS: dict[str, dict[str, Cell]] = {
    "pods": {
        **_NAME, "Ready": _pod_ready, "Status": _pod_status, "Restarts": _pod_restarts, **_AGE,
        "IP": _or_none(".status.podIP"), "Node": _or_none(".spec.nodeName"),
    },
    "jobs.batch": {
        **_NAME, "Status": _job_status, "Completions": _job_completions,
        "Duration": _job_duration, **_AGE,
    },
    "nodes": {**_NAME, "Status": _node_status, **_AGE},
    "events": {
        "Last Seen": _since(".lastTimestamp"), "Type": _text(".type"),
        "Reason": _text(".reason"), "Object": _involved_object, "Message": _text(".message"),
    },
}
# fmt: on
_WIDE = {"IP", "Node"}  # only with `-o wide`


def _columns(resource: Resource) -> Iterable[tuple[str, Cell, int]]:
    """Yield name, cell and priority of each column: built in, of the CRD, or else the age."""
    printed = resource.custom.get("additionalPrinterColumns") or ()
    columns = _COLUMNS.get(resource.storage) or (_NAME if printed else _NAME | _AGE)
    for name, cell in columns.items():
        yield name, cell, int(name in _WIDE)
    for column in printed:
        cell = (_since if column["type"] == "date" else _text)(column["jsonPath"])
        yield column["name"], cell, column.get("priority", 0)


def partial(obj: Json) -> Json:
    if "items" in obj:
        kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return {**kind, "metadata": obj["metadata"], "items": list(map(partial, obj["items"]))}
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": obj["metadata"]}


def table(resource: Resource, objects: list[Json], metadata: Json, include: str) -> Json:
    """Return objects as a Table; `include` is Metadata, Object or None, for the rows."""
    columns = [*_columns(resource)]
    header = [
        {"name": name, "type": "string", "format": "name" * (name == "Name"), "priority": priority}
        | {"description": name}
        for name, _, priority in columns
    ]
    rows: list[Json] = []
    for obj in objects:
        row: Json = {"cells": [cell(obj) for _, cell, _ in columns]}
        if include != "None":
            row["object"] = obj if include == "Object" else partial(obj)
        rows.append(row)
    kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": metadata, "columnDefinitions": header, "rows": rows}
