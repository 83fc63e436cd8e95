"""Find the namespaces in which a user may list tasks."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from kubectl_sky.cluster import access, parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.words import kinds, owners


def candidates(session: Session, user: str, groups: Sequence[str]) -> list[str]:
    """Return the session's namespace, and those of `users add` for the user and its groups.

    Nobody may search all namespaces for those where a RoleBinding names the user.
    """
    match user.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            own = [namespace]
        case _:
            own = [owners.name_owner(user).namespace]
    named = [group for group in groups if not group.startswith("system:")]
    for group in named:
        with suppress(UserError):
            own.append(owners.name_owner(group).namespace)
    return list(dict.fromkeys([session.namespace, *own]))


def list_allowed(session: Session, names: Iterable[str]) -> list[str]:
    names = list(names)
    answers = parallel.map_parallel(
        lambda namespace: access.may(session, "list", kinds.JOB, namespace=namespace), names
    )
    return [name for name, is_allowed in zip(names, answers, strict=True) if is_allowed]


def list_own(session: Session) -> list[str]:
    """Return the session's namespace, and the user's own ones, where the user may list tasks."""
    identity = CoreManager(session).identity()
    return list_allowed(session, candidates(session, identity.name, identity.groups))


def find(session: Session) -> str:
    if list_allowed(session, [session.namespace]):
        return session.namespace
    return next(iter(list_own(session)), session.namespace)
