"""The three kinds of patch: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge."""

import copy
from typing import Any

from kubectl_sky.practice import problems, schemas
from kubectl_sky.practice.resources import Json


def json_patch(obj: Json, operations: list[Json]) -> Json:
    """Carry out a JSON patch. Raises Problem, also when a test fails."""
    result = copy.deepcopy(obj)
    for one in operations:
        try:
            _operate(result, one)
        except (KeyError, IndexError, ValueError, TypeError):
            raise problems.Problem(
                422, "Invalid", "the server rejected our request due to an error in our request"
            ) from None
    return result


def _operate(document: Any, one: Json) -> None:
    name, path = one["op"], _pointer(one["path"])
    if name in ("add", "replace"):
        _set(document, path, copy.deepcopy(one["value"]), insert=name == "add")
    elif name == "remove":
        _take(document, path)
    elif name == "move":
        _set(document, path, _take(document, _pointer(one["from"])), insert=True)
    elif name == "copy":
        _set(document, path, copy.deepcopy(_get(document, _pointer(one["from"]))), insert=True)
    elif name != "test" or _get(document, path) != one.get("value"):
        raise ValueError(name)


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
        if not insert:
            parent[key]  # it must be there
        parent[key] = value
    elif key == "-":
        parent.append(value)
    elif insert:
        if int(key) > len(parent):
            raise IndexError(key)
        parent.insert(int(key), value)
    else:
        parent[int(key)] = value


def _take(document: Any, path: list[str]) -> Any:
    parent, key = _get(document, path[:-1]), path[-1]
    return parent.pop(int(key) if isinstance(parent, list) else key)


def merge_patch(obj: Any, patch: Any) -> Any:
    """Carry out a merge patch: null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic(obj: Any, patch: Any, schema: Json) -> Any:
    """Carry out a strategic merge patch: lists whose items have a key are merged by it."""
    if not isinstance(patch, dict):
        return patch
    own = {key: value for key, value in patch.items() if not key.startswith("$")}
    if patch.get("$patch") in ("replace", "delete"):
        return own if patch["$patch"] == "replace" else {}
    result = dict(obj) if isinstance(obj, dict) else {}
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in own.items():
        inner = schemas.field(schema, key) or {}
        if value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merged_list(result.get(key) or [], value, inner)
        else:
            result[key] = strategic(result.get(key), value, inner)
    _direct(result, patch, schema)
    return result


def _direct(result: Json, patch: Json, schema: Json) -> None:
    """Carry out what a patch says of whole lists."""
    for directive, value in patch.items():
        kind, _, name = directive.partition("/")
        if kind == "$deleteFromPrimitiveList":
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif kind == "$setElementOrder":
            _reorder(result, name, value, schema)


def _merged_list(old: list[Any], patch: list[Any], schema: Json) -> list[Any]:
    if "merge" not in schema.get("x-kubernetes-patch-strategy", ""):
        return patch
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if not merge_key:
        return old + [item for item in patch if item not in old]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result, fresh = list(old), []
    for item in patch:
        known = [one for one in result if one.get(merge_key) == item.get(merge_key)]
        if item.get("$patch") == "delete":
            result = [one for one in result if one not in known]
        elif known:
            result[result.index(known[0])] = strategic(known[0], item, schemas.items(schema))
        else:
            fresh.append(strategic({}, item, schemas.items(schema)))
    return fresh + result  # in this order on the real server, unless the patch says another


def _reorder(result: Json, name: str, order: list[Any], schema: Json) -> None:
    merge_key = (schemas.field(schema, name) or {}).get("x-kubernetes-patch-merge-key")
    keys = [item[merge_key] if merge_key else item for item in order]

    def place(item: Any) -> int:
        own = item.get(merge_key) if merge_key else item
        return keys.index(own) if own in keys else len(keys)

    if name in result:
        result[name] = sorted(result[name], key=place)
