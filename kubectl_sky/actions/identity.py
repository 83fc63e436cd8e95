"""Determine the user that a command acts for."""

from contextlib import suppress
from typing import Annotated

from msgspec.structs import replace

from kubectl_sky.cluster import core
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotFound
from kubectl_sky.words import decisions, owners, settings
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.owners import User


class Identity(Document, frozen=True, kw_only=True):
    """The owner of what you create: `auth whoami`."""

    username: str
    label: Annotated[str, Note("the value of the label `username`")]
    source: Annotated[str, Note("where the name comes from")]


def whoami(session: Session, user_flag: str | None) -> tuple[User, str]:
    """Return the user and the source of the name.

    The sources are, in order: the flag, `auth login`, the cluster, the operating system.
    """
    if user_flag:
        return owners.name_owner(user_flag), "--user"
    name = settings.read_login()
    if name:
        return owners.name_owner(name), "auth login"
    try:
        return owners.name_owner(
            core.CoreManager(session).whoami()
        ), f"the cluster of context {session.context}"
    except (Forbidden, NotFound):  # an API server without SelfSubjectReview
        return owners.name_owner(settings.system_user()), "the operating system"


def user(session: Session, user_flag: str | None) -> User:
    """Return the user. Raises ClusterError if the cluster is unreachable."""
    owner, source = whoami(session, user_flag)
    decisions.log_decision(f"owner {owner.name}", source)
    return owner


def find_configured(connection: Connection, user_flag: str | None) -> Connection:
    """Return a connection with what the settings and the user's name add to its flags.

    The name is for a kubectl-sky server that trusts X-User. Raises InvalidFiles.
    """
    preferences = settings.Settings()
    with suppress(OSError):
        text = settings.settings_file().read_bytes()
        # A file without these is not validated, which takes as long as a list.
        if any(name in text for name in (b"requests_per_second", b"multikueue")):
            from kubectl_sky.actions import config  # noqa: PLC0415

            preferences = config.preferences()
    connection = replace(
        connection,
        requests_per_second=preferences.requests_per_second,
        workers=tuple(preferences.multikueue),
    )
    if not connection.server_url:
        return connection
    name = user_flag or settings.read_login() or settings.system_user()
    return replace(connection, server_user=name)
