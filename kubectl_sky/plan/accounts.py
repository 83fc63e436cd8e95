"""For which service account the pods act."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from kubectl_sky.errors import UserError


def account(accounts: Mapping[str, str], context: str) -> str | None:
    """Return the account of the first pattern that fits the context; None where none is asked for.

    Where the context is not known, it is the one that all contexts have. Raises UserError for a
    context without one, as SkyPilot does.
    """
    if not accounts:
        return None
    if not context:
        return accounts.get("*") if len(set(accounts.values())) == 1 else None
    for pattern, name in accounts.items():
        if fnmatchcase(context, pattern):
            return name
    raise UserError(
        f"config.kubernetes.remote_identity: names no account for the context {context!r}",
        "add one, or * for all others",
    )


def open_until_sent(accounts: Mapping[str, str], context: str) -> bool:
    """Say whether the account depends on a context that is not known yet."""
    return bool(accounts) and not context and account(accounts, context) is None
