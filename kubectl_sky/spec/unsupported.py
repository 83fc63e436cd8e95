"""What of SkyPilot's language this version does not carry out, and what to do instead.

The fields are listed in schemas/unsupported.yaml; here are those that are carried out in some
forms.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

import yaml

from kubectl_sky import assets
from kubectl_sky.errors import Problem
from kubectl_sky.spec import buckets, infra, machine, secret
from kubectl_sky.spec.document import Data, Document, Path, dotted, entries
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.values import dataclass

REFUSED = "not carried out yet, submit refuses it"

_CLASS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
REPLICA = "SKYPILOT_SERVE_REPLICA_ID"  # counts from 1


@dataclass(frozen=True)
class Entry:
    """A field that is not carried out; `*` in it is any name, `[]` any item.

    `refuse` says that the task would not do what the file says. Values that match `unless` are what
    happens anyway. `as_task` is what becomes of the field where the user asks for a task in its
    place.
    """

    field: tuple[str, ...]
    reason: str
    instead: str
    refuse: bool
    unless: re.Pattern[str] | None
    as_task: str | None


@dataclass(frozen=True)
class _Found:
    path: Path
    reason: str
    instead: str
    refuse: bool


@cache
def listed() -> tuple[Entry, ...]:
    """Return the entries of schemas/unsupported.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    items = yaml.load(assets.read("schemas", "unsupported.yaml"), Loader=loader)
    return tuple(_entry(item) for item in items)


@cache
def _by_field() -> dict[str, list[Entry]]:
    """Return the entries by the field of the task that they are or stand below."""
    found: dict[str, list[Entry]] = {}
    for entry in listed():
        found.setdefault(entry.field[0], []).append(entry)
    return found


def _entry(item: Mapping[str, str]) -> Entry:
    return Entry(
        field=tuple(item["field"].split(".")),
        reason=item["reason"],
        instead=item["instead"],
        refuse={"refuse": True, "warning": False}[item["severity"]],
        unless=re.compile(item["unless"]) if "unless" in item else None,
        as_task=item.get("as_task"),
    )


def findings(document: Document, as_task: bool = False) -> list[Problem]:
    """Return a warning for each field that is understood and not carried out.

    `as_task` passes over what the user wants to have run as a task.
    """
    return [
        document.problem(
            found.path,
            f"{REFUSED}: {found.reason}" if found.refuse else f"ignored: {found.reason}",
            found.instead,
            "warning",
            key=True,
        )
        for found in _used(document, as_task)
    ]


def refusals(document: Document, as_task: bool = False) -> list[Problem]:
    """Return an error for each field without which the task would not do what the file says.

    `as_task` passes over what the user wants to have run as a task.
    """
    problems = [
        document.problem(
            found.path, f"not carried out yet: {found.reason}", found.instead, key=True
        )
        for found in _used(document, as_task)
        if found.refuse
    ]
    if not document.get("run") and not document.is_volume:
        problems.append(document.problem((), "the task has no command", "add run: |"))
    return sorted(problems)


def as_task(document: Document) -> tuple[Document, list[str]]:
    """Return a service or pool as the one task that its replicas or workers run, with notes on it.

    A pool's workers may have nothing to run: its jobs would bring that. What is a task stays as it
    is.
    """
    notes = [
        f"{'.'.join(entry.field)}: run as one task: {entry.as_task}"
        for entry in listed()
        if entry.as_task and document.get(*entry.field) is not None
    ]
    if document.get("service") is not None:
        document = document.override(("envs", REPLICA), "1", "--as-task")
    if document.get("pool") is not None and not document.get("run"):
        notes.append("run: there is none, so the task ends after setup")
        document = document.override(("run",), ":\n", "--as-task")
    return document, notes


def _found(document: Document, as_task: bool = False) -> Iterator[_Found]:
    if not isinstance(document.data, dict):
        return
    for entry, path, value in _used_entries(document):
        usual = entry.unless and entry.unless.fullmatch(str(value).lower())
        if not usual and not (as_task and entry.as_task):
            yield _Found(path, entry.reason, entry.instead, entry.refuse)
    yield from _formed(document)
    for path in buckets.revealing(document):
        reason = "a secret's value would be seen in the manifests"
        yield _Found(path, reason, "name the bucket itself; what opens it is in stores", True)


def _formed(document: Document) -> Iterator[_Found]:
    """Yield the forms of fields that are not carried out; nothing that would show a secret."""
    forms = [form for fields, form in _FORMS if not fields.isdisjoint(document.data)]
    if not forms:
        return
    filled = Filled(document)
    for form in forms:
        for found in form(filled.document):
            ends = range(1, len(found.path) + 1)
            if not any(dotted(found.path[:end]) in filled.unknown for end in ends):
                yield found


def _used(document: Document, as_task: bool) -> Iterator[_Found]:
    """Pass over candidates that are left out anyway."""
    gone = infra.left_out(document)
    for found in _found(document, as_task):
        if found.path[:3] not in gone:
            yield found


def _used_entries(document: Document) -> Iterator[tuple[Entry, Path, Data]]:
    """Yield what the entries' patterns find; the fields of resources are its candidates' too."""
    for name, found in _by_field().items():
        if name not in document.data:
            continue
        for top in document.candidates() if name == "resources" else ((name,),):
            values = document.get(*top)
            below = {*values, "*"} if isinstance(values, dict) else ()
            for entry in found:
                if len(entry.field) == 1 or entry.field[1] in below:
                    for path, value in _matches(values, entry.field[1:], top):
                        yield entry, path, value


def _matches(data: Data, field: tuple[str, ...], path: Path) -> Iterator[tuple[Path, Data]]:
    """Yield the values that a field's pattern finds, with their paths; null is absent."""
    if not field:
        if data is not None:
            yield path, data
        return
    step, rest = field[0], field[1:]
    if step == "*":
        for key, value in entries(data):
            yield from _matches(value, rest, (*path, key))
    elif isinstance(data, dict) and step in data:
        yield from _matches(data[step], rest, (*path, step))


def _tasks(document: Document) -> Iterator[_Found]:
    if document.is_volume:
        reason = "this is a volume, not a task"
        yield _Found((), reason, "kubectl sky volumes apply makes volumes", True)


def _machines(document: Document) -> Iterator[_Found]:
    for path in document.candidates():
        kind, autostop = document.get(*path, "instance_type"), document.get(*path, "autostop")
        if kind is not None and not machine.shape(kind):
            instead = "say what a node needs with cpus, memory and accelerators"
            reason = "the cluster chooses the nodes"
            yield _Found((*path, "instance_type"), reason, instead, False)
        if autostop not in (None, False) and not machine.down(autostop):
            reason = "a task ends by itself, and nothing idles"
            instead = "with down: true what has ended is deleted"
            yield _Found((*path, "autostop"), reason, instead, False)
        priority = document.get(*path, "priority_class")
        if priority and not _CLASS.fullmatch(str(priority)):
            reason = "no PriorityClass of Kubernetes can be called this"
            instead = "small letters, digits, - and ."
            yield _Found((*path, "priority_class"), reason, instead, True)


def _images(document: Document) -> Iterator[_Found]:
    for path in document.candidates():
        image = document.get(*path, "image_id")
        if isinstance(image, dict) and "docker" not in image:
            reason = "an image for each region means nothing in one cluster"
            yield _Found((*path, "image_id"), reason, "name one image", True)


def _secrets(document: Document) -> Iterator[_Found]:
    for path, reason, instead in secret.unnameable(document):
        yield _Found(path, reason, instead, True)


def _buckets(document: Document) -> Iterator[_Found]:
    for path, reason, instead in buckets.undone(document):
        yield _Found(path, reason, instead, True)


def _volumes(document: Document) -> Iterator[_Found]:
    """A volume that is mounted by its name is as it was made."""
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict) and value.get("size") is None:
            for field in ("labels", "config"):
                if value.get(field) is not None:
                    reason = "the volume has what it was made with"
                    yield _Found(("volumes", path, field), reason, "", False)


_FORMS = (
    (frozenset({"type"}), _tasks),
    (frozenset({"resources"}), _machines),
    (frozenset({"resources"}), _images),
    (frozenset({"secrets", "managed_secrets"}), _secrets),
    (frozenset({"file_mounts"}), _buckets),
    (frozenset({"volumes"}), _volumes),
)
