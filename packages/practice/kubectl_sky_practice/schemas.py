"""OpenAPI schemas: those of the built-in kinds, from a real API server, and those of CRDs."""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from kubectl_sky_practice.resources import Json, Resource

FILE = Path(__file__).with_name("schemas.json.gz")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_REF = "#/components/schemas/"
_ANY: Json = {"x-kubernetes-preserve-unknown-fields": True}


@cache
def definitions() -> Json:
    """Return the schemas of the built-in kinds, by their names, as the real server gives them."""
    decoded: Json = json.loads(gzip.decompress(FILE.read_bytes()))
    return decoded


def referenced(reference: str) -> Json:
    schema: Json = definitions()[reference.removeprefix(_REF)]
    return schema


@cache
def _built_in(group: str, version: str, kind: str) -> Json:
    names = {"group": group, "version": version, "kind": kind}
    schemas: Iterable[Json] = definitions().values()
    return next(
        schema for schema in schemas if names in schema.get("x-kubernetes-group-version-kind", ())
    )


def root(resource: Resource) -> Json:
    if not resource.custom:
        return _built_in(resource.group, resource.version, resource.kind)
    schema = (resource.custom.get("schema") or {}).get("openAPIV3Schema") or _ANY
    text = {"type": "string"}
    inherited = {"apiVersion": text, "kind": text, "metadata": {"$ref": _REF + _META}}
    return {**schema, "properties": {**(schema.get("properties") or {}), **inherited}}


def resolve(schema: Json) -> Json:
    """Return a schema without references at its top; what stands beside them counts more."""
    while True:
        refs = schema.get("allOf") or ()
        ref = schema.get("$ref") or (refs[0].get("$ref") if refs else None)
        if not ref:
            return schema
        siblings = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        schema = {**referenced(ref), **siblings}


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
    return resolve(schema.get("items") or _ANY)


def list_keys(schema: Json) -> list[str]:
    """Return by which fields the items of a list are known; empty if they are not."""
    keys = schema.get("x-kubernetes-list-map-keys")
    return list(keys or ()) if schema.get("x-kubernetes-list-type") == "map" else []


def is_set(schema: Json) -> bool:
    return schema.get("x-kubernetes-list-type") == "set"


def is_atomic(schema: Json) -> bool:
    """Say whether an object is one value, whose fields cannot be owned apart."""
    return schema.get("x-kubernetes-map-type") == "atomic"


def default_key(schema: Json, key: str) -> object:
    """Return what a list's key is where an item does not say it, as the protocol of a port."""
    return (field(items(schema), key) or {}).get("default", "")


def prune(value: Any, schema: Json, path: str = "") -> tuple[Any, list[str]]:
    """Return a value without unknown fields and nulls, and the paths of the unknown fields."""
    unknown: list[str] = []
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            below = field(schema, key)
            if below is None:
                unknown.append(here)
            elif inner is not None or below.get("nullable"):
                kept[key], more = prune(inner, below, here)
                unknown += more
        return kept, unknown

    if isinstance(value, list):
        pairs = [prune(item, items(schema), f"{path}[{at}]") for at, item in enumerate(value)]
        return [item for item, _ in pairs], [name for _, more in pairs for name in more]
    return value, unknown


def fill_defaults(value: Any, schema: Json) -> Any:
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        missing = {
            key: below["default"]
            for key, below in properties.items()
            if key not in value and "default" in below
        }
        return {
            key: fill_defaults(inner, field(schema, key) or {})
            for key, inner in {**value, **missing}.items()
        }
    if isinstance(value, list):
        return [fill_defaults(item, items(schema)) for item in value]
    return value
