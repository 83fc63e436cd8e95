"""`validate --live`: what the cluster refuses of a checked file, by reads and dry runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from kubectl_sky.actions import contexts, gather, submit
from kubectl_sky.actions.apply import apply
from kubectl_sky.actions.taskfile import TaskFile
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import access, errors, objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    InvalidFiles,
    SkyError,
    Unauthorized,
    Unreachable,
    UserError,
)
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads.decide import Decision
from kubectl_sky.workloads.references import references


def refusals(task_file: TaskFile, options: submit.Options, ui: UI) -> Sequence[SkyError]:
    """Return the errors that a submit of a checked file would have; sends dry runs only.

    Raises SkyError if there is no connection: no kubeconfig, no answer, wrong credentials.
    """
    try:
        task_file, connection = contexts.choose(task_file, options.connection)
    except InvalidFiles as error:  # the file names a context
        return (error,)
    session, refused = Session.connect(connection), list[SkyError]()

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
    rights = dict.fromkeys((verb, objects.known_kind(manifest.object)) for verb, manifest in needed)
    namespace = decision.namespace
    return [
        errors.lacks_permission("you", verb, _resource(kind), namespace)
        for verb, kind in rights
        if not access.may(session, verb, kind, namespace=namespace)
    ]


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


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
