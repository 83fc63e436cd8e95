"""Merge the user's `pod_config` into pod templates, by SkyPilot's rules.

Maps are merged. `_KEYS` names the field that identifies the items of a list: an item is merged with
the existing item of the same identity. A list whose key there is None is replaced. To any other
list, new items are appended. Null removes a field.

The rules are SkyPilot's (utils/config_utils.py:merge_k8s_configs) with three exceptions, where its
rules give pods that Kubernetes rejects or that do not do what the user asked for:

- an item with another kind of value or source replaces the existing item,
- an item that is already in a list is not added again,
- node affinity requires what the task needs *and* what the user asks for, not one of the two.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_sky.spec.document import FieldError, Path, printable
from kubectl_sky.spec.kubernetes import MAIN, POD_CONFIG
from kubectl_sky.words import names

Json = dict[str, Any]

_KEYS: Mapping[str, str | None] = {
    "args": None,
    "claims": "name",
    "command": None,
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": None,
    "initContainers": "name",
    "ports": "containerPort",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_OF_ONE_KIND = ("env", "volumes")  # an item has exactly one of several kinds of value or source
_TERMS = "nodeSelectorTerms"  # alternatives: a cluster node has to match only one


def apply(manifest: Json, patch: Mapping[str, Any]) -> Json:
    patched: Json = _within(manifest, patch)
    return patched


def _within(value: Any, patch: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_within(item, patch) for item in value]
    if not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        merged = merge(value, patch)
        _check_mounts(merged["spec"], patch)
        return merged
    return {key: _within(item, patch) for key, item in value.items()}


def _check_mounts(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
    """Raise FieldError if the patch mounts a volume that the pod does not have."""
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    containers = (patch.get("spec") or {}).get("containers") or ()
    for index, container in enumerate(containers):
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            if mount and mount.get("name") not in volumes:
                path = (*POD_CONFIG, "spec", "containers", index, "volumeMounts", number, "name")
                message = f'the pod has no volume "{printable(str(mount.get("name")))}"'
                raise FieldError(path, message, "add it under spec.volumes")


def merge(base: Mapping[str, Any], patch: Mapping[str, Any], path: Path = POD_CONFIG) -> Json:
    """Return a map with a patch merged in. Raises FieldError if their types differ."""
    result = dict(base)
    for key, value in patch.items():
        field_path = (*path, key)
        existing = result.get(key)

        if value is None:
            result.pop(key, None)
        elif existing is None:
            result[key] = _plain(value)
        elif isinstance(existing, dict) and isinstance(value, dict):
            result[key] = merge(existing, value, field_path)
        elif isinstance(existing, list) and isinstance(value, list):
            result[key] = _lists(key, existing, value, field_path)
        elif isinstance(existing, dict | list) or isinstance(value, dict | list):
            message = f"the template has {_kind(existing)} here, not {_kind(value)}"
            raise FieldError(field_path, message)
        else:
            result[key] = value
    return result


def _plain(value: Any) -> Any:
    """Return a value without nulls, which mean nothing to Kubernetes."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _lists(key: str, base: Sequence[Any], patch: Sequence[Any], path: Path) -> list[Any]:
    if key == _TERMS:
        return list(_both(base, patch)) or list(base)
    identity = _KEYS.get(key, "")
    if identity is None:
        return _plain(list(patch))  # type: ignore[no-any-return]
    items = list(base)
    for number, item in enumerate(map(_plain, patch)):
        index = _index_of(items, key, item)
        if index is not None:
            items[index] = _item(key, items[index], item, (*path, number))
        elif item not in items:
            items.append(item)
    return items


def _index_of(items: Sequence[Any], key: str, item: Any) -> int | None:
    """Return the index of the list item that an item identifies; None if it is new."""
    identity = _KEYS.get(key)
    if identity is None or not isinstance(item, dict):
        return None
    identifier = item.get(identity)
    identifiers = [
        existing.get(identity) if isinstance(existing, dict) else None for existing in items
    ]
    if key == "containers" and identifier in MAIN and items:
        return identifiers.index(names.CONTAINER) if names.CONTAINER in identifiers else 0
    is_known = identifier is not None and identifier in identifiers
    return identifiers.index(identifier) if is_known else None


def _item(key: str, base: Any, patch: Json, path: Path) -> Json:
    """Return an item with the patch merged in; it keeps its identifying field."""
    if not isinstance(base, dict):
        raise FieldError(path, f"the template has {_kind(base)} here, not {_kind(patch)}")
    identity = str(_KEYS[key])
    changes = {name: value for name, value in patch.items() if name != identity}
    replaces = key in _OF_ONE_KIND and changes and not changes.keys() & base.keys()
    if replaces:
        base = {identity: base[identity]}
    return merge(base, changes, path)


def _both(base: Sequence[Any], patch: Sequence[Any]) -> Iterator[Any]:
    for base_term in base:
        for patch_term in patch:
            yield merge(base_term, patch_term) if isinstance(patch_term, dict) else base_term


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else "a value"
