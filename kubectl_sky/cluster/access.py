"""Discover which APIs the cluster serves and what the user may do."""

from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed, Outdated, UserError, did_you_mean
from kubectl_sky.words import kinds, names
from kubectl_sky.words.answers import AccessReview, ApiGroup, ApiGroups, ApiResources
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.scheduled_objects import Gang

T = TypeVar("T")

ARGUMENT = "an argument here"  # how a task is named by most commands
_POD_METRICS = "custom.metrics.k8s.io"  # the group that a metrics adapter serves


def check_namespace(session: Session, namespace: str, name: str) -> None:
    """Raise UserError if a namespace does not exist; `name` says how a task is named instead.

    Users of SkyPilot give the name of a task with -n.
    """
    if not names.NAMESPACE.fullmatch(namespace):
        what = f'"{namespace}" cannot be the name of a namespace'
        raise UserError(what, "it has lower-case letters, digits and -")
    with suppress(Forbidden):
        if not objects.exists(session, kinds.NAMESPACE, namespace):
            similar = ""
            with suppress(Forbidden):
                items = objects.list_metadata(session, kinds.NAMESPACE)
                listed = (item.metadata.name for item in items)
                similar = did_you_mean(namespace, listed)
            if namespace.isdecimal() and name == ARGUMENT:  # as in tail -n 100
                hint = f"-n sets the namespace; for the last lines of logs, use --tail {namespace}"
                raise UserError(f'namespace "{namespace}" not found', hint)
            raise UserError(
                f'namespace "{namespace}" not found',
                f"{similar}-n sets the namespace; the name is {name}; to create the namespace, run"
                f" `kubectl create namespace {namespace}`",
            )


def groups(session: Session) -> dict[str, tuple[str, ...]]:
    """Return the API groups that the cluster serves, with their versions.

    Raises ClusterError.
    """
    answer = session.send("GET", "/apis", shape=ApiGroups).body
    return {group.name: _versions(group) for group in answer.groups}


def groups_of_session(session: Session) -> dict[str, tuple[str, ...]]:
    """Return `groups` as the session has seen them first."""
    return session.cached("groups", lambda: groups(session))


def _versions(group: ApiGroup) -> tuple[str, ...]:
    return tuple(version.version for version in group.versions)


def may_serve(session: Session, kind: Kind) -> bool:
    """Check whether a kind's version is served; True if discovery is forbidden.

    The result is cached for the session. Raises ClusterError.
    """
    try:
        return kind.version in groups_of_session(session).get(kind.group, ())
    except Forbidden:
        return True


def find_gang(session: Session) -> ReadKind[Gang] | None:
    """Return the PodGroup of Kubernetes in the newest version that both sides support.

    None if it is not served, or if discovery is forbidden.
    """
    try:
        served = groups_of_session(session).get(kinds.GANG.group, ())
    except Forbidden:
        return None
    versions = (version for version in kinds.GANG_VERSIONS if version in served)
    return next((replace(kinds.GANG, version=version) for version in versions), None)


def serves(session: Session, kind: Kind) -> bool:
    """Check by discovery whether the cluster serves a kind. Raises ClusterError."""
    try:
        path = f"/apis/{kind.group}/{kind.version}"
        answer = session.send("GET", path, shape=ApiResources).body
    except NotServed:
        return False
    return any(resource.name == kind.plural for resource in answer.resources or ())


def list_pod_metrics(session: Session) -> set[str] | None:
    """Return the metrics of pods that an adapter has at the moment; None without an adapter.

    Raises ClusterError: Forbidden if discovery is.
    """
    versions = groups_of_session(session).get(_POD_METRICS)
    if not versions:
        return None
    answer = session.send("GET", f"/apis/{_POD_METRICS}/{versions[0]}", shape=ApiResources).body
    listed = (resource.name.partition("/") for resource in answer.resources or ())
    return {metric for resource, _, metric in listed if resource == "pods"}


def other_versions(session: Session, kind: Kind) -> tuple[str, ...]:
    try:
        answer = session.send("GET", f"/apis/{kind.group}", shape=ApiGroup).body
    except NotServed:
        return ()
    candidates = (replace(kind, version=version) for version in _versions(answer))
    return tuple(
        candidate.api_version
        for candidate in candidates
        if candidate != kind and serves(session, candidate)
    )


def may(
    session: Session, verb: str, kind: Kind, subresource: str = "", namespace: str | None = None
) -> bool:
    """Check whether the user may do this in a namespace (None: the current one, empty: all).

    Creates a SelfSubjectAccessReview, which every user may do. Raises ClusterError.
    """
    namespace = session.namespace if namespace is None else namespace
    attributes = {
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        "subresource": subresource,
        "namespace": namespace if kind.namespaced else "",
    }

    review = kinds.SELF_SUBJECT_ACCESS_REVIEW
    body = {
        "apiVersion": review.api_version,
        "kind": review.kind,
        "spec": {"resourceAttributes": attributes},
    }

    answer = session.send("POST", objects.path(review), body=body, shape=AccessReview).body
    return answer.status.allowed


def list_kueue(session: Session, kind: ReadKind[T], namespace: str | None = None) -> list[T]:
    """Return all objects of a Kueue kind.

    Raises NotServed if Kueue is not installed, Outdated if its versions are not supported.
    """
    return objects.list_all(session, find_kueue(session, kind), namespace)


def find_kueue(session: Session, kind: ReadKind[T]) -> ReadKind[T]:
    """Return a Kueue kind in the newest version that both sides support.

    Raises NotServed if Kueue is not installed, Outdated if its versions are not supported.
    """

    def read_versions() -> tuple[str, ...]:
        return _versions(session.send("GET", f"/apis/{kind.group}", shape=ApiGroup).body)

    served = session.cached(f"versions of {kind.group}", read_versions)
    for version in kinds.KUEUE_VERSIONS:
        if version in served:
            return replace(kind, version=version)
    versions = [f"{kind.group}/{version}" for version in served]
    needed = " or ".join(f"{kind.group}/{version}" for version in kinds.KUEUE_VERSIONS)
    raise Outdated("Kueue's kinds", versions, needed, "update Kueue")
