"""Look whether the Secrets that tasks name are there; their values are not looked at."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.spec.task import Task


def secret_keys(session: Session, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]] | None:
    """Return the keys of each Secret that is there; None for who may not look."""
    found = {}
    for name in dict.fromkeys(one.name for task in tasks for one in task.kept_secrets):
        try:
            secret = objects.get(session, kinds.SECRET, name)
        except NotFound:
            continue
        except Forbidden:
            return None
        found[name] = tuple(sorted(secret.get("data") or {}))
    return found
