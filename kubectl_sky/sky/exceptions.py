"""Exceptions with SkyPilot's names, in the tree of `kubectl_sky.errors`."""

from enum import IntEnum

from kubectl_sky.errors import Refused, SkyError, UnknownName, Unreachable, UserError

JobExitCode = IntEnum("JobExitCode", {"SUCCEEDED": 0, "FAILED": 100, "NOT_FINISHED": 101})

ResourcesUnavailableError = Refused  # without a free cluster node, a task is pending
ApiServerConnectionError = Unreachable
NEVER_RAISED = (
    *("ClusterNotUpError", "ClusterOwnerIdentityMismatchError", "CommandError", "RequestCancelled"),
    *("InvalidClusterNameError", "ManagedJobReachedMaxRetriesError", "NoCloudAccessError"),
    *("NoClusterLaunchedError", "ProvisionPrechecksError", "ResourcesMismatchError"),
    *("StorageError", "StorageBucketCreateError", "StorageUploadError"),
)
_CLASSES = {name: type(name, (SkyError,), {}) for name in NEVER_RAISED}


class NotSupportedError(UserError):
    """Nothing here is like it: the message is that of the command line."""


class ClusterDoesNotExist(UnknownName, ValueError):
    """No task, or no job, has the name of the cluster."""


def __getattr__(name: str) -> type[SkyError]:
    if name in _CLASSES:
        return _CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
