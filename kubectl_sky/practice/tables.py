"""Objects as rows, for people: what `kubectl get` prints."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from kubectl_sky.practice.resources import Json, Resource

Cell = Callable[[Json], Any]


def at(obj: Any, path: str) -> Any:
    """Return what stands at a path such as `.status.phase` or `.spec.ports[0].port`."""
    for part in path.replace("[", ".[").strip(".").split("."):
        if part.startswith("["):
            index = part.strip("[]")
            many = isinstance(obj, list) and index.isdigit() and int(index) < len(obj)
            obj = obj[int(index)] if many else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def duration(seconds: float) -> str:
    """Write a time span as kubectl does: 42s, 5m30s, 3h, 4d."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    for limit, major, minor, rest in (
        (120, f"{whole}s", "", 0),
        (600, f"{minutes}m", "s", whole % 60),
        (180 * 60, f"{minutes}m", "", 0),
        (8 * 3600, f"{hours}h", "m", minutes % 60),
        (48 * 3600, f"{hours}h", "", 0),
        (8 * 86400, f"{days}d", "h", hours % 24),
        (730 * 86400, f"{days}d", "", 0),
    ):
        if whole < limit:
            return f"{major}{rest}{minor}" if rest else major
    return f"{days // 365}y"


def age(timestamp: str | None) -> str:
    """Return how long ago a time was."""
    if not timestamp:
        return "<unknown>"
    return duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())


def _value(path: str, empty: str = "") -> Cell:
    def cell(obj: Json) -> Any:
        found = at(obj, path)
        if isinstance(found, list):
            return ",".join(map(str, found)) or empty
        return empty if found is None or found == "" else found

    return cell


def _ago(path: str) -> Cell:
    return lambda obj: age(at(obj, path))


def _count(path: str) -> Cell:
    return lambda obj: len(at(obj, path) or ())


def _labels_of(path: str) -> Cell:
    def cell(obj: Json) -> str:
        found = at(obj, path) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or "<none>"

    return cell


def _statuses(pod: Json) -> list[Json]:
    return at(pod, ".status.containerStatuses") or []


def _pod_ready(pod: Json) -> str:
    ready = sum(one.get("ready", False) for one in _statuses(pod))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Json) -> str:
    reason = at(pod, ".status.reason") or at(pod, ".status.phase")
    waiting = at(pod, ".status.conditions") or ()
    for one in waiting:
        if one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    starting = at(pod, ".status.initContainerStatuses") or []
    for index, one in enumerate(starting):
        state = one.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        why = (state.get("terminated") or state.get("waiting") or {}).get("reason")
        plain = why in (None, "PodInitializing", "ContainerCreating")
        return _ending(pod, f"Init:{index}/{len(starting)}" if plain else f"Init:{why}")
    for one in reversed(_statuses(pod)):
        state = one.get("state") or {}
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason") or reason
    return _ending(pod, str(reason))


def _ending(pod: Json, reason: str) -> str:
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else reason


def _pod_restarts(pod: Json) -> str:
    restarts = sum(one.get("restartCount", 0) for one in _statuses(pod))
    ends = [at(one, ".lastState.terminated.finishedAt") for one in _statuses(pod)]
    last = max(filter(None, ends), default=None)
    return f"{restarts} ({age(last)} ago)" if restarts and last else str(restarts)


def _job_status(job: Json) -> str:
    true = {one["type"] for one in at(job, ".status.conditions") or () if one["status"] == "True"}
    for found in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if found in true:
            return found
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _job_completions(job: Json) -> str:
    done = at(job, ".status.succeeded") or 0
    wanted, parallel = at(job, ".spec.completions"), at(job, ".spec.parallelism") or 0
    if wanted is None:
        wanted = f"1 of {parallel}" if parallel > 1 else 1
    return f"{done}/{wanted}"


def _job_duration(job: Json) -> str:
    begun, ended = at(job, ".status.startTime"), at(job, ".status.completionTime")
    if not begun:
        return ""
    end = datetime.fromisoformat(ended) if ended else datetime.now(UTC)
    return duration((end - datetime.fromisoformat(begun)).total_seconds())


def _node_status(node: Json) -> str:
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"]
    )
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    )


def _modes(obj: Json) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}
    short["ReadWriteOncePod"] = "RWOP"
    return ",".join(short.get(one, one) for one in at(obj, ".spec.accessModes") or ())


def _ports(service: Json) -> str:
    ports = at(service, ".spec.ports") or ()
    return ",".join(f"{one['port']}/{one.get('protocol', 'TCP')}" for one in ports) or "<none>"


def _about(event: Json) -> str:
    return f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}"


def _containers(path: str) -> tuple[tuple[str, Cell, int], ...]:
    def cell(field: str) -> Cell:
        return lambda obj: ",".join(one[field] for one in at(obj, path) or ())

    return (("Containers", cell("name"), 1), ("Images", cell("image"), 1))


def _used(kind: str) -> Cell:
    def cell(quota: Json) -> str:
        hard, used = at(quota, ".status.hard") or {}, at(quota, ".status.used") or {}
        mine = [name for name in sorted(hard) if ("limits." in name) == (kind == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in mine)

    return cell


_AGE = ("Age", _ago(".metadata.creationTimestamp"), 0)
# name of a column, its cell, and 0, or 1 where only `-o wide` shows it
_COLUMNS: dict[str, tuple[tuple[str, Cell, int], ...]] = {
    "pods": (
        ("Ready", _pod_ready, 0),
        ("Status", _pod_status, 0),
        ("Restarts", _pod_restarts, 0),
        _AGE,
        ("IP", _value(".status.podIP", "<none>"), 1),
        ("Node", _value(".spec.nodeName", "<none>"), 1),
        ("Nominated Node", _value(".status.nominatedNodeName", "<none>"), 1),
        ("Readiness Gates", _value(".spec.readinessGates", "<none>"), 1),
    ),
    "jobs.batch": (
        ("Status", _job_status, 0),
        ("Completions", _job_completions, 0),
        ("Duration", _job_duration, 0),
        _AGE,
        *_containers(".spec.template.spec.containers"),
        ("Selector", _labels_of(".spec.selector.matchLabels"), 1),
    ),
    "nodes": (
        ("Status", _node_status, 0),
        ("Roles", lambda _: "<none>", 0),
        _AGE,
        ("Version", _value(".status.nodeInfo.kubeletVersion"), 0),
        ("Internal-IP", _value(".status.addresses[0].address", "<none>"), 1),
        ("External-IP", lambda _: "<none>", 1),
        ("OS-Image", _value(".status.nodeInfo.osImage"), 1),
        ("Kernel-Version", _value(".status.nodeInfo.kernelVersion"), 1),
        ("Container-Runtime", _value(".status.nodeInfo.containerRuntimeVersion"), 1),
    ),
    "namespaces": (("Status", _value(".status.phase"), 0), _AGE),
    "configmaps": (("Data", _count(".data"), 0), _AGE),
    "secrets": (("Type", _value(".type"), 0), ("Data", _count(".data"), 0), _AGE),
    "services": (
        ("Type", _value(".spec.type"), 0),
        ("Cluster-IP", _value(".spec.clusterIP", "<none>"), 0),
        ("External-IP", lambda _: "<none>", 0),
        ("Port(s)", _ports, 0),
        _AGE,
        ("Selector", _labels_of(".spec.selector"), 1),
    ),
    "serviceaccounts": (_AGE,),
    "events": (
        ("Last Seen", _ago(".lastTimestamp"), 0),
        ("Type", _value(".type"), 0),
        ("Reason", _value(".reason"), 0),
        ("Object", _about, 0),
        ("Subobject", _value(".involvedObject.fieldPath"), 1),
        ("Source", _value(".source.component"), 1),
        ("Message", _value(".message"), 0),
        ("First Seen", _ago(".firstTimestamp"), 1),
        ("Count", _value(".count"), 1),
        ("Name", _value(".metadata.name"), 1),
    ),
    "persistentvolumeclaims": (
        ("Status", _value(".status.phase"), 0),
        ("Volume", _value(".spec.volumeName"), 0),
        ("Capacity", _value(".status.capacity.storage"), 0),
        ("Access Modes", _modes, 0),
        ("StorageClass", _value(".spec.storageClassName"), 0),
        ("VolumeAttributesClass", lambda _: "<unset>", 0),
        _AGE,
        ("VolumeMode", _value(".spec.volumeMode"), 1),
    ),
    "persistentvolumes": (
        ("Capacity", _value(".spec.capacity.storage"), 0),
        ("Access Modes", _modes, 0),
        ("Reclaim Policy", _value(".spec.persistentVolumeReclaimPolicy"), 0),
        ("Status", _value(".status.phase"), 0),
        (
            "Claim",
            lambda pv: "/".join(
                (at(pv, ".spec.claimRef") or {}).get(key, "") for key in ("namespace", "name")
            ).strip("/"),
            0,
        ),
        ("StorageClass", _value(".spec.storageClassName"), 0),
        ("VolumeAttributesClass", lambda _: "<unset>", 0),
        ("Reason", _value(".status.reason"), 0),
        _AGE,
        ("VolumeMode", _value(".spec.volumeMode"), 1),
    ),
    "resourcequotas": (("Request", _used("requests"), 0), ("Limit", _used("limits"), 0), _AGE),
    "storageclasses.storage.k8s.io": (
        ("Provisioner", _value(".provisioner"), 0),
        ("ReclaimPolicy", _value(".reclaimPolicy"), 0),
        ("VolumeBindingMode", _value(".volumeBindingMode"), 0),
        ("AllowVolumeExpansion", lambda one: bool(one.get("allowVolumeExpansion")), 0),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        ("Value", _value(".value"), 0),
        ("Global-Default", lambda one: bool(one.get("globalDefault")), 0),
        _AGE,
        ("PreemptionPolicy", _value(".preemptionPolicy"), 0),
    ),
}
_CREATED = ("Created At", _value(".metadata.creationTimestamp"), 0)
_BY_TIME = ("customresourcedefinitions", "roles", "clusterroles", "limitranges")


def _columns(resource: Resource) -> Iterable[tuple[str, Cell, int]]:
    own = resource.custom.get("additionalPrinterColumns")
    if own:
        for one in own:
            cell = _ago if one["type"] == "date" else _value
            yield one["name"], cell(one["jsonPath"]), one.get("priority", 0)
    elif resource.plural in _BY_TIME:
        yield _CREATED
    else:
        yield from _COLUMNS.get(resource.storage, (_AGE,))


def table(resource: Resource, objects: list[Json], metadata: Json, include: str) -> Json:
    """Return objects as a Table; each row has its object's metadata, the object, or nothing."""
    columns = [("Name", _value(".metadata.name"), 0), *_columns(resource)]
    if resource.storage == "events":
        columns = columns[1:]
    header = [
        {"name": name, "type": "string", "format": "name" * (name == "Name"), "priority": priority}
        | {"description": name}
        for name, _, priority in columns
    ]
    rows: list[Json] = []
    for obj in objects:
        row: Json = {"cells": [cell(obj) for _, cell, _ in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = {**kind, "metadata": obj["metadata"]}
        rows.append(row)
    own = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**own, "columnDefinitions": header, "rows": rows}
