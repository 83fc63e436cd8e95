"""A loaded YAML document: its data, and where each part of it stands in the file."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kubectl_sky.errors import Problem

Path = tuple[str | int, ...]  # keys and list indexes from the document's root
Data = Any  # what YAML gives: dict, list, str, int, float, bool, None, date
VOLUME_TYPES = ("k8s-pvc", "k8s-hostpath", "runpod-network-volume")
_MAX_STEP = 200  # characters of a field's name in a message
Place = tuple[int, int]  # line and column, from 1; (0, 0) means the whole file


class Node:
    """A value with its place; a mapping also knows its keys' places.

    Aliases share nodes, so that a small file cannot become a large tree.
    """

    __slots__ = ("children", "depth", "keys", "place", "size", "text", "value")

    def __init__(self, value: Data, place: Place, text: str = "") -> None:
        self.value = value
        self.place = place
        self.text = text  # a scalar as written
        self.keys: dict[Data, Place] = {}
        self.children: dict[Data, Node] = {}
        self.size = 1  # nodes of the whole tree below, shared ones counted each time
        self.depth = 1

    def child(self, key: Data) -> "Node | None":
        """Return the node of an entry, if there is one."""
        return self.children.get(key)


class Candidates:
    """The resources of a task and the candidates among them: their paths, and what is in them.

    `maps` are those that are maps, as the schema wants them to be; `fields` has the names of all
    their fields.
    """

    def __init__(self, resources: Data) -> None:
        found: list[tuple[Path, Data]] = [(("resources",), resources)]
        for form in ("any_of", "ordered") if isinstance(resources, dict) else ():
            items = resources.get(form)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                found.append((("resources", form, index), item))
        self.paths = tuple(path for path, _ in found)
        self.maps = [(path, values) for path, values in found if isinstance(values, dict)]
        self.fields = frozenset().union(*(values for _, values in self.maps))


@dataclass(frozen=True)
class Document:
    """One document of a file.

    `index` is its number among the file's `count` documents, from 0;
    `tasks` is how many of these are tasks and not their header, `names` what they are called, and
    `parallel` that the header makes them a group that runs at once, `title` what it calls them.
    `sources` names, by path, the flags that replaced what the file said.
    """

    file: str
    data: Data
    root: Node = field(repr=False, compare=False)
    index: int = 0
    count: int = 1
    tasks: int = 1
    names: tuple[Data, ...] = ()
    parallel: bool = False
    title: Data = None
    sources: Mapping[Path, str] = field(default_factory=dict)

    @property
    def is_header(self) -> bool:
        """Whether this names the tasks that follow in the file: a pipeline's or group's header."""
        return self.index == 0 and self.count > 1 and is_header(self.data)

    @property
    def is_volume(self) -> bool:
        """Whether this is a volume to create, as `sky volumes apply` takes, and no task."""
        return self.get("type") in VOLUME_TYPES and self.get("run") is None

    def place(self, path: Path, key: bool = False) -> Place:
        """Return where the value at the path stands, or its key; else the nearest ancestor."""
        node, last = self.root, self.root.place
        for step in path:
            child = node.child(step)
            if child is None:
                break
            last = node.keys.get(step, last) if key else child.place
            node = child
        return last

    def written(self, path: Path) -> str:
        """Return a scalar as the file has it; "" for what the file does not hold."""
        node = None if self.source(path) else self.node(path)
        return node.text if node else ""

    def node(self, path: Path) -> Node | None:
        """Return what the file has at the path."""
        node: Node | None = self.root
        for step in path:
            node = node.child(step) if node else None
        return node

    def shared(self, nodes: Collection[int]) -> Iterator[Path]:
        """Yield the paths in the file where these nodes stand, which are given by their ids."""
        below: list[tuple[Path, Node]] = [((), self.root)]
        while below:
            path, node = below.pop()
            if id(node) in nodes:
                yield path
            below += [((*path, key), child) for key, child in reversed(node.children.items())]

    def source(self, path: Path) -> str | None:
        """Return the flag that set the value at the path or around it; None for the file."""
        ends = range(len(path), 0, -1) if self.sources else ()
        return next((self.sources[path[:end]] for end in ends if path[:end] in self.sources), None)

    def problem(
        self, path: Path, message: str, hint: str = "", severity: str = "error", key: bool = False
    ) -> Problem:
        """A problem with the value at the path, or with its key."""
        source = self.source(path)
        line, column = (0, 0) if source else self.place(path, key)
        return Problem(
            file=source or self.file,
            line=line,
            column=column,
            path=dotted(path),
            message=message,
            hint=hint,
            severity=severity,
            document=self.index + 1 if self.count > 1 and not source else 0,
        )

    @cached_property
    def resources(self) -> "Candidates":
        """What the task asks of its nodes."""
        return Candidates(self.get("resources"))

    def candidates(self) -> tuple[Path, ...]:
        """Return the path of the resources, and of each candidate among them."""
        return self.resources.paths

    def override(self, path: Path, value: Data, source: str) -> "Document":
        """Return the document with another value at the path; `source` is the flag that says so.

        Parents are made where they are missing; what is no mapping stays, for the schema to refuse.
        """
        data = _with(self.data, path, value)
        sources = {known: by for known, by in self.sources.items() if known[: len(path)] != path}
        return replace(self, data=data, sources=sources | {path: source})

    def override_entries(self, name: str, values: Mapping[str, Data], source: str) -> "Document":
        """Return the document with other values of some entries of a field."""
        known = self.data.get(name) or {}
        data = self.data | {name: {**known, **values}} if isinstance(known, dict) else self.data
        paths = dict.fromkeys(((name, key) for key in values), source)
        sources = {path: by for path, by in self.sources.items() if path[:2] not in paths}
        return replace(self, data=data, sources=sources | paths)

    def get(self, *path: str | int) -> Data:
        """Return the value at the path; None where there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value


def _with(data: Data, path: Path, value: Data) -> Data:
    if not path:
        return value
    if data is not None and not isinstance(data, dict):
        return data
    known = data or {}
    return known | {path[0]: _with(known.get(path[0]), path[1:], value)}


def is_header(data: Data) -> bool:
    """Say whether SkyPilot takes the first of several documents as their header."""
    if not isinstance(data, dict):
        return False
    return set(data) in ({"name"}, {"name", "execution"}) or data.get("execution") == "parallel"


def entries(value: Data) -> Iterator[tuple[str, Data]]:
    """Iterate over a mapping's entries that have text keys; over nothing for anything else."""
    if isinstance(value, dict):
        yield from ((key, item) for key, item in value.items() if isinstance(key, str))


def dotted(path: Path) -> str:
    """Return the path as people write it: `resources.any_of[0].cpus`, `volumes."/data"`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        plain = str(step).replace("_", "").replace("-", "").replace("/", "").isalnum()
        shown = printable(str(step), _MAX_STEP) if plain else f'"{printable(str(step), 60)}"'
        text += f".{shown}" if text else shown
    return text


def printable(text: str, length: int = 40) -> str:
    """Return the text on one line, cut to a length, without control characters."""
    shown = text[:length]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return shown + ("…" if len(text) > length else "")
