"""The tasks that a submit sent, and the choice of those that this machine submitted.

Any user who may create Jobs can give one the name and the owner of your task, and the cluster does
not record who created an object. So the newest of several tasks has to be one that this machine
submitted, and the last task is the newest of these.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.tasks.find import Choose, Reference, Target, tasks_of
from kubectl_sky.words import settings
from kubectl_sky.words.private import Folder

if TYPE_CHECKING:
    from kubectl_sky.words import models
    from kubectl_sky.workloads.decide import Decision

_MAX_TASKS = 5_000
_UID = re.compile(r"[A-Za-z0-9-]{1,100}")  # it comes from the server, and becomes a file name


class Submitted(Struct, frozen=True):
    """Tasks in the cluster: the decision, and the workloads as the API server returned them.

    `unchanged` is whether an earlier submit had sent everything. `file` is the path of the file.
    """

    decision: "Decision"
    workloads: tuple[Json, ...]
    unchanged: bool = False
    file: str = ""

    @property
    def id(self) -> str:
        """The id of the task, or of the pipeline or group."""
        return self.decision.id

    @property
    def uids(self) -> frozenset[str]:
        """The uids of the workloads."""
        return frozenset(item["metadata"]["uid"] for item in self.workloads)

    @property
    def target(self) -> Target:
        """The status of the task, pipeline or group, as far as its workloads show it."""
        uids = self.uids
        tasks = status.folded(ownership.decide(self.workloads, (), (), uids)).tasks
        return pipelines(tasks, uids)[0] if self.decision.together else tasks[0]

    def as_json(self) -> "models.SubmittedFields":
        """Return the result of a submit as JSON values."""
        decision = self.decision
        phrase = "was submitted before" if self.unchanged else "submitted successfully"
        result: models.SubmittedFields = {
            "status": "unchanged" if self.unchanged else "submitted",
            "message": f"{decision.word.capitalize()} {phrase} with ID: {self.id}",
        }
        if decision.together:
            ids = [plan.id for plan in decision.plans]
            return {"pipeline_id": self.id, **result, "task_ids": ids}
        return {"task_id": self.id, **result}


def remember(
    session: Session,
    submitted: Submitted,
    note: Callable[[str], object],
) -> None:
    """Record one object of each task; note a failure."""
    if session.is_for_caller:
        return
    folder = _folder()
    try:
        for task in tasks_of(submitted.target):
            uid = next(iter(task.uids.values()))
            if _UID.fullmatch(uid):
                folder.write(uid)
        folder.prune(_MAX_TASKS)
    except OSError as error:
        note(
            f"warning: {folder.path}: {error.strerror}; commands without TASK will not find"
            f" {submitted.id}"
        )


def uids() -> Collection[str]:
    """Return the uids of the objects that this machine submitted."""
    return frozenset(_folder().names())


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


def _folder() -> Folder:
    return Folder(settings.state_folder(), "submitted")
