"""Where resources are to be: in which context of the kubeconfig, or at a provider that is not here.

A candidate that names another provider is left out, unless all do.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path

_KUBERNETES = ("k8s", "kubernetes")
_HERE = ("*", *_KUBERNETES)
# A candidate that says the one takes back what stands around it under the other.
_SAME = {
    "accelerators": ("gpus",),
    "gpus": ("accelerators",),
    "infra": ("cloud", "region", "zone"),
    "cloud": ("infra",),
}
_IGNORED = "ignored: the task runs on kubectl's cluster"
_CHOOSE = "--context or infra: k8s/CONTEXT chooses another"


def merged(outer: Mapping[str, Data], item: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return a candidate with what stands around the candidates as defaults; labels add up."""
    own = {key: value for key, value in item.items() if value is not None}
    said = {other for field in own for other in _SAME.get(field, ())}
    kept = {key: value for key, value in outer.items() if key not in said}
    labels = [each for each in (outer.get("labels"), own.get("labels")) if isinstance(each, dict)]
    return {**kept, **own, "labels": dict(ChainMap(*reversed(labels)))}


def elsewhere(values: Mapping[str, Data]) -> bool:
    """Say whether resources name another provider than Kubernetes."""
    return _provider(values) not in _HERE


def context(values: Mapping[str, Data]) -> str | None:
    """Return the context of the kubeconfig that resources name: `k8s/CONTEXT`."""
    infra, named = values.get("infra"), values.get("region")
    if infra:
        provider, _, rest = str(infra).partition("/")
        named = rest if provider.lower() in _KUBERNETES else None
    elif _provider(values) not in _KUBERNETES:
        return None
    return str(named) if named and named != "*" else None


def contexts(document: Document) -> dict[str, Path]:
    """Return the contexts that a document names, each with where it does so first."""
    found: dict[str, Path] = {}
    for path in document.candidates():
        values = document.get(*path)
        for field in ("infra", "region") if isinstance(values, dict) else ():
            named = context(whole(document, path))
            if values.get(field) is not None and named:
                found.setdefault(named, (*path, field))
    return found


def left_out(document: Document) -> tuple[Path, ...]:
    """Return the candidates that name another provider; none where all do."""
    found = document.candidates()[1:]
    if not found:
        return ()
    away = [path for path in found if elsewhere(whole(document, path))]
    return () if len(away) == len(found) else tuple(away)


def _provider(values: Mapping[str, Data]) -> str:
    return str(values.get("infra") or values.get("cloud") or "*").lower().split("/")[0]


def whole(document: Document, path: Path) -> Mapping[str, Data]:
    """Return the resources at a candidate's path, with their defaults."""
    outer, values = document.get("resources"), document.get(*path)
    outer, values = (each if isinstance(each, dict) else {} for each in (outer, values))
    return outer if path == ("resources",) else merged(outer, values)


def _rule(document: Document) -> Iterator[Problem]:
    """One warning for all candidates that are left out, and one for each field that is ignored."""
    gone = left_out(document)
    for field in dict.fromkeys(str(path[1]) for path in gone):
        away = [path for path in gone if path[1] == field]
        named = ", ".join(dict.fromkeys(_provider(whole(document, path)) for path in away))
        message = f"{len(away)} left out, the task runs on kubectl's cluster: {named}"
        yield document.problem(("resources", field), message, _CHOOSE, "warning", key=True)
    for path, values in document.resources.maps:
        if path not in gone:
            yield from _ignored(document, path, values)


def _ignored(document: Document, path: Path, values: Mapping[str, Data]) -> Iterator[Problem]:
    for field in ("infra", "cloud"):
        if values.get(field) and elsewhere({field: values[field]}):
            yield document.problem((*path, field), _IGNORED, _CHOOSE, "warning", key=True)
    if values.get("region") and not context(whole(document, path)):
        yield document.problem((*path, "region"), _IGNORED, _CHOOSE, "warning", key=True)


RULES = ((frozenset({"infra", "cloud", "region"}), (_rule,)),)
