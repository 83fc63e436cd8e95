"""Where the ports of a task are reached: within the cluster, and from outside."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubectl_sky.observe.nodes import Object
from kubectl_sky.observe.status import TaskStatus

_OUTSIDE = ("ExternalIP", "InternalIP")  # a machine's addresses, the better first


@dataclass(frozen=True)
class Endpoint:
    """One port: where it is within the cluster, and from outside, `HOST:PORT` both."""

    port: int
    address: str
    outside: tuple[str, ...]


@dataclass(frozen=True)
class Exposed:
    """A task's Service, the pod that it leads to, and whether that pod takes connections.

    `pending` says that the Service waits for the address of its load balancer.
    """

    task: TaskStatus
    service: str
    type: str
    cluster_ip: str  # empty where the name leads to the pod itself
    pod: str
    ready: bool
    pending: bool
    endpoints: tuple[Endpoint, ...]

    def as_json(self) -> dict[str, object]:
        """The endpoints for programs."""
        return {
            "task_id": self.task.id,
            "name": self.task.name,
            "namespace": self.task.namespace,
            "service": self.service,
            "type": self.type,
            "cluster_ip": self.cluster_ip,
            "pod": self.pod,
            "ready": self.ready,
            "pending": self.pending,
            "ports": [
                {"port": one.port, "address": one.address, "outside": list(one.outside)}
                for one in self.endpoints
            ],
        }


def exposed(
    task: TaskStatus, service: Object, pods: Iterable[Object], machines: Iterable[Object]
) -> Exposed:
    """Fold a Service, the pods behind it and the machines of the cluster, if they are known."""
    pod = _newest(pods)
    spec, name = service["spec"], service["metadata"]["name"]
    kind = spec.get("type") or "ClusterIP"
    balancers = tuple(_balancers(service))
    outside = balancers if kind == "LoadBalancer" else _machine(pod, machines)
    host = f"{name}.{task.namespace}.svc"
    return Exposed(
        task=task,
        service=name,
        type=kind,
        cluster_ip="" if spec.get("clusterIP") == "None" else spec.get("clusterIP") or "",
        pod=pod["metadata"]["name"] if pod else "",
        ready=_ready(pod),
        pending=kind == "LoadBalancer" and not balancers,
        endpoints=tuple(
            Endpoint(port["port"], f"{host}:{port['port']}", tuple(_at(kind, outside, port)))
            for port in spec.get("ports") or ()
        ),
    )


def _newest(pods: Iterable[Object]) -> Object:
    """Return the pod that was made last; an empty one without any."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default={})


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ()) if pod else ()
    going = bool(pod) and "deletionTimestamp" in pod["metadata"]
    return not going and any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in conditions
    )


def _balancers(service: Object) -> Iterator[str]:
    status = service.get("status", {}).get("loadBalancer") or {}
    for one in status.get("ingress") or ():
        yield one.get("hostname") or one.get("ip") or ""


def _machine(pod: Object, machines: Iterable[Object]) -> Sequence[str]:
    """Return an address of the pod's machine, of another one, or what the pod knows of its own.

    All machines lead to a NodePort; the pod's is the one that is surely there.
    """
    own = pod.get("spec", {}).get("nodeName") if pod else None
    ordered = sorted(machines, key=lambda machine: machine["metadata"]["name"] != own)
    for kind in _OUTSIDE:
        for machine in ordered:
            for one in machine.get("status", {}).get("addresses") or ():
                if one.get("type") == kind and one.get("address"):
                    return (one["address"],)
    known = pod.get("status", {}).get("hostIP") if pod else None
    return (known,) if known else ()


def _at(kind: str, hosts: Sequence[str], port: Object) -> Iterator[str]:
    """Yield where a port is reached from outside at these hosts."""
    number = {"LoadBalancer": port["port"], "NodePort": port.get("nodePort")}.get(kind)
    for host in hosts if number else ():
        yield f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
