"""Choose the backend of a task: the named one, or the best that is available."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.errors import ClusterError
from kubectl_sky.facts import Access
from kubectl_sky.kinds import Kind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Workload

AUTO = "auto"
_LACKS = {Access.ABSENT: "{} is not installed", Access.FORBIDDEN: "you may not create {}s"}


@dataclass(frozen=True)
class Choice:
    """A backend, and a note on why it was chosen."""

    backend: Workload
    note: str = ""


def questions(requested: str | None, nodes: int) -> list[Kind]:
    """Return the kinds whose availability must be known before a choice."""
    kinds = [registry.named(name).required_kind for name in _candidates(requested, nodes)]
    return [kind for kind in dict.fromkeys(kinds) if kind]


def choices(requested: str | None, nodes: int, access: Mapping[Kind, Access]) -> Iterator[Choice]:
    """Yield the backends for a task of `nodes` nodes, best first; at least one.

    Raises UserError for an unknown backend, ClusterError for one that is not installed.
    """
    if requested != AUTO:
        backend = registry.named(requested or names.DEFAULT_BACKEND)
        _installed(backend, access)
        yield Choice(backend)
        return
    rejections: list[str] = []
    for name in _candidates(requested, nodes):
        backend = registry.named(name)
        # Unknown availability, such as without a cluster, counts as absent.
        kind = backend.required_kind
        status = access.get(kind, Access.ABSENT) if kind else Access.USABLE
        if status is Access.USABLE:
            reason = backend.merit if nodes > 1 else "the task has one node"
            yield Choice(backend, f"backend {name}: {'; '.join([reason, *rejections])}")
        else:
            rejections.append(_LACKS[status].format(backend.kind.kind))


def _candidates(requested: str | None, nodes: int) -> list[str]:
    if requested != AUTO:
        return [requested or names.DEFAULT_BACKEND]
    return list(registry.AUTOMATIC) if nodes > 1 else [names.DEFAULT_BACKEND]


def _installed(backend: Workload, access: Mapping[Kind, Access]) -> None:
    kind = backend.required_kind
    if kind and access.get(kind) is Access.ABSENT:
        alternatives = [name for name in registry.NAMED if not registry.named(name).requires]
        raise ClusterError(
            f"backend {backend.name} needs {backend.requires}, and the cluster does not serve"
            f" {kind.plural} ({kind.api_version})",
            f"install it, or choose another backend: {', '.join(alternatives)}",
        )
