"""What of SkyPilot's language this version does not carry out, and what to do instead.

The fields are listed in schemas/unsupported.yaml; here are those that are carried out in some
forms.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import yaml

from kubectl_sky import assets
from kubectl_sky.errors import Problem
from kubectl_sky.spec import buckets, infra, machine, secret
from kubectl_sky.spec.document import Data, Document, Path, dotted, entries
from kubectl_sky.spec.substitute import Filled

REFUSED = "not carried out yet, submit refuses it"

_CLASS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INSTEAD_OF_SECRETS: dict[Path, str] = {
    ("workdir", "url"): "only the login can be secrets: https://USER:${NAME}@HOST/PATH",
    ("workdir",): "write a variable of envs",
    ("file_mounts",): "name the bucket itself; what opens it is in stores",
    ("volumes",): "write a variable of envs",
}
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


class _Tree:
    """The entries by the steps of their fields: those of a field, and those of fields below it."""

    def __init__(self) -> None:
        self.here: list[Entry] = []
        self.below: dict[str, _Tree] = {}

    def add(self, entry: Entry) -> None:
        """Put an entry where its field is."""
        tree = self
        for step in entry.field:
            tree = tree.below.setdefault(step, _Tree())
        tree.here.append(entry)

    def find(self, data: Data, path: Path) -> Iterator[tuple[Entry, Path, Data]]:
        """Yield the entries of what there is in data, with paths and values; null is absent."""
        for entry in self.here if data is not None else ():
            yield entry, path, data
        if not self.below or not isinstance(data, dict):
            return
        for key, value in data.items():
            for step in self.below.keys() & {key, "*"} if isinstance(key, str) else ():
                yield from self.below[step].find(value, (*path, key))


@cache
def _tree() -> _Tree:
    tree = _Tree()
    for entry in listed():
        tree.add(entry)
    return tree


def _entry(item: Mapping[str, str]) -> Entry:
    return Entry(
        field=tuple(item["field"].split(".")),
        reason=item["reason"],
        instead=item["instead"],
        refuse={"refuse": True, "warning": False}[item["severity"]],
        unless=re.compile(item["unless"]) if "unless" in item else None,
        as_task=item.get("as_task"),
    )


def findings(filled: Filled, as_task: bool = False) -> list[Problem]:
    """Return a warning for each field of a document that is understood and not carried out.

    `as_task` passes over what the user wants to have run as a task.
    """
    document = filled.written
    return [
        document.problem(
            found.path,
            f"{REFUSED}: {found.reason}" if found.refuse else f"ignored: {found.reason}",
            found.instead,
            "warning",
            key=True,
        )
        for found in _used(filled, as_task)
    ]


def refusals(document: Document, as_task: bool = False) -> list[Problem]:
    """Return an error for each field without which the task would not do what the file says.

    `as_task` passes over what the user wants to have run as a task.
    """
    problems = [
        document.problem(
            found.path, f"not carried out yet: {found.reason}", found.instead, key=True
        )
        for found in _used(Filled(document), as_task)
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


def _found(filled: Filled, as_task: bool) -> Iterator[_Found]:
    document = filled.written
    if not isinstance(document.data, dict):
        return
    for entry, path, value in _used_entries(document):
        usual = entry.unless and entry.unless.fullmatch(str(value).lower())
        if not usual and not (as_task and entry.as_task):
            yield _Found(path, entry.reason, entry.instead, entry.refuse)
    yield from _formed(filled)
    yield from _shown(filled)


def _shown(filled: Filled) -> Iterator[_Found]:
    """Yield the fields that would show a secret's value; those of a service are not carried out."""
    reason = "a secret's value would be seen in the manifests"
    for path in filled.secret:
        if path[0] != "service":
            instead = _INSTEAD_OF_SECRETS.get(path, _INSTEAD_OF_SECRETS[path[:1]])
            yield _Found(path, reason, instead, True)
    for path in secret.aliases(filled.written):
        yield _Found(path, reason, "write a value of its own in place of the alias", True)


def _formed(filled: Filled) -> Iterator[_Found]:
    """Yield the forms of fields that are not carried out; nothing that would show a secret."""
    document = filled.document
    there = document.data.keys() | document.resources.fields
    for fields, form in _FORMS:
        for found in form(document) if not fields.isdisjoint(there) else ():
            ends = range(1, len(found.path) + 1) if filled.unknown else ()
            if not any(dotted(found.path[:end]) in filled.unknown for end in ends):
                yield found


def _used(filled: Filled, as_task: bool) -> Iterator[_Found]:
    """Pass over candidates that are left out anyway."""
    gone = infra.left_out(filled.written)
    for found in _found(filled, as_task):
        if found.path[:3] not in gone:
            yield found


def _used_entries(document: Document) -> Iterator[tuple[Entry, Path, Data]]:
    """Yield what the entries find; the fields of resources are its candidates' too."""
    for name in document.data.keys() & _tree().below.keys():
        tops = document.resources.maps if name == "resources" else [((name,), document.data[name])]
        for path, values in tops:
            yield from _tree().below[name].find(values, path)


def _tasks(document: Document) -> Iterator[_Found]:
    if document.is_volume:
        reason = "this is a volume, not a task"
        yield _Found((), reason, "kubectl sky volumes apply makes volumes", True)


def _machines(document: Document) -> Iterator[_Found]:
    for path, values in document.resources.maps:
        kind, autostop = values.get("instance_type"), values.get("autostop")
        if kind is not None and not machine.shape(kind):
            instead = "say what a node needs with cpus, memory and accelerators"
            reason = "the cluster chooses the nodes"
            yield _Found((*path, "instance_type"), reason, instead, False)
        if autostop not in (None, False) and not machine.down(autostop):
            reason = "a task ends by itself, and nothing idles"
            instead = "with down: true what has ended is deleted"
            yield _Found((*path, "autostop"), reason, instead, False)
        priority = values.get("priority_class")
        if priority and not _CLASS.fullmatch(str(priority)):
            reason = "no PriorityClass of Kubernetes can be called this"
            instead = "small letters, digits, - and ."
            yield _Found((*path, "priority_class"), reason, instead, True)


def _images(document: Document) -> Iterator[_Found]:
    for path, values in document.resources.maps:
        image = values.get("image_id")
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


# Forms, and the fields of a task or of its resources without all of which there is none.
_FORMS = (
    (frozenset({"type"}), _tasks),
    (frozenset({"instance_type", "autostop", "priority_class"}), _machines),
    (frozenset({"image_id"}), _images),
    (frozenset({"secrets", "managed_secrets"}), _secrets),
    (frozenset({"file_mounts"}), _buckets),
    (frozenset({"volumes"}), _volumes),
)
