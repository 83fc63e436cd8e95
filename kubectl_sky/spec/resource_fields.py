"""Fields of resources and their rules: sizes, accelerators, instance types, ports and labels."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import accelerator, quantity, schema
from kubectl_sky.spec.accelerator import candidates
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.schema import describe
from kubectl_sky.words import amounts, names

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def label_problems(document: Document, path: Path) -> Iterator[Problem]:
    for key, value in entries(document.get(*path)):
        yield from _label_key(document, (*path, key), "label")
        if isinstance(value, str | int) and not _LABEL_VALUE.fullmatch(str(value)):
            shown = printable(str(value))
            message = f'"{shown}" is not a valid label value: letters, digits, - _ .'
            hint = "at most 63 characters, ends with a letter or digit"
            yield document.problem((*path, key), message, schema.find_unfilled(value) or hint)


def annotation_problems(document: Document, path: Path) -> Iterator[Problem]:
    for key, _ in entries(document.get(*path)):
        yield from _label_key(document, (*path, key), "annotation")


def without_ours(values: Data) -> dict[str, Data]:
    return {key: value for key, value in entries(values) if not names.is_ours(key)}


def _label_key(document: Document, path: Path, kind: str) -> Iterator[Problem]:
    key = str(path[-1])
    prefix, slash, name = key.rpartition("/")
    is_valid_prefix = not slash or (len(prefix) <= 253 and _LABEL_PREFIX.fullmatch(prefix))
    if not is_valid_prefix or not _LABEL_NAME.fullmatch(name):
        message = f"is not a valid {kind}: letters, digits, - _ . and at most 63 characters"
        yield document.problem(path, message, "such as team or example.com/team", key=True)
    elif names.is_ours(key):
        message = f"ignored: this {kind} identifies the task"
        yield document.unused(path, message, "choose another name", key=True)


DEFAULT_DISK = "256Gi"  # SkyPilot's default; treated as not set

_SHAPE = re.compile(r"([0-9.]{1,9})CPU--([0-9.]{1,9})GB(?:--([A-Za-z0-9-]{1,40}:[0-9]{1,4}))?")


class Shape(Struct, frozen=True):
    """A pod's size in SkyPilot's notation: `4CPU--16GB--H100:8`."""

    cpus: str
    memory: str
    accelerators: str | None


def shape(instance_type: Data) -> Shape | None:
    """Return the pod's size in an instance type; None for a cloud's instance type."""
    match = _SHAPE.fullmatch(instance_type) if isinstance(instance_type, str) else None
    if not match:
        return None
    try:
        quantity.cpus(match[1])
        quantity.memory(match[2])
        candidates(match[3] or 1)
    except ValueError:
        return None
    return Shape(match[1], match[2], match[3])


def disk(size: str | int | None, old: str | int | None) -> str | None:
    """Return the storage request of a node; None if not set or SkyPilot's default."""
    value = old if size is None else size
    request = None if value is None else quantity.storage(value)
    return None if request == DEFAULT_DISK else request


_GPU_FIELDS = ("accelerators", "gpus")
MAX_CANDIDATES = 300
_MOST = 2**50  # bytes of a node
_SIZES: dict[str, Callable[[str | int | float], str]] = {
    "cpus": quantity.cpus,
    "memory": quantity.memory,
    "disk_size": quantity.storage,
    "ephemeral_storage": quantity.storage,
}


def _sizes(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        for field, read in _SIZES.items():
            value = values.get(field)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                continue
            try:
                if quantity.quantity(read(value)) > _MOST:
                    raise ValueError("more than a pebibyte")
            except ValueError as error:
                message = f"{error}, got {describe(value)}"
                hint = "" if field == "cpus" else _bytes_hint(value)
                if not hint and ": write" not in message:
                    hint = schema.find_unfilled(value) or _similar_size(value, read)
                yield document.problem((*path, field), message, hint)


def _similar_size(value: str | int | float, read: Callable[[str], str]) -> str:
    words = amounts.OF_CPUS if read is quantity.cpus else ()
    similar = amounts.size(value, read, words) if isinstance(value, str) else ""
    return f'did you mean "{similar}"?' if similar else ""


def _bytes_hint(value: str | int | float) -> str:
    """Return the hint for a number that is too large for GiB, and may be bytes."""
    number = quantity.number(str(value).removesuffix("+")) or 0
    mib = round(number / 2**20)
    return f'a number is GiB; for bytes write "{mib}Mi"' if number * quantity.GIB > _MOST else ""


def _gpus(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        for field in _GPU_FIELDS:
            yield from _gpu(document, (*path, field), values.get(field))
        both = values.get("accelerators") is not None and values.get("gpus") is not None
        if both and not document.source((*path, "accelerators")):
            message = "is another name of accelerators; keep one of them"
            yield document.problem((*path, "gpus"), message, key=True)


def _no_gpus(document: Document) -> Iterator[Problem]:
    """Warn about accelerators without a value: a task that has no GPU is not what was meant."""
    for path in document.resources.paths:
        node = document.node((*path, "accelerators"))
        is_empty = node is not None and node.value is None and not node.text
        if is_empty and document.get(*path, "accelerators") is None:
            hint = "name a GPU, such as A100:1, or remove the line"
            yield document.unused((*path, "accelerators"), "no value: no GPU", hint, key=True)


def _gpu(document: Document, path: Path, value: Data) -> Iterator[Problem]:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, list) and not all(isinstance(item, str | dict) for item in value):
        return  # the schema reports it

    try:
        candidates = list(accelerator.entries(value))
    except accelerator.InvalidAccelerator as error:
        shown = f'"{printable(error.text)}"' if error.text else describe(value)
        is_key = bool(error.keys) and isinstance(error.keys[-1], str)
        hint = schema.find_unfilled(error.text) or _similar_gpu(value, error.text)
        yield document.problem((*path, *error.keys), f"{error}, got {shown}", hint, key=is_key)
        return

    for keys, text, candidate in candidates:
        is_key = bool(keys) and isinstance(keys[-1], str)
        if " :" in text or ": " in text:
            message = f'the space in "{printable(text)}" is ignored'
            hint = f'write "{printable(text.replace(" ", ""))}"'
            yield document.problem((*path, *keys), message, hint, "warning", key=is_key)

        message, hint = _wrong_model(candidate.rounded)
        if message:
            yield document.problem((*path, *keys), message, hint, "warning", key=is_key)

        if candidate.count.denominator != 1:
            message = (
                f"fractions of GPUs are not supported; each node gets {candidate.rounded.count}"
            )
            yield document.problem((*path, *keys), message, severity="warning")


def _wrong_model(gpus: accelerator.Accelerator) -> tuple[str, str]:
    """Return the warning about a name that is no model, and the hint; empty if there is none."""
    name = gpus.name or ""
    if accelerator.is_any(name):
        return f'"{name}" is no model', f"for any GPU, write the count: {gpus.count}"
    if accelerator.is_none(name):
        return f'"{name}" is no GPU', "for a task without GPUs, remove the line"
    suggested = accelerator.suggestion(name) if name else ""
    if not suggested:
        return "", ""
    return f'unknown GPU "{printable(name)}"', f'did you mean "{suggested}"?'


def _similar_gpu(value: Data, text: str) -> str:
    """Return the hint for an invalid GPU: how SkyPilot writes what is meant."""
    if isinstance(value, dict) and len(value) == 2:  # {name: A100, count: 8}
        model, count = sorted(map(str, value.values()), key=str.isdigit)
        if count.isdigit() and accelerator.find_model(model):
            return f"write {{{printable(model)}: {count}}}"
    similar = accelerator.similar(text)
    return f"did you mean {similar}?" if similar else ""


def find_too_many(document: Document) -> Iterator[Problem]:
    """Limit the alternatives: each item of `any_of` may list several accelerators."""
    maps = document.resources.maps
    accelerator_counts = [
        _alternatives(values.get(name)) for _, values in maps for name in _GPU_FIELDS
    ]
    count = len(maps) * max(accelerator_counts, default=1)
    if count > MAX_CANDIDATES:
        message = f"up to {count:,} combinations of candidates; the limit is {MAX_CANDIDATES:,}"
        yield document.problem(("resources",), message, key=True)


def _alternatives(value: Data) -> int:
    if isinstance(value, str):
        return value.count(",") + 1
    if isinstance(value, list):
        return sum(len(item) if isinstance(item, dict) else 1 for item in value)
    return len(value) if isinstance(value, dict) else 1


def _labels(document: Document) -> Iterator[Problem]:
    for path, _ in document.resources.maps:
        yield from label_problems(document, (*path, "labels"))


def _exclusive(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        for field in ("cloud", "region", "zone"):
            if values.get("infra") is not None and values.get(field) is not None:
                message = "is the old form of infra; keep one of them"
                yield document.problem((*path, field), message, key=True)
        if values.get("any_of") is not None and values.get("ordered") is not None:
            message = "any_of and ordered exclude each other"
            yield document.problem((*path, "ordered"), message, "keep one of them", key=True)


MAX_PORT = 65535
_MAX_TEXT = 40
MAX_PORTS = 100  # per task: each is an entry of its Service and a rule on every cluster node

_PORT_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_EXPECTED_PORT = 'expected a port such as 8080, or a range such as "8080-8090"'


def port_ranges(value: Data) -> list[tuple[int, int]]:
    """Return the first and last port of each range.

    Raises ValueError with a message for the user.
    """
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    texts = [text.strip() for item in items for text in str(item).split(",")]

    ranges = []
    for text in filter(None, texts):
        match = _PORT_RANGE.fullmatch(text)
        if not match:
            raise ValueError(f'{_EXPECTED_PORT}, got "{printable(text)}"')
        first = int(match[1])
        last = int(match[2] or match[1])
        if not 1 <= first <= MAX_PORT or not 1 <= last <= MAX_PORT:
            raise ValueError(f'a port is from 1 to {MAX_PORT}, got "{text}"')
        if last < first:
            raise ValueError(f'the range ends before it begins: "{text}"')
        ranges.append((first, last))
    return ranges


def port_numbers(value: Data) -> tuple[int, ...]:
    """Return the ports, sorted and without duplicates.

    Raises ValueError with a message for the user.
    """
    ports: list[int] = []
    for first, last in sorted(port_ranges(value)):
        next_port = ports[-1] + 1 if ports else 0
        ports += range(max(first, next_port), last + 1)
    return tuple(ports)


def _ports(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        value = values.get("ports")
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                continue  # the schema reports it
            try:
                port_ranges(item)
            except ValueError as error:
                field_path = (
                    (*path, "ports", index) if isinstance(value, list) else (*path, "ports")
                )
                hint = schema.find_unfilled(item) or _similar_ports(str(item))
                yield document.problem(field_path, str(error), hint)


def _similar_ports(text: str) -> str:
    """Return the hint for an invalid port: those that it means, such as 80 for 8080:80."""
    numbers = re.findall("[0-9]{2,5}", text[:_MAX_TEXT])
    if not numbers or max(map(int, numbers)) > MAX_PORT:
        return ""
    if len(numbers) == 1:
        return f"did you mean {numbers[0]}?"
    if ":" in text or "->" in text:
        return f"did you mean {numbers[-1]}? the task's own port is enough"
    if re.search(r"\.\.|-|to", text):
        first, last = sorted(numbers[:2], key=int)
        return f'did you mean "{first}-{last}"?'
    return f"did you mean [{', '.join(numbers)}]?"


def _many_ports(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        try:
            count = len(port_numbers(values.get("ports")))
        except ValueError:
            continue  # already reported
        if count > MAX_PORTS:
            message = f"{count:,} ports; a task's Service has at most {MAX_PORTS}"
            hint = "name those that others connect to"
            yield document.problem((*path, "ports"), message, hint)


RULES = (
    (frozenset(_SIZES), (_sizes,)),
    (frozenset(_GPU_FIELDS), (_gpus, _no_gpus)),
    (frozenset({"labels"}), (_labels,)),
    (frozenset({"cloud", "region", "zone", "ordered"}), (_exclusive,)),
    (frozenset({"ports"}), (_ports, _many_ports)),
)
