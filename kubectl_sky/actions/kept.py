"""Check that the Secrets that tasks reference exist; values are not used."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.spec.task import Task


def secret_keys(session: Session, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]] | None:
    """Return the keys of each existing Secret; None if reading them is forbidden."""
    keys_by_name = {}
    for name in dict.fromkeys(reference.name for task in tasks for reference in task.kept_secrets):
        try:
            secret = objects.get(session, kinds.SECRET, name)
        except NotFound:
            continue
        except Forbidden:
            return None
        keys_by_name[name] = tuple(sorted(secret.get("data") or {}))
    return keys_by_name
