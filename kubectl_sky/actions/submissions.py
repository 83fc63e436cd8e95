"""Remember which tasks this machine submitted, and choose by that among tasks with a name.

Any user who may create Jobs can give one the name and the owner of your task, and the cluster does
not record who created an object. So the newest of several tasks has to be one that this machine
submitted, and the last task is the newest of these.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from kubectl_sky.actions.find import Choose, Reference, Target, tasks_of
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.words import settings
from kubectl_sky.words.private import Folder

_MAX_TASKS = 5_000
_UID = re.compile(r"[A-Za-z0-9-]{1,100}")  # it comes from the server, and becomes a file name


def remember(
    session: Session, submitted: Target, ui: UI, environ: Mapping[str, str] = os.environ
) -> None:
    """Record one object of each task; note a failure."""
    if session.is_for_caller:
        return
    folder = _folder(environ)
    try:
        for task in tasks_of(submitted):
            uid = next(iter(task.uids.values()))
            if _UID.fullmatch(uid):
                folder.write(uid)
        folder.prune(_MAX_TASKS)
    except OSError as error:
        ui.note(
            f"warning: {folder.path}: {error.strerror}; commands without TASK will not find"
            f" {submitted.id}"
        )


def uids(environ: Mapping[str, str] = os.environ) -> Collection[str]:
    """Return the uids of the objects that this machine submitted."""
    return frozenset(_folder(environ).names())


def last(matches: Sequence[Target], known_uids: Collection[str]) -> Target:
    """Return the newest task that this machine submitted. Raises UserError without any."""
    target = next((match for match in matches if _is_known(match, known_uids)), None)
    if target is None:
        first = matches[0]
        raise UserError(
            "none of your tasks was submitted from this machine, so the last one is not known",
            f"name a task by its id; the newest is {first.id} ({first.name})",
        )
    return target


def newest(
    note: Callable[[str], object], warn: Callable[[str], object], known_uids: Collection[str]
) -> Choose:
    """Return a choice of the newest of several tasks, which it notes."""

    def choose(text: Reference, matches: Sequence[Target]) -> Sequence[Target]:
        if text is None:
            target = last(matches, known_uids)
            note(f"last task: {target.id} ({target.name})")
            return [target]
        target = matches[0]
        if _is_known(target, known_uids):
            if len(matches) > 1:
                note(f"{text}: newest of {len(matches)} ({target.id})")
        elif len(matches) > 1:
            raise _unclear(text, matches, known_uids)
        else:
            warn(
                f"task {target.id} ({target.name}) was not submitted from this machine: only its"
                " labels say that it is yours"
            )
        return [target]

    return choose


def _unclear(text: str, matches: Sequence[Target], known_uids: Collection[str]) -> UserError:
    here = " (submitted from this machine)"
    ids = [f"{match.id}{here * _is_known(match, known_uids)}" for match in matches[:8]]
    return UserError(
        f'"{text}" matches {len(matches)} tasks; this machine did not submit the newest',
        f"another user may have created it; name a task by its id: {', '.join(ids)}"
        + " …" * bool(matches[8:]),
    )


def _is_known(target: Target, known_uids: Collection[str]) -> bool:
    return any(uid in known_uids for task in tasks_of(target) for uid in task.uids.values())


def _folder(environ: Mapping[str, str]) -> Folder:
    return Folder(settings.state_folder(environ), "submitted")
