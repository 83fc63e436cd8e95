"""Compare whole objects as text, as `kubectl diff` does: what a submit would change.

What the API server sets in every object is left out. Values of Secrets are masked.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kubectl_sky.observe.nodes import Object

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


@dataclass(frozen=True)
class Pair:
    """An object as the cluster has it, and as a submit would make it; "" if it does not exist."""

    name: str  # such as batch.v1.Job.default.train-x1
    live: str
    merged: str

    @property
    def differs(self) -> bool:
        """Whether a submit would change the object."""
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


def pair(live: Object | None, merged: Object | None) -> Pair:
    """Return an object before and after; None if it does not exist then."""
    item = live or merged
    assert item is not None
    before, after = live and comparable(live), merged and comparable(merged)
    texts = (_text(_masked(before, after, "before")), _text(_masked(after, before, "after")))
    return Pair(_name(item), *texts)


def project(desired: Any, live: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return the live object with the fields of the desired one only: the rest may be defaults."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: project(desired[key], live[key]) for key in desired if key in live}
    if isinstance(desired, list) and isinstance(live, list):
        pairs = zip(desired, live, strict=False)
        return [project(ours, theirs) for ours, theirs in pairs] + live[len(desired) :]
    return live


def comparable(item: Object) -> Object:
    """Return an object without what the API server or a controller sets in it."""
    chosen = _CHOSEN.get(item["kind"], ())
    spec = {key: value for key, value in (item.get("spec") or {}).items() if key not in chosen}
    metadata = {key: value for key, value in item["metadata"].items() if key not in _METADATA}
    fields = {
        key: value for key, value in item.items() if key not in ("metadata", "spec", "status")
    }
    cleaned = {**fields, "metadata": metadata, **({"spec": spec} if "spec" in item else {})}
    return _without_added(cleaned, service=item["kind"] == "Service")  # type: ignore[no-any-return]


def _without_added(value: Any, service: bool) -> Any:  # noqa: ANN401 -- JSON
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


def _masked(value: Any, other: Any, side: str) -> Any:  # noqa: ANN401 -- JSON
    """Mask the values of Secrets, also within other objects.

    A value that differs from the one of the other side names its side, so that it is a change.
    """
    if isinstance(value, list):
        others = other if isinstance(other, list) else []
        padded = others + [None] * (len(value) - len(others))
        return [_masked(*items, side) for items in zip(value, padded, strict=False)]
    if not isinstance(value, Mapping):
        return value
    counterpart = other if isinstance(other, Mapping) else {}
    hidden = _SECRET_FIELDS if value.get("kind") == "Secret" else ()
    return {
        key: (_hidden if key in hidden else _masked)(inner, counterpart.get(key), side)
        for key, inner in value.items()
    }


def _hidden(value: Any, other: Any, side: str) -> Any:  # noqa: ANN401 -- JSON
    if not isinstance(value, Mapping):
        return _MASKED
    others = other if isinstance(other, Mapping) else {}
    return {
        key: _MASKED if others.get(key, inner) == inner else f"{_MASKED} ({side})"
        for key, inner in value.items()
    }


def _name(item: Object) -> str:
    metadata = item["metadata"]
    version = str(item["apiVersion"]).replace("/", ".")
    return ".".join(
        filter(None, (version, item["kind"], metadata.get("namespace"), metadata["name"]))
    )


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks."""


def _represent(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _represent)


def _text(item: Object | None) -> str:
    if item is None:
        return ""
    text: str = yaml.dump(item, Dumper=_Dumper, allow_unicode=True, width=1000)
    return text
