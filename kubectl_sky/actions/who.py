"""Whose tasks and volumes a command is about."""

import os
from collections.abc import Mapping

from kubectl_sky import settings, users
from kubectl_sky.cluster import core
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.users import User


def whoami(
    session: Session, given: str | None, environ: Mapping[str, str] = os.environ
) -> tuple[User, str]:
    """Return the user, and where the name is from: the flag, the login, the cluster, the system."""
    if given:
        return users.named(given), "--user"
    name = settings.logged_in(environ)
    if name:
        return users.named(name), "auth login"
    try:
        return users.named(
            core.CoreManager(session).whoami()
        ), f"the cluster of context {session.context}"
    except (Forbidden, NotFound):  # an API server without SelfSubjectReview
        return users.named(settings.system_user()), "the operating system"


def user(session: Session, given: str | None) -> User:
    """Return the user that a command acts for. Raises ClusterError when the cluster is away."""
    return whoami(session, given)[0]
