"""Explain the fields of task files, settings and volumes with the texts of their schemas."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import UnknownName
from kubectl_sky.spec import schema, unsupported

ROOTS = ("task", "settings", "volume", "header")
ANY = "*"  # any name, in the path of a map
_POD = ("config", "kubernetes", "pod_config")
_CANDIDATES = ("resources.any_of", "resources.ordered")  # their fields are those of resources
_INTERNAL = "Internal."


class Field(Struct, frozen=True):
    """A field of a file: its path in the file, and its schema with references resolved.

    References without a file name are within `file`. `root` is the kind of file, of `ROOTS`.
    """

    path: tuple[str, ...]
    rules: Mapping[str, Any]
    file: str
    root: str = "task"

    @property
    def name(self) -> str:
        """Return the path as users write it: `resources.cpus`, `settings.queue`."""
        return ".".join(self.path if self.root == "task" else (self.root, *self.path))

    @property
    def description(self) -> str:
        """Return the text; for a field of a Pod, where Kubernetes explains it."""
        text = str(self.rules.get("description") or "")
        if not text and self.path[: len(_POD)] == _POD:
            pod_field = ".".join(step for step in ("pod", *self.path[len(_POD) :]) if step != ANY)
            text = f"A field of Kubernetes; see `kubectl explain {pod_field}`."
        return text

    @property
    def summary(self) -> str:
        return self.description.split(". ")[0].split("; ")[0].rstrip(".")

    @property
    def types(self) -> str:
        """Return the types of the value: `string|integer`, `list of string`, `map of string`."""
        return "|".join(dict.fromkeys(_types(self.file, self.rules))) or "any"

    @property
    def values(self) -> list[str]:
        values = [
            str(value).lower() if isinstance(value, bool) else str(value)
            for _, rules in _variants(self.file, self.rules)
            for value in rules.get("x-values") or rules.get("enum") or ()
        ]
        return list(dict.fromkeys(values))

    @property
    def expected(self) -> str:
        return str(self.rules.get("x-expected") or "")

    @property
    def default(self) -> str:
        return _yaml(self.rules["default"]) if "default" in self.rules else ""

    @property
    def example(self) -> str:
        examples = self.rules.get("examples") or self.values
        if self.types == "boolean":
            examples = examples or [True]
        if not examples:
            return ""
        data: Any = examples[0]
        for step in reversed(self.path):
            data = {"NAME" if step == ANY else step: data}
        return _yaml(data)

    @property
    def pod(self) -> str:
        return str(self.rules.get("x-pod") or "")

    @property
    def skypilot(self) -> str:
        """Return how the field differs from SkyPilot, and whether it is supported."""
        covering = (  # this field or one above it
            entry
            for entry in unsupported.list_fields()
            if len(self.path) >= len(entry.field)
            and all(part in (step, ANY) for part, step in zip(entry.field, self.path, strict=False))
        )
        entry = next(covering, None) if self.root == "task" else None
        if not entry:
            return str(self.rules.get("x-skypilot") or "")
        how = "refused" if entry.refuse else "ignored"
        unless = f", except {entry.unless.pattern}" if entry.unless else ""
        hint = f"; {entry.instead}" if entry.instead else ""
        return f"Not supported, {how}{unless}: {entry.reason}{hint}."

    def fields(self) -> list["Field"]:
        """Return the fields below this one; internal ones are omitted."""
        children: dict[str, Field] = {}
        for file, rules in _variants(self.file, self.rules):
            for name, inner in (rules.get("properties") or {}).items():
                child = self._below(name, inner, file)
                if child.rules.get("description") != _INTERNAL:
                    children.setdefault(name, child)
            more = rules.get("additionalProperties")
            if isinstance(more, dict) and any(
                inner.get("properties") for _, inner in _variants(file, more)
            ):
                children.setdefault(ANY, self._below(ANY, more, file))
        return list(children.values())

    def _below(self, name: str, rules: Mapping[str, Any], file: str) -> "Field":
        return replace(_field(rules, file), path=(*self.path, name), root=self.root)

    def walk(self) -> Iterator["Field"]:
        """Yield all fields below this one; the fields of a Pod are omitted."""
        for child in self.fields():
            yield child
            if child.path[: len(_POD)] != _POD and child.name not in _CANDIDATES:
                yield from child.walk()


def explain(text: str) -> Field:
    """Return a field by its path: `resources.cpus`, `settings.queue`; "" is a task.

    Names of maps are omitted, or any name: `file_mounts.mode`. Raises UnknownName.
    """
    steps = [step for step in text.split(".") if step]
    root = steps.pop(0) if steps and steps[0] in ROOTS else "task"
    field = _root(root)
    for step in steps:
        child = _child(field, step)
        if child is None:
            raise _unknown(text, root, steps)
        field = child
    return field


def _root(name: str) -> Field:
    return replace(_field(schema.load(f"{name}.json"), f"{name}.json"), root=name)


def _child(field: Field, step: str) -> Field | None:
    children = {child.path[-1]: child for child in field.fields()}
    if step in children:
        return children[step]
    if ANY in children:
        return _child(children[ANY], step) or children[ANY]
    return None


def _unknown(text: str, root: str, steps: list[str]) -> UnknownName:
    prefix = "" if root == "task" else f"{root}."
    names = [field.name.removeprefix(prefix) for field in _root(root).walk()]
    same = [name for name in names if name.split(".")[-1] == steps[-1]]
    similar = same or difflib.get_close_matches(".".join(steps), names, n=1)
    if not similar:
        lasts = {name.split(".")[-1]: name for name in reversed(names)}
        similar = [lasts[last] for last in difflib.get_close_matches(steps[-1], lasts, n=1)]
    all_fields = f"kubectl sky explain {prefix.rstrip('.')}".rstrip()
    hint = f'did you mean "{prefix}{similar[0]}"?' if similar else f"run `{all_fields}` for all"
    return UnknownName(f'field "{text}" not found', hint)


def _field(rules: Mapping[str, Any], file: str) -> Field:
    """Return a field without a path; texts next to a reference take precedence."""
    merged = dict(rules)
    while "$ref" in merged:
        reference = str(merged.pop("$ref"))
        target, _, pointer = reference.partition("#")
        file = target or file
        merged = {**schema.resolve(f"{file}#{pointer}"), **merged}
    return Field((), merged, file)


def _variants(file: str, rules: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schema of a value, and its alternatives and items, each with its file."""
    field = _field(rules, file)
    yield field.file, field.rules
    for inner in field.rules.get("anyOf") or ():
        yield from _variants(field.file, inner)
    if isinstance(field.rules.get("items"), dict):
        yield from _variants(field.file, field.rules["items"])


def _types(file: str, rules: Mapping[str, Any]) -> Iterator[str]:
    field = _field(rules, file)
    kinds = field.rules.get("type") or ()
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind == "array":
            items = field.rules.get("items")
            inner = "|".join(dict.fromkeys(_types(field.file, items or {})))
            yield f"list of {inner}" if inner else "list"
        else:
            yield {"object": "map"}.get(kind, kind)
    for inner_rules in field.rules.get("anyOf") or ():
        yield from (kind for kind in _types(field.file, inner_rules) if kind != "null")


def _yaml(value: object) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text.removesuffix("...\n").rstrip("\n")
