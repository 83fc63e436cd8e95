"""Secrets, ConfigMaps and PVCs that pods need to start."""

from collections.abc import Iterator, Sequence

from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Manifest

_FIELDS = {  # of a pod: the kind, and the fields that may name the object
    "secret": (kinds.SECRET, ("secretName", "name")),  # of a volume, and of a projected one
    "secretRef": (kinds.SECRET, ("name",)),
    "secretKeyRef": (kinds.SECRET, ("name",)),
    "configMap": (kinds.CONFIG_MAP, ("name",)),
    "configMapRef": (kinds.CONFIG_MAP, ("name",)),
    "configMapKeyRef": (kinds.CONFIG_MAP, ("name",)),
    "persistentVolumeClaim": (kinds.PVC, ("claimName",)),
}


def references(workloads: Sequence[Manifest]) -> list[tuple[Kind, str]]:
    """Return the kind and name of each object that is not optional, once."""
    templates = [
        template for item in workloads for template in registry.of_manifest(item).templates(item)
    ]
    return list(dict.fromkeys(_references([template["spec"] for template in templates])))


def list_secrets(workloads: Sequence[Manifest]) -> list[str]:
    """Return the names of the Secrets that pods of workloads read, also of optional ones."""
    found = _references(list(workloads), optional=True)
    return list(dict.fromkeys(name for kind, name in found if kind is kinds.SECRET))


def _references(value: object, *, optional: bool = False) -> Iterator[tuple[Kind, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item, optional=optional)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        kind, names = _FIELDS.get(key, (None, ()))
        if kind and isinstance(item, dict):
            if optional or not item.get("optional"):
                yield from ((kind, str(item[name])) for name in names if item.get(name))
        else:
            yield from _references(item, optional=optional)
