"""The task that a batch script becomes, so far: fields, their lines in the script, problems."""

from collections.abc import Callable, Mapping
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.slurm import directives
from kubectl_sky.slurm.body import Body, Finding, read
from kubectl_sky.slurm.directives import Directive
from kubectl_sky.spec.document import Data, Document, Path, Position, YamlNode, printable

Table = Mapping[str, Any]  # the field `slurm` of the settings


class Draft:
    """A task that is being made of a batch script; `given` has its options by name."""

    def __init__(self, text: str, file: str, table: Table) -> None:
        self.file = file
        self.table = table
        lines = text.split("\n")
        header = directives.read_header(lines, file)
        self.problems = list(header.problems)
        self.notes: list[str] = []
        self.after = ""  # the task that must have succeeded before
        self._known = set[Problem]()
        self.given = {item.name: item for item in header.directives}  # the last one counts
        self.interpreter = lines[0]
        self.skipped = header.end  # lines before the body
        while self.skipped < len(lines) and not lines[self.skipped].strip():
            self.skipped += 1
        self.body: Body = read("\n".join(lines[self.skipped :]))
        self.added = 0  # lines before the body in `run`
        self.data: dict[str, Any] = {}
        self._positions: dict[Path, Position] = {}

    def setting(self, name: str) -> Mapping[str, Any]:
        return self.table.get(name) or {}

    def put(self, path: Path, value: Data, directive: Directive | None = None) -> None:
        """Set a field, with the position of the directive that it comes from."""
        parent: dict[Any, Any] = self.data
        for step in path[:-1]:
            parent = parent.setdefault(step, {})
        parent[path[-1]] = value
        if directive:
            self.place(path, (directive.line, directive.column))

    def place(self, path: Path, position: Position) -> None:
        """Say where a field comes from; fields above it come from there, too."""
        self._positions[path] = position
        for length in range(1, len(path)):
            self._positions.setdefault(path[:length], position)

    def warn(self, directive: Directive, message: str, hint: str = "") -> None:
        self._add((directive.line, directive.column), directive.written, message, hint, "warning")

    def note(self, directive: Directive, text: str) -> None:
        """Say what the settings made of an option."""
        separator = "=" if directive.written.startswith("--") else " "
        option = printable(separator.join(filter(None, (directive.written, directive.value))))
        self.notes.append(f"{self.file}:{directive.line}: {option}: {text}")

    def refuse(self, directive: Directive, message: str, hint: str = "") -> None:
        self._add((directive.line, directive.column), directive.written, message, hint, "error")

    def report(self, finding: Finding, severity: str) -> None:
        """Add a finding in the body."""
        offset, what, message, hint = finding
        self._add(self.position(offset), what, message, hint, severity)

    def _add(self, where: Position, what: str, message: str, hint: str, severity: str) -> None:
        problem = Problem(self.file, *where, what, message, hint, severity)
        if problem not in self._known:
            self._known.add(problem)
            self.problems.append(problem)

    def position(self, offset: int) -> Position:
        """Return the position in the script of an offset in its body."""
        line = self.skipped + self.body.text.count("\n", 0, offset) + 1
        start = self.body.text.rfind("\n", 0, offset) + 1
        return line, offset - start + 1

    def read(self, name: str, parse: Callable[[str], Any]) -> Any:
        """Return the value of an option; None if it is not given or invalid."""
        directive = self.given.get(name)
        return self.parse(directive, directive.value, parse) if directive else None

    def parse(self, directive: Directive, text: str, parse: Callable[[str], Any]) -> Any:
        """Return the meaning of a value or a part of it; None if it is invalid."""
        try:
            return parse(text)
        except ValueError as error:
            self.refuse(directive, f'{error}, got "{printable(text)}"')
            return None

    def document(self) -> Document:
        for field in ("resources", "envs"):
            if not self.data.get(field):
                self.data.pop(field, None)
        root = self._node(self.data, (), (1, 1))
        warnings = tuple(sorted(item for item in self.problems if item.severity != "error"))
        names = (self.data.get("name"),)
        return Document(
            self.file,
            self.data,
            root,
            names=names,
            after=self.after,
            warnings=warnings,
            notes=tuple(self.notes),
        )

    def _node(self, value: Data, path: Path, above: Position) -> YamlNode:
        position = self._positions.get(path, above)
        node = YamlNode(value, position)
        if path == ("run",):
            node.style = "|"
            node.position = (self.skipped - self.added, 1)
        parts = dict(enumerate(value)) if isinstance(value, list) else value
        for key, item in parts.items() if isinstance(parts, dict) else ():
            child = self._node(item, (*path, key), position)
            node.children[key] = child
            node.keys[key] = child.position
        return node
