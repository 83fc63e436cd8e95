"""Kueue's objects, in the newest version that both the cluster and this program know."""

from dataclasses import replace

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Outdated
from kubectl_sky.kinds import Kind


def listed(session: Session, kind: Kind, namespace: str | None = None) -> list[Json]:
    """Return all objects of one of Kueue's kinds.

    Raises NotServed where Kueue is not installed, Outdated where it is another one.
    """
    answer = session.request("GET", f"/apis/{kind.group}")
    served = [found["version"] for found in answer.get("versions") or ()]
    for version in kinds.KUEUE_VERSIONS:
        if version in served:
            return objects.list_all(session, replace(kind, version=version), namespace)
    found = [f"{kind.group}/{version}" for version in served]
    needed = " or ".join(f"{kind.group}/{version}" for version in kinds.KUEUE_VERSIONS)
    raise Outdated("Kueue's kinds", found, needed, "have Kueue updated")
