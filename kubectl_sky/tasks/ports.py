"""The ports of tasks: list the Services that expose them, and forward local ports to a node."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.forward import Forwarder, PodTarget, PortPair
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe.endpoints import Ports, combine
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.schema import describe
from kubectl_sky.tasks import find
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import Node, Service
from kubectl_sky.words.pod_objects import Pod


def list_exposed(session: Session, target: find.Target) -> list[Ports]:
    """Return the exposed ports of a task, or of each task of a pipeline or group.

    Raises UserError if there are none.
    """
    services = [
        (task, service)
        for task in find.tasks_of(target)
        for service in objects.list_all(
            session,
            kinds.SERVICE,
            task.namespace,
            label_selector=f"{names.selector({names.TASK_ID: task.id})},{names.PORTS}=true",
        )
        if service.metadata.name
        == names.ports_object(names.task_object(names.dns_label(task.name), task.id))
    ]
    if not services:
        raise UserError(
            f"{target.id} ({target.name}) has no Service: set resources.ports or --ports when you"
            " submit it (not supported for arrays)",
            f"without a Service: kubectl sky port-forward {target.id} PORT",
        )

    cluster_nodes = list[Node]()
    if any(service.spec.type == "NodePort" for _, service in services):
        with suppress(Forbidden):  # the status of a pod still has the address of its node
            cluster_nodes = CoreManager(session).list_nodes()
    return [
        combine(task, service, _select_pods(session, task, service), cluster_nodes)
        for task, service in services
    ]


def _select_pods(session: Session, task: TaskStatus, service: Service) -> list[Pod]:
    pods = {node.pod for node in task.nodes}
    labels = names.selector(service.spec.selector or {})
    candidates = CoreManager(session).list_pods(service.metadata.namespace, labels)
    return [pod for pod in candidates if pod.metadata.name in pods]


_PAIR = re.compile(r"(?:(?P<local>[0-9]{0,5}):)?(?P<remote>[0-9]{1,5})", re.ASCII)


def parse_pair(text: str) -> PortPair:
    """Parse `8080`, `8888:8080` or `:8080`. Raises UserError."""
    match = _PAIR.fullmatch(text)
    if not match:
        raise UserError(
            f"{describe(text)} is not a port", "name it after the task: 8080, 8888:8080 or :8080"
        )
    remote = int(match["remote"])
    local = remote if match["local"] is None else int(match["local"] or 0)
    if not 0 < remote < 65536 or not 0 <= local < 65536:
        raise UserError(f"{describe(text)}: ports range from 1 to 65535")
    return PortPair(local, remote)


def forward(
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
    match = next((node for node in task.nodes if node.index == rank), None)
    if match is None:
        raise find.unknown_rank(task, rank)
    if match.state.ended:
        raise UserError(
            f"{match.name} of task {task.id} has finished", f"see `kubectl sky status {task.id}`"
        )
    return match.pod
