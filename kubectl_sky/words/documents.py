"""JSON documents: what `-o json`, the REST API and the Python API share.

A Struct of msgspec is a document, or a part of one: its fields are written once, with what they
mean. Fields with their default are left out. A field may be added in any version; another meaning
or name needs a new API version.
"""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, structs

API_VERSION = "kubectl-sky/v1"
AnyJson = Any  # any value of JSON or YAML
T = TypeVar("T")


def Note(text: str) -> Meta:  # noqa: N802 -- in types
    """Return the meaning of a field, in Markdown."""
    return Meta(description=text)


def always(default: T) -> T:
    """Return a default that is written, too: that of a factory is not left out."""
    return msgspec.field(default_factory=lambda: default)


class Part(Struct, frozen=True, omit_defaults=True):
    """A part of a document, or a value that has one."""

    @property
    def document(self) -> "Part":
        """What programs see of it."""
        return self

    def as_json(self) -> dict[str, AnyJson]:
        values: dict[str, AnyJson] = as_json(self.document)
        return values


class Document(
    Part, frozen=True, kw_only=True, omit_defaults=True, tag_field="apiVersion", tag=API_VERSION
):
    """What every document begins with. Its class is its kind; subclasses need `kw_only`."""

    kind: str = always("")

    def __post_init__(self) -> None:
        structs.force_setattr(self, "kind", type(self).__name__)


def as_json(value: object) -> AnyJson:
    """Return the JSON values of Structs, as a JSON parser would."""
    return _lists(msgspec.to_builtins(value))


def _lists(value: AnyJson) -> AnyJson:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def schemas(
    types: Iterable[type], reference: str = "#/components/schemas/{name}"
) -> tuple[list[AnyJson], dict[str, AnyJson]]:
    """Return the JSON Schemas of types as written, and those that they refer to, by their names.

    msgspec describes what it would read: there, a field with a default may be missing.
    """
    types = list(types)
    references, components = msgspec.json.schema_components(types, ref_template=reference)

    for kind in set(_structs(msgspec.inspect.multi_type_info(types))):
        component = components[kind.__name__]
        component["description"] = inspect.cleandoc(component.get("description", ""))
        component["required"] = ["apiVersion"] if issubclass(kind, Document) else []

        for field in structs.fields(kind):
            has_default = field.default is not msgspec.NODEFAULT
            has_default = has_default or field.default_factory in (list, dict)
            left_out = kind.__struct_config__.omit_defaults and has_default
            if not left_out and field.default is not UNSET:
                component["required"].append(field.encode_name)
            elif field.default is None:  # it is never null
                schema = component["properties"][field.encode_name]
                schema |= next(item for item in schema.pop("anyOf") if item.get("type") != "null")

    return list(references), components


def _structs(item: object) -> Iterator[type[Struct]]:
    """Yield the Structs in a type, as msgspec.inspect describes it."""
    if isinstance(item, msgspec.inspect.StructType):
        yield item.cls
    parts = item if isinstance(item, (list, tuple)) else []
    for name in ("fields", "types", "type", "item_type", "value_type"):
        parts = [*parts, getattr(item, name, None)]
    for part in parts:
        if part is not None:
            yield from _structs(part)
