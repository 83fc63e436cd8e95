"""Commands over a cluster in memory."""

from tests.actions.conftest import _interruptible, api, run, send

__all__ = ["_interruptible", "api", "run", "send"]
