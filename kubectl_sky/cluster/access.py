"""What the cluster serves, and what of it the caller may do."""

from dataclasses import replace

from kubectl_sky import kinds
from kubectl_sky.cluster import errors, objects
from kubectl_sky.cluster.errors import Call
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.kinds import Kind


def groups(session: Session) -> dict[str, tuple[str, ...]]:
    """Return the API groups that the cluster serves, and the versions of each.

    Raises ClusterError.
    """
    answer = session.request("GET", "/apis")
    try:
        return {
            str(group["name"]): tuple(str(version["version"]) for version in group["versions"])
            for group in answer["groups"]
        }
    except (LookupError, TypeError):
        raise errors.not_kubernetes(Call("GET", "/apis", session.server)) from None


def may_serve(session: Session, kind: Kind) -> bool:
    """Say whether a kind's group and version are served; True where the user may not know.

    The cluster is asked once for each session. Raises ClusterError.
    """
    try:
        return kind.version in session.once("groups", lambda: groups(session)).get(kind.group, ())
    except Forbidden:
        return True


def serves(session: Session, kind: Kind) -> bool:
    """Say whether the cluster has a kind, by discovery. Raises ClusterError."""
    try:
        answer = session.request("GET", f"/apis/{kind.group}/{kind.version}")
    except NotServed:
        return False
    return any(found["name"] == kind.plural for found in answer.get("resources") or ())


def others(session: Session, kind: Kind) -> tuple[str, ...]:
    """Return the other versions in which the cluster has a kind, as manifests write them."""
    try:
        answer = session.request("GET", f"/apis/{kind.group}")
    except NotServed:
        return ()
    known = (replace(kind, version=found["version"]) for found in answer.get("versions") or ())
    return tuple(one.api_version for one in known if one != kind and serves(session, one))


def may(
    session: Session, verb: str, kind: Kind, subresource: str = "", namespace: str = ""
) -> bool:
    """Say whether the caller may do this in a namespace (empty: the one in force).

    Asks with a review that every user may create. Raises ClusterError.
    """
    asked = {
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        "subresource": subresource,
        "namespace": (namespace or session.namespace) if kind.namespaced else "",
    }
    review = kinds.SELF_SUBJECT_ACCESS_REVIEW
    body = {
        "apiVersion": review.api_version,
        "kind": review.kind,
        "spec": {"resourceAttributes": asked},
    }
    answer = session.request("POST", objects.path(review), body=body)
    return bool((answer.get("status") or {}).get("allowed"))
