"""Merge the user's `pod_config` into pod templates, by SkyPilot's rules.

Maps are merged; items of the lists in `_KEYS` are known by a field, and merged with the one that is
there; lists there without a key are replaced; of other lists what is new is added at the end. Null
takes a field away. The rules are SkyPilot's (utils/config_utils.py:merge_k8s_configs) but for three
that would give pods that Kubernetes refuses, or that do not do what was asked:

- an item that says another kind of value or source than the one there takes its place,
- what is in a list already is not added again,
- node affinity asks for what the task needs *and* what the user wants, not for either.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_sky import names
from kubectl_sky.errors import UserError
from kubectl_sky.spec import pod_config
from kubectl_sky.spec.document import dotted
from kubectl_sky.spec.pod_config import MAIN

Json = dict[str, Any]

POD_CONFIG = dotted(pod_config.POD_CONFIG)
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
_OF_ONE_KIND = ("env", "volumes")  # whose items have one of several kinds of values or sources
_TERMS = "nodeSelectorTerms"  # alternatives: any one of them is enough


def applied(manifest: Json, patch: Mapping[str, Any]) -> Json:
    """Return a manifest with the patch in each of its pod templates, wherever they stand."""
    found: Json = _within(manifest, patch)
    return found


def _within(value: Any, patch: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, list):
        return [_within(item, patch) for item in value]
    if not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return merged(value, patch)
    return {key: _within(item, patch) for key, item in value.items()}


def merged(base: Mapping[str, Any], patch: Mapping[str, Any], path: str = POD_CONFIG) -> Json:
    """Return a map with a patch in it. Raises UserError where the two are of different shapes."""
    found = dict(base)
    for key, value in patch.items():
        where = f"{path}.{key}"
        there = found.get(key)
        if value is None:
            found.pop(key, None)
        elif there is None:
            found[key] = _plain(value)
        elif isinstance(there, dict) and isinstance(value, dict):
            found[key] = merged(there, value, where)
        elif isinstance(there, list) and isinstance(value, list):
            found[key] = _lists(key, there, value, where)
        elif isinstance(there, dict | list) or isinstance(value, dict | list):
            raise UserError(f"{where}: the template has {_kind(there)} here, not {_kind(value)}")
        else:
            found[key] = value
    return found


def _plain(value: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return a value without its nulls, which mean nothing to Kubernetes."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _lists(key: str, base: Sequence[Any], patch: Sequence[Any], path: str) -> list[Any]:
    if key == _TERMS:
        return list(_both(base, patch)) or list(base)
    identity = _KEYS.get(key, "")
    if identity is None:
        return _plain(list(patch))  # type: ignore[no-any-return]
    found = list(base)
    for item in map(_plain, patch):
        at = _place(found, key, item)
        if at is not None:
            found[at] = _item(key, found[at], item, f"{path}[{at}]")
        elif item not in found:
            found.append(item)
    return found


def _place(items: Sequence[Any], key: str, item: Any) -> int | None:  # noqa: ANN401 -- JSON
    """Return which item of a list another one means; None where it is a new one."""
    identity = _KEYS.get(key)
    if identity is None or not isinstance(item, dict):
        return None
    wanted = item.get(identity)
    known = [one.get(identity) if isinstance(one, dict) else None for one in items]
    if key == "containers" and wanted in MAIN and items:
        return known.index(names.CONTAINER) if names.CONTAINER in known else 0
    return known.index(wanted) if wanted is not None and wanted in known else None


def _item(key: str, base: Any, patch: Json, path: str) -> Json:  # noqa: ANN401 -- JSON
    """Return an item with the patch in it; the name that it has stays."""
    if not isinstance(base, dict):
        raise UserError(f"{path}: the template has {_kind(base)} here, not {_kind(patch)}")
    identity = str(_KEYS[key])
    own = {name: value for name, value in patch.items() if name != identity}
    other = key in _OF_ONE_KIND and own and not own.keys() & base.keys()
    return merged({identity: base[identity]} if other else base, own, path)


def _both(base: Sequence[Any], patch: Sequence[Any]) -> Iterator[Any]:
    """Yield every term of the one with every term of the other."""
    for mine in base:
        for theirs in patch:
            yield merged(mine, theirs) if isinstance(theirs, dict) else mine


def _kind(value: Any) -> str:  # noqa: ANN401 -- JSON
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else "a value"
