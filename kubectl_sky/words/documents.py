"""JSON documents: what `-o json`, the REST API, the Python API and docs/json.md share.

A Struct of msgspec is a document, or a part of one: its fields are written once, with what they
mean. Fields with their default are left out. A field may be added in any version; another meaning
or name needs a new API version.
"""

from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from kubectl_sky.words.names import API_VERSION

AnyJson = Any  # any value of JSON or YAML
T = TypeVar("T")


def Note(text: str) -> Meta:  # noqa: N802 -- in types
    """Return the meaning of a field, in Markdown."""
    return Meta(description=text)


def Unset(text: str) -> Meta:  # noqa: N802 -- in types
    """Return the meaning of a field that may be UNSET: an empty value of it is not left out."""
    return Meta(description=text, extra_json_schema={"default": None})


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
        """Return the document as JSON values."""
        values: dict[str, AnyJson] = as_json(self.document)
        return values


class Document(
    Part, frozen=True, kw_only=True, omit_defaults=True, tag_field="apiVersion", tag=API_VERSION
):
    """What every document begins with. Its class is its kind; subclasses need `kw_only`."""

    kind: str = always("")

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "kind", type(self).__name__)


def as_json(value: object) -> AnyJson:
    """Return the JSON values of Structs, as a JSON parser would."""
    return _lists(msgspec.to_builtins(value))


def _lists(value: AnyJson) -> AnyJson:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def schemas(
    types: Collection[type], reference: str = "#/components/schemas/{name}"
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the JSON Schemas of types as written, and those that they refer to, by their names.

    Fields without a default to leave out are always there; msgspec describes what it would read.
    """
    references, components = msgspec.json.schema_components(types, ref_template=reference)
    from kubectl_sky.words import models  # noqa: PLC0415

    for name, component in components.items():
        if hasattr(models, name):
            continue
        fields = component.get("properties", {})
        component["required"] = [name for name, field in fields.items() if "default" not in field]
        for field in fields.values():
            field.pop("default", None)
    return list(references), components
