"""What `status.tasks` needs of objects and pods, as the shapes in which lists are read.

Of a long list these are a tenth; the rest, such as who owns which field, is never decoded. A list
with values of other types is not one of a Kubernetes API server, and is refused as a whole.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from kubectl_sky import kinds
from kubectl_sky.kinds import Kind

Time = Annotated[
    str,
    Meta(
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
        r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$"
    ),
]


class _Owner(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool
    blockOwnerDeletion: bool


class _Metadata(TypedDict, total=False):
    """All but who owns which field. API servers guarantee these types for objects of any kind."""

    annotations: dict[str, str]
    creationTimestamp: Time
    deletionTimestamp: Time
    labels: dict[str, str]
    name: str
    namespace: str
    ownerReferences: list[_Owner]
    resourceVersion: str
    uid: str


class _Item(TypedDict, total=False):
    metadata: _Metadata
    spec: dict[str, Any]
    status: dict[str, Any]


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


class _JobCondition(TypedDict, total=False):
    type: str
    status: str
    reason: str
    message: str
    lastTransitionTime: Time
    lastProbeTime: Any


class _JobStatus(TypedDict, total=False):
    active: int
    completedIndexes: str
    completionTime: Time
    conditions: list[_JobCondition]
    failed: int
    failedIndexes: str
    ready: int
    startTime: Time
    succeeded: int
    terminating: int
    uncountedTerminatedPods: Any


class _Job(TypedDict, total=False):
    metadata: _Metadata
    spec: _JobSpec
    status: _JobStatus


class _PodSpec(TypedDict, total=False):
    nodeName: Any


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _PodSpec
    status: dict[str, Any]


class Maker(TypedDict, total=False):
    """What is read of Jobs between an object and its pods: who made them."""

    metadata: _Metadata


_SHAPES: Mapping[Kind, type] = {kinds.JOB: _Job, kinds.POD: _Pod}


def shape(kind: Kind) -> type:
    """Return the shape of a kind's items; what a task may run as beside Jobs keeps its spec."""
    return _SHAPES.get(kind, _Item)
