"""Dry runs of task files: `diff` shows changes of tasks, `validate --live` refusals."""

import io
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from kubectl_sky.cluster import access, errors, objects, parallel
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    InvalidFiles,
    NotFound,
    SkyError,
    Unauthorized,
    UnknownName,
    Unreachable,
    UserError,
)
from kubectl_sky.observe import difference
from kubectl_sky.observe.difference import Pair
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.submitting import contexts, gather, preflight, submit, taskfile
from kubectl_sky.submitting.apply import apply
from kubectl_sky.submitting.taskfile import Source, TaskFile
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds
from kubectl_sky.words.owners import User
from kubectl_sky.workloads.decide import Decision, decide
from kubectl_sky.workloads.references import references

EXTERNAL = "KUBECTL_EXTERNAL_DIFF"
_SUFFIX = "-diff"  # of the name of an object that a dry run creates
_MAX_NAME = 50


def diff(source: Source, connection: Connection, user: str | None, ui: UI) -> list[Pair]:
    """Return the objects of the task in the cluster beside those that a submit would send.

    The task is that of `--id`, or the newest one with the file's name. Raises SkyError.
    """
    content = source.stdin.read() if source.path == "-" else b""
    task_file, connection = contexts.choose(
        taskfile.prepare(replace(source, stdin=io.BytesIO(content)), ui), connection
    )

    session = Session.connect(connection)
    facts = gather.facts(session, task_file, user)
    decision = decide(task_file.entries, facts, task_file.settings)

    if not task_file.given_id:
        overrides = replace(source.overrides, task_id=_newest(session, decision, facts.user))
        again = replace(source, overrides=overrides, stdin=io.BytesIO(content))
        task_file, _ = contexts.choose(taskfile.prepare(again, UI()), connection)
        decision = decide(task_file.entries, facts, task_file.settings)

    rendered = task_file.render(decision.plans).without_runtime
    manifests, live = preflight.as_first_sent(session, decision, rendered)
    if not live:
        raise UnknownName(f'task "{decision.id}" not found in namespace "{session.namespace}"')

    by_name = {_key(item): item for item in live}
    desired = [manifest.object for manifest in manifests.all]
    for item in manifests.shared:
        with suppress(NotFound):
            kind = objects.kind_of_known(item.object)
            metadata = item.object["metadata"]
            found = objects.get_manifest(session, kind, metadata["name"], metadata.get("namespace"))
            by_name[_key(item.object)] = found

    removed = [item for key, item in by_name.items() if key not in set(map(_key, desired))]
    refused = list[ClusterError]()
    pairs = parallel.map_parallel(
        lambda item: _pair(session, by_name.get(_key(item)), item, refused), desired
    )

    if refused:
        ui.note(
            f"warning: no server-side dry run: {refused[0].what}; fields that only the cluster has"
            " are left out"
        )
    return [*pairs, *(difference.pair(item, None) for item in removed)]


def _key(item: Json) -> tuple[str, str]:
    return str(item["kind"]), str(item["metadata"]["name"])


def _newest(session: Session, decision: Decision, owner: User) -> str:
    tasks = find.list_tasks(session, Scope(session.namespace, owner))
    candidates: Sequence[find.Target] = pipelines(tasks) if decision.together else tasks
    for candidate in candidates:
        if candidate.name == decision.title:
            return candidate.id
    where = f'in namespace "{session.namespace}" (owner: {owner.name})'
    raise UnknownName(
        f'{decision.word} "{decision.title}" not found {where}',
        "submit it, or name a task with --id",
    )


def _pair(session: Session, live: Json | None, desired: Json, refused: list[ClusterError]) -> Pair:
    """Return an object beside the one that the API server would make of a manifest, by a dry run.

    The manifest has another name there: the API server refuses an existing name, and changes of a
    Job. Without a dry run, only the fields that are sent are compared.
    """
    metadata = desired["metadata"]
    other = {**metadata, "name": metadata["name"][:_MAX_NAME].rstrip("-.") + _SUFFIX}
    try:
        created = objects.create(session, {**desired, "metadata": other}, dry_run=True)
    except ClusterError as error:
        refused.append(error)
        return difference.pair(live and difference.project(desired, live), desired)
    renamed = {**created["metadata"], "name": metadata["name"]}
    return difference.pair(live, {**created, "metadata": renamed})


def run_external(pairs: Sequence[Pair], command: str, environ: Mapping[str, str]) -> int:
    """Run the program of KUBECTL_EXTERNAL_DIFF on two folders; return its exit code.

    Raises UserError if it cannot be run.
    """
    with tempfile.TemporaryDirectory(prefix="kubectl-sky-") as folder:
        paths = [Path(folder, name) for name in ("LIVE", "MERGED")]
        for path in paths:
            path.mkdir()

        for pair in pairs:
            for path, text in zip(paths, (pair.live, pair.merged), strict=True):
                if text:
                    (path / pair.name).write_text(text, encoding="utf-8")

        try:  # without a time limit: the user's own program may wait for keys, such as vimdiff
            done = subprocess.run(
                [*shlex.split(command), *map(str, paths)], env=dict(environ), check=False
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{EXTERNAL}={command}: {reason.lower()}") from None
    return done.returncode


def refusals(task_file: TaskFile, options: submit.Options, ui: UI) -> Sequence[SkyError]:
    """Return the errors that a submit of a checked file would have; sends dry runs only.

    Raises SkyError if there is no connection: no kubeconfig, no answer, wrong credentials.
    """
    try:
        task_file, connection = contexts.choose(task_file, options.connection)
    except InvalidFiles as error:  # the file names a context
        return (error,)
    session = Session.connect(connection)
    refused = list[SkyError]()

    @contextmanager
    def keep_error() -> Iterator[None]:
        try:
            yield
        except (Unreachable, Unauthorized):
            raise
        except (UserError, ClusterError) as error:
            if not any(_repeats(error, earlier) for earlier in refused):
                refused.append(error)

    with keep_error():
        facts = gather.facts(session, task_file, options.user)
        file = submit.check(submit.decided(options, task_file, session, facts), ui, keep_error)
        planned = file.existing.manifests
        refused += _missing_rights(session, file.decision, planned)
        ui.notes(_missing_objects(session, task_file, file.decision, planned))
        apply(session, file.decision, file.existing, UI(), dry_run=True)
    return refused


def _repeats(error: SkyError, earlier: SkyError) -> bool:
    """Return whether a dry run was refused for a known reason, such as the same quota."""
    if isinstance(error, Forbidden):
        return isinstance(earlier, Forbidden)
    subject = error.what.partition(": ")[0]
    return any(line.partition(": ")[0] == subject for line in earlier.what.splitlines())


def _missing_rights(session: Session, decision: Decision, manifests: Manifests) -> list[Forbidden]:
    """Return an error for each right that a submit needs and the user lacks.

    A dry run reports the first only, and never the right to patch: the workloads become the owners
    of objects that do not exist yet.
    """
    needed = [("create", manifest) for manifest in manifests.workload]
    for manifest in (*manifests.shared, *manifests.auxiliary):
        needed += [("create", manifest), ("patch", manifest)]
    rights = dict.fromkeys(
        (verb, objects.kind_of_known(manifest.object)) for verb, manifest in needed
    )
    namespace = decision.namespace
    return [
        errors.lacks_permission("you", verb, kind.resource, namespace)
        for verb, kind in rights
        if not access.may(session, verb, kind, namespace=namespace)
    ]


def _missing_objects(
    session: Session, task_file: TaskFile, decision: Decision, manifests: Manifests
) -> Iterator[str]:
    """Yield a note for each Secret, ConfigMap and PVC that the pods need and that does not exist.

    Volumes of the task have notes of their own. Objects that the user may not read are skipped.
    """
    own = {(item.object["kind"], item.object["metadata"]["name"]) for item in manifests.all}
    own |= {(kinds.PVC.kind, volume.name) for task in task_file.tasks for volume in task.volumes}
    for kind, name in references([manifest.object for manifest in manifests.workload]):
        if (kind.kind, name) in own:
            continue
        with suppress(Forbidden):
            if not objects.exists(session, kind, name, decision.namespace):
                yield (
                    f'{kind.kind} "{name}" not found in namespace "{decision.namespace}"; the pods'
                    " do not start without it"
                )
