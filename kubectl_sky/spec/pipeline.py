"""Several tasks of one file: a pipeline (one by one), a group (all at once) or an array."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries
from kubectl_sky.spec.sweep import Sweep, parse_sweep
from kubectl_sky.spec.variables import RESERVED
from kubectl_sky.words import bounded, names

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DEFAULT = "default"  # in termination_delay: all tasks that it does not name


class Pipeline(Struct, frozen=True):
    """Settings of all tasks of a file; with `parallel` they are a group.

    A group runs all at once. It finishes when its `primary` tasks finish; empty means all
    tasks. `delays` maps the names of the other tasks to the seconds for which they continue after
    that.
    """

    name: str | None = None
    parallel: bool = False
    primary: tuple[str, ...] = ()
    delays: Mapping[str, int] = {}
    connected: bool = True

    def delay(self, task: str) -> int | None:
        """Return the seconds that a task runs on after the primary tasks; None if primary."""
        if not self.primary or task in self.primary:
            return None
        return self.delays.get(task, self.delays.get(_DEFAULT, 0))


def pipeline_of(documents: Sequence[Document]) -> Pipeline | None:
    """Return the settings of all tasks of a file; None for a single task.

    `documents` are the documents of one file without errors from `validate`.
    """
    first = documents[0]
    if first.tasks == 1 and not first.parallel:
        return None

    header: Mapping[str, Data] = first.data if first.is_header else {}
    name = header.get("name")
    delays = header.get("termination_delay") or {}
    by_name = delays if isinstance(delays, dict) else {_DEFAULT: delays}
    name = None if name is None else str(name)

    return Pipeline(
        name=name,
        parallel=first.parallel,
        primary=tuple(header.get("primary_tasks") or ()),
        delays={str(task): seconds(delay) for task, delay in by_name.items()},
        connected=header.get("inter_connection", True) is not False,
    )


def seconds(value: str | int) -> int:
    """Return a duration such as 30, "30s" or "1h30m" in seconds; 0 if it is invalid."""
    text = str(value).lower()
    parts = re.findall(r"([0-9]+)([smhdw]?)", text)
    is_valid = re.fullmatch(r"[0-9]+|([0-9]+[smhdw])+", text)
    return sum(int(number) * _UNITS[unit or "s"] for number, unit in parts) if is_valid else 0


_GROUP_NAME = "SKYPILOT_JOBGROUP_NAME"


def _name(document: Document) -> Iterator[Problem]:
    if not document.parallel:
        return

    name = document.get("name")
    earlier_names = document.names[: document.index - 1]
    earlier_hosts = [names.dns_label(str(earlier)) for earlier in earlier_names]

    if name is None:
        yield document.problem((), "a task of a parallel group needs a name", "add name: …")
    elif name in earlier_names:
        yield document.problem(("name",), "another task of the group has this name")
    elif names.dns_label(str(name)) in earlier_hosts:
        conflict = earlier_names[earlier_hosts.index(names.dns_label(str(name)))]
        message = f"its nodes would have the host names of {conflict}"
        yield document.problem(("name",), message, "choose names that differ in more")
    elif names.dns_label(str(name)) != str(name).lower():
        message = (
            f"its nodes' host names are {names.dns_label(str(name))}-0.${_GROUP_NAME} and so on"
        )
        yield document.problem(
            ("name",), message, "host names are of letters, digits and -", "warning"
        )


def _hosts(document: Document) -> Iterator[Problem]:
    """Check for SkyPilot's host names, which end in the group's name.

    Here they end in a unique name of the group instead.
    """
    if not document.parallel or not document.title:
        return
    host_pattern = re.compile(rf"-[0-9]+\.{re.escape(str(document.title))}(?![\w-])")
    paths: list[Path] = [("setup",), ("run",)]
    paths += [("envs", name) for name, _ in entries(document.get("envs"))]
    for path in paths:
        if host_pattern.search(str(document.get(*path) or "")):
            message = (
                f"the group's host names end in ${_GROUP_NAME}, and that is not {document.title}"
            )
            yield document.problem(path, message, f"write ${_GROUP_NAME} there", "warning")


RULES = (_name, _hosts)


MAX_INDEXES = 100_000  # indexes that Kubernetes allows a Job without further conditions

_ARRAY_RANGE = r"[0-9]{1,9}(-[0-9]{1,9})?"
_ARRAY_FORM = re.compile(
    rf"(?P<numbers>{_ARRAY_RANGE}(,{_ARRAY_RANGE})*)(%(?P<most>[0-9]{{1,9}}))?"
)
_ARRAY_EXAMPLE = "write it as 0-99, 0,3,7 or 0-99%10"


class Array(Struct, frozen=True):
    """The indexes of an array of tasks.

    `numbers` has the shortest form, such as `0-4,7`; `at_once` is at most `count`.
    """

    numbers: str
    count: int
    at_once: int
    sweep: Sweep | None = None  # the variables that its indexes have different values of


def parse_array(text: str) -> Array:
    """Parse the flag's value. Raises ValueError with the reason and an example."""
    match = _ARRAY_FORM.fullmatch(text.replace(" ", ""))
    if not match:
        raise ValueError(f"expected numbers; {_ARRAY_EXAMPLE}")

    ranges = []
    for part in match["numbers"].split(","):
        start, _, end = part.partition("-")
        if int(end or start) < int(start):
            raise ValueError(f"{part} ends before it begins; write {end}-{start}")
        ranges.append((int(start), int(end or start)))

    ranges.sort()
    for (_, last), (first, _) in pairwise(ranges):
        if first <= last:
            raise ValueError(f"{first} is named twice; name each number once")

    count = sum(last - first + 1 for first, last in ranges)
    if count > MAX_INDEXES:
        raise ValueError(f"{count:,} tasks are too many; an array has at most {MAX_INDEXES:,}")
    limit = count if match["most"] is None else int(match["most"])
    if not limit:
        raise ValueError("%0 lets nothing run; write how many may run at once, such as %10")
    return Array(_write(ranges), count, min(limit, count))


def array_of(own: Mapping[str, Any]) -> Array | None:
    """Return the array of the fields of `config.kubectl_sky`. Raises ValueError."""
    if variables := own.get("sweep"):
        sweep = parse_sweep(variables)
        count = sweep.count
        if count > MAX_INDEXES:
            raise ValueError(f"{count:,} tasks are too many; an array has at most {MAX_INDEXES:,}")
        limit = bounded.integer(own.get("sweep_limit")) or count
        return Array(_write([(0, count - 1)]), count, min(limit, count), sweep)
    return parse_array(str(own["array"])) if own.get("array") is not None else None


def _array(document: Document) -> Iterator[Problem]:
    path = ("config", "kubectl_sky")
    own = document.get(*path)
    sweep = document.get(*path, "sweep") or {}
    if not isinstance(own, dict) or not isinstance(sweep, dict):
        return  # which the schema refuses
    try:
        array_of(own)
    except ValueError as error:
        field = "sweep" if sweep else "array"
        yield document.problem((*path, field), str(error))
    if sweep and own.get("array") is not None:
        message = "array and sweep exclude each other"
        yield document.problem((*path, "array"), message, "remove one of them", key=True)
    if own.get("sweep_limit") and not sweep:
        message = "ignored: there is no sweep"
        yield document.unused((*path, "sweep_limit"), message, "write 0-99%10 in array", key=True)
    for name in RESERVED.intersection(map(str, sweep)):
        message = f"{name} cannot be swept: every node sets its own value"
        yield document.problem((*path, "sweep", name), message, "choose another name", key=True)


ARRAY_RULES = (_array,)


def _write(ranges: list[tuple[int, int]]) -> str:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)
