"""Determine the user that a command acts for."""

import os
from collections.abc import Mapping

from kubectl_sky import settings, users
from kubectl_sky.cluster import core
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.users import User


def whoami(
    session: Session, user_flag: str | None, environ: Mapping[str, str] = os.environ
) -> tuple[User, str]:
    """Return the user and the source of the name.

    The sources are, in order: the flag, `auth login`, the cluster, the operating system.
    """
    if user_flag:
        return users.named(user_flag), "--user"
    name = settings.logged_in(environ)
    if name:
        return users.named(name), "auth login"
    try:
        return users.named(
            core.CoreManager(session).whoami()
        ), f"the cluster of context {session.context}"
    except (Forbidden, NotFound):  # an API server without SelfSubjectReview
        return users.named(settings.system_user()), "the operating system"


def user(session: Session, user_flag: str | None) -> User:
    """Return the user. Raises ClusterError if the cluster is unreachable."""
    return whoami(session, user_flag)[0]
