"""`port-forward`: ports of a task's node on this machine."""

import re
from collections.abc import Callable, Sequence

from kubectl_sky.actions import find
from kubectl_sky.cluster.forward import Forwarder, Pair, Target
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe.status import TaskStatus

_PAIR = re.compile(r"(?:(?P<local>[0-9]{0,5}):)?(?P<remote>[0-9]{1,5})", re.ASCII)


def pair(text: str) -> Pair:
    """Read `8080`, `8888:8080` or `:8080`. Raises UserError."""
    found = _PAIR.fullmatch(text)
    if not found:
        raise UserError(f"{text!r} is no port", "write 8080, 8888:8080 or :8080")
    remote = int(found["remote"])
    local = remote if found["local"] is None else int(found["local"] or 0)
    if not 0 < remote < 65536 or not 0 <= local < 65536:
        raise UserError(f"{text!r}: ports are from 1 to 65535")
    return Pair(local, remote)


def serve(
    session: Session,
    seen: TaskStatus,
    rank: int,
    listening: tuple[Sequence[str], Sequence[Pair]],
    note: Callable[[str], None],
) -> None:
    """Listen, and pass connections on until interrupted. Raises UserError when the node has ended.

    `listening` is on which addresses, and for which ports. A pod that is replaced is followed.
    """
    _node(seen, rank)

    def pod() -> tuple[str, str] | None:
        latest = find.again(session, seen)
        if latest is None:
            raise UserError(f"task {seen.id} was stopped")
        name = _node(latest, rank)
        return (latest.namespace, name) if name else None

    forwarder = Forwarder(session, Target(pod, note))
    addresses, pairs = listening
    try:
        for one in pairs:
            for place in forwarder.listen(addresses, one):
                note(f"Forwarding from {place} -> {one.remote}")
        forwarder.serve()
    finally:
        forwarder.close()


def _node(task: TaskStatus, rank: int) -> str:
    """Return the pod of a rank that has not ended; nothing where it has none yet."""
    found = next((node for node in task.nodes if node.index == rank), None)
    if found is None:
        last = max(node.index for node in task.nodes)
        raise UserError(f"task {task.id} has no rank {rank}", f"it has ranks 0 to {last}")
    if found.state.ended:
        raise UserError(
            f"{found.name} of task {task.id} has ended", f"see `kubectl sky status {task.id}`"
        )
    return found.pod
