"""`port-forward`: forward local ports to a node of a task."""

import re
from collections.abc import Callable, Sequence

from kubectl_sky.actions import find
from kubectl_sky.cluster.forward import Forwarder, PodTarget, PortPair
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.schema import described

_PAIR = re.compile(r"(?:(?P<local>[0-9]{0,5}):)?(?P<remote>[0-9]{1,5})", re.ASCII)


def parse_pair(text: str) -> PortPair:
    """Parse `8080`, `8888:8080` or `:8080`. Raises UserError."""
    match = _PAIR.fullmatch(text)
    if not match:
        raise UserError(f"{described(text)} is not a port", "use 8080, 8888:8080 or :8080")
    remote = int(match["remote"])
    local = remote if match["local"] is None else int(match["local"] or 0)
    if not 0 < remote < 65536 or not 0 <= local < 65536:
        raise UserError(f"{described(text)}: ports range from 1 to 65535")
    return PortPair(local, remote)


def serve(
    session: Session,
    task: TaskStatus,
    rank: int,
    listening: tuple[Sequence[str], Sequence[PortPair]],
    note: Callable[[str], None],
) -> None:
    """Forward connections until interrupted.

    Raises UserError if the node has finished.

    `listening` holds the local addresses and the port pairs. If a pod is replaced, forwarding
    continues to the new pod.
    """
    _pod_of_rank(task, rank)

    def pod() -> tuple[str, str] | None:
        latest = find.refetch(session, task)
        if latest is None:
            raise UserError(f"task {task.id} was stopped")
        name = _pod_of_rank(latest, rank)
        return (latest.namespace, name) if name else None

    forwarder = Forwarder(session, PodTarget(pod, note))
    addresses, pairs = listening
    try:
        for port_pair in pairs:
            for address in forwarder.listen(addresses, port_pair):
                note(f"Forwarding from {address} -> {port_pair.remote}")
        forwarder.serve()
    finally:
        forwarder.close()


def _pod_of_rank(task: TaskStatus, rank: int) -> str:
    """Return the pod of an unfinished rank; empty if it has none yet."""
    match = next((node for node in task.nodes if node.index == rank), None)
    if match is None:
        last = max(node.index for node in task.nodes)
        raise UserError(f"task {task.id} has no rank {rank}", f"it has ranks 0 to {last}")
    if match.state.ended:
        raise UserError(
            f"{match.name} of task {task.id} has finished", f"see `kubectl sky status {task.id}`"
        )
    return match.pod
