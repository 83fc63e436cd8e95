"""Which backend runs a task: the one that was named, or the best that the cluster has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.errors import ClusterError
from kubectl_sky.facts import Access
from kubectl_sky.kinds import Kind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Workload

AUTO = "auto"
# For several nodes, the best first, and why; the last one needs nothing.
_MERITS = {
    "jobset": "a JobSet, whose nodes fail together and start again together",
    "indexed": "one Job for all nodes, which the cluster stops together when one fails",
    "jobs": "one Job per node",
}
_LACKS = {Access.ABSENT: "{} is not installed", Access.FORBIDDEN: "you may not create {}s"}


@dataclass(frozen=True)
class Choice:
    """A backend, and what there is to say about its being chosen."""

    backend: Workload
    note: str = ""


def questions(wanted: str | None, nodes: int) -> list[Kind]:
    """Return the kinds about which the cluster has to be asked before a choice."""
    found = [registry.named(name).foreign for name in _candidates(wanted, nodes)]
    return [kind for kind in dict.fromkeys(found) if kind]


def choices(wanted: str | None, nodes: int, access: Mapping[Kind, Access]) -> Iterator[Choice]:
    """Yield what may run a task of so many nodes, the best first; there is at least one.

    Raises UserError for an unknown backend, ClusterError for one that is not installed.
    """
    if wanted != AUTO:
        backend = registry.named(wanted or names.DEFAULT_BACKEND)
        _installed(backend, access)
        yield Choice(backend)
        return
    lacks: list[str] = []
    for name in _candidates(wanted, nodes):
        backend = registry.named(name)
        # What is not known, as without a cluster, is not relied on.
        kind = backend.foreign
        found = access.get(kind, Access.ABSENT) if kind else Access.USABLE
        if found is Access.USABLE:
            why = _MERITS[name] if nodes > 1 else "the task has one node"
            yield Choice(backend, f"backend {name}: {'; '.join([why, *lacks])}")
        else:
            lacks.append(_LACKS[found].format(backend.kind.kind))


def _candidates(wanted: str | None, nodes: int) -> list[str]:
    if wanted != AUTO:
        return [wanted or names.DEFAULT_BACKEND]
    return list(_MERITS) if nodes > 1 else [names.DEFAULT_BACKEND]


def _installed(backend: Workload, access: Mapping[Kind, Access]) -> None:
    kind = backend.foreign
    if kind and access.get(kind) is Access.ABSENT:
        others = [name for name in registry.NAMED if not registry.named(name).requires]
        raise ClusterError(
            f"backend {backend.name} needs {backend.requires}, and the cluster does not serve"
            f" {kind.plural} ({kind.api_version})",
            f"install it, or choose another backend: {', '.join(others)}",
        )
