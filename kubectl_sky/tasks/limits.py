"""What nothing limits in a namespace: `users show`, `doctor`."""

from collections.abc import Iterable

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, Invalid, Refused
from kubectl_sky.plan import quota
from kubectl_sky.words.core_objects import ResourceQuota

_EXTERNAL_IPS = "Services with externalIPs"


def list_unlimited(
    session: Session, namespace: str, quotas: Iterable[ResourceQuota]
) -> tuple[str, ...]:
    """Name what no quota limits, and whether pods may get the traffic for other addresses."""
    unlimited = quota.list_unlimited(quotas)
    return (*unlimited, _EXTERNAL_IPS) if _allows_external_ips(session, namespace) else unlimited


def _allows_external_ips(session: Session, namespace: str) -> bool:
    """Ask the cluster by a dry run: only that knows all its policies, of whatever kind."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubectl-sky-dry-run", "namespace": namespace},
        # An address that nobody has: RFC 5737.
        "spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 443}]},
    }
    try:
        objects.create(session, service, dry_run=True)
    except (Forbidden, Invalid, Refused):
        return False
    return True
