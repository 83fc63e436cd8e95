"""Define the types of the API server's answers: of each kind the fields that are read.

An answer with other types is not one of a Kubernetes API server, and is rejected as a whole. Fields
that are not listed may have any type. A list can leave them out: those of tasks do, as
`managedFields` and pod templates are nine tenths of it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Required, TypedDict

from msgspec import Meta

from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind

_Time = Annotated[
    str,
    Meta(
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
        r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$"
    ),
]
_MaybeTime = str | None  # users may write some, and any time; null if it is not set
_Texts = dict[str, str]


def _fields(**types: Any) -> Any:
    """Return the type of an object with these fields, all optional but those that are Required."""
    return TypedDict("_Fields", types, total=False)  # type: ignore[operator]


def _require(shape: Any) -> Any:
    return Required[shape]


def _list(shape: Any) -> Any:
    return list[shape]


def _map(shape: Any) -> Any:
    return dict[str, shape]


_METADATA = {  # all fields but `managedFields`, as API servers guarantee them for any kind
    "annotations": _Texts,
    "creationTimestamp": _require(_Time),
    "deletionGracePeriodSeconds": int,
    "deletionTimestamp": _Time,
    "finalizers": _list(str),
    "generation": int,
    "labels": _Texts,
    "name": Required[str],
    "namespace": str,
    "ownerReferences": _list(
        _fields(apiVersion=str, kind=str, name=Required[str], uid=Required[str], controller=bool)
    ),
    "resourceVersion": str,
    "uid": Required[str],
}


def _object(**types: Any) -> Any:
    """Return the type of an object of Kubernetes with these fields besides its metadata."""
    return _fields(metadata=_require(_fields(**_METADATA)), **types)


_CONDITIONS = _list(
    _fields(
        type=Required[str],
        status=Required[str],
        reason=str,
        message=str,
        lastTransitionTime=_MaybeTime,
        lastProbeTime=Any,
    )
)
# Users may write the status of a PodGroup, and their values must not fail the lists of others.
_OPTIONAL_CONDITIONS = _list(
    _fields(
        **dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), str | None)
    )
)
_STATE = _fields(
    running=_fields(startedAt=_MaybeTime),
    terminated=_fields(
        exitCode=int, reason=str, message=str, startedAt=_MaybeTime, finishedAt=_MaybeTime
    ),
    waiting=_fields(reason=str, message=str),
)
_CONTAINER_STATUSES = _list(
    _fields(
        name=Required[str],
        image=str,
        lastState=_STATE,
        ready=bool,
        restartCount=int,
        started=bool | None,
        state=_STATE,
    )
)
_RESOURCES = _fields(limits=_Texts | None, requests=_Texts | None) | None
_POD_SPEC = _fields(
    affinity=Any,
    containers=_list(_fields(name=str, resources=_RESOURCES)),
    initContainers=_list(_fields(name=str, resources=_RESOURCES, restartPolicy=str)),
    nodeName=str,
    nodeSelector=_Texts,
    resourceClaims=_list(_fields(name=str, resourceClaimName=str | None)) | None,
    restartPolicy=str,
    schedulerName=str,
    schedulingGroup=_fields(podGroupName=str) | None,
    tolerations=_list(_fields(key=str, operator=str, value=str, effect=str)),
    volumes=_list(_fields(name=str, persistentVolumeClaim=_fields(claimName=Required[str]) | None)),
)
_DEPLOYMENT = _object(
    spec=_require(
        _fields(
            replicas=int,
            template=_require(_fields(metadata=Required[dict[str, Any]], spec=_require(_POD_SPEC))),
        )
    ),
    status=_fields(
        conditions=_CONDITIONS,
        observedGeneration=int,
        readyReplicas=int,
        replicas=int,
        updatedReplicas=int,
    ),
)
_AMOUNT = str | int
_FLAVORS = _list(
    _fields(
        name=Required[str],
        resources=_list(_fields(name=Required[str], nominalQuota=_AMOUNT, total=_AMOUNT)) | None,
    )
)
_QUEUE = _object(
    spec=_fields(clusterQueue=str, resourceGroups=_list(_fields(flavors=_FLAVORS | None)) | None),
    status=_fields(
        admittedWorkloads=int,
        conditions=_CONDITIONS,
        flavorsReservation=_FLAVORS | None,
        pendingWorkloads=int,
    ),
)
# What its pods request; with the models of GPUs, in the affinity, lists take 4 times as long.
_TEMPLATE = _fields(
    spec=_fields(
        containers=_list(_fields(name=str, image=str, resources=_RESOURCES)), nodeSelector=_Texts
    )
)
_JOB_SPEC = dict.fromkeys(  # all other fields but the selector
    (
        "activeDeadlineSeconds",
        "backoffLimitPerIndex",
        "completionMode",
        "completions",
        "managedBy",
        "maxFailedIndexes",
        "parallelism",
        "podFailurePolicy",
        "podReplacementPolicy",
        "successPolicy",
        "suspend",
        "ttlSecondsAfterFinished",
    ),
    Any,
)
_SELECTORS = _list(_fields(cel=_fields(expression=str) | None))
_DEVICES = _list(
    _fields(name=Required[str], nodeName=str | None, attributes=_map(_map(Any)) | None)
)
_DEVICE_KEYS = _list(_fields(**dict.fromkeys(("device", "driver", "pool"), Required[str])))
_DEVICE_REQUESTS = _list(_fields(exactly=_fields(deviceClassName=str, count=int | None) | None))
_DATA = _object(data=_Texts | None)
_SHAPES: Mapping[Kind, Any] = {
    kinds.APP_WRAPPER: _object(
        spec=dict[str, Any], status=_fields(conditions=_CONDITIONS, phase=str, resettingCount=int)
    ),
    kinds.CLUSTER_QUEUE: _QUEUE,
    kinds.CONFIG_MAP: _DATA,
    kinds.DEPLOYMENT: _DEPLOYMENT,
    kinds.DEVICE_CLASS: _object(
        spec=_require(_fields(extendedResourceName=str | None, selectors=_SELECTORS | None))
    ),
    kinds.ENDPOINT_SLICE: _object(ports=_list(_fields(port=int | None)) | None),
    kinds.EVENT: _object(
        count=int,
        eventTime=_MaybeTime,
        firstTimestamp=_MaybeTime,
        involvedObject=_fields(fieldPath=str, kind=str, name=str, namespace=str, uid=str),
        lastTimestamp=_MaybeTime,
        message=str,
        reason=str,
        series=_fields(count=int, lastObservedTime=_MaybeTime) | None,
        type=str,
    ),
    kinds.HPA: _object(
        spec=_require(_fields(maxReplicas=Required[int])),
        status=_fields(conditions=_OPTIONAL_CONDITIONS | None),
    ),
    kinds.JOB: _object(
        spec=_fields(backoffLimit=int, template=_TEMPLATE, **_JOB_SPEC),
        status=_fields(
            active=int,
            completedIndexes=str,
            completionTime=_MaybeTime,
            conditions=_CONDITIONS,
            failed=int,
            failedIndexes=str,
            ready=int,
            startTime=_MaybeTime,
            succeeded=int,
            terminating=int,
        ),
    ),
    kinds.JOB_SET: _object(
        spec=_fields(
            failurePolicy=_fields(maxRestarts=int, rules=Any), replicatedJobs=Any, suspend=Any
        ),
        status=_fields(conditions=_CONDITIONS, restarts=int),
    ),
    kinds.LEASE: _object(
        spec=_fields(
            acquireTime=_MaybeTime,
            holderIdentity=str | None,
            leaseDurationSeconds=int | None,
            renewTime=_MaybeTime,
        )
    ),
    kinds.LIMIT_RANGE: _object(
        spec=_fields(
            limits=_list(
                _fields(type=str, default=_Texts, defaultRequest=_Texts, max=_Texts, min=_Texts)
            )
            | None
        )
    ),
    kinds.LOCAL_QUEUE: _QUEUE,
    kinds.MPI_JOB: _object(
        spec=_fields(
            mpiReplicaSpecs=_map(_fields(replicas=int | None, template=Any)),
            runPolicy=_fields(backoffLimit=int | None, suspend=Any),
        ),
        status=_fields(
            conditions=_CONDITIONS,
            startTime=_MaybeTime,
            replicaStatuses=_map(_fields(active=int, failed=int, succeeded=int) | None),
        ),
    ),
    kinds.NODE: _object(
        spec=_fields(
            taints=_list(_fields(key=Required[str], value=str, effect=Required[str])),
            unschedulable=bool,
        ),
        status=_fields(
            addresses=_list(_fields(type=Required[str], address=Required[str])),
            allocatable=_Texts,
            capacity=_Texts,
            conditions=_CONDITIONS,
        ),
    ),
    kinds.POD: _object(
        spec=_POD_SPEC,
        status=_fields(
            phase=str,
            reason=str,
            message=str,
            conditions=_CONDITIONS,
            containerStatuses=_CONTAINER_STATUSES,
            initContainerStatuses=_CONTAINER_STATUSES,
            hostIP=str,
            podIP=str,
            startTime=_MaybeTime,
        ),
    ),
    kinds.POD_GROUP: _object(
        spec=_fields(priorityClassName=str, queue=str),
        status=_fields(conditions=_OPTIONAL_CONDITIONS, phase=str),
    ),
    kinds.POD_METRICS: _fields(  # not stored, and so without a uid
        metadata=_require(_fields(labels=_Texts, name=Required[str], namespace=str)),
        containers=_list(_fields(name=Required[str], usage=_Texts | None)) | None,
    ),
    kinds.PRIORITY_CLASS: _object(value=int),
    kinds.PVC: _object(
        spec=_fields(
            accessModes=list[str], resources=_fields(requests=_Texts), storageClassName=str
        ),
        status=_fields(capacity=_Texts, phase=str),
    ),
    kinds.QUEUED_WORKLOAD: _object(
        spec=_fields(priority=int | None, queueName=str), status=_fields(conditions=_CONDITIONS)
    ),
    kinds.REPLICA_SET: _DEPLOYMENT,
    # The API server writes null for the conditions of a new one.
    kinds.CUSTOM_RESOURCE_DEFINITION: _object(
        spec=dict[str, Any], status=_fields(conditions=_CONDITIONS | None)
    ),
    kinds.RESOURCE_CLAIM: _object(
        spec=_fields(devices=_fields(requests=_DEVICE_REQUESTS | None)),
        status=_fields(
            allocation=_fields(devices=_fields(results=_DEVICE_KEYS | None)) | None,
            reservedFor=_list(_fields(name=str)) | None,
        ),
    ),
    kinds.RESOURCE_SLICE: _object(
        spec=_require(
            _fields(
                driver=Required[str],
                nodeName=str | None,
                pool=_require(_fields(name=Required[str], generation=Required[int])),
                devices=_DEVICES | None,
            )
        )
    ),
    kinds.RESOURCE_QUOTA: _object(
        spec=_fields(hard=_Texts), status=_fields(hard=_Texts, used=_Texts)
    ),
    kinds.SECRET: _DATA,
    kinds.SERVICE: _object(
        spec=_fields(
            clusterIP=str,
            ports=_list(_fields(name=str, port=Required[int], nodePort=int)),
            selector=_Texts | None,
            type=str,
        ),
        status=_fields(
            loadBalancer=_fields(ingress=_list(_fields(hostname=str, ip=str))),
        ),
    ),
    kinds.VOLCANO_QUEUE: _object(status=_fields(state=str)),
}
_BY_RESOURCE = {kind.resource: shape for kind, shape in _SHAPES.items()}  # of any version
_OTHER = _object(spec=dict[str, Any], status=_fields(conditions=_CONDITIONS))

METADATA_ONLY: type = _object()


def of(kind: Kind) -> type:
    shape: type = _BY_RESOURCE.get(kind.resource, _OTHER)
    return shape


@cache
def list_of(shape: type) -> type:
    """Return the type of a page of a list; some servers write null for an empty one."""
    page: type = _fields(
        metadata=Required[dict[str, Any]],
        items=_require(_list(shape) | None),
    )
    return page


_EVENT_TYPES = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
_BOOKMARK = _fields(metadata=_require(_fields(annotations=_Texts, resourceVersion=Required[str])))

WATCH_EVENT: type = _fields(type=_require(_EVENT_TYPES), object=Required[dict[str, Any]])


@cache
def watch_event(kind: Kind, event_type: str) -> type:
    """Return the type of a watch's event of a type: `ADDED`, for example."""
    shape = {"BOOKMARK": _BOOKMARK, "ERROR": dict}.get(event_type, of(kind))
    event: type = _fields(type=str, object=_require(shape))
    return event


# Answers that are no objects. To DELETE, it is a Status, or the object that is being deleted.
DELETED: type = _fields(kind=Required[str], metadata=Required[dict[str, Any]])
API_GROUP: type = _fields(
    name=Required[str], versions=_require(_list(_fields(version=Required[str])))
)
API_GROUPS: type = _fields(groups=_require(_list(API_GROUP)))
API_RESOURCES: type = _fields(resources=_require(_list(_fields(name=Required[str])) | None))
ACCESS_REVIEW: type = _fields(status=_require(_fields(allowed=Required[bool])))
USER_REVIEW: type = _fields(
    status=_require(_fields(userInfo=_require(_fields(username=Required[str], groups=list[str]))))
)
