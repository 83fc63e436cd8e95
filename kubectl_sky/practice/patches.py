"""JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch."""

import copy
from collections.abc import Callable
from typing import Any

from kubectl_sky.practice import problems, schemas
from kubectl_sky.practice.resources import Json, Resource


def patched(old: Json, patch: Any, content_type: str, resource: Resource) -> Json:
    """Return an object with a patch of any type but apply. Raises Problem."""
    supported = [name for name in _TYPES if not (resource.custom and "strategic" in name)]
    if content_type not in supported:
        raise problems.unsupported(supported)
    expected = list if "json-patch" in content_type else dict
    if not isinstance(patch, expected):
        raise problems.bad_request(f"the patch is not a {expected.__name__}")
    try:
        new = _TYPES[content_type](copy.deepcopy(old), patch, schemas.root(resource))
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
        name, path = operation["op"], _pointer(operation["path"])
        if name in ("add", "replace"):
            _set(document, path, operation["value"], insert=name == "add")
        elif name == "remove":
            _remove(document, path)
        elif name == "move":
            _set(document, path, _remove(document, _pointer(operation["from"])), insert=True)
        elif name == "copy":
            value = copy.deepcopy(_get(document, _pointer(operation["from"])))
            _set(document, path, value, insert=True)
        elif name != "test" or _get(document, path) != operation.get("value"):
            raise ValueError(name)
    return document


def _pointer(text: str) -> list[str]:
    if not text.startswith("/"):
        raise ValueError(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _get(document: Any, path: list[str]) -> Any:
    for key in path:
        document = document[int(key) if isinstance(document, list) else key]
    return document


def _set(document: Any, path: list[str], value: object, *, insert: bool) -> None:
    parent, key = _get(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        if not insert and key not in parent:
            raise KeyError(key)
        parent[key] = value
    elif key == "-" or (insert and int(key) == len(parent)):
        parent.append(value)
    elif insert:
        parent[int(key)]  # raises an IndexError
        parent.insert(int(key), value)
    else:
        parent[int(key)] = value


def _remove(document: Any, path: list[str]) -> Any:
    parent, key = _get(document, path[:-1]), path[-1]
    return parent.pop(int(key) if isinstance(parent, list) else key)


def merge(value: Any, patch: Any, _: Json | None = None) -> Any:
    """Apply a merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result


def _strategic_merge(value: Any, patch: Any, schema: Json) -> Any:
    """Merge lists by the key of their items; `$setElementOrder` has no effect."""
    if not isinstance(patch, dict):
        return patch
    changes = {key: change for key, change in patch.items() if not key.startswith("$")}
    if patch.get("$patch") in ("replace", "delete"):
        return changes if patch["$patch"] == "replace" else {}
    result = dict(value) if isinstance(value, dict) else {}
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, change in patch.items():
        inner = schemas.field(schema, key) or {}
        if change is None:
            result.pop(key, None)
        elif key in changes:
            merge = _merged_list if isinstance(change, list) else _strategic_merge
            result[key] = merge(result.get(key), change, inner)
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or () if item not in change]
    return result


def _merged_list(live: list[Any] | None, patch: list[Any], schema: Json) -> list[Any]:
    items = live or []
    if "merge" not in schema.get("x-kubernetes-patch-strategy", ""):
        return patch
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if not merge_key:
        return items + [item for item in patch if item not in items]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(items)
    for change in patch:
        matching = [item for item in result if item.get(merge_key) == change.get(merge_key)]
        if change.get("$patch") == "delete":
            result = [item for item in result if item not in matching]
        elif matching:
            merged = _strategic_merge(matching[0], change, schemas.items(schema))
            result[result.index(matching[0])] = merged
        else:
            result.append(_strategic_merge({}, change, schemas.items(schema)))
    return result


_TYPES: dict[str, Callable[[Any, Any, Json], Any]] = {
    "application/json-patch+json": _json_patch,
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": _strategic_merge,
}
