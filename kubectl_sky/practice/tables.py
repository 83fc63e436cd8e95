"""Objects as rows, for people: what `kubectl get` prints."""

from collections.abc import Iterable

from kubectl_sky.practice import cells
from kubectl_sky.practice.resources import Json, Resource

_NAME = cells.value(".metadata.name")
_AGE = ("Age", cells.ago(".metadata.creationTimestamp"), 0)
# name of a column, its cell, and 0, or 1 where only `-o wide` shows it
_COLUMNS: dict[str, tuple[tuple[str, cells.Cell, int], ...]] = {
    "pods": (
        ("Ready", cells.pod_ready, 0),
        ("Status", cells.pod_status, 0),
        ("Restarts", cells.pod_restarts, 0),
        _AGE,
        ("IP", cells.value(".status.podIP", "<none>"), 1),
        ("Node", cells.value(".spec.nodeName", "<none>"), 1),
        ("Nominated Node", cells.value(".status.nominatedNodeName", "<none>"), 1),
        ("Readiness Gates", cells.value(".spec.readinessGates", "<none>"), 1),
    ),
    "jobs.batch": (
        ("Status", cells.job_status, 0),
        ("Completions", cells.job_completions, 0),
        ("Duration", cells.job_duration, 0),
        _AGE,
        *cells.containers(".spec.template.spec.containers"),
        ("Selector", cells.labels_of(".spec.selector.matchLabels"), 1),
    ),
    "nodes": (
        ("Status", cells.node_status, 0),
        ("Roles", lambda _: "<none>", 0),
        _AGE,
        ("Version", cells.value(".status.nodeInfo.kubeletVersion"), 0),
        ("Internal-IP", cells.value(".status.addresses[0].address", "<none>"), 1),
        ("External-IP", lambda _: "<none>", 1),
        ("OS-Image", cells.value(".status.nodeInfo.osImage"), 1),
        ("Kernel-Version", cells.value(".status.nodeInfo.kernelVersion"), 1),
        ("Container-Runtime", cells.value(".status.nodeInfo.containerRuntimeVersion"), 1),
    ),
    "namespaces": (("Status", cells.value(".status.phase"), 0), _AGE),
    "configmaps": (("Data", cells.count(".data"), 0), _AGE),
    "secrets": (("Type", cells.value(".type"), 0), ("Data", cells.count(".data"), 0), _AGE),
    "services": (
        ("Type", cells.value(".spec.type"), 0),
        ("Cluster-IP", cells.value(".spec.clusterIP", "<none>"), 0),
        ("External-IP", lambda _: "<none>", 0),
        ("Port(s)", cells.ports, 0),
        _AGE,
        ("Selector", cells.labels_of(".spec.selector"), 1),
    ),
    "serviceaccounts": (_AGE,),
    "events": (
        ("Last Seen", cells.ago(".lastTimestamp"), 0),
        ("Type", cells.value(".type"), 0),
        ("Reason", cells.value(".reason"), 0),
        ("Object", cells.about, 0),
        ("Subobject", cells.value(".involvedObject.fieldPath"), 1),
        ("Source", cells.value(".source.component"), 1),
        ("Message", cells.value(".message"), 0),
        ("First Seen", cells.ago(".firstTimestamp"), 1),
        ("Count", cells.value(".count"), 1),
        ("Name", cells.value(".metadata.name"), 1),
    ),
    "persistentvolumeclaims": (
        ("Status", cells.phase, 0),
        ("Volume", cells.value(".spec.volumeName"), 0),
        ("Capacity", cells.value(".status.capacity.storage"), 0),
        ("Access Modes", cells.modes, 0),
        ("StorageClass", cells.value(".spec.storageClassName"), 0),
        ("VolumeAttributesClass", lambda _: "<unset>", 0),
        _AGE,
        ("VolumeMode", cells.value(".spec.volumeMode"), 1),
    ),
    "persistentvolumes": (
        ("Capacity", cells.value(".spec.capacity.storage"), 0),
        ("Access Modes", cells.modes, 0),
        ("Reclaim Policy", cells.value(".spec.persistentVolumeReclaimPolicy"), 0),
        ("Status", cells.phase, 0),
        (
            "Claim",
            lambda pv: "/".join(
                (cells.at(pv, ".spec.claimRef") or {}).get(key, "") for key in ("namespace", "name")
            ).strip("/"),
            0,
        ),
        ("StorageClass", cells.value(".spec.storageClassName"), 0),
        ("VolumeAttributesClass", lambda _: "<unset>", 0),
        ("Reason", cells.value(".status.reason"), 0),
        _AGE,
        ("VolumeMode", cells.value(".spec.volumeMode"), 1),
    ),
    "resourcequotas": (
        ("Request", cells.used("requests"), 0),
        ("Limit", cells.used("limits"), 0),
        _AGE,
    ),
    "storageclasses.storage.k8s.io": (
        ("Provisioner", cells.value(".provisioner"), 0),
        ("ReclaimPolicy", cells.value(".reclaimPolicy"), 0),
        ("VolumeBindingMode", cells.value(".volumeBindingMode"), 0),
        ("AllowVolumeExpansion", lambda one: bool(one.get("allowVolumeExpansion")), 0),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        ("Value", cells.value(".value"), 0),
        ("Global-Default", lambda one: bool(one.get("globalDefault")), 0),
        _AGE,
        ("PreemptionPolicy", cells.value(".preemptionPolicy"), 0),
    ),
}
_BINDING = (
    ("Role", lambda one: f"{one['roleRef']['kind']}/{one['roleRef']['name']}", 0),
    _AGE,
    ("Users", cells.subjects("User"), 1),
    ("Groups", cells.subjects("Group"), 1),
    ("ServiceAccounts", cells.subjects("ServiceAccount"), 1),
)
for _plural in ("rolebindings", "clusterrolebindings"):
    _COLUMNS[f"{_plural}.rbac.authorization.k8s.io"] = _BINDING
_CREATED = ("Created At", cells.value(".metadata.creationTimestamp"), 0)
_BY_TIME = ("customresourcedefinitions", "roles", "clusterroles", "limitranges")


def _columns(resource: Resource) -> Iterable[tuple[str, cells.Cell, int]]:
    own = resource.custom.get("additionalPrinterColumns")
    if own:
        for one in own:
            make = cells.ago if one["type"] == "date" else cells.value
            yield one["name"], make(one["jsonPath"]), one.get("priority", 0)
    elif resource.plural in _BY_TIME:
        yield _CREATED
    else:
        yield from _COLUMNS.get(resource.storage, (_AGE,))


def partial(obj: Json) -> Json:
    """Return no more of an object than its metadata."""
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": obj["metadata"]}


def table(resource: Resource, objects: list[Json], metadata: Json, include: str) -> Json:
    """Return objects as a Table; each row has its object's metadata, the object, or nothing."""
    name = cells.storage_class if resource.plural == "storageclasses" else _NAME
    columns = [("Name", name, 0), *_columns(resource)]
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
            row["object"] = partial(obj)
        rows.append(row)
    own = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**own, "columnDefinitions": header, "rows": rows}
