"""Collect all problems of a document: schema, rules and ignored fields."""

import re
from collections.abc import Callable, Iterator
from itertools import islice, pairwise

from msgspec.structs import astuple, replace

from kubectl_sky.errors import Problem
from kubectl_sky.spec import (
    buckets,
    files,
    image,
    infra,
    kubernetes,
    lifecycle,
    other_names,
    pipeline,
    resource_fields,
    schema,
    secret_values,
    service,
    unsupported,
    variables,
    volumes,
)
from kubectl_sky.spec.document import (
    Data,
    Document,
    Path,
    Unused,
    YamlNode,
    entries,
    join_path,
    printable,
)
from kubectl_sky.spec.kubernetes import POD_CONFIG
from kubectl_sky.spec.schema import SchemaError
from kubectl_sky.spec.substitute import FIELDS, Filled

# Mappings whose null fields count as absent, as in SkyPilot, with the schema of their fields.
_NULLABLE_FIELDS: dict[str, dict[tuple[str | type, ...], str]] = {
    "resources": {(): "resources", ("any_of", int): "resources", ("ordered", int): "resources"},
    "file_mounts": {(str,): "storage"},
    "service": {(): "service"},
}
# SkyPilot converts these keys with str(); our setting priority_classes has numbers as keys.
_TYPOGRAPHIC = re.compile("[\u2018\u201c\u201e][^\u2018-\u201f]*[\u2019\u201c\u201d]")  # quotes
_MAX_HINTS = 20  # fields that are compared with those of a task
_ANY_KEYS = (("envs",), ("secrets",), ("priority_classes",))


def validate(document: Document, schema: str = "task", as_task: bool = False) -> list[Problem]:
    """Return the problems of a document in file order.

    Warnings have the severity "warning". `schema` names the language of the document: with "task",
    a header of several tasks or a volume is also recognised. `as_task` means that a service or pool
    will run as a task.
    """
    shared = list(secret_values.find_shared(document))
    if shared:
        reason = "shows a secret's value"
        hint = "write the value instead of the alias"
        return _sort([document.problem(path, reason, hint, key=True) for path in shared])

    if schema == "task" and (document.is_header or document.is_volume):
        schema = "header" if document.is_header else "volume"
    if schema == "header":
        return _sort(_schema(document, schema) + _header_problems(document))
    if schema == "volume":
        return _sort(_add_unreported(_schema(document, schema), volumes.volume_problems(document)))
    if schema != "task":
        return _sort(_schema(document, schema))

    if foreign := list(_find_foreign(document)):
        return foreign

    if too_many := [*resource_fields.find_too_many(document), *_find_too_many_mounts(document)]:
        fields = [problem.path for problem in too_many]
        rest = validate(document.without(fields), schema, as_task)
        return _sort([*rest, *too_many])  # no rule is for so many

    filled = Filled(document)
    unfilled = _add_unreported(filled.problems, filled.unset)
    problems = _add_unreported(unfilled, _schema(filled.document, schema, filled.hides))
    reported = {problem.path for problem in problems}

    excluded_prefixes = tuple(f"{join_path(path)}." for path in infra.find_left_out(document))
    problems += [
        problem
        for problem in _rule_problems(filled.document)
        if problem.path not in reported
        and not filled.hides(problem.path)
        and not (problem.severity == "warning" and problem.path.startswith(excluded_prefixes))
    ]

    problems = _add_unreported(problems, unsupported.findings(filled, as_task))
    return _sort(_explain_misread(_without_repeats(problems)))


def _explain_misread(problems: list[Problem]) -> list[Problem]:
    """Give errors of a number the warning that YAML does not read it as people do, as a hint."""
    read = {problem.path: problem.message for problem in problems if _READS in problem.message}
    return [
        replace(problem, hint=f"{read[problem.path]}; quote it")
        if problem.severity == "error" and problem.path in read and not problem.hint
        else problem
        for problem in problems
    ]


def _find_foreign(document: Document) -> Iterator[Problem]:
    """Yield that a document is of another program."""
    kind = document.get("kind")
    if document.get("apiVersion") and isinstance(kind, str):
        message = f"this is a Kubernetes {kind}, not a task"
        yield document.problem((), message, "use kubectl apply")
    elif len(document.data) > 1 and not _has_known(document.data):
        message = "this is no task file: it has no field of a task"
        yield document.problem((), message, "a task needs at least run or setup")


def _has_known(data: Data) -> bool:
    """Report whether a field belongs to a task, or one of the first has a hint where it belongs.

    A word of other tools is no such hint.
    """
    task = schema.fields("task")
    names = [str(key) for key in islice(data, _MAX_HINTS) if not other_names.answer(str(key))]
    hints = (schema.field_hint((name,), [*task]) for name in names)
    return not task.isdisjoint(data) or any(hints)


def find_valid_part(document: Document, as_task: bool) -> Document | None:
    """Return the document without its invalid fields, so that they do not hide other problems.

    None if what is left is invalid, too.
    """
    for _ in range(_MAX_ROUNDS):
        problems = validate(document, as_task=as_task)
        errors = [problem.path for problem in problems if problem.severity == "error"]
        if not errors:
            return document
        document = document.without(errors)
    return None


def _without_repeats(problems: list[Problem]) -> list[Problem]:
    """Drop warnings about fields below a field that has no effect."""
    steps = {problem: problem.path.replace("[", ".") for problem in problems}
    unused = {path for problem, path in steps.items() if isinstance(problem, Unused)}
    return [
        Problem(*astuple(problem))
        for problem, path in steps.items()
        if problem.severity == "error"
        or not any(path[:end] in unused for end, char in enumerate(path) if char == ".")
    ]


def _sort(problems: list[Problem]) -> list[Problem]:
    return sorted(dict.fromkeys(problems))


def _add_unreported(problems: list[Problem], more: list[Problem]) -> list[Problem]:
    reported = {problem.path for problem in problems}
    return problems + [problem for problem in more if problem.path not in reported]


def _schema(
    document: Document, name: str, hides: Callable[[str, bool], bool] = lambda path, key: False
) -> list[Problem]:
    from kubectl_sky.spec import schema_errors  # importing jsonschema takes most of the time

    cleaned = _Cleaned(document, name)
    data = cleaned.mapping(document.data, ())
    problems = [
        document.problem(
            error.path, error.message, _hint(document, error), error.severity, error.key
        )
        for error in schema_errors.check(data, name)
        if not hides(join_path(error.path), error.key)
    ]
    return _add_unreported(cleaned.problems, problems)


def _hint(document: Document, error: SchemaError) -> str:
    """Return the hint; if it suggests quotes, with how YAML reads the text."""
    written = document.written(error.path) if error.needs_quotes else ""
    is_other = written != schema.describe(document.get(*error.path))
    if written and is_other and error.path[:1] != ("secrets",):
        return f"YAML reads {printable(written)} so: {error.hint}"
    if error.path[:1] and error.path[0] not in FIELDS:
        return error.hint or schema.find_unfilled(document.get(*error.path))
    return error.hint


def _key_hint(before: Data, key: Data, values: Data) -> str:
    """Return how to write a key that is no text; `{A100, 8}` has two keys without values."""
    if before is not None and values[before] is None and values[key] is None:
        return f'write "{printable(f"{before}: {key}")}"'
    return "put it in quotes"


class _Cleaned:
    """Data that a schema can check: keys are text, and ignorable nulls are dropped."""

    def __init__(self, document: Document, name: str) -> None:
        self.document = document
        self.root = name
        self.problems: list[Problem] = []

    def _any(self, value: Data, path: Path) -> Data:
        if isinstance(value, dict):
            return self.mapping(value, path)
        if isinstance(value, list):
            return [self._any(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def mapping(self, values: Data, path: Path) -> Data:
        """Return the mapping with text keys; report keys that are not text."""
        droppable = self._droppable(path)
        cleaned = {}

        for before, (key, value) in zip((None, *values), values.items(), strict=False):
            if not isinstance(key, str) and path not in _ANY_KEYS:
                message = f"a field's name is text, YAML reads this one as {schema.describe(key)}"
                hint = _key_hint(before, key, values)
                if path in schema.PARENTS:
                    message = f"unknown field, which YAML reads as {schema.describe(key)}"
                    hint = "remove it"
                problem = self.document.problem((*path, key), message, hint, key=True)
                self.problems.append(replace(problem, path=join_path(path)))
                continue

            self._check_quotes(value, (*path, str(key)))
            if value is None and (key in droppable or path[:3] == POD_CONFIG):
                continue
            is_nested = isinstance(value, dict | list)
            cleaned[str(key)] = self._any(value, (*path, str(key))) if is_nested else value
        return cleaned

    def _check_quotes(self, value: Data, path: Path) -> None:
        if isinstance(value, str) and _TYPOGRAPHIC.fullmatch(value):
            message = "the typographic quotes are part of the text"
            hint = 'write " or leave them out'
            self.problems.append(self.document.problem(path, message, hint, severity="warning"))

    def _droppable(self, path: Path) -> frozenset[str]:
        """Return the fields of a mapping that count as absent if they are null."""
        if not path:
            fields = schema.fields(self.root)
            return fields - {"name"} if self.root == "header" else fields
        top, *below = path
        for pattern, name in _NULLABLE_FIELDS.get(str(top), {}).items():
            if len(pattern) == len(below) and all(
                step == expected if isinstance(expected, str) else isinstance(step, expected)
                for expected, step in zip(pattern, below, strict=True)
            ):
                return schema.fields(name)
        return frozenset()


_MAX_ROUNDS = 3  # a field may be invalid without another one
MAX_NODES = 10_000
MAX_MOUNTS = 1000  # a pod with more exceeds etcd's limit of 1.5 MiB per object

Rule = Callable[[Document], Iterator[Problem]]
Table = tuple[tuple[frozenset[str], tuple[Rule, ...]], ...]

_NAME = re.compile(r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*")  # SkyPilot's rule for task names


def _rule_problems(document: Document) -> list[Problem]:
    applicable = list(_ANY)
    for table, there in ((_RULES, document.data), (_OF_RESOURCES, document.resources.fields)):
        for fields, rules in table:
            applicable += () if fields.isdisjoint(there) else rules
    return [problem for rule in applicable for problem in rule(document)]


def _name(document: Document) -> Iterator[Problem]:
    name = document.get("name")
    if isinstance(name, str) and name and not _NAME.fullmatch(name):
        message = "in names of objects, dashes replace what Kubernetes does not allow"
        hint = schema.find_unfilled(name)
        yield document.problem(("name",), message, hint, "warning")


def _header_problems(document: Document) -> list[Problem]:
    primary = document.get("primary_tasks")
    delays = document.get("termination_delay")
    references: list[tuple[Path, Data]] = [
        (("primary_tasks", index), name)
        for index, name in enumerate(primary if isinstance(primary, list) else [])
    ]
    references += [(("termination_delay", name), name) for name, _ in entries(delays)]
    delay_names = (*document.names, "default")
    return [
        document.problem(path, "no task in the file has this name", key=path[-1] == name)
        for path, name in references
        if name not in (delay_names if path[0] == "termination_delay" else document.names)
    ]


def _nodes(document: Document) -> Iterator[Problem]:
    nodes = document.get("num_nodes")
    if isinstance(nodes, float) and nodes.is_integer():  # JSON Schema accepts 2.0 as an integer
        yield document.problem(("num_nodes",), "expected a whole number, without a decimal point")
    elif isinstance(nodes, int) and nodes > MAX_NODES:
        yield document.problem(("num_nodes",), f"more than {MAX_NODES:,} nodes are not supported")


def _find_too_many_mounts(document: Document) -> Iterator[Problem]:
    for field in ("file_mounts", "volumes"):
        count = len(dict(entries(document.get(field))))
        if count > MAX_MOUNTS:
            message = f"{count:,} entries; the limit is {MAX_MOUNTS:,}"
            yield document.problem((field,), message, key=True)


def _commands(document: Document) -> Iterator[Problem]:
    run = document.get("run")
    setup = document.get("setup")
    for field, script in (("run", run), ("setup", setup)):
        if isinstance(script, str) and "\0" in script:
            yield document.problem((field,), "contains a NUL character, which no shell can read")
        if isinstance(script, str) and _FIELD.match(script):
            message = "the script begins with the name of a field"
            yield document.problem((field,), message, "remove it", "warning")


# YAML 1.1 does not read some text as people do: `0755` is 493, `1:30` is 90, `{A100:1}` has no
# count. Variables have their own rule, which reports what the task sees.
_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-9][0-7_]*")
_FIELD = re.compile(r"\s*(run|setup):\s")  # no command has such a name
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_READS = "YAML reads "
_VARIABLE_FIELDS = ("envs", "secrets")
_MODES = ("defaultMode", "mode")  # of files in pod_config, which octal numbers are meant for
_UNFINISHED = re.compile(r"(&&|\|\|?|;|[({,])$|\b(do|then|else)$")  # the command goes on
_NO_VALUE = ("~", "null")
_CONTINUED = re.compile(r"-|&&|\||;|[0-9]?[<>]|[)}]")


def _numbers(document: Document) -> Iterator[Problem]:
    for path, number in _misread_numbers(document.root, ()):
        if str(path[0]).startswith("x-") or path[0] in _VARIABLE_FIELDS or path[-1] in _MODES:
            continue  # anchors are read where they are used; variables have their own rule
        if document.get(*path) is not number.value:
            continue  # a flag overrides the value
        message = f"{_READS}{printable(number.text)} as {_yaml_meaning(number.text)}"
        hint = "write that number, or quote it if it is text"
        shown = f"{message}: {printable(str(number.value))}"
        yield document.problem(path, shown, hint, "warning")


def _misread_numbers(node: YamlNode, path: Path) -> Iterator[tuple[Path, YamlNode]]:
    """Yield the numbers that YAML does not read as people do, with their paths."""
    for key, child in node.children.items():
        if child.children:
            yield from _misread_numbers(child, (*path, key))
        elif type(child.value) in (int, float) and _yaml_meaning(child.text):
            yield (*path, key), child


def _yaml_meaning(text: str) -> str:
    """Return how YAML reads a number; "" if people read it the same way."""
    if _SEXAGESIMAL.fullmatch(text):
        return "a number in base 60"
    return "an octal number" if len(text) > 1 and _OCTAL.fullmatch(text) else ""


def _fold(document: Document) -> Iterator[Problem]:
    """Warn about commands on several lines that YAML joins into one, without `|`."""
    for field in ("setup", "run"):
        node = document.root.child(field)
        if node is None or document.get(field) is not node.value:
            continue

        lines = [line.strip() for line in node.lines if line.strip()]
        _, colon, first = lines[0].partition(":") if lines else ("", "", "")
        if colon and first.strip().lower() in _NO_VALUE:
            message = f'"{first.strip()}" is no value, and lines follow it'
            hint = f"for a script, write {field}: |"
            yield document.problem((field,), message, hint)
        elif any(
            not (_UNFINISHED.search(before) or _CONTINUED.match(line))
            for before, line in pairwise(lines)
        ):
            message = f"YAML joins these {len(lines)} lines into one command"
            hint = f'write "{field}: |" to keep the lines, or "{field}: >" to join them'
            yield document.problem((field,), message, hint, "warning")


# Rules, and the fields of which at least one must be set for them to apply.
_ANY: tuple[Rule, ...] = (_commands, *pipeline.RULES, _numbers, _fold)
_RULES: Table = (
    (frozenset({"name"}), (_name,)),
    (frozenset({"num_nodes"}), (_nodes,)),
    (frozenset({"envs", "secrets"}), variables.RULES),
    (frozenset({"secrets", "managed_secrets"}), variables.SECRET_RULES),
    (frozenset({"workdir", "file_mounts"}), files.RULES),
    (frozenset({"file_mounts"}), buckets.RULES),
    (frozenset({"volumes"}), volumes.RULES),
    (frozenset({"service", "pool"}), service.RULES),
    (
        frozenset({"config"}),
        (
            *kubernetes.RULES,
            *volumes.LOG_RULES,
            *lifecycle.CONFIG_RULES,
            *pipeline.ARRAY_RULES,
            *buckets.CONFIG_RULES,
        ),
    ),
)
_OF_RESOURCES: Table = (
    *resource_fields.RULES,
    *image.RULES,
    *lifecycle.RULES,
    *infra.RULES,
)
