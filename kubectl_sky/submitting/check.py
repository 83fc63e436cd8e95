"""Check documents and make their tasks: problems, refusals, arrays, services, dangerous fields."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.plan import runtime, tpu
from kubectl_sky.plan.pipeline import members, title_of, with_names
from kubectl_sky.plan.resolve import find_refusals
from kubectl_sky.spec import bashisms, dangers, load, programs, service, unsupported
from kubectl_sky.spec import scripts as shell_scripts
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.document import Document, FieldError, printable
from kubectl_sky.spec.document import Path as Keys
from kubectl_sky.spec.document import entries as pairs
from kubectl_sky.spec.files import local_files as local_files_of
from kubectl_sky.spec.pipeline import pipeline_of
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.spec.validate import find_valid_part, validate
from kubectl_sky.spec.variables import list_given_secrets
from kubectl_sky.submitting import bash, packing
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.words import bounded, names
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import DEFAULT_IMAGE, Settings, settings_file
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.decide import AUTO, TaskEntry
from kubectl_sky.workloads.service import as_replica

_COMPATIBLE_BACKENDS = (None, AUTO, "indexed")  # backends that are compatible with an array
_SPLIT = "send several requests, or use the plugin with --server-url"


def problems(
    documents: Sequence[Document], settings: Settings, as_task: bool, *, strict: bool, scripts: bool
) -> list[Problem]:
    """Return the problems of documents; `strict` turns warnings into errors."""
    of_documents = [
        problem
        for document in documents
        for problem in document_problems(document, settings, as_task, scripts=scripts)
    ]
    return [problem.as_error() for problem in of_documents] if strict else of_documents


def document_problems(
    document: Document, settings: Settings, as_task: bool = False, *, scripts: bool
) -> list[Problem]:
    """Return the problems of a document; `scripts` adds warnings about its setup and run.

    A server does not read the scripts of its callers.
    """
    file_problems = [*document.warnings, *validate(document, as_task=as_task)]
    if not scripts:
        return file_problems

    warnings = [bashisms.find_missing(document)]
    warnings += programs.find_unavailable(document, settings.backend)
    for field in ("setup", "run"):
        script = document.get(field)
        if isinstance(script, str) and len(script) <= shell_scripts.MAX_SCRIPT:
            finding = bash.syntax_error(script) or shell_scripts.find_unnoticed(field, script)
            warnings += [document.warning_in_text(field, *finding)] if finding else []

    if (warning := programs.without_git_folder(document)) and not _sends_git(document):
        warnings.append(warning)
    if not (settings.image or settings.defaults):  # others may have the programs
        warnings.append(programs.missing(document, DEFAULT_IMAGE))

    return sorted([*file_problems, *filter(None, warnings)])


def _sends_git(document: Document) -> bool:
    ignored = Path(_resolve(document.get("workdir"))) / ".skyignore"
    try:
        return b"!.git" in bounded.read(ignored, load.MAX_BYTES).split()
    except (OSError, ValueError):
        return False


def document_refusals(
    document: Document, settings: Settings, as_task: bool, serve: service.Flags | None
) -> list[Problem]:
    """Return an error for each field of a valid document that submit refuses, or `serve`.

    Values that are not set are none: flags of submit set them.
    """
    if document.is_header:
        return []
    served = serve is not None
    refused = unsupported.refusals(document, as_task, served)
    if document.is_volume:
        return refused
    if serve:
        refused += service.find_without_ingress(document, serve, settings.ingress)
    if refused:  # a field that is refused needs no plan
        document = unsupported.without_refused(document, as_task, served)
    task = task_of(document)
    errors = list(find_refusals(task, settings))
    if not errors and document.get("service") is not None and tpu.spans_nodes(task):
        field = ("resources", "accelerators")
        message = "a replica is one pod, and the slice is several cluster nodes"
        errors.append(FieldError(field, message, "use a slice of one cluster node"))
    return sorted([*refused, *map(document.locate, errors)])


def refusals(
    documents: Sequence[Document],
    settings: Settings,
    as_task: bool,
    serve: service.Flags | None,
    local_files: bool,
) -> list[Problem]:
    """Return an error for each field of valid documents that submit refuses.

    Without `local_files`, these are refused as well.
    """
    problems = []
    for document in documents:
        problems += document_refusals(document, settings, as_task, serve)
        for path, flag in unset_flags(document):
            export = f"export {printable(str(path[1]))}=…, then " if path[0] == "secrets" else ""
            hint = f"{export}set it with {flag}"
            problems.append(document.problem(path, "the value is not set", hint))
    return problems if local_files else [*problems, *local_paths(documents)]


def find_valid_parts(documents: Sequence[Document], as_task: bool) -> list[Document]:
    """Return the documents without their invalid fields, and without those that stay invalid."""
    parts = (find_valid_part(document, as_task) for document in documents)
    return [part for part in parts if part]


def unset_flags(document: Document) -> Iterator[tuple[Keys, str]]:
    swept = document.get("config", "kubectl_sky", "sweep") or {}
    for name, value in pairs(document.get("envs")):
        if value is None and name not in swept:
            yield ("envs", name), f"--env {printable(name)}=…"
    for name, value in pairs(list_given_secrets(document.get("secrets"))):
        if value is None:
            yield ("secrets", name), f"--secret {printable(name)}"


def refuse_unplannable(
    entries: Sequence[TaskEntry], settings: Settings, max_nodes: int = sys.maxsize
) -> None:
    """Raise InvalidFiles with everything that no plan is possible for.

    Raises UserError for too many nodes: each takes memory in a plan.
    """
    nodes = sum(entry.task.num_nodes for entry in entries)
    if nodes > max_nodes:
        raise UserError(f"{nodes:,} nodes in one request; the limit is {max_nodes:,}", _SPLIT)
    problems = [
        entry.document.locate(error)
        for entry in entries
        for error in find_refusals(entry.task, settings)
    ]
    if problems:
        raise InvalidFiles(sorted(problems))


class Review(Struct, frozen=True):
    """The dangers of a file; settings turn some of them into errors (`refused`)."""

    dangers: tuple[Danger, ...] = ()

    @property
    def reported(self) -> tuple[Danger, ...]:
        return tuple(danger for danger in self.dangers if not danger.refused)

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(danger.problem for danger in self.dangers if danger.refused)


def local_paths(documents: Sequence[Document]) -> Iterator[Problem]:
    """Yield an error for each local path of valid documents, for callers of a server.

    A server neither reads nor resolves its own files for a caller.
    """
    for document in documents:
        if document.is_header or document.is_volume:
            continue
        for files in local_files_of(Filled(document).document.data):
            hint = "use a git repository, a bucket or a volume, or submit it with the plugin"
            yield document.problem(files.field, "is a local path of the client", hint)
        if document.get("service", "tls", "keyfile") is not None:
            hint = "use secret: NAME, an existing Secret"
            yield document.problem(("service", "tls"), "is a local path of the client", hint)


def review(
    path: str | None,
    documents: Sequence[Document],
    settings: Settings,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
) -> Review:
    """Review the documents of a task file, and the files that flags name.

    A path of None leaves out local files.
    """
    all_dangers = [danger for document in documents for danger in dangers.in_fields(document)]
    if path is not None:
        folders = _list_own_folders(Path(path))
        for document in documents:
            all_dangers += dangers.in_local_files(document, folders, _resolve)

        flags = overrides or Overrides()
        sources = [("--env-file", source) for source in flags.env_files]
        sources += [("--secret-file", source) for source in flags.secret_files]
        for flag, source in sources:
            target = _resolve(source)
            if os.path.isfile(target) and (  # noqa: PTH113 -- a pipe is not a user's file
                danger := dangers.in_variable_file(flag, source, target, folders)
            ):
                all_dangers.append(danger)

    return apply_settings(all_dangers, settings, environ)


def _list_own_folders(file: Path) -> list[str]:
    """Return the folder of a task file, and the current one: `configs/train.yaml` may send it.

    Not the home folder, nor one above it: the file may be somebody else's.
    """
    current = _resolve(".")
    if not file.is_file():  # stdin or a pipe
        return [current]
    home = Path(_resolve("~"))
    own = [_resolve(str(file.parent))]
    return own if home.is_relative_to(current) else [*own, current]


def apply_settings(
    all_dangers: Sequence[Danger], settings: Settings, environ: Mapping[str, str]
) -> Review:
    """Sort the dangers in file order and apply the settings to them."""
    file = str(settings_file(environ))
    return Review(tuple(dangers.judge(sorted(dict.fromkeys(all_dangers)), settings, file)))


def _resolve(path: str) -> str:
    """Resolve a path; it does not need to exist."""
    try:
        return os.path.realpath(Path(path).expanduser())
    except (OSError, RuntimeError, ValueError):  # no home directory; a NUL character
        return path


def as_tasks(documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
    """Return services and pools as tasks, with notes; tasks are returned unchanged."""
    converted = [unsupported.as_task(document) for document in documents]
    return [document for document, _ in converted], [
        note for _, notes in converted for note in notes
    ]


def of_documents(
    documents: Sequence[Document], file_id: str, overrides: Overrides
) -> tuple[TaskEntry, ...]:
    """Return the tasks; as in SkyPilot, a header names its only task."""
    task_documents = [document for document in documents if not document.is_header]
    tasks = as_array([tpu.spread(task_of(document)) for document in task_documents])
    tokens = [Secret(secrets.token_urlsafe(32)) for _ in tasks]

    pipeline = pipeline_of(documents)
    if pipeline is None:
        header = documents[0].get("name") if documents[0].is_header else None
        task = tasks[0] if header is None else replace(tasks[0], name=str(header))
        return (TaskEntry(task_documents[0], task, file_id, token=tokens[0]),)

    pipeline = replace(pipeline, name=overrides.name or pipeline.name)
    named_tasks = with_names(tasks, title_of(pipeline, file_id))
    positions = members(pipeline, file_id, named_tasks)
    entries = [
        TaskEntry(document, task, names.part_id(file_id, position.stage), position, token=token)
        for document, task, position, token in zip(
            task_documents, named_tasks, positions, tokens, strict=True
        )
    ]

    if documents[0].is_header:
        entries[0] = replace(entries[0], header=documents[0])
    return tuple(entries)


def as_array(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks; an array with its backend. Raises UserError if it cannot be one."""
    if not any(task.array for task in tasks):
        return list(tasks)
    if len(tasks) > 1:
        raise UserError(
            f"an array and {len(tasks)} tasks: an array runs one task many times",
            "put the task into a separate file",
        )

    (task,) = tasks
    if task.num_nodes > 1:
        raise UserError(
            f"an array and num_nodes {task.num_nodes}: each task of an array runs on one node,"
            " because an index of a Job is one pod",
            "submit the task once per number instead",
        )
    if task.backend not in _COMPATIBLE_BACKENDS:
        raise UserError(
            f"an array and backend {task.backend}: arrays run as one Indexed Job",
            "remove the backend",
        )
    return [runtime.exit_after_setup(replace(task, backend=ArrayJob.name))]


def as_service(
    entries: tuple[TaskEntry, ...],
    flags: service.Flags | None,
    overrides: Overrides,
    settings: Settings,
) -> tuple[TaskEntry, ...]:
    """Return the task of a replica, if it is served. Raises UserError unless it is one service."""
    if flags is None:
        return entries

    of_tasks = {
        "as-task": overrides.as_task,
        "array": overrides.array,
        "sweep": overrides.sweep,
        "backend": overrides.backend,
    }
    for flag, value in of_tasks.items():
        if value:
            raise UserError(f"--{flag} does not apply to a service", "remove it")

    if len(entries) > 1:
        raise UserError(
            f"a service is one task, and the file has {len(entries)}", "put each into its own file"
        )

    (entry,) = entries
    name = entry.task.name
    if not name and not flags.new:
        hint = "add --name NAME, which `kubectl sky serve status` shows"
        raise UserError("the service has no name", hint)

    spec = service.service_of(entry.document, flags, settings.qps_metric)
    task = replace(entry.task, name=name or f"service-{entry.task_id}")
    if tls := Filled(entry.document).document.get("service", "tls"):
        domain = settings.ingress.get("domain")
        host = f"{names.dns_label(task.name or '', 'service')}.{domain}" if domain else ""
        certificate = {} if "secret" in tls else packing.certificate(entry.document, tls)
        class_name = settings.ingress["class"]
        ingress = service.Ingress(class_name, host, tls.get("secret", ""), certificate)
        spec = replace(spec, ingress=ingress)
    return (replace(entry, task=as_replica(task, spec)),)
