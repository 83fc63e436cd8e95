"""A loaded YAML document: its data, and the position of each part in the file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from kubectl_sky.errors import Problem, UserError

Path = tuple[str | int, ...]  # keys and list indexes from the document's root
Data = Any  # a YAML value: dict, list, str, int, float, bool, None, date
VOLUME_TYPES = ("k8s-pvc", "k8s-hostpath", "runpod-network-volume")
_MAX_STEP = 200  # characters of a field's name in a message
Position = tuple[int, int]  # line and column, from 1; (0, 0) means the whole file


class Unused(Problem, frozen=True):
    """A field that has no effect, nor has anything below it."""


class YamlNode:
    """A value with its position; a mapping also has the positions of its keys.

    Aliases share nodes, so a small file cannot become a large tree.
    """

    __slots__ = (
        "anchored",
        "children",
        "depth",
        "end",
        "indent",
        "keys",
        "lines",
        "position",
        "size",
        "style",
        "text",
        "value",
    )

    def __init__(self, value: Data, position: Position, text: str = "") -> None:
        self.value = value
        self.position = position
        self.text = text  # a scalar as written
        self.anchored = False  # whether aliases may share this scalar
        self.style = ""  # of a scalar: a quote, | or >; "" if plain
        self.end = position  # where a scalar ends
        self.indent = 0  # spaces before each line of a scalar with the style |
        self.lines: tuple[str, ...] = ()  # of a plain scalar of several lines, which YAML joins
        self.keys: dict[Data, Position] = {}
        self.children: dict[Data, YamlNode] = {}
        # Nodes of the whole subtree, and its text in hundreds of characters; shared nodes count at
        # each use.
        self.size = 1 + len(text) // 100
        self.depth = 1

    def child(self, key: Data) -> "YamlNode | None":
        return self.children.get(key)

    def key(self, name: Data) -> Data:
        """Return the key as YAML reads it, such as 12 for "12"; the name if not set."""
        if name in self.children or not isinstance(name, str):
            return name
        return next((key for key in self.children if str(key) == name), name)


class FieldError(UserError):
    """A field of a task is wrong; who knows the task's file adds the position."""

    def __init__(self, path: Path, message: str, hint: str = "") -> None:
        super().__init__(f"{join_path(path)}: {message}", hint)
        self.path = path
        self.reason = message


class Candidates:
    """The resources of a task and their candidates: the paths and values.

    `maps` has those whose value is a map, as the schema requires; `fields` has the names of all
    fields in these maps.
    """

    def __init__(self, resources: Data) -> None:
        candidates: list[tuple[Path, Data]] = [(("resources",), resources)]
        for form in ("any_of", "ordered") if isinstance(resources, dict) else ():
            items = resources.get(form)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                candidates.append((("resources", form, index), item))
        self.paths = tuple(path for path, _ in candidates)
        self.maps = [(path, values) for path, values in candidates if isinstance(values, dict)]
        self.fields = frozenset().union(*(values for _, values in self.maps))


class Document(Struct, frozen=True, dict=True):
    """One document of a file."""

    file: str
    data: Data
    root: YamlNode
    index: int = 0  # its number in the file, from 0
    count: int = 1  # of the documents in the file
    tasks: int = 1  # how many of them are no header
    names: tuple[Data, ...] = ()  # of these tasks
    parallel: bool = False  # whether the header makes them a group that runs in parallel
    title: Data = None  # the name in the header
    after: str = ""  # the task that must have succeeded before, in a format that names it
    # What of the format that it was converted from is not carried out.
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()  # what the settings made of it
    sources: Mapping[Path, str] = {}  # the flag that replaced the file's value, by path

    @property
    def is_header(self) -> bool:
        """Report whether this is the header of a pipeline or group."""
        return self.index == 0 and self.count > 1 and is_header(self.data)

    @property
    def is_volume(self) -> bool:
        """Report whether this is a volume, as for `sky volumes apply`, not a task."""
        is_sized = isinstance(self.get("type"), str) and self.get("size") is not None
        return self.get("run") is None and (is_sized or self.get("type") in VOLUME_TYPES)

    def position(self, path: Path, key: bool = False) -> Position:
        """Return the position of the value at the path, or of its key.

        If the path is not in the file, return the position of the nearest ancestor.
        """
        node = self.root
        position = self.root.position
        for step in path:
            step = node.key(step)
            child = node.child(step)
            if child is None:
                break
            position = node.keys.get(step, child.position) if key else child.position
            node = child
        return position

    def written(self, path: Path) -> str:
        """Return a scalar as written in the file; "" if it is not in the file."""
        node = None if self.source(path) else self.node(path)
        return node.text if node else ""

    def node(self, path: Path) -> YamlNode | None:
        node: YamlNode | None = self.root
        for step in path:
            node = node.child(step) if node else None
        return node

    def source(self, path: Path) -> str | None:
        """Return the flag that set the value at the path or above; None for the file."""
        lengths = range(len(path), 0, -1) if self.sources else ()
        return next(
            (self.sources[path[:length]] for length in lengths if path[:length] in self.sources),
            None,
        )

    def problem(
        self, path: Path, message: str, hint: str = "", severity: str = "error", key: bool = False
    ) -> Problem:
        source = self.source(path)
        line, column = (0, 0) if source else self.position(path, key)
        number = self.index + 1 if self.count > 1 and not source else 0
        return Problem(
            file=source or self.file,
            line=line,
            column=column,
            path=join_path(path),
            message=message,
            hint=hint,
            severity=severity,
            document=number,
        )

    def warning_in_text(self, field: str, offset: int, message: str, hint: str) -> Problem:
        """Return a warning about a place in a script; without `|` it has the field's position."""
        problem = self.problem((field,), message, hint, "warning")
        node = self.node((field,))
        if node is None or node.style != "|" or self.source((field,)):
            return problem
        before = str(node.value)[:offset]
        column = node.indent + offset - (before.rfind("\n") + 1) + 1
        return replace(problem, line=node.position[0] + 1 + before.count("\n"), column=column)

    def unused(self, path: Path, message: str, hint: str = "", key: bool = False) -> Problem:
        """Return a warning about a field that has no effect, nor has anything below it."""
        return Unused(*astuple(self.problem(path, message, hint, "warning", key)))

    @cached_property
    def resources(self) -> "Candidates":
        return Candidates(self.get("resources"))

    def locate(self, error: FieldError) -> Problem:
        """Return the problem of an error with its position.

        `accelerators` may be set in a candidate, or by its other name.
        """
        path = error.path
        message = error.reason
        if path[:2] == ("resources", "accelerators"):
            fields = [
                (*candidate, field)
                for candidate in self.resources.paths
                for field in ("accelerators", "gpus", "instance_type")
            ]
            name = str(path[-1]) if path[2:] else ""
            path = next(
                (field for field in fields if name in str(self.get(*field) or "")), path[:2]
            )
            message = f'"{name}": {message}' if name else message
        return self.problem(path, message, error.hint)

    def override(self, path: Path, value: Data, source: str) -> "Document":
        """Return the document with another value at the path.

        `source` is the flag that sets it.
        Missing parents are created. A parent that is not a mapping is kept; the schema refuses it.
        """
        data = _with(self.data, path, value)
        sources = {
            existing: flag
            for existing, flag in self.sources.items()
            if existing[: len(path)] != path
        }
        return replace(self, data=data, sources=sources | {path: source})

    def override_entries(self, name: str, values: Mapping[str, Data], source: str) -> "Document":
        existing = self.data.get(name) or {}
        data = (
            self.data | {name: {**existing, **values}} if isinstance(existing, dict) else self.data
        )
        paths = dict.fromkeys(((name, key) for key in values), source)
        sources = {path: flag for path, flag in self.sources.items() if path[:2] not in paths}
        return replace(self, data=data, sources=sources | paths)

    def without(self, paths: Sequence[str]) -> "Document":
        """Return the document without the fields at the paths of problems.

        Of a mount, a variable and other values that mean nothing without a part, nothing is left.
        """
        starts = {match.string[: match.end()] for path in paths for match in _END.finditer(path)}
        data: dict[str, Data] = {}
        for top, value in entries(self.data):
            if top in _SEPARATE and isinstance(value, dict) and top not in paths:
                names = {key: join_path((top, str(key))) for key in value}
                data[top] = {key: value[key] for key, name in names.items() if name not in starts}
            elif join_path((top,)) not in starts:
                data[top] = value
            elif top in ("setup", "run"):
                data[top] = ":\n"
        return replace(self, data=data)

    def get(self, *path: str | int) -> Data:
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value


# The fields whose entries have a meaning of their own.
_SEPARATE = frozenset({"resources", "file_mounts", "volumes", "envs", "secrets"})


_END = re.compile(r"(?=[.\[]|$)")  # of a field in a path


def _with(data: Data, path: Path, value: Data) -> Data:
    if not path:
        return value
    if data is not None and not isinstance(data, dict):
        return data
    mapping = data or {}
    return mapping | {path[0]: _with(mapping.get(path[0]), path[1:], value)}


def is_header(data: Data) -> bool:
    """Report whether SkyPilot reads the first of several documents as their header."""
    if not isinstance(data, dict):
        return False
    return set(data) in ({"name"}, {"name", "execution"}) or data.get("execution") == "parallel"


def entries(value: Data) -> Iterator[tuple[str, Data]]:
    """Yield a mapping's entries that have text keys; nothing if it is not a mapping."""
    if isinstance(value, dict):
        yield from ((key, item) for key, item in value.items() if isinstance(key, str))


def join_path(path: Path) -> str:
    """Format a path for users: `resources.any_of[0].cpus`, `volumes."/data"`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        is_plain = str(step).replace("_", "").replace("-", "").replace("/", "").isalnum()
        name = printable(str(step), _MAX_STEP) if is_plain else f'"{printable(str(step), 60)}"'
        text += f".{name}" if text else name
    return text


def _visible(char: str) -> str:
    code = ord(char)
    return "\N{REPLACEMENT CHARACTER}" if code < 0xA0 else f"<U+{code:04X}>"


def printable(text: str, length: int = 40) -> str:
    """Return the text on one line, truncated, with what would not be seen as `<U+200B>`."""
    line = text[:length]
    if not line.isprintable():
        line = "".join(char if char.isprintable() else _visible(char) for char in line)
    return line + ("…" if len(text) > length else "")
