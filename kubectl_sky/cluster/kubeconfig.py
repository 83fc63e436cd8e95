"""Find out which server to talk to and as whom: kubeconfig files, flags, or a pod's own account."""

import os
from pathlib import Path

from kubectl_sky.cluster import plain
from kubectl_sky.cluster.connection import Connection, Contexts, Target
from kubectl_sky.errors import ClusterError

_HOME = "~/.kube/config"
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


def locate(connection: Connection) -> Target:
    """Return the target of a connection. Raises ClusterError when it cannot be told."""
    paths = _paths(connection)
    found = plain.locate(paths[0], connection) if len(paths) == 1 else None
    return found or _by_client(paths, connection)


def _by_client(paths: list[str], connection: Connection) -> Target:
    from kubectl_sky.cluster import client  # noqa: PLC0415 -- takes as long as all else

    if paths:
        return client.from_files(connection, os.pathsep.join(paths))
    if _IN_CLUSTER in os.environ and not connection.context:
        return client.from_pod(connection)
    if connection.server:
        return client.from_flags(connection)
    raise ClusterError(_nothing_found(connection), "name one with --kubeconfig")


def contexts(connection: Connection) -> Contexts:
    """Return the contexts that there are; none without a kubeconfig. Raises ClusterError."""
    paths = _paths(connection)
    if not paths:
        return Contexts()
    from kubectl_sky.cluster import client  # noqa: PLC0415 -- as above

    return client.contexts(os.pathsep.join(paths))


def _paths(connection: Connection) -> list[str]:
    """The kubeconfig files that exist."""
    named = connection.kubeconfig or os.environ.get("KUBECONFIG") or _HOME
    separate = [named] if connection.kubeconfig else named.split(os.pathsep)
    files = [Path(path).expanduser() for path in separate if path]
    return [str(path) for path in files if path.exists()]


def _nothing_found(connection: Connection) -> str:
    if connection.kubeconfig:
        return f"no kubeconfig: {connection.kubeconfig} does not exist"
    if os.environ.get("KUBECONFIG"):
        return f"no kubeconfig: KUBECONFIG names {os.environ['KUBECONFIG']}, which does not exist"
    return f"no kubeconfig: none at {_HOME} and KUBECONFIG is not set"
