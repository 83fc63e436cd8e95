"""The RayService of a RayServeGraph: its manifest, what differs, and what KubeRay makes of an edit.

The rules are those of the KubeRay operator 1.6: rayservice_controller.go compares a hash of
rayClusterConfig with that of the running RayCluster.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

from msgspec import Struct

from kubectl_sky.observe.difference import project
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.words import names
from kubectl_sky.words.kinds import CONFIG_MAP, RAY_SERVE_GRAPH, RAY_SERVICE
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_server.assets import RUNTIME
from kubectl_sky_server.ray.model_serve_config import BUILDER

Json = dict[str, Any]
Path = tuple[str, ...]

MAX_NAME = 47  # characters of a RayService's name, for KubeRay

_VOLUME = "kubectl-sky-graph"
_PYTHONPATH = "PYTHONPATH"
_MAX_SHOWN = 5  # paths of a message
_CLUSTER = "rayClusterConfig"
_CONFIG = "serveConfigV2"
# KubeRay no longer reads the first two; the Services are written only when the RayCluster changes.
_UNUSED = {"serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold", "serveService"}
# Not part of the hash: GenerateHashWithoutReplicasAndWorkersToDelete.
_UNHASHED_POD_FIELDS = ("tolerations", "schedulingGates")
_UNHASHED_GROUP_FIELDS = ("replicas", "minReplicas", "maxReplicas")
_AMOUNTS = {"limits", "requests"}
_MISSING = object()


class InvalidTemplate(Exception):
    """The template of the RayServeGraph makes no RayService."""


class Effect(StrEnum):
    """What KubeRay does with a change of a RayService."""

    NEW_CLUSTER = "new RayCluster"
    IN_PLACE = "in place"
    IGNORED = "ignored"


class Change(Struct, frozen=True):
    """Changed fields and what KubeRay does with them; `note` is for users."""

    effect: Effect
    fields: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.effect}: {join_paths(self.fields)}"
        return f"{text} ({self.note})" if self.note else text


def ray_service(graph: RayServeGraph, config: str) -> Json:
    """Return the RayService of a RayServeGraph with this serveConfigV2. Raises InvalidTemplate."""
    metadata = graph.metadata
    template = graph.spec.get("rayService") or {}
    name = metadata.name
    if len(name) > MAX_NAME or "." in name or not name[0].isalpha():
        rule = f"at most {MAX_NAME} characters, a letter first and no dots"
        raise InvalidTemplate(f'"{name}" is not a valid name of a RayService: use {rule}')

    spec = _without_nulls(copy.deepcopy(template.get("spec") or {}))
    if _CONFIG in spec:
        raise InvalidTemplate(f"spec.rayService.spec.{_CONFIG} comes from the graph: remove it")
    for position, pod in _pod_specs(spec):
        _mount_builder(pod, position, _builder_name(name))

    manifest = {
        "apiVersion": RAY_SERVICE.api_version,
        "kind": RAY_SERVICE.kind,
        "metadata": _metadata(graph, name, template.get("metadata") or {}),
        "spec": spec | {_CONFIG: config},
    }
    manifest["metadata"]["annotations"][names.RAY_DIGEST] = digest(manifest)
    return manifest


def builder(graph: RayServeGraph) -> Json:
    """Return the ConfigMap of the builder that serveConfigV2 names."""
    file = f"{BUILDER}.py"
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": _metadata(graph, _builder_name(graph.metadata.name), {}),
        "data": {file: (RUNTIME / file).read_text()},
    }


def digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_controlled_by(item: Json, graph: RayServeGraph) -> bool:
    references = item["metadata"].get("ownerReferences") or []
    uid = graph.metadata.uid
    return any(each.get("controller") and each.get("uid") == uid for each in references)


def differences(desired: Json, live: Json) -> list[str]:
    """Return the paths where a live object is not as desired.

    Fields that the controller does not set may have any value: defaults of the API server, or
    fields of other controllers, such as Kueue's `suspend`.
    """
    owned = {key: value for key, value in desired["metadata"].items() if key != "ownerReferences"}
    ours = desired | {"metadata": owned}
    paths = _find_changes(_normal(ours), _normal(project(ours, live)), ())
    return [".".join(path) for path in paths]


def was_applied(desired: Json, live: Json) -> bool:
    """Check whether this version was applied before: if it differs now, it was edited since."""
    annotations = live["metadata"].get("annotations") or {}
    before = annotations.get(names.RAY_DIGEST)
    return bool(before == desired["metadata"]["annotations"][names.RAY_DIGEST])


def classify(before: Json, after: Json) -> list[Change]:
    """Return what KubeRay does when a RayService changes: its `spec` before and after."""
    old = _normal(before)
    new = _normal(after)
    changed = sorted(
        key for key in {*old, *new} - {_CLUSTER} if old.get(key, _MISSING) != new.get(key, _MISSING)
    )
    used = tuple(f"spec.{key}" for key in changed if key not in _UNUSED)
    unused = tuple(f"spec.{key}" for key in changed if key in _UNUSED)

    strategy = str((new.get("upgradeStrategy") or {}).get("type") or "NewCluster")
    changes = _cluster_changes(old.get(_CLUSTER) or {}, new.get(_CLUSTER) or {}, strategy)

    if used:
        waits = any(change.effect == Effect.NEW_CLUSTER for change in changes)
        note = "on the new RayCluster" if waits and f"spec.{_CONFIG}" in used else ""
        changes.append(Change(Effect.IN_PLACE, used, note))
    if unused:
        changes.append(Change(Effect.IGNORED, unused, "until KubeRay creates a RayCluster"))
    return changes


def describe(changes: Sequence[Change]) -> str:
    return "; ".join(map(str, changes)) or "no change of the spec"


def join_paths(paths: Sequence[str]) -> str:
    more = len(paths) - _MAX_SHOWN
    return ", ".join(paths[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _cluster_changes(old: Json, new: Json, strategy: str) -> list[Change]:
    fields = tuple(".".join(path) for path in _find_changes(old, new, ("spec", _CLUSTER)))
    if not fields:
        return []
    if bool(old.get("suspend")) != bool(new.get("suspend")):
        return [Change(Effect.IN_PLACE, fields, "with suspend, KubeRay updates the RayCluster")]

    before = _select_hashed(old)
    after = _select_hashed(new)
    if before == after:
        return [Change(Effect.IGNORED, fields, "until KubeRay creates a RayCluster")]

    groups = len(before["workerGroupSpecs"])
    cut = after | {"workerGroupSpecs": after["workerGroupSpecs"][:groups]}
    if before == cut:
        return [Change(Effect.IN_PLACE, fields, "adds worker groups")]

    if strategy != "NewCluster":
        note = f"upgradeStrategy {strategy}: delete the RayCluster to apply it"
        return [Change(Effect.IGNORED, fields, note)]
    note = "needs resources for a second RayCluster until it serves"
    return [Change(Effect.NEW_CLUSTER, fields, note)]


def _select_hashed(cluster: Json) -> Json:
    """Return the part of rayClusterConfig whose change makes KubeRay create a RayCluster."""
    result = copy.deepcopy(cluster)
    result.pop("upgradeStrategy", None)
    groups = result.setdefault("workerGroupSpecs", [])
    for group in groups:
        for name in _UNHASHED_GROUP_FIELDS:
            group.pop(name, None)
        (group.get("scaleStrategy") or {}).pop("workersToDelete", None)
        if not group.get("scaleStrategy"):
            group.pop("scaleStrategy", None)
    for group in (result.get("headGroupSpec") or {}, *groups):
        pod = (group.get("template") or {}).get("spec") or {}
        for name in _UNHASHED_POD_FIELDS:
            pod.pop(name, None)
    return result


def _find_changes(old: object, new: object, path: Path) -> Iterator[Path]:
    """Yield the paths that differ; of lists of another length only the list."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _find_changes(old.get(key, _MISSING), new.get(key, _MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _find_changes(left, right, (*path, str(index)))
    elif old != new:
        yield path


def _metadata(graph: RayServeGraph, name: str, template: Json) -> Json:
    owner = graph.metadata
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**_texts(template, "labels"), names.RAY_SERVE_GRAPH: owner.name},
        "annotations": _texts(template, "annotations"),
        "ownerReferences": [
            {
                "apiVersion": RAY_SERVE_GRAPH.api_version,
                "kind": RAY_SERVE_GRAPH.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ],
    }


def _texts(template: Json, field: str) -> dict[str, str]:
    values = template.get(field) or {}
    return {str(key): str(value) for key, value in values.items()}


def _builder_name(name: str) -> str:
    return f"{name}-graph-builder"


def _pod_specs(spec: Json) -> list[tuple[str, Json]]:
    """Return the pod specs of head and workers. Raises InvalidTemplate."""
    path = f"spec.rayService.spec.{_CLUSTER}"
    cluster = _map(spec.get(_CLUSTER), path)
    groups = cluster.get("workerGroupSpecs") or []
    if not isinstance(groups, list):
        raise InvalidTemplate(f"{path}.workerGroupSpecs is not a list")
    positions = [(f"{path}.headGroupSpec", cluster.get("headGroupSpec"))]
    positions += [(f"{path}.workerGroupSpecs[{i}]", group) for i, group in enumerate(groups)]
    result = []
    for position, group in positions:
        template = _map(_map(group, position).get("template"), f"{position}.template")
        result.append((position, _map(template.get("spec"), f"{position}.template.spec")))
    return result


def _map(value: object, path: str) -> Json:
    if not isinstance(value, dict):
        raise InvalidTemplate(f"{path} is not set" if value is None else f"{path} is not a map")
    return value


def _mount_builder(pod: Json, position: str, config_map: str) -> None:
    """Mount the builder into the Ray container, the first one, on Python's path."""
    path = f"{position}.template.spec.containers"
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers:
        raise InvalidTemplate(f"{path} is empty")
    container = _map(containers[0], f"{path}[0]")
    pod["volumes"] = [
        *_list(pod, "volumes", path),
        {"name": _VOLUME, "configMap": {"name": config_map}},
    ]
    container["volumeMounts"] = [
        *_list(container, "volumeMounts", path),
        {"name": _VOLUME, "mountPath": names.SCRIPTS_FOLDER, "readOnly": True},
    ]
    container["env"] = _with_folder(_list(container, "env", path), path)


def _list(item: Json, field: str, path: str) -> list[Any]:
    value = item.get(field) or []
    if not isinstance(value, list):
        raise InvalidTemplate(f"{path}: {field} is not a list")
    return value


def _with_folder(variables: list[Any], path: str) -> list[Json]:
    """Append the builder's folder to PYTHONPATH."""
    others = [item for item in variables if _map(item, f"{path}[0].env").get("name") != _PYTHONPATH]
    existing = [item for item in variables if item not in others]
    if any("value" not in item for item in existing):
        raise InvalidTemplate(f"{path}[0].env: {_PYTHONPATH} needs a plain value")
    value = ":".join([*(str(item["value"]) for item in existing), names.SCRIPTS_FOLDER])
    return [*others, {"name": _PYTHONPATH, "value": value}]


def _normal(value: Any, key: str = "", inside: str = "") -> Any:
    """Return JSON data as KubeRay compares it: empty and false are absent, quantities numbers.

    KubeRay itself rewrites a RayService in this way when it adds its finalizer. `key` is the
    value's, `inside` that of the map around it.
    """
    if isinstance(value, dict):
        items = {name: _normal(item, name, key) for name, item in value.items()}
        return {
            name: item
            for name, item in items.items()
            if item is not None and item is not False and item not in ({}, [], "")
        }
    if isinstance(value, list):
        return [_normal(item, key, inside) for item in value]
    if isinstance(value, str | int | float) and (inside in _AMOUNTS or key == "sizeLimit"):
        with suppress(ValueError):
            return quantity(str(value))
    return value


def _without_nulls(value: Any) -> Any:
    """Return JSON data without nulls, which the API server drops."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
