"""Find the addresses of the ports of a task, inside and outside the cluster."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe.nodes import is_ready as is_ready_pod
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words.core_objects import Node, Service
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.pod_objects import Pod

_OUTSIDE = ("ExternalIP", "InternalIP")  # address types of a cluster node, the preferred first


class Port(Struct, frozen=True):
    """A port, and where it is served: `HOST:PORT`."""

    port: int
    address: str
    outside: Annotated[tuple[str, ...], Note("addresses outside the cluster")]


class Ports(Struct, frozen=True):
    """The ports of a task, and their Service: `status TASK --ports`."""

    task_id: str
    name: str
    namespace: str
    service: str
    type: str
    cluster_ip: Annotated[str, Note("empty for a headless Service")]
    pod: str
    ready: Annotated[bool, Note("whether the pod is ready")]
    pending: Annotated[bool, Note("the Service has no address outside the cluster yet")]
    ports: tuple[Port, ...]


class PortsList(Document, frozen=True, kw_only=True):
    """The ports of a pipeline's tasks: `status PIPELINE --ports`."""

    tasks: list[Ports]


def combine(
    task: TaskStatus, service: Service, pods: Iterable[Pod], machines: Iterable[Node]
) -> Ports:
    """Combine a Service, the pods behind it and the cluster nodes, if readable."""
    pod = max(pods, key=lambda pod: pod.metadata.creation_timestamp, default=None)
    spec = service.spec
    name = service.metadata.name
    kind = spec.type or "ClusterIP"

    ingresses = service.status.load_balancer.ingress
    balancers = tuple(item.hostname or item.ip for item in ingresses)
    outside = balancers if kind == "LoadBalancer" else _machine(pod, machines)
    host = f"{name}.{task.namespace}.svc"

    ports = []
    for port in spec.ports:
        number = {"LoadBalancer": port.port, "NodePort": port.node_port}.get(kind)
        hosts = [f"[{text}]" if ":" in text else text for text in outside if number]
        addresses = tuple(f"{text}:{number}" for text in hosts)
        ports.append(Port(port.port, f"{host}:{port.port}", addresses))

    cluster_ip = spec.cluster_ip
    if cluster_ip == "None":  # a headless Service
        cluster_ip = ""
    pod_name = pod.metadata.name if pod else ""
    is_ready = pod is not None and is_ready_pod(pod)

    return Ports(
        task_id=task.id,
        name=task.name,
        namespace=task.namespace,
        service=name,
        type=kind,
        cluster_ip=cluster_ip,
        pod=pod_name,
        ready=is_ready,
        pending=kind == "LoadBalancer" and not balancers,
        ports=tuple(ports),
    )


def _machine(pod: Pod | None, machines: Iterable[Node]) -> Sequence[str]:
    """Return an address of the pod's cluster node, of another one, or the hostIP.

    A NodePort is open on all cluster nodes; the one that runs the pod certainly exists. The hostIP
    is used if no cluster node can be read.
    """
    node_name = pod.spec.node_name if pod else ""
    ordered = sorted(machines, key=lambda machine: machine.metadata.name != node_name)
    for kind in _OUTSIDE:
        for machine in ordered:
            for address in machine.status.addresses:
                if address.type == kind and address.address:
                    return (address.address,)
    host_ip = pod.status.host_ip if pod else ""
    return (host_ip,) if host_ip else ()
