"""Ask the cluster for the facts that planning needs."""

from collections.abc import Mapping

from kubectl_sky import names
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.users import User


def claims(session: Session, namespace: str, user: User) -> Mapping[str, str]:
    """Return the claims of the user's volumes by the volumes' names.

    A volume is found by its name as the user wrote it, and by that name as a label. Where two have
    the same name, the older one counts.
    """
    labels = f"{names.VOLUME}=true,{names.USERNAME}={user.label}"
    found: dict[str, str] = {}
    listed = CoreManager(session).list_claims(namespace, labels)
    for claim in sorted(listed, key=lambda claim: str(claim["metadata"]["creationTimestamp"])):
        metadata = claim["metadata"]
        if not user.owns(metadata):
            continue
        for name in (
            (metadata.get("annotations") or {}).get(names.ORIGINAL_NAME),
            metadata["labels"].get(names.VOLUME_NAME),
        ):
            if name:
                found.setdefault(str(name), str(metadata["name"]))
    return found
