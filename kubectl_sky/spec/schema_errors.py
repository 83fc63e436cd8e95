"""Report schema errors: jsonschema finds them, this module words the messages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import chain, islice, takewhile
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from msgspec.structs import replace
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from kubectl_sky.spec import accelerator, pod_fields, schema
from kubectl_sky.spec.document import Data, Path
from kubectl_sky.spec.schema import SchemaError, describe
from kubectl_sky.words import amounts
from kubectl_sky.words.secret import Secret

_MAX_ERRORS = 1000
_UNKNOWN = "unknown field"
# The documents that `explain` knows, with the first word of their fields there.
_EXPLAINED = {"task": (), "settings": ("settings",), "volume": ("volume",), "header": ("header",)}
_FREE = frozenset({"file_mounts", "volumes"})  # have names of users below them
_MAX_WORD = 40  # characters of a value that a hint repeats
_SHOWN_FIELDS = 3
_STEP = re.compile(r"\w+")
_COUNTED = re.compile(r"([0-9]{1,9})\s*(?:x|[a-z]{3,20})", re.IGNORECASE)  # 2x, 2 nodes
_PAIR = re.compile(r"([^=:\s]{1,60})([=:])(\S{1,60})\s*")
_PLAIN = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?|true|false")


def check(data: Data, name: str) -> list[SchemaError]:
    """Return the errors and warnings of a schema, without duplicates; only the first of many."""
    explained = chain.from_iterable(map(_explain, validator(f"{name}.json").iter_errors(data)))
    return [_with_command(error, name) for error in dict.fromkeys(islice(explained, _MAX_ERRORS))]


def _with_command(error: SchemaError, name: str) -> SchemaError:
    """Return an unknown field without a hint with the command that shows the fields there."""
    parents = error.path[:-1]
    if not error.message.startswith(_UNKNOWN) or error.hint or name not in _EXPLAINED:
        return error
    if parents and parents[0] in _FREE:
        parents = parents[:1]
    names = (str(step) for step in parents if not isinstance(step, int))
    steps = list(takewhile(_STEP.fullmatch, names))
    command = " ".join(["kubectl sky explain", ".".join([*_EXPLAINED[name], *steps])]).rstrip()
    return replace(error, hint=f"`{command}` shows the fields")


def _unknown_fields(
    _validator: object, _severity: object, data: Data, rules: Mapping[str, Any]
) -> Iterator[ValidationError]:
    for name in data if isinstance(data, dict) else ():
        if name not in rules["properties"]:
            yield ValidationError("", path=[name])


@cache
def _registry() -> Registry[Any]:
    """Return all schemas, crawled once so that a reference is a dictionary lookup."""
    files = [f"{name}.json" for name in (*schema.NAMES, "pod")]
    resources = (
        (schema.BASE + file, DRAFT202012.create_resource(schema.load(file))) for file in files
    )
    return Registry[Any]().with_resources(resources).crawl()


_Validator: Any = extend(Draft202012Validator, {"x-unknown": _unknown_fields})  # type: ignore[no-untyped-call]


@cache
def validator(file: str) -> Any:
    return _Validator(schema.load(file), registry=_registry())


def _explain(error: ValidationError) -> Iterator[SchemaError]:
    branch = _branch(error)
    for inner in branch:
        yield from _explain(inner)
    if not branch:
        yield from _EXPLAINERS.get(str(error.validator), _value)(error)


def _branch(error: ValidationError) -> Sequence[ValidationError]:
    """Return the errors of the only alternative that fits the type of the value."""
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    matching = [
        branch
        for branch in branches.values()
        if not any(inner.validator == "type" and not inner.relative_path for inner in branch)
    ]
    return matching[0] if isinstance(error.instance, dict | list) and len(matching) == 1 else ()


def _path(error: ValidationError) -> Path:
    return tuple(error.absolute_path)


def _instance(error: ValidationError) -> Any:
    return error.instance


def _rules(error: ValidationError) -> Mapping[str, Any]:
    return error.schema if isinstance(error.schema, dict) else {}


def _fields(error: ValidationError) -> Iterator[SchemaError]:
    rules = _rules(error)
    properties = rules.get("properties", {})
    free_prefixes = tuple(
        pattern.removeprefix("^") for pattern in rules.get("patternProperties", ())
    )
    for key in _instance(error):
        if key not in properties and not key.startswith(free_prefixes):
            path = (*_path(error), key)
            hint = (
                pod_fields.find_place(path)
                or schema.field_hint(path, [*properties])
                or pod_fields.find_similar(path)
            )
            yield SchemaError(path, _UNKNOWN, hint, True)


def _explain_ignored(error: ValidationError) -> Iterator[SchemaError]:
    hint = schema.field_hint(_path(error), [*_rules(error)["properties"]])
    yield SchemaError(_path(error), "unknown field, ignored", hint, True, "warning")


def _missing(error: ValidationError) -> Iterator[SchemaError]:
    for name in _rules(error)["required"]:
        if name not in _instance(error):
            examples = _rules(error).get("properties", {}).get(name, {}).get("examples")
            hint = f"such as {name}: {examples[0]}" if examples else ""
            yield SchemaError(_path(error), f'missing field "{name}"', hint)


def _value(error: ValidationError) -> Iterator[SchemaError]:
    """Report an invalid value, or an invalid name of a field with a free name."""
    expected = expectation(_rules(error))
    if "propertyNames" in error.absolute_schema_path:
        yield SchemaError((*_path(error), _instance(error)), f"expected {expected}", "", True)
        return

    path = _path(error)
    actual = "" if isinstance(error.instance, Secret) else f", got {describe(error.instance)}"

    pattern = _rules(error).get("pattern", "")
    kind = str(_rules(error).get("type"))
    is_text = "string" in kind and "object" not in kind
    is_misread = (
        is_text
        and isinstance(error.instance, bool | int | float | date)
        and re.search(pattern, str(error.instance)) is not None
    )
    hint = "put it in quotes" if is_misread else _hint(error)
    yield SchemaError(path, f"expected {expected}{actual}", hint, needs_quotes=is_misread)


_EXPLAINERS = {"additionalProperties": _fields, "required": _missing, "x-unknown": _explain_ignored}


def _hint_of_items(rules: Mapping[str, Any], value: Mapping[str, Any], *, is_of_pod: bool) -> str:
    """Return how to write a list for which a map was written."""
    items = pod_fields.resolve(rules)[0] if is_of_pod and "items" in rules else {}
    fields = items.get("properties", {})
    if not fields or fields.keys() & value.keys():
        return 'begin each item of the list with "- "'
    return f"its items have fields, such as {', '.join([*fields][:_SHOWN_FIELDS])}"


def _hint_of_map(rules: Mapping[str, Any], value: str | Sequence[Any]) -> str:
    """Return how to write a map for which NAME=VALUE or SOURCE:TARGET was written, or a GPU."""
    maps = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    if maps and {*maps[0]} == {"name", "value"} and "properties" not in rules:
        return "write NAME: VALUE for each, without name and value"
    if maps:
        return 'remove the "- " before the fields'
    if isinstance(value, str) and "accelerators" in rules.get("properties", {}):
        model = accelerator.find_model(value.partition(":")[0])
        return f"write accelerators: {value}" if model else ""
    if isinstance(value, str) and value.rpartition("/")[2].startswith(".env"):
        return "give the file to `kubectl sky submit` as --env-file FILE"
    items = [value] if isinstance(value, str) else value
    return "" if "properties" in rules else _hint_of_pair(items, isinstance(value, str))


def _hint_of_pair(items: Sequence[Any], is_alone: bool) -> str:
    pair = _PAIR.fullmatch(items[0]) if items and isinstance(items[0], str) else None
    if not pair:
        return ""
    dashes = "" if is_alone else ', without "- "'
    first, separator, second = pair.groups()
    if separator == ":" and second.startswith("//"):  # a URL
        return ""
    if separator == ":" and second.startswith("/"):
        return f"write {second.partition(':')[0]}: {first}{dashes}"
    return f"write {first}: VALUE{dashes}"


def _hint_of_amount(rules: Mapping[str, Any], value: str, path: Path) -> str:
    """Return how to write a number or a duration, such as 2 for "2 nodes"; "" for other texts."""
    kind = rules.get("type")
    meant = amounts.duration(value)
    if rules.get("x-form") == "duration":
        return f'did you mean "{meant}"?' if meant else ""
    if kind not in ("integer", "number", "boolean"):
        return ""
    counted = _COUNTED.fullmatch(value) if kind == "integer" and not meant else None
    if counted:
        return f"did you mean {counted[1]}?"
    if path[-1:] == ("priority",) and value.isalpha():
        return f"for a class, write priority_class: {value[:_MAX_WORD]}"
    is_whole = kind != "integer" or "." not in value
    return "write it without quotes" if is_whole and _PLAIN.fullmatch(value) else ""


def _hint(error: ValidationError) -> str:
    rules = _rules(error)
    value = error.instance
    values = rules.get("x-values") or rules.get("enum")
    kind = str(rules.get("type"))
    if values and isinstance(value, str):
        written = value.partition("/")[0]
        words = re.split("[-_ ]", written.lower()) if len(written) < _MAX_WORD else []
        contained = next((str(name) for name in values if name in words), written)
        return schema.closest(contained, map(str, values))
    if isinstance(value, str) and (hint := _hint_of_amount(rules, value, _path(error))):
        return hint
    if kind == "array" and isinstance(value, dict) and value:
        return _hint_of_items(rules, value, is_of_pod=pod_fields.is_of_pod(_path(error)))
    if kind == "object" and isinstance(value, str | list):
        return _hint_of_map(rules, value)
    takes_text = rules.get("items", {}).get("type") == "string"
    if kind == "array" and takes_text and isinstance(value, str) and len(value) < _MAX_WORD:
        return f"write [{describe(value)}]"
    if isinstance(value, dict):
        path = _path(error)
        return pod_fields.find_place(path) or pod_fields.find_similar(path)
    return ""


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "fields",
    "null": "nothing",
}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "uniqueItems": "different items",
}


def expectation(rules: Mapping[str, Any]) -> str:
    if "x-expected" in rules:
        return str(rules["x-expected"])
    values = rules.get("x-values") or rules.get("enum")
    if values:
        return "one of " + ", ".join(map(str, values))
    bounds = [text.format(rules[name]) for name, text in _BOUNDS.items() if name in rules]
    kind = _TYPES.get(str(rules.get("type")), "something else")
    if kind == "fields" and "properties" not in rules:
        kind = "a map such as {name: value}"
    return f"{kind} of {' and '.join(bounds)}" if bounds else kind
