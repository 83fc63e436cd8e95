"""The infra of resources: a kubeconfig context, or another provider.

A candidate that names another provider is ignored, unless all candidates do.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, printable

_KUBERNETES = ("k8s", "kubernetes")
_HERE = ("*", *_KUBERNETES)
# If a candidate sets the first field, it does not inherit the others.
_SAME = {
    "accelerators": ("gpus",),
    "gpus": ("accelerators",),
    "infra": ("cloud", "region", "zone"),
    "cloud": ("infra",),
}
_IGNORED = "ignored: the task runs in kubectl's context"
_CHOOSE = "choose another with --context or infra: k8s/CONTEXT"


def merge(outer: Mapping[str, Data], item: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return a candidate with the outer resources as defaults; labels are merged."""
    values = {key: value for key, value in item.items() if value is not None}
    overridden = {other for field in values for other in _SAME.get(field, ())}
    defaults = {key: value for key, value in outer.items() if key not in overridden}
    labels = [
        mapping
        for mapping in (outer.get("labels"), values.get("labels"))
        if isinstance(mapping, dict)
    ]
    return {**defaults, **values, "labels": dict(ChainMap(*reversed(labels)))}


def elsewhere(values: Mapping[str, Data]) -> bool:
    return _provider(values) not in _HERE


def context(values: Mapping[str, Data]) -> str | None:
    infra = values.get("infra")
    name = values.get("region")
    if infra:
        provider, _, rest = str(infra).partition("/")
        name = rest if provider.lower() in _KUBERNETES else None
    elif _provider(values) not in _KUBERNETES:
        return None
    return str(name) if name and name != "*" else None


def region(values: Mapping[str, Data]) -> str | None:
    """Return the region that resources name, as in `aws/us-east-1`; the context of Kubernetes."""
    parts = str(values.get("infra") or "").split("/")
    if len(parts) > 1 and parts[0].lower() not in _HERE:
        return parts[1]
    name = context(values) or values.get("region")
    return name if isinstance(name, str) else None


def contexts(document: Document) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for path in document.resources.paths:
        values = document.get(*path)
        for field in ("infra", "region") if isinstance(values, dict) else ():
            name = context(candidate_fields(document, path))
            if values.get(field) is not None and name:
                paths.setdefault(name, (*path, field))
    return paths


def find_left_out(document: Document) -> tuple[Path, ...]:
    """Return the candidates that name another provider; empty if all of them do."""
    candidates = document.resources.paths[1:]
    if not candidates:
        return ()
    skipped = [path for path in candidates if elsewhere(candidate_fields(document, path))]
    return () if len(skipped) == len(candidates) else tuple(skipped)


def _provider(values: Mapping[str, Data]) -> str:
    return str(values.get("infra") or values.get("cloud") or "*").lower().split("/")[0]


def candidate_fields(document: Document, path: Path) -> Mapping[str, Data]:
    """Return a candidate's resources, with defaults from the outer resources."""
    outer = document.get("resources")
    values = document.get(*path)
    outer, values = (mapping if isinstance(mapping, dict) else {} for mapping in (outer, values))
    return outer if path == ("resources",) else merge(outer, values)


def _rule(document: Document) -> Iterator[Problem]:
    """Warn once about the skipped candidates of a list, and about each ignored field."""
    skipped = find_left_out(document)
    ignored = set(skipped)
    for field in dict.fromkeys(str(path[1]) for path in skipped):
        paths = [path for path in skipped if path[1] == field]
        providers = ", ".join(
            dict.fromkeys(printable(_provider(candidate_fields(document, path))) for path in paths)
        )
        message = f"{len(paths)} ignored, the task runs in kubectl's context: {providers}"
        yield document.problem(("resources", field), message, _CHOOSE, "warning", key=True)

    for path, values in document.resources.maps:
        any_provider, _, rest = str(values.get("infra") or "").partition("/")
        fields = ["infra"] if any_provider == "*" and rest.strip("*/") else []
        fields += [
            field
            for field in ("infra", "cloud")
            if values.get(field) and elsewhere({field: values[field]})
        ]

        if values.get("region") and not context(candidate_fields(document, path)):
            fields.append("region")

        for field in fields if path not in ignored else ():
            yield document.unused((*path, field), _IGNORED, _CHOOSE, key=True)


RULES = ((frozenset({"infra", "cloud", "region"}), (_rule,)),)
