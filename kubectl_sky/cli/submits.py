"""What this machine keeps of its submits: words, place and files, for `rerun` and `--from`."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace

from kubectl_sky.cli import arguments, commands, options, output
from kubectl_sky.errors import UserError
from kubectl_sky.words import settings
from kubectl_sky.words.facts import Place
from kubectl_sky.words.private import Folder

if TYPE_CHECKING:
    Confirm = Callable[[Iterable["Danger"]], None]

    from kubectl_sky.cluster.connection import Connection
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.spec.dangers import Danger
    from kubectl_sky.tasks.submissions import Submitted

_FOLDER = "submits"
_LAST = "last-submit"
_MAX_FILES = 100  # maximum number of submits that are kept
_DROPPED = ("--id", "--token")
_CLUSTER_FLAGS = frozenset({"--context", "--cluster", "--kubeconfig", "--server", "--server-url"})
_NAMESPACE_FLAGS = frozenset({"-n", "--namespace"})


class Record(msgspec.Struct, frozen=True):
    """A submit: its words, the folder where it ran, its task, and the place of the task.

    `sent` says which files from outside the folder, and which credentials, were sent.
    """

    words: list[str]
    folder: str
    id: str
    place: Place
    sent: list[str]

    @property
    def command(self) -> str:
        """The command that submits it again, in its folder; values of secrets are not kept."""
        words = [word for word in self.words if self.words[0] != "submit" or word != "--"]
        return shlex.join(["kubectl", "sky", *words])


class Rerun(msgspec.Struct, frozen=True):
    """The submit that a rerun repeats, and the flags of the rerun itself.

    Its task is replaced, unless it is another user's.
    """

    record: Record
    words: list[str]
    replaces: bool = True


def remember(submitted: "Submitted", dangers: "Iterable[Danger]") -> None:
    """Keep the words of the command that submitted a task, without values of secrets."""
    context = click.get_current_context()
    words = arguments.without_secrets(context.meta[commands.WORDS], _DROPPED)
    record = Record(
        words=[str(context.info_name), *words],
        folder=str(Path.cwd()),
        id=submitted.id,
        place=submitted.place,
        sent=[_text(danger) for danger in _of_local_files(dangers)],
    )

    data = msgspec.json.encode(record)
    folder = Folder(settings.state_folder(), _FOLDER)
    try:
        folder.write(submitted.id, data)
        folder.prune(_MAX_FILES)
        Folder(settings.state_folder()).write(_LAST, data)
    except OSError as error:
        output.warning(f"`kubectl sky rerun` will not know task {submitted.id}: {error.strerror}")


def repeated() -> Rerun | None:
    """Return the rerun that this command is part of."""
    rerun: Rerun | None = click.get_current_context().meta.get(commands.RERUN)
    return rerun


def last() -> Record:
    """Return the last submit. Raises UserError."""
    record = _read(Folder(settings.state_folder()), _LAST)
    if record is None:
        raise UserError("this machine has submitted nothing yet", "submit a FILE first")
    return record


def of_task(session: "Session", namespace: str, task_id: str) -> Record | None:
    """Return the submit of a task; None if this machine did not submit it."""
    record = _read(Folder(settings.state_folder(), _FOLDER), task_id)
    place = (session.server, namespace)
    return record if record and (record.place.server, record.place.namespace) == place else None


def _read(folder: Folder, name: str) -> Record | None:
    try:
        return msgspec.json.decode(folder.read(name), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def connect_again(dry_run: str) -> "Callable[[Connection], Session] | None":
    """Return how a rerun connects: elsewhere than before only if its flags or the user say so."""
    rerun = repeated()
    if rerun is None or dry_run != "none":
        return None
    record = rerun.record

    def connect(connection: "Connection") -> "Session":
        from kubectl_sky.cluster.session import Session

        session = Session.connect(connection)
        place = Place(session.server, session.context, session.namespace)
        if place == record.place:
            return session

        other_cluster = replace(place, namespace=record.place.namespace) != record.place
        flags = _CLUSTER_FLAGS if other_cluster else _CLUSTER_FLAGS | _NAMESPACE_FLAGS
        if flags.isdisjoint(rerun.words):
            options.confirm(
                f"The last submit ran in {record.place}. Submit to {place}?",
                f"--context {session.context} -n {session.namespace}",
            )
        if replace(place, context=record.place.context) != record.place:
            output.note(f"task {record.id} in {record.place} is not stopped")
        return session

    return connect


def confirm_folder(record: Record | None, task: str, paths: Sequence[str]) -> None:
    """Ask before local files are sent from a folder where the task's own submit did not run."""
    if record and record.folder == str(Path.cwd()):
        return
    origin = f"ran in {record.folder}" if record else "is not known on this machine"
    hint = f"--workdir DIR, or run it in {record.folder}" if record else "--workdir DIR"
    options.confirm(f"The submit of {task} {origin}. Send {', '.join(paths)}?", hint)


def confirm_files(record: Record | None, dry_run: str) -> "Confirm":
    """Return how to ask before files are sent from outside the folder, or credentials.

    Those that the earlier submit sent, or that a flag names, are known to the user.
    """

    def confirm(dangers: "Iterable[Danger]") -> None:
        known = record.sent if record else ()
        texts = [_text(danger) for danger in _of_local_files(dangers)]
        new = [text for text in texts if text not in known]
        if new and dry_run == "none":
            hint = "a submit of the FILE itself"
            options.confirm(f"The task file {', '.join(new)}. Submit it?", hint)

    return confirm


def confirm_repeated(dry_run: str) -> "Confirm":
    """Return how a rerun asks before it sends files that its submit did not send."""
    rerun = repeated()
    return confirm_files(rerun.record, dry_run) if rerun else lambda dangers: None


def _of_local_files(dangers: "Iterable[Danger]") -> "Iterator[Danger]":
    """Yield those that send local files, unless a flag names them."""
    from kubectl_sky.spec.danger_fields import DangerClass

    for danger in dangers:
        is_flag = danger.problem.file.startswith("--")
        if danger.danger_class is DangerClass.LOCAL_FILES and not is_flag:
            yield danger


def _text(danger: "Danger") -> str:
    return danger.problem.message
