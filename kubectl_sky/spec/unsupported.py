"""Report unsupported fields of SkyPilot's language, with alternatives.

schemas/unsupported.yaml lists these fields; this module has those that are supported in some forms
only.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

import yaml
from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import (
    buckets,
    files,
    image,
    infra,
    lifecycle,
    resource_fields,
    service,
    variables,
)
from kubectl_sky.spec.document import Data, Document, Path, entries, join_path
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.words import assets, names

_INSTEAD_OF_SECRETS: dict[Path, str] = {
    ("workdir", "url"): "only the login can be secrets: https://USER:${NAME}@HOST/PATH",
    ("workdir",): "write a variable of envs",
    ("file_mounts",): "write the bucket's name; credentials belong in the settings, in stores",
    ("volumes",): "write a variable of envs",
}


class UnsupportedField(Struct, frozen=True):
    """An unsupported field; in its path, `*` is any name.

    `refuse` means that the task would not do what the file says. Values that match `unless`
    describe what happens anyway. `as_task` describes what the field becomes if the user runs a
    service or pool as a task. Fields below `service` concern `serve` only.
    """

    field: tuple[str, ...]
    reason: str
    instead: str
    refuse: bool
    unless: re.Pattern[str] | None
    as_task: str | None


class _Found(Struct, frozen=True):
    path: Path
    reason: str
    instead: str
    refuse: bool


@cache
def list_fields() -> tuple[UnsupportedField, ...]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    items = yaml.load(assets.read("schemas", "unsupported.yaml"), Loader=loader)
    return tuple(map(_read_field, items))


def _read_field(item: Mapping[str, str]) -> UnsupportedField:
    unless = re.compile(item["unless"]) if "unless" in item else None
    return UnsupportedField(
        field=tuple(item["field"].split(".")),
        reason=item["reason"],
        instead=item["instead"],
        refuse={"refuse": True, "warning": False}[item["severity"]],
        unless=unless,
        as_task=item.get("as_task"),
    )


def _set_fields(data: Data, field: tuple[str, ...], path: Path) -> Iterator[tuple[Path, Data]]:
    """Yield the paths and values of a field that are set; null counts as not set."""
    if not field:
        if data is not None:
            yield path, data
    elif isinstance(data, dict):
        step, *rest = field
        for key in data if step == "*" else {step} & data.keys():
            if isinstance(key, str):
                yield from _set_fields(data[key], tuple(rest), (*path, key))


def findings(filled: Filled, as_task: bool = False) -> list[Problem]:
    """Return a warning for each field of a document that is valid but not supported.

    A service is checked for `serve`. `as_task` skips the fields of a service or pool that the user
    runs as a task.
    """
    document = filled.written
    served = document.get("service") is not None and not as_task
    refused = f"not supported, {'serve' if served else 'submit'} rejects it"
    return [
        document.unused(
            finding.path,
            f"{refused if finding.refuse else 'ignored'}: {finding.reason}",
            finding.instead,
            key=True,
        )
        for finding in _find_used(filled, as_task, served)
    ]


def refusals(document: Document, as_task: bool = False, served: bool = False) -> list[Problem]:
    """Return an error for each unsupported field that changes what the task does.

    Without these fields, the task would not do what the file says. `as_task` skips the fields of a
    service or pool that the user runs as a task. `served` checks a service for `serve`, which needs
    one. A service without run is an error too.
    """
    problems = [
        document.problem(
            finding.path, f"not supported: {finding.reason}", finding.instead, key=True
        )
        for finding in _find_used(Filled(document), as_task, served)
        if finding.refuse
    ]
    if served and document.root.value.get("service") is None:
        hint = "add service: {readiness_probe: /}, or run it by kubectl sky submit"
        problems.append(document.problem((), "no service to serve", hint))
    if document.get("service") is not None and not document.get("run"):
        problems.append(document.problem((), "a service needs run", "add run: |"))
    return sorted(problems)


def without_refused(document: Document, as_task: bool, served: bool) -> Document:
    """Return a document without the fields of its `refusals`."""
    findings = _find_used(Filled(document), as_task, served)
    paths = [join_path(finding.path) for finding in findings if finding.refuse and finding.path]
    return document.without(paths)


def as_task(document: Document) -> tuple[Document, list[str]]:
    """Return a service or pool as the task of one replica or worker, with notes.

    The workers of a pool may have no command, because its jobs would provide one. A document
    that is already a task is returned unchanged.
    """
    notes = [
        f"{'.'.join(entry.field)}: run as one task: {entry.as_task}"
        for entry in list_fields()
        if entry.as_task and document.get(*entry.field) is not None
    ]
    if document.get("service") is not None:
        document = document.override(("envs", names.REPLICA), "1", "--as-task")
    if document.get("pool") is not None and not document.get("run"):
        notes.append("the task has no run, so it ends after setup")
        document = document.override(("run",), ":\n", "--as-task")
    return document, notes


def _find(filled: Filled, as_task: bool, served: bool) -> Iterator[_Found]:
    document = filled.written
    if not isinstance(document.data, dict):
        return
    for entry, path, value in _find_used_entries(document):
        is_harmless = entry.unless and entry.unless.fullmatch(str(value).lower())
        concerns = not (as_task and entry.as_task)
        if entry.field[0] == "service":
            concerns = served if entry.field[1:] else not (as_task or served)
        if concerns and not is_harmless:
            yield _Found(path, entry.reason, entry.instead, entry.refuse)
    for finding in service.undone(filled) if served else ():
        yield _Found(*finding)
    yield from _match_forms(filled)
    yield from _show(filled)


def _show(filled: Filled) -> Iterator[_Found]:
    """Yield the fields of a task that would reveal a secret's value."""
    reason = "the manifests would show a secret's value"
    for path in filled.secret:
        if path[0] != "service":
            instead = _INSTEAD_OF_SECRETS.get(path, _INSTEAD_OF_SECRETS[path[:1]])
            yield _Found(path, reason, instead, True)


def _match_forms(filled: Filled) -> Iterator[_Found]:
    """Yield unsupported forms of fields, except below unknown or secret values."""
    document = filled.document
    set_fields = document.data.keys() | document.resources.fields
    for fields, form in _FORMS:
        for finding in form(document) if not fields.isdisjoint(set_fields) else ():
            ends = range(1, len(finding.path) + 1) if filled.unknown else ()
            if not any(join_path(finding.path[:end]) in filled.unknown for end in ends):
                yield finding


def _find_used(filled: Filled, as_task: bool, served: bool) -> Iterator[_Found]:
    """Yield what is not supported, except in candidates that are left out anyway."""
    excluded_paths = infra.find_left_out(filled.written)
    for finding in _find(filled, as_task, served):
        if finding.path[:3] not in excluded_paths:
            yield finding


def _find_used_entries(document: Document) -> Iterator[tuple[UnsupportedField, Path, Data]]:
    """Yield the matching entries; fields of `resources` also match in its candidates."""
    for entry in list_fields():
        top, *below = entry.field
        if top not in document.data:
            continue
        sections = document.resources.maps if top == "resources" else [((top,), document.data[top])]
        for section_path, values in sections:
            for path, value in _set_fields(values, tuple(below), section_path):
                yield entry, path, value


def _tasks(document: Document) -> Iterator[_Found]:
    if document.is_volume:
        reason = "this is a volume, not a task"
        yield _Found((), reason, "create it with kubectl sky volumes apply", True)


def _machines(document: Document) -> Iterator[_Found]:
    for path, values in document.resources.maps:
        instance_type = values.get("instance_type")
        autostop = values.get("autostop")
        if instance_type is not None and not resource_fields.shape(instance_type):
            instead = "use cpus, memory and accelerators"
            reason = "the cluster chooses the nodes"
            yield _Found((*path, "instance_type"), reason, instead, False)

        if autostop not in (None, False) and not document.get("run"):
            reason = "without run, the nodes stay up until the task is stopped"
            instead = "for a time limit, add run: sleep 3600"
            yield _Found((*path, "autostop"), reason, instead, False)
        elif autostop not in (None, False) and not lifecycle.is_deleted_when_finished(autostop):
            reason = "the task ends when run ends, so it is never idle"
            instead = "add down: true to delete the finished task"
            yield _Found((*path, "autostop"), reason, instead, False)

        if None not in (values.get("disk_size"), values.get("ephemeral_storage")):
            yield _Found((*path, "ephemeral_storage"), "disk_size is set", "", False)

        priority = values.get("priority_class")
        if priority and not names.SUBDOMAIN.fullmatch(str(priority)):
            reason = "invalid name of a PriorityClass"
            instead = "use lowercase letters, digits, - and ."
            yield _Found((*path, "priority_class"), reason, instead, True)


def _images(document: Document) -> Iterator[_Found]:
    for path in dict.fromkeys(image.list_unchosen(document)):
        reason = "the cluster is in none of these regions"
        yield _Found(path, reason, "name one image", True)


def _secrets(document: Document) -> Iterator[_Found]:
    for path, reason, instead in variables.unnameable_secrets(document):
        yield _Found(path, reason, instead, True)


def _buckets(document: Document) -> Iterator[_Found]:
    for path, reason, instead in buckets.undone(document):
        yield _Found(path, reason, instead, True)
    for target, mount in entries(document.get("file_mounts")):
        if files.list_copied(mount):
            field = next((name for name in ("name", "store") if mount.get(name)), "source")
            reason = "no bucket is created; the nodes get the local files"
            yield _Found(("file_mounts", target, field), reason, "", False)


def _volumes(document: Document) -> Iterator[_Found]:
    """Yield fields that do not change an existing volume, mounted by its name."""
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict) and value.get("size") is None:
            for field in ("labels", "config"):
                if value.get(field) is not None:
                    reason = "an existing volume is not changed"
                    yield _Found(("volumes", path, field), reason, "", False)


# Forms, and the fields of a task or its resources: a form needs at least one of its fields.
_FORMS = (
    (frozenset({"type"}), _tasks),
    (frozenset({"instance_type", "autostop", "ephemeral_storage", "priority_class"}), _machines),
    (frozenset({"image_id"}), _images),
    (frozenset({"secrets", "managed_secrets"}), _secrets),
    (frozenset({"file_mounts"}), _buckets),
    (frozenset({"volumes"}), _volumes),
)
