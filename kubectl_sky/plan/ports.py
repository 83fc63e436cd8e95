"""The Service through which others reach a task: which ports, and from where."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kubectl_sky import names
from kubectl_sky.settings import Settings
from kubectl_sky.spec import metadata
from kubectl_sky.spec.task import Resources, Task

_WITHIN = "clusterip"
_HEADLESS = "podip"
_TYPES: Mapping[str, str] = MappingProxyType(
    {
        _WITHIN: "ClusterIP",
        "nodeport": "NodePort",
        "loadbalancer": "LoadBalancer",
        _HEADLESS: "ClusterIP",
    }
)
_OUTSIDE: Mapping[str, str] = MappingProxyType(
    {
        "nodeport": "each machine of the cluster has ports that lead to it",
        "loadbalancer": "the cluster's provider gives it an address, which may be public",
    }
)


@dataclass(frozen=True)
class Ports:
    """A Service to rank 0: its name, Kubernetes' type of it, and the ports, alike on both sides.

    A `headless` one has no address of its own: its name leads to the pod's.
    """

    service: str
    type: str
    headless: bool
    annotations: Mapping[str, str]
    numbers: tuple[int, ...]


def ports(task: Task, resources: Resources, whole: str, settings: Settings) -> Ports | None:
    """Return the Service of a task whose objects are called `whole`; None where it needs none."""
    if not resources.ports or task.array:
        return None
    how = _exposed(task, settings)
    return Ports(
        service=names.ports_object(whole),
        type=_TYPES[how],
        headless=how == _HEADLESS,
        annotations=_annotations(task, settings),
        numbers=resources.ports,
    )


def notes(task: Task, resources: Resources, settings: Settings) -> Iterator[str]:
    """Say who may reach the ports beyond the cluster, and where nobody can."""
    if not resources.ports:
        if task.expose:
            yield f"--expose {task.expose}: the task has no ports; name them by --ports"
        return
    if task.array:
        yield (
            "ports: no Service leads to many tasks at once;"
            " `kubectl sky port-forward ID PORT --rank NUMBER` reaches one of them"
        )
    elif why := _OUTSIDE.get(_exposed(task, settings)):
        yield f"ports: reached from outside the cluster: {why}"


def _exposed(task: Task, settings: Settings) -> str:
    """By the flag or the file, in our words or in SkyPilot's, else by the settings."""
    asked = task.expose or task.kubernetes.ports or ""
    return asked if asked in _TYPES else str(settings.ports.get("expose") or _WITHIN)


def _annotations(task: Task, settings: Settings) -> dict[str, str]:
    """Those of the settings; what the task says of all its objects stands already."""
    found = metadata.without_ours(settings.ports.get("annotations"))
    return {key: text for key, text in found.items() if key not in task.kubernetes.annotations}
