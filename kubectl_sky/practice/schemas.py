"""What objects look like: the OpenAPI schemas of the real server, and those of CRDs."""

import gzip
import json
from functools import cache
from pathlib import Path

from kubectl_sky.practice.resources import Json, Resource

FILE = Path(__file__).with_name("schemas.json.gz")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_REF = "#/components/schemas/"
_ANY: Json = {"x-kubernetes-preserve-unknown-fields": True}


@cache
def definitions() -> Json:
    """Return the schemas of the built-in kinds, by their names, as the real server gives them."""
    read: Json = json.loads(gzip.decompress(FILE.read_bytes()))
    return read


def references(node: object) -> set[str]:
    """Return the names of all schemas that a schema needs."""
    found: set[str] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        todo += values
        ref = node.get("$ref") if isinstance(node, dict) else None
        if isinstance(ref, str) and ref.removeprefix(_REF) not in found:
            found.add(ref.removeprefix(_REF))
            todo.append(definitions()[ref.removeprefix(_REF)])
    return found


@cache
def _named(group: str, version: str, kind: str) -> str:
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in definitions().items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return str(name)
    raise KeyError(kind)


def name(resource: Resource) -> str:
    """Return the name of a kind's schema."""
    if resource.custom:
        parts = [*reversed(resource.group.split(".")), resource.version, resource.kind]
        return ".".join(parts)
    return _named(resource.group, resource.version, resource.kind)


def root(resource: Resource) -> Json:
    """Return the schema of a kind."""
    if not resource.custom:
        found: Json = definitions()[name(resource)]
        return found
    schema = (resource.custom.get("schema") or {}).get("openAPIV3Schema") or _ANY
    text = {"type": "string"}
    own = {"apiVersion": text, "kind": text, "metadata": {"$ref": _REF + _META}}
    return {**schema, "properties": {**(schema.get("properties") or {}), **own}}


def resolve(schema: Json) -> Json:
    """Return a schema without references at its top; what stands beside them counts more."""
    while True:
        refs = schema.get("allOf") or ()
        ref = schema.get("$ref") or (refs[0].get("$ref") if refs else None)
        if not ref:
            return schema
        own = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        name = ref.removeprefix(_REF)
        schema = {**definitions()[name], **own, "x-name": name.rpartition(".")[2]}


def field(schema: Json, key: str) -> Json | None:
    """Return the schema of a field of an object; None if the object has no such field."""
    known = schema.get("properties") or {}
    if key in known:
        return resolve(known[key])
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return resolve(more)
    free = more is True or schema.get("x-kubernetes-preserve-unknown-fields")
    return _ANY if free or not known else None


def items(schema: Json) -> Json:
    """Return the schema of the items of a list."""
    return resolve(schema.get("items") or _ANY)


def list_keys(schema: Json) -> list[str]:
    """Return by which fields the items of a list are known; empty if they are not."""
    keys = schema.get("x-kubernetes-list-map-keys")
    return list(keys or ()) if schema.get("x-kubernetes-list-type") == "map" else []


def is_set(schema: Json) -> bool:
    """Say whether a list is a set of scalars."""
    return schema.get("x-kubernetes-list-type") == "set"


def is_atomic(schema: Json) -> bool:
    """Say whether an object is one value, whose fields cannot be owned apart."""
    return schema.get("x-kubernetes-map-type") == "atomic"


def default_key(schema: Json, key: str) -> object:
    """Return what a list's key is where an item does not say it, as the protocol of a port."""
    return (field(items(schema), key) or {}).get("default", "")


def go_type(schema: Json) -> str:
    """Return the type of a value as the real server names it."""
    if "x-name" in schema:
        return f"v1.{schema['x-name']}"
    kind = schema.get("type", "")
    if kind == "array":
        return f"[]{go_type(items(schema))}"
    if kind == "object":
        return f"map[string]{go_type(resolve(schema.get('additionalProperties') or {}))}"
    plain = {"boolean": "bool", "integer": schema.get("format", "int32")}
    return plain.get(kind, kind) or "interface {}"
