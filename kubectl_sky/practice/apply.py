"""Server-side apply: who owns which field (managedFields), and what an apply changes."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kubectl_sky.practice import problems, schemas
from kubectl_sky.practice.resources import Json

Path = tuple[str, ...]  # its elements as managedFields has them: f:spec, k:{"name":"a"}, v:"x"
_NOBODYS = {
    *(("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:status",)),
    *(("f:metadata", f"f:{field}") for field in ("name", "namespace", "uid", "creationTimestamp")),
    *(("f:metadata", f"f:{field}") for field in ("resourceVersion", "generation", "selfLink")),
    *(("f:metadata", f"f:{field}") for field in ("managedFields", "deletionTimestamp")),
    *(("f:metadata", f"f:{field}") for field in ("deletionGracePeriodSeconds", "generateName")),
}


def item_element(item: Any, schema: Json) -> str:
    """Return how an item of a list is called in a path."""
    keys = schemas.list_keys(schema)
    if not keys:
        return "v:" + json.dumps(item, separators=(",", ":"))
    named = {key: item.get(key, schemas.default_key(schema, key)) for key in sorted(keys)}
    return "k:" + json.dumps(named, separators=(",", ":"))


def leaves(value: Any, schema: Json, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the fields that can be owned, each with its value; items of lists, too."""
    if isinstance(value, dict) and value and not schemas.is_atomic(schema):
        named = schema.get("properties") or {}
        for key, inner in value.items():
            here = (*path, f"f:{key}")
            below = schemas.field(schema, key) or {}
            if key not in named and isinstance(inner, dict) and inner:
                yield here, None
            yield from leaves(inner, below, here)
    elif isinstance(value, list) and schemas.list_keys(schema):
        for item in value:
            here = (*path, item_element(item, schema))
            yield here, None
            yield from leaves(item, schemas.items(schema), here)
    elif isinstance(value, list) and schemas.is_set(schema):
        for item in value:
            yield (*path, item_element(item, schema)), item
    else:
        yield path, value


def owned(obj: Json, schema: Json) -> dict[Path, Any]:
    """Return all fields of an object that somebody can own."""
    found = leaves(obj, schema)
    return {
        path: value for path, value in found if path not in _NOBODYS and path[:2] not in _NOBODYS
    }


def fields_v1(paths: Iterable[Path]) -> Json:
    """Write paths as managedFields has them."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _plain(tree)


def _plain(tree: Json) -> Json:
    below = {key: _plain(node) for key, node in tree.items() if key != "."}
    return {".": {}, **below} if below and "." in tree else below


def read_paths(tree: Json, path: Path = ()) -> Iterator[Path]:
    """Read what `fields_v1` writes."""
    if not tree or "." in tree:
        yield path
    for key, node in tree.items():
        if key != ".":
            yield from read_paths(node, (*path, key))


class Managers:
    """The managedFields of an object."""

    def __init__(self, obj: Json, subresource: str = "") -> None:
        self._entries = list(obj["metadata"].get("managedFields") or ())
        self._subresource = subresource
        self.sets = [set(read_paths(entry.get("fieldsV1") or {})) for entry in self._entries]

    def index(self, manager: str, operation: str) -> int:
        """Return the place of a manager's entry; -1 if it has none."""
        wanted = (manager, operation, self._subresource)
        for index, entry in enumerate(self._entries):
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == wanted:
                return index
        return -1

    def conflicts(self, mine: int, changed: set[Path]) -> list[problems.Cause]:
        """Return the fields that others own and that would change."""
        found = []
        for index, paths in enumerate(self.sets):
            if index != mine:
                who = f'conflict with "{self._entries[index]["manager"]}"'
                if self._entries[index]["operation"] == "Update":
                    who += f" using {self._entries[index]['apiVersion']}"
                if self._entries[index].get("subresource"):
                    who = who.replace(
                        " using", f' with subresource "{self._entries[index]["subresource"]}" using'
                    )
                found += [
                    problems.Cause("FieldManagerConflict", _written(path), who)
                    for path in sorted(paths & changed)
                ]
        return found

    def give(self, manager: str, operation: str, paths: set[Path], stamp: Json) -> None:
        """Make a manager the owner of fields: of these alone when it applies, of these too else."""
        index = self.index(manager, operation)
        if index < 0:
            if not paths:
                return
            index = len(self._entries)
            self._entries.append({"manager": manager, "operation": operation})
            self.sets.append(set())
        elif operation == "Update" and paths <= self.sets[index]:
            return
        self.sets[index] = paths if operation == "Apply" else self.sets[index] | paths
        self._entries[index] |= {**stamp, "fieldsType": "FieldsV1"}
        if self._subresource:
            self._entries[index]["subresource"] = self._subresource

    def take(self, paths: set[Path], spare: int = -1) -> None:
        """Let nobody but one own these fields any more."""
        for index in range(len(self.sets)):
            if index != spare:
                self.sets[index] = self.sets[index] - paths

    def entries(self) -> list[Json]:
        """Return them as the object has them."""
        found = [
            {**entry, "fieldsV1": fields_v1(paths)}
            for entry, paths in zip(self._entries, self.sets, strict=True)
            if paths
        ]
        return sorted(found, key=lambda one: (one["operation"], one["time"], one["manager"]))


def _written(path: Path) -> str:
    text = ""
    for element in path:
        kind, _, name = element.partition(":")
        if kind == "f":
            text += f".{name}"
        elif kind == "k":
            keys = json.loads(name)
            text += (
                "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
            )
        else:
            text += f"[={name}]"
    return text


def merged(live: Any, applied: Any, schema: Json) -> Any:
    """Return a live value with what is applied put over it."""
    if isinstance(applied, dict) and isinstance(live, dict) and not schemas.is_atomic(schema):
        result = dict(live)
        for key, value in applied.items():
            below = schemas.field(schema, key) or {}
            result[key] = merged(live[key], value, below) if key in live else value
        return result
    by_key = bool(schemas.list_keys(schema)) or schemas.is_set(schema)
    if isinstance(applied, list) and isinstance(live, list) and by_key:
        found = {item_element(item, schema): item for item in live}
        inner = schemas.items(schema)
        for item in applied:
            name = item_element(item, schema)
            found[name] = merged(found[name], item, inner) if name in found else item
        return list(found.values())
    return applied


def without(value: Any, gone: set[Path], schema: Json, path: Path = ()) -> Any:
    """Return a value without the fields that are gone, and without what is empty because of it."""
    if isinstance(value, dict) and not schemas.is_atomic(schema):
        result = {}
        for key, inner in value.items():
            here = (*path, f"f:{key}")
            if here not in gone:
                kept = without(inner, gone, schemas.field(schema, key) or {}, here)
                if kept or not inner or not isinstance(inner, dict | list):
                    result[key] = kept
        return result
    if isinstance(value, list) and (schemas.list_keys(schema) or schemas.is_set(schema)):
        inner = schemas.items(schema)
        names = [(item, (*path, item_element(item, schema))) for item in value]
        return [without(item, gone, inner, here) for item, here in names if here not in gone]
    return value
