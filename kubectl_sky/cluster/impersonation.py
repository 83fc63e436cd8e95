"""The headers of a user who acts as another one: `--as`, and `as` of a kubeconfig's user."""

import re
from typing import Any
from urllib.parse import quote

from kubectl_sky.cluster.connection import Connection, Headers
from kubectl_sky.errors import ClusterError, UserError

_TOKEN = "!#$&'*+-.^_`|~"  # characters of header names besides letters and digits, without %
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def impersonate(connection: Connection, user: dict[str, Any]) -> Headers:
    """Return the headers for an entry of a kubeconfig's user, empty if it acts as itself.

    As in kubectl, each flag replaces its own key only: with `--as`, `as-groups` still counts.
    Raises UserError, ClusterError.
    """
    if connection.anonymous:
        return ()
    name = connection.as_user or user.get("as")
    groups = connection.as_groups or user.get("as-groups") or ()
    uid = connection.as_uid or user.get("as-uid")
    extra = user.get("as-user-extra") or {}
    given = {"--as-group": connection.as_groups, "--as-uid": connection.as_uid}
    flag = next((flag for flag, value in given.items() if value), "")
    if not name and flag:
        raise UserError(f"{flag} requires --as", "name a user, too")
    if not name and (groups or uid or extra):
        raise ClusterError(
            "the kubeconfig's user has as-uid, as-groups or as-user-extra without as",
            "add as, or name a user with --as",
        )

    headers = [("User", name), ("Uid", uid), *(("Group", group) for group in groups)]
    for key, values in extra.items():
        headers += [(f"Extra-{quote(key, safe=_TOKEN)}", value) for value in values or ()]
    for name, value in headers:
        if value and _CONTROL.search(value):
            raise ClusterError(
                f"the value of Impersonate-{name} has characters that no HTTP header may have",
                "check as, as-uid, as-groups and as-user-extra in the kubeconfig",
            )
    return tuple((f"Impersonate-{name}", value) for name, value in headers if value)
