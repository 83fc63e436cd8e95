"""Compare an object in the cluster with the one to send, field by field.

Fields that the server set are ignored.
A `Pair` has both objects as YAML, for `diff`.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from kubectl_sky.spec import quantity
from kubectl_sky.workloads.workload import Manifest

_QUANTITY = re.compile(r"[.]resources[.]|[.](sizeLimit|divisor)$")
_IDENTITIES = ("name", "mountPath", "containerPort", "topologyKey", "key", "uid")
_SELECTOR = ("spec", "selector")
# Fields that API servers and Kueue add to pod templates; any other field is an addition.
_ADDED_TO_PODS = {
    "dnsPolicy",
    "nodeSelector",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "serviceAccount",  # the old name of serviceAccountName
    "terminationGracePeriodSeconds",
    "tolerations",
}
_ADDED_TO_CONTAINERS = {"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"}
_EMPTY: tuple[object, ...] = ({}, [], "", None, False)
_FIXED_KEYS = (("data",), ("binaryData",), _SELECTOR)  # any additional key takes effect


class Difference(Struct, frozen=True):
    """One field: its path, the live value (None: not set) and the value to send."""

    path: str
    live: Any
    desired: Any

    def __str__(self) -> str:
        """Return `spec.containers[main].image: "a" would become "b"`.

        Long values are shortened or left out.
        """
        if self.live is None:
            return f"{self.path}: {_short(self.desired)} would be added"
        if isinstance(self.live, str) and len(self.live) + len(str(self.desired)) > 120:
            return f"{self.path}: the text differs"
        return f"{self.path}: {_short(self.live)} would become {_short(self.desired)}"


def differences(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[Difference]:
    """Return the fields of `live` that `desired` would change; hide Secret values."""
    changes = list(_compare("", desired, live))
    if desired.get("kind") == "Secret":
        changes = [Difference(item.path, "(hidden)", "(another value)") for item in changes]
    return changes


def foreign_fields(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    """Return why a live object is not the one that would be created; empty if it is.

    Besides differing fields, this reports fields that `desired` does not have and that affect a
    pod: data keys, selector labels, and anything in a pod template. Field managers are not
    compared, because each client chooses its own: `kubectl apply` of the output of `render` creates
    the same objects.
    """
    reasons = [str(item) for item in differences(desired, live)]
    for path in _FIXED_KEYS:
        ours = _get_path(desired, path)
        theirs = _get_path(live, path)
        if ours or (theirs and path != _SELECTOR):  # the server sets the selector of Jobs
            extra = sorted(set(theirs or ()) - set(ours or ()))
            reasons += [f"{'.'.join(path)}: has the key {_short(key)}" for key in extra]
    return reasons + [f"{field} would go" for field in _additions("", desired, live)]


def _additions(path: str, desired: Any, live: Any) -> Iterator[str]:
    """Yield pod template fields that `desired` lacks and no controller adds."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        if "containers" in desired:
            yield from _pod_additions(path, desired, live)
            return
        for key, value in desired.items():
            yield from _additions(_join(path, key), value, live.get(key))
    elif isinstance(desired, list) and isinstance(live, list):
        for index, (ours, theirs) in enumerate(zip(desired, live, strict=False)):
            yield from _additions(f"{path}[{index}]", ours, theirs)


def _pod_additions(path: str, desired: Any, live: Any) -> Iterator[str]:
    yield from _keys(path, desired, live, _ADDED_TO_PODS)
    yield from _extra_items(f"{path}.volumes", desired.get("volumes"), live.get("volumes"), "name")
    for field in ("initContainers", "containers"):
        theirs = live.get(field) or ()
        yield from _extra_items(f"{path}.{field}", desired.get(field), theirs, "name")
        live_containers = {container.get("name"): container for container in theirs}
        for container in desired.get(field) or ():
            name = container["name"]
            at = f"{path}.{field}[{name}]"
            other = live_containers.get(name) or {}
            yield from _keys(at, container, other, _ADDED_TO_CONTAINERS)
            for part, key in (("env", "name"), ("volumeMounts", "mountPath")):
                yield from _extra_items(f"{at}.{part}", container.get(part), other.get(part), key)


def _keys(path: str, desired: Any, live: Any, added: Collection[str]) -> Iterator[str]:
    """Yield fields that are set in `live` but not in `desired`.

    All extra fields of a security context count, because the server sets no defaults there.
    """
    for key, value in live.items():
        if key not in desired and key not in added and value not in _EMPTY:
            yield f"{path}.{key}"
    ours, theirs = (item.get("securityContext") or {} for item in (desired, live))
    yield from (f"{path}.securityContext.{key}" for key in theirs if ours and key not in ours)


def _extra_items(path: str, desired: Any, live: Any, key: str) -> Iterator[str]:
    expected = {item.get(key) for item in desired or ()}
    extra = (item.get(key) for item in live or ())
    yield from (f"{path}[{name}]" for name in extra if name not in expected)


def _get_path(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _compare(path: str, desired: object, live: object) -> Iterator[Difference]:
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        for key, value in desired.items():
            yield from _compare(_join(path, key), value, live.get(key))
    elif (
        isinstance(desired, Sequence)
        and isinstance(live, Sequence)
        and not isinstance(desired, str)
    ):
        yield from _compare_lists(path, desired, live)
    elif not _same(path, desired, live):
        yield Difference(path, live, desired)


def _compare_lists(path: str, desired: Sequence[Any], live: Sequence[Any]) -> Iterator[Difference]:
    """Compare lists of named items by name, other lists by index."""
    identity = _identity(desired)
    if identity is None:
        if len(desired) != len(live):
            yield Difference(path, live, desired)
            return
        for index, (ours, theirs) in enumerate(zip(desired, live, strict=True)):
            yield from _compare(f"{path}[{index}]", ours, theirs)
        return
    by_name = {item.get(identity): item for item in live if isinstance(item, Mapping)}
    for item in desired:
        yield from _compare(f"{path}[{item[identity]}]", item, by_name.get(item[identity]))


def _identity(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    for key in _IDENTITIES:
        if len({str(item[key]) for item in items if key in item}) == len(items):
            return key
    return None


def _same(path: str, desired: object, live: object) -> bool:
    if desired == live:
        return True
    if _QUANTITY.search(path) and desired is not None and live is not None:
        return quantity.quantity(str(desired)) == quantity.quantity(str(live))
    return False


def _join(path: str, key: str) -> str:
    if not path:
        return key
    return f"{path}.{key}" if "." not in key and "/" not in key else f"{path}[{key}]"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
# Labels and annotations that controllers add: the Job controller, kubectl and volume binding.
_ADDED = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
)
# Fields of `spec` that the API server chooses for each object of a kind.
_CHOSEN = {
    "Job": ("selector",),
    "Service": ("clusterIP", "clusterIPs", "healthCheckNodePort"),
    "PersistentVolumeClaim": ("volumeName",),
}
_SECRET_FIELDS = ("data", "stringData")
_MASKED = "***"


class Pair(Struct, frozen=True):
    """An object as the cluster has it, and as a submit would make it; "" if it does not exist."""

    name: str  # such as batch.v1.Job.default.train-x1
    live: str
    merged: str

    @property
    def differs(self) -> bool:
        return self.live != self.merged

    def unified(self) -> Iterator[str]:
        """Yield the lines of `diff -u`."""
        yield from difflib.unified_diff(
            self.live.splitlines(),
            self.merged.splitlines(),
            f"LIVE/{self.name}",
            f"MERGED/{self.name}",
            lineterm="",
        )


def pair(live: Manifest | None, merged: Manifest | None) -> Pair:
    """Return an object before and after; None if it does not exist then."""
    item = live or merged
    assert item is not None
    before = live and comparable(live)
    after = merged and comparable(merged)
    texts = (_text(_mask(before, after, "before")), _text(_mask(after, before, "after")))
    version = item["apiVersion"].replace("/", ".")
    metadata = item["metadata"]
    parts = (version, item["kind"], metadata.get("namespace"), metadata["name"])
    return Pair(".".join(filter(None, parts)), *texts)


def project(desired: Any, live: Any) -> Any:
    """Return the live object with the fields of the desired one only: the rest may be defaults."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: project(desired[key], live[key]) for key in desired if key in live}
    if isinstance(desired, list) and isinstance(live, list):
        pairs = zip(desired, live, strict=False)
        return [project(ours, theirs) for ours, theirs in pairs] + live[len(desired) :]
    return live


def comparable(item: Manifest) -> Manifest:
    chosen = _CHOSEN.get(item["kind"], ())
    spec = {key: value for key, value in (item.get("spec") or {}).items() if key not in chosen}
    metadata = {key: value for key, value in item["metadata"].items() if key not in _METADATA}
    fields = {
        key: value for key, value in item.items() if key not in ("metadata", "spec", "status")
    }
    cleaned = {**fields, "metadata": metadata, **({"spec": spec} if "spec" in item else {})}
    return _without_added(cleaned, service=item["kind"] == "Service")  # type: ignore[no-any-return]


def _without_added(value: Any, service: bool) -> Any:
    """Remove labels and annotations of controllers, node ports, and empty maps and values."""
    if isinstance(value, list):
        return [_without_added(item, service) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {
        key: _without_added(inner, service)
        for key, inner in value.items()
        if not key.startswith(_ADDED) and not (service and key == "nodePort")
    }
    return {key: inner for key, inner in kept.items() if inner not in (None, {}, [])}


def _mask(value: Any, other: Any, side: str) -> Any:
    """Mask the values of Secrets, also within other objects.

    A value that differs from the one of the other side names its side, so that it is a change.
    """
    if isinstance(value, list):
        others = other if isinstance(other, list) else []
        padded = others + [None] * (len(value) - len(others))
        return [_mask(*items, side) for items in zip(value, padded, strict=False)]
    if not isinstance(value, Mapping):
        return value
    counterpart = other if isinstance(other, Mapping) else {}
    hidden = _SECRET_FIELDS if value.get("kind") == "Secret" else ()
    return {
        key: (_hide if key in hidden else _mask)(inner, counterpart.get(key), side)
        for key, inner in value.items()
    }


def _hide(value: Any, other: Any, side: str) -> Any:
    if not isinstance(value, Mapping):
        return _MASKED
    others = other if isinstance(other, Mapping) else {}
    return {
        key: _MASKED if others.get(key, inner) == inner else f"{_MASKED} ({side})"
        for key, inner in value.items()
    }


class BlockDumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks."""


def _represent(dumper: BlockDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


BlockDumper.add_representer(str, _represent)


def _text(item: Manifest | None) -> str:
    if item is None:
        return ""
    text: str = yaml.dump(item, Dumper=BlockDumper, allow_unicode=True, width=1000)
    return text
