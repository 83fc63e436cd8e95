"""JSON patch (add, replace, remove and test), merge patch (RFC 7386) and strategic merge patch."""

import copy
from collections.abc import Callable
from typing import Any

from kubectl_sky_practice import problems, schemas
from kubectl_sky_practice.resources import Json, Resource


def patch(old: Json, change: Any, content_type: str, resource: Resource) -> Json:
    """Return an object with a patch of any type but apply. Raises Problem."""
    supported = [name for name in _TYPES if not (resource.custom and "strategic" in name)]
    if content_type not in supported:
        raise problems.unsupported(supported)
    try:
        new = _TYPES[content_type](copy.deepcopy(old), change, schemas.root(resource))
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        raise problems.Problem(422, "Invalid", "the patch does not fit the object") from None
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise problems.bad_request("the patch removes the metadata of the object")
    for field in ("labels", "annotations", "ownerReferences", "finalizers"):
        if not new["metadata"].get(field, True):  # the API leaves empty metadata out
            del new["metadata"][field]
    return copy.deepcopy(new)


def _json_patch(document: Json, operations: list[Json], _: Json) -> Json:
    for operation in operations:
        name = operation["op"]
        (first, *parents, key) = operation["path"].split("/")
        if first or name not in ("add", "replace", "remove", "test"):
            raise ValueError(operation)
        parent: Any = document
        for part in parents:
            parent = parent[_key(parent, part)]
        _operate(name, parent, _key(parent, key), operation.get("value"))
    return document


def _operate(name: str, parent: Any, key: Any, value: Any) -> None:
    if name == "add" and isinstance(parent, list):
        parent.insert(key, value)
    elif name == "remove":
        del parent[key]
    elif name == "test" and parent[key] != value:
        raise ValueError(value)
    elif name != "test":
        if name == "replace":
            parent[key]  # raises a KeyError
        parent[key] = value


def _key(parent: Any, part: str) -> Any:
    return int(part) if isinstance(parent, list) else part.replace("~1", "/").replace("~0", "~")


def merge(value: Any, change: Any, _: Json | None = None) -> Any:
    if not isinstance(change, dict):
        return change
    result = dict(value) if isinstance(value, dict) else {}
    for key, inner in change.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), inner)
    return result


def _strategic_merge(value: Any, change: Any, schema: Json) -> Any:
    """Merge lists by the key of their items, as `kubectl apply` sends them.

    `$setElementOrder` has no effect.
    """
    if not isinstance(change, dict):
        return change
    result = dict(value) if isinstance(value, dict) else {}
    if "$retainKeys" in change:
        result = {key: value for key, value in result.items() if key in change["$retainKeys"]}
    for key, inner in change.items():
        if inner is None:
            result.pop(key, None)
        elif not key.startswith("$"):
            merge = _merge_list if isinstance(inner, list) else _strategic_merge
            result[key] = merge(result.get(key), inner, schemas.field(schema, key) or {})
    return result


def _merge_list(live: list[Any] | None, change: list[Any], schema: Json) -> list[Any]:
    result = list(live or ())
    if "merge" not in schema.get("x-kubernetes-patch-strategy", ""):
        return change

    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if not merge_key:
        return result + [item for item in change if item not in result]

    for item in change:
        old = next((each for each in result if each.get(merge_key) == item.get(merge_key)), None)
        if item.get("$patch") == "delete":
            result = [each for each in result if each is not old]
        elif old:
            result[result.index(old)] = _strategic_merge(old, item, schemas.items(schema))
        else:
            result.append(_strategic_merge({}, item, schemas.items(schema)))
    return result


_TYPES: dict[str, Callable[[Any, Any, Json], Any]] = {
    "application/json-patch+json": _json_patch,
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": _strategic_merge,
}
