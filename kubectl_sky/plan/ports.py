"""The Service that exposes a task: its ports and its type."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from kubectl_sky.spec import resource_fields
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import names
from kubectl_sky.words.settings import Settings

_WITHIN = "clusterip"
_HEADLESS = "podip"
_MAX_PORTS = 3  # in a command of a note
_TYPES = {
    _WITHIN: "ClusterIP",
    "nodeport": "NodePort",
    "loadbalancer": "LoadBalancer",
    _HEADLESS: "ClusterIP",
}
_OUTSIDE = {
    "nodeport": "a port of each cluster node leads to it",
    "loadbalancer": "the cluster's provider gives it an address, which may be public",
}


class Ports(Struct, frozen=True):
    """A Service for rank 0: its name, its Kubernetes type, and its ports.

    Port and target port are the same. A `headless` Service has no cluster IP; its name resolves to
    the pod's IP.
    """

    service: str
    type: str
    headless: bool
    annotations: Mapping[str, str]
    numbers: tuple[int, ...]


def ports(task: Task, resources: Resources, object_name: str, settings: Settings) -> Ports | None:
    """Return the Service of a task with objects named `object_name`; None if not needed."""
    if not resources.ports or task.array:
        return None
    exposure = _read_exposure(task, settings)
    annotations = resource_fields.without_ours(settings.ports.get("annotations"))
    return Ports(
        service=names.ports_object(object_name),
        type=_TYPES[exposure],
        headless=exposure == _HEADLESS,
        annotations={
            key: text for key, text in annotations.items() if key not in task.kubernetes.annotations
        },
        numbers=resources.ports,
    )


def notes(task: Task, resources: Resources, settings: Settings) -> Iterator[str]:
    """Yield notes on access from outside the cluster, and on ports without a Service."""
    if not resources.ports:
        if task.expose:
            yield f"expose: {task.expose}: ignored: the task has no ports; set resources.ports"
        return

    if task.array:
        yield (
            "ports: an array has no Service;"
            " `kubectl sky port-forward ID PORT --rank NUMBER` reaches one of them"
        )
    elif access := _OUTSIDE.get(_read_exposure(task, settings)):
        yield f"ports: reached from outside the cluster: {access}"
    elif task.service and task.service.ingress:
        return
    elif not (task.expose or task.kubernetes.ports or settings.ports.get("expose")):
        command = f"kubectl sky port-forward {task.name or 'ID'}"
        if task.service:
            command = f"kubectl port-forward service/{names.dns_label(task.name or '', 'service')}"
        numbers = " ".join(map(str, resources.ports[:_MAX_PORTS]))
        yield (
            f"ports: reached from inside the cluster only: use `{command} {numbers}`, or set"
            " `ports.expose: loadbalancer` in the settings"
        )


def _read_exposure(task: Task, settings: Settings) -> str:
    """Return the exposure from the flag or the file, or from the settings."""
    mode = task.expose or task.kubernetes.ports or ""
    return mode if mode in _TYPES else str(settings.ports.get("expose") or _WITHIN)
