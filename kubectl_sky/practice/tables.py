"""Tables of objects, as `kubectl get` prints them."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from kubectl_sky.practice.resources import Json, Resource

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


def _duration(seconds: float) -> str:
    """Format a duration as kubectl does: 42s, 5m30s, 3h, 4d."""
    whole = max(int(seconds), 0)
    for limit, unit, size, rest_limit, rest in (
        (120, "s", 1, 0, ""),
        (180 * 60, "m", 60, 600, "s"),
        (48 * 3600, "h", 3600, 8 * 3600, "m"),
        (730 * 86400, "d", 86400, 8 * 86400, "h"),
    ):
        if whole < limit:
            remainder = whole % size * {"s": 1, "m": 1 / 60, "h": 1 / 3600}.get(rest, 0)
            detail = f"{int(remainder)}{rest}" if whole < rest_limit and int(remainder) else ""
            return f"{whole // size}{unit}{detail}"
    return f"{whole // (365 * 86400)}y"


def _age(timestamp: str | None) -> str:
    if not timestamp:
        return "<unknown>"
    return _duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())


def _text(path: str) -> Cell:
    def cell(obj: Json) -> Any:
        value = get(obj, path)
        if isinstance(value, list):
            value = ",".join(map(str, value))
        return "" if value is None else value

    return cell


def _or_none(path: str) -> Cell:
    return lambda obj: get(obj, path) or "<none>"


def _since(path: str) -> Cell:
    return lambda obj: _age(get(obj, path))


def _data(obj: Json) -> int:
    return len(obj.get("data") or ())


def _has_condition(obj: Json, condition: str) -> bool:
    conditions = get(obj, ".status.conditions") or ()
    return any((item["type"], item["status"]) == (condition, "True") for item in conditions)


def _statuses(pod: Json) -> list[Json]:
    init = pod["spec"].get("initContainers") or ()
    sidecars = {item["name"] for item in init if item.get("restartPolicy") == "Always"}
    statuses = get(pod, ".status.initContainerStatuses") or []
    return [
        *(status for status in statuses if status["name"] in sidecars),
        *(get(pod, ".status.containerStatuses") or ()),
    ]


def _pod_ready(pod: Json) -> str:
    init = pod["spec"].get("initContainers") or ()
    sidecars = [item for item in init if item.get("restartPolicy") == "Always"]
    running = (status for status in _statuses(pod) if get(status, ".state.running"))
    ready = sum(status.get("ready", False) for status in running)
    return f"{ready}/{len(pod['spec']['containers']) + len(sidecars)}"


def _pod_status(pod: Json) -> str:
    phase = get(pod, ".status.phase")
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    reason = get(pod, ".status.reason") or phase
    for condition in get(pod, ".status.conditions") or ():
        if (condition["type"], condition.get("reason")) == ("PodScheduled", "SchedulingGated"):
            reason = "SchedulingGated"
    init = pod["spec"].get("initContainers") or ()
    for index, status in enumerate(get(pod, ".status.initContainerStatuses") or ()):
        if status.get("started") or get(status, ".state.terminated.exitCode") == 0:
            continue
        failure = _state_reason(status)
        return (
            f"Init:{index}/{len(init)}" if failure in ("", "PodInitializing") else f"Init:{failure}"
        )
    return _containers_status(pod, reason)


def _state_reason(status: Json) -> str:
    return get(status, ".state.waiting.reason") or get(status, ".state.terminated.reason") or ""


def _containers_status(pod: Json, reason: str) -> str:
    running, failure = False, ""
    for status in reversed(get(pod, ".status.containerStatuses") or []):
        reason = _state_reason(status) or reason
        if get(status, ".state.terminated.exitCode"):
            failure = reason
        running = running or bool(status.get("ready") and get(status, ".state.running"))
    if reason != "Completed":
        return reason
    if running:
        return "Running" if _has_condition(pod, "Ready") else "NotReady"
    return failure or reason


def _pod_restarts(pod: Json) -> str:
    statuses = _statuses(pod)
    restarts = sum(status.get("restartCount", 0) for status in statuses)
    ends = [get(status, ".lastState.terminated.finishedAt") for status in statuses]
    last = max(filter(None, ends), default=None)
    return f"{restarts} ({_age(last)} ago)" if restarts and last else str(restarts)


def _job_status(job: Json) -> str:
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _has_condition(job, condition):
            return condition
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _job_completions(job: Json) -> str:
    completions, parallelism = get(job, ".spec.completions"), get(job, ".spec.parallelism") or 0
    if completions is None:
        completions = f"1 of {parallelism}" if parallelism > 1 else 1
    return f"{get(job, '.status.succeeded') or 0}/{completions}"


def _job_duration(job: Json) -> str:
    start, end = get(job, ".status.startTime"), get(job, ".status.completionTime")
    if not start:
        return ""
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return _duration((until - datetime.fromisoformat(start)).total_seconds())


def _node_status(node: Json) -> str:
    cordoned = ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    return ("Ready" if _has_condition(node, "Ready") else "NotReady") + cordoned


def _access_modes(obj: Json) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}
    modes = get(obj, ".spec.accessModes") or ()
    return ",".join(short.get(mode, "RWOP") for mode in modes)


def _service_ports(service: Json) -> str:
    ports = get(service, ".spec.ports") or ()
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _involved_object(event: Json) -> str:
    return f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}"


def _phase(obj: Json) -> str:
    deleted = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if deleted else get(obj, ".status.phase") or ""


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
    "nodes": {
        **_NAME, "Status": _node_status, "Roles": lambda _: "<none>", **_AGE,
        "Version": _text(".status.nodeInfo.kubeletVersion"),
    },
    "namespaces": {**_NAME, "Status": _text(".status.phase"), **_AGE},
    "configmaps": {**_NAME, "Data": _data, **_AGE},
    "secrets": {**_NAME, "Type": _text(".type"), "Data": _data, **_AGE},
    "services": {
        **_NAME, "Type": _text(".spec.type"), "Cluster-IP": _or_none(".spec.clusterIP"),
        "External-IP": lambda _: "<none>", "Port(s)": _service_ports, **_AGE,
    },
    "events": {
        "Last Seen": _since(".lastTimestamp"), "Type": _text(".type"),
        "Reason": _text(".reason"), "Object": _involved_object, "Message": _text(".message"),
    },
    "persistentvolumeclaims": {
        **_NAME, "Status": _phase, "Volume": _text(".spec.volumeName"),
        "Capacity": _text(".status.capacity.storage"), "Access Modes": _access_modes,
        "StorageClass": _text(".spec.storageClassName"), **_AGE,
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
