"""Every problem of a document at once: the schema's, the rules across fields, what is ignored."""

from collections.abc import Callable
from dataclasses import replace

from kubectl_sky.errors import Problem
from kubectl_sky.spec import infra, mounts, rules, schema, unsupported
from kubectl_sky.spec.document import Data, Document, Path, dotted, printable
from kubectl_sky.spec.finding import Finding
from kubectl_sky.spec.pod_config import POD_CONFIG
from kubectl_sky.spec.substitute import Filled

# Mappings whose null fields count as absent, as SkyPilot takes them, and their fields' schema.
_NULLS_PASS: dict[str, dict[tuple[str | type, ...], str]] = {
    "resources": {(): "resources", ("any_of", int): "resources", ("ordered", int): "resources"},
    "file_mounts": {(str,): "storage"},
    "service": {(): "service"},
}
# SkyPilot takes str() of these keys; a setting of ours has numbers.
_ANY_KEYS = (("envs",), ("secrets",), ("priority_classes",))
_WHOLE = ("ignored", unsupported.REFUSED)  # how messages about a field and all below it begin


def validate(document: Document, schema: str = "task", as_task: bool = False) -> list[Problem]:
    """Return the problems of a document, by place; warnings have the severity "warning".

    `schema` is the language of the document. A task file may also hold a header of several tasks,
    or a volume; both are recognised. `as_task` says that a service or pool is to be run as a task.
    """
    if schema == "task" and (document.is_header or document.is_volume):
        schema = "header" if document.is_header else "volume"
    if schema == "header":
        return _sorted(_schema(document, schema) + rules.header_problems(document))
    if schema == "volume":
        return _sorted(_untold(_schema(document, schema), mounts.volume_problems(document)))
    if schema != "task":
        return _sorted(_schema(document, schema))
    filled = Filled(document)
    if filled.problems:
        return filled.problems
    found = _schema(filled.document, schema, filled.hides)
    told = {problem.path for problem in found}
    gone = tuple(f"{dotted(path)}." for path in infra.left_out(document))
    found += [
        problem
        for problem in rules.problems(filled.document)
        if problem.path not in told
        and not filled.hides(problem.path)
        and not (problem.severity == "warning" and problem.path.startswith(gone))
    ]
    wrong = {problem.path for problem in found}
    found += [
        problem for problem in unsupported.findings(filled, as_task) if problem.path not in wrong
    ]
    return _sorted(_once(found))


def _once(problems: list[Problem]) -> list[Problem]:
    """Leave out warnings of what stands below a field that is ignored as a whole."""
    if len(problems) < 2:
        return problems
    gone = {_steps(found.path) for found in problems if found.message.startswith(_WHOLE)}
    return [found for found in problems if found.severity == "error" or not _below(found, gone)]


def _below(found: Problem, paths: set[str]) -> bool:
    path = _steps(found.path)
    return any(path[:end] in paths for end, char in enumerate(path) if char == ".")


def _steps(path: str) -> str:
    return path.replace("[", ".")


def _sorted(problems: list[Problem]) -> list[Problem]:
    return sorted(dict.fromkeys(problems))


def _untold(found: list[Problem], more: list[Problem]) -> list[Problem]:
    """Add problems of what none is told of yet."""
    told = {problem.path for problem in found}
    return found + [problem for problem in more if problem.path not in told]


def _schema(
    document: Document, name: str, hides: Callable[[str, bool], bool] = lambda path, key: False
) -> list[Problem]:
    cleaned = _Cleaned(document, name)
    data = cleaned.mapping(document.data, ())
    found = [
        document.problem(
            found.path, found.message, _quoted(document, found), found.severity, found.key
        )
        for found in schema.check(data, name)
        if not hides(dotted(found.path), found.key)
    ]
    told = {problem.path for problem in cleaned.problems}
    return cleaned.problems + [problem for problem in found if problem.path not in told]


def _quoted(document: Document, found: Finding) -> str:
    """Return the hint; where quotes would help, with what YAML has made of the text."""
    written = document.written(found.path)
    if found.hint != "put it in quotes" or found.path[:1] == ("secrets",):
        return found.hint
    if written and written != schema.described(document.get(*found.path)):
        return f"YAML reads {printable(written)} so: {found.hint}"
    return found.hint


class _Cleaned:
    """The data as a schema can check it: keys are text, and absent is absent."""

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
        """Return the mapping with text keys; say which were none."""
        droppable = self._droppable(path)
        cleaned = {}
        for key, value in values.items():
            if not isinstance(key, str) and path not in _ANY_KEYS:
                self._say(path, key)
            if value is None and (key in droppable or path[:3] == POD_CONFIG):
                continue
            inner = isinstance(value, dict | list)
            cleaned[str(key)] = self._any(value, (*path, str(key))) if inner else value
        return cleaned

    def _droppable(self, path: Path) -> frozenset[str]:
        """Return the fields of a mapping that are absent when they are null."""
        if not path:
            return (
                schema.fields(self.root) - {"name"}
                if self.root == "header"
                else schema.fields(self.root)
            )
        top, *below = path
        for pattern, name in _NULLS_PASS.get(str(top), {}).items():
            if len(pattern) == len(below) and all(map(_fits, pattern, below)):
                return schema.fields(name)
        return frozenset()

    def _say(self, path: Path, key: Data) -> None:
        message = f"a field's name is text, this is read as {schema.described(key)}"
        problem = self.document.problem((*path, key), message, "put it in quotes", key=True)
        self.problems.append(replace(problem, path=dotted((*path, str(key)))))


def _fits(expected: str | type, step: str | int) -> bool:
    return step == expected if isinstance(expected, str) else isinstance(step, expected)
