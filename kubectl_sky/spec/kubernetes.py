"""What `config.kubernetes` asks for, as values; and its rules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.spec import metadata
from kubectl_sky.spec.document import Data, Document, Path

KUBERNETES: Path = ("config", "kubernetes")


@dataclass(frozen=True)
class Kubernetes:
    """What a task asks of Kubernetes beyond its resources.

    `pod` is merged into every pod, `labels` and `annotations` are put on every object.
    """

    pod: Mapping[str, Data] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def kubernetes_of(config: Mapping[str, Any] | None) -> Kubernetes:
    """Return what a valid `config` says."""
    fields = (config or {}).get("kubernetes") or {}
    custom = fields.get("custom_metadata") or {}
    return Kubernetes(
        pod=fields.get("pod_config") or {},
        labels=metadata.without_ours(custom.get("labels")),
        annotations=metadata.without_ours(custom.get("annotations")),
    )


def _custom(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "custom_metadata")
    yield from metadata.labels(document, (*path, "labels"))
    yield from metadata.annotations(document, (*path, "annotations"))


RULES = (_custom,)
