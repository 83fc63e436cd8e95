"""Exceptions with SkyPilot's names, in the tree of `kubectl_sky.errors`."""

from enum import IntEnum

from kubectl_sky.errors import Refused, SkyError, UnknownName, UserError

ResourcesUnavailableError = Refused  # without a free cluster node, a task is pending
JobExitCode = IntEnum("JobExitCode", {"SUCCEEDED": 0, "FAILED": 100, "NOT_FINISHED": 101})


class NotSupportedError(UserError):
    """Nothing here is like it: the message is that of the command line."""


class ClusterDoesNotExist(UnknownName, ValueError):
    """No task has the name of the cluster."""


class ClusterNotUpError(UnknownName):
    """Never raised: the log of a task that has ended can be read."""


class CommandError(SkyError):
    """Never raised: `tail_logs` returns a code."""
