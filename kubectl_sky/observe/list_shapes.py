"""Define the fields of objects and pods that `status.tasks` reads.

They are a tenth of a long list; the rest, such as `managedFields`, is never decoded. A list with
values of other types does not come from a Kubernetes API server and is rejected as a whole.
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
    """All fields but `managedFields`.

    API servers guarantee these types for objects of any kind.
    """

    annotations: dict[str, str]
    creationTimestamp: Time
    deletionGracePeriodSeconds: int
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
    """All fields but the selector and the pod template."""

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


class PodOwner(TypedDict, total=False):
    """The fields read of Jobs between an object and its pods: their metadata."""

    metadata: _Metadata


class _Resources(TypedDict, total=False):
    """What a container requests: all that is read of it."""

    resources: dict[str, Any] | None


class _GpuPodSpec(TypedDict, total=False):
    affinity: Any
    containers: list[_Resources]
    nodeName: Any
    nodeSelector: Any


class _GpuPod(TypedDict, total=False):
    metadata: _Metadata
    spec: _GpuPodSpec
    status: dict[str, Any]


_SHAPES: Mapping[Kind, type] = {kinds.JOB: _Job, kinds.POD: _Pod}


def shape(kind: Kind) -> type:
    """Return the type of a kind's items; kinds without a shape keep the whole spec."""
    return _SHAPES.get(kind, _Item)


def with_gpus(kind: Kind) -> type:
    """Return the type of a kind's items, with what pods request."""
    return _GpuPod if kind == kinds.POD else shape(kind)
