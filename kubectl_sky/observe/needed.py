"""What `status.tasks` needs of objects and pods, as the shapes in which lists are read.

Of a long list these are a tenth; the rest, such as who owns which field, is never decoded.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from kubectl_sky import kinds
from kubectl_sky.kinds import Kind


class _Metadata(TypedDict, total=False):
    """All but who owns which field."""

    annotations: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    labels: Any
    name: Any
    namespace: Any
    ownerReferences: Any
    resourceVersion: Any
    uid: Any


class _Item(TypedDict, total=False):
    metadata: _Metadata
    spec: Any
    status: Any


class _JobSpec(TypedDict, total=False):
    """All but how its pods are found and what they are made by."""

    activeDeadlineSeconds: Any
    backoffLimit: Any
    backoffLimitPerIndex: Any
    completionMode: Any
    completions: Any
    managedBy: Any
    maxFailedIndexes: Any
    parallelism: Any
    podFailurePolicy: Any
    podReplacementPolicy: Any
    successPolicy: Any
    suspend: Any
    ttlSecondsAfterFinished: Any


class _Job(TypedDict, total=False):
    metadata: _Metadata
    spec: _JobSpec
    status: Any


class _PodSpec(TypedDict, total=False):
    nodeName: Any


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _PodSpec
    status: Any


class Maker(TypedDict, total=False):
    """What is read of Jobs between an object and its pods: who made them."""

    metadata: _Metadata


_SHAPES: Mapping[Kind, type] = {kinds.JOB: _Job, kinds.POD: _Pod}


def shape(kind: Kind) -> type:
    """Return the shape of a kind's items; what a task may run as beside Jobs keeps its spec."""
    return _SHAPES.get(kind, _Item)
