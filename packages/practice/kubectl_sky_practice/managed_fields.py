"""Server-side apply and managedFields: which manager has applied which field of an object.

Only appliers are recorded, and only an apply with force may change fields of others.
"""

import json
from collections.abc import Iterator
from typing import Any

from kubectl_sky_practice import problems, schemas
from kubectl_sky_practice.api import now
from kubectl_sky_practice.resources import Json, Resource

Path = tuple[str, ...]  # elements as in fieldsV1: f:spec, k:{"name":"a"}, v:"x"
_UNOWNED: set[Path] = {("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:status",)}
_UNOWNED |= {
    ("f:metadata", f"f:{field}")
    for field in (
        *("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation"),
        *("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"),
    )
}


def release(old: Json, new: Json, resource: Resource) -> None:
    """Take the fields that an update changes from their appliers."""
    schema = schemas.root(resource)
    entries = _read_entries(old)
    before = _owned_fields(old, schema)
    after = _owned_fields(new, schema)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    for entry in entries:
        entry["paths"] -= changed
    _write_entries(new, entries)


def apply(
    live: Json | None, applied: Json, resource: Resource, manager: str, *, force: bool
) -> Json:
    """Return an object with an applied configuration merged into it.

    Raises Problem if that changes fields that the manager has not applied, without force.
    """
    schema = schemas.root(resource)
    live = live or {"metadata": {}}
    applied = {**applied, "metadata": dict(applied.get("metadata") or {})}
    applied["metadata"].pop("managedFields", None)

    before = _owned_fields(live, schema)
    fields = _owned_fields(applied, schema)
    entries = _read_entries(live)
    wanted = set(fields)

    owned = next((entry for entry in entries if entry["manager"] == manager), None)
    if owned is None:
        owned = {"manager": manager, "operation": "Apply", "paths": set()}
        entries.append(owned)

    changed = {path for path, value in fields.items() if before.get(path, value) != value}
    if not force and not changed <= owned["paths"]:
        raise problems.not_owned()

    others = [entry for entry in entries if entry is not owned]
    for entry in others:
        entry["paths"] -= changed
    kept = wanted.union(*(entry["paths"] for entry in others))
    prefixes = {path[:length] for path in kept for length in range(1, len(path) + 1)}

    new = _merge(live, applied, schema)
    result: Json = _without(new, owned["paths"] - prefixes, schema)
    if owned["paths"] != wanted:
        owned["time"] = now()
    owned |= {"apiVersion": resource.api_version, "fieldsType": "FieldsV1", "paths": wanted}
    _write_entries(result, entries)
    return result


def _read_entries(obj: Json) -> list[Json]:
    return [
        {**entry, "paths": set(_read_paths(entry.get("fieldsV1") or {}))}
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def _write_entries(obj: Json, entries: list[Json]) -> None:
    fields = [
        {key: value for key, value in entry.items() if key != "paths"}
        | {"fieldsV1": _fields_v1(entry["paths"])}
        for entry in entries
        if entry["paths"]
    ]
    fields.sort(key=lambda entry: (entry["time"], entry["manager"]))
    obj["metadata"] = {**obj["metadata"], "managedFields": fields}
    if not fields:
        del obj["metadata"]["managedFields"]


def _fields_v1(paths: set[Path]) -> Json:
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for length, element in enumerate(path, 1):
            node = node.setdefault(element, {})
            if length < len(path) and path[:length] in paths:
                node["."] = {}  # it is owned itself, not only its children
    return tree


def _read_paths(tree: Json, path: Path = ()) -> Iterator[Path]:
    if not tree or "." in tree:
        yield path
    for key, node in tree.items():
        if key != ".":
            yield from _read_paths(node, (*path, key))


def _item_element(item: Any, schema: Json) -> str:
    keys = schemas.list_keys(schema)
    if not keys:
        return "v:" + json.dumps(item, separators=(",", ":"))
    named = {key: item.get(key, schemas.default_key(schema, key)) for key in sorted(keys)}
    return "k:" + json.dumps(named, separators=(",", ":"))


def _owned_fields(obj: Json, schema: Json) -> dict[Path, Any]:
    fields = _leaves(obj, schema)
    return {
        path: value for path, value in fields if path not in _UNOWNED and path[:2] not in _UNOWNED
    }


def _leaves(value: Any, schema: Json, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not schemas.is_atomic(schema):
        properties = schema.get("properties") or {}
        for key, inner in value.items():
            here = (*path, f"f:{key}")
            if key not in properties and isinstance(inner, dict) and inner:
                yield here, None
            yield from _leaves(inner, schemas.field(schema, key) or {}, here)
    elif isinstance(value, list) and schemas.list_keys(schema):
        for item in value:
            here = (*path, _item_element(item, schema))
            yield here, None
            yield from _leaves(item, schemas.items(schema), here)
    elif isinstance(value, list) and schemas.is_set(schema):
        for item in value:
            yield (*path, _item_element(item, schema)), item
    else:
        yield path, value


def _merge(live: Any, applied: Any, schema: Json) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict) and not schemas.is_atomic(schema):
        result = dict(live)
        for key, value in applied.items():
            below = schemas.field(schema, key) or {}
            result[key] = _merge(live[key], value, below) if key in live else value
        return result

    by_key = bool(schemas.list_keys(schema)) or schemas.is_set(schema)
    if isinstance(applied, list) and isinstance(live, list) and by_key:
        items = {_item_element(item, schema): item for item in live}
        inner = schemas.items(schema)
        for item in applied:
            name = _item_element(item, schema)
            items[name] = _merge(items[name], item, inner) if name in items else item
        return list(items.values())
    return applied


def _without(value: Any, removed: set[Path], schema: Json, path: Path = ()) -> Any:
    if isinstance(value, dict) and not schemas.is_atomic(schema):
        result = {}
        for key, inner in value.items():
            here = (*path, f"f:{key}")
            if here not in removed:
                kept = _without(inner, removed, schemas.field(schema, key) or {}, here)
                if kept or not inner or not isinstance(inner, dict | list):
                    result[key] = kept
        return result
    if isinstance(value, list) and (schemas.list_keys(schema) or schemas.is_set(schema)):
        inner = schemas.items(schema)
        items = [(item, (*path, _item_element(item, schema))) for item in value]
        return [_without(item, removed, inner, here) for item, here in items if here not in removed]
    return value
