"""List Kueue objects in the newest API version that cluster and client support."""

from dataclasses import replace

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Outdated
from kubectl_sky.kinds import Kind


def list_all(session: Session, kind: Kind, namespace: str | None = None) -> list[Json]:
    """Return all objects of a Kueue kind.

    Raises NotServed if Kueue is not installed, Outdated if its versions are not supported.
    """
    answer = session.request("GET", f"/apis/{kind.group}")
    served = [versions["version"] for versions in answer.get("versions") or ()]
    for version in kinds.KUEUE_VERSIONS:
        if version in served:
            return objects.list_all(session, replace(kind, version=version), namespace)
    versions = [f"{kind.group}/{version}" for version in served]
    needed = " or ".join(f"{kind.group}/{version}" for version in kinds.KUEUE_VERSIONS)
    raise Outdated("Kueue's kinds", versions, needed, "update Kueue")
