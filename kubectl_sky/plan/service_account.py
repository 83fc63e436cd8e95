"""The service account of a task's pods."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.kubernetes import KUBERNETES


def find_account(accounts: Mapping[str, str], context: str) -> str | None:
    """Return the account of the first pattern that matches the context.

    None if no account is set. If the context is not known, return the account that all contexts
    share. Raises FieldError for a context without an account, as SkyPilot does.
    """
    if not accounts:
        return None
    if not context:
        return accounts.get("*") if len(set(accounts.values())) == 1 else None
    for pattern, name in accounts.items():
        if fnmatchcase(context, pattern):
            return name
    raise FieldError(
        (*KUBERNETES, "remote_identity"),
        f'no service account is set for the context "{context}"',
        "add one, or * for all others",
    )


def depends_on_context(accounts: Mapping[str, str], context: str) -> bool:
    """Return whether the account depends on a context that is not known yet."""
    return bool(accounts) and not context and find_account(accounts, context) is None
