"""The tasks that a submit sent, and the last one of this machine: what no TASK means."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.observe import status
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.tasks.find import Choose, Reference, Target
from kubectl_sky.words import settings
from kubectl_sky.words.private import Folder

if TYPE_CHECKING:
    from kubectl_sky.words import models
    from kubectl_sky.workloads.decide import Decision

_FILE = "last-task"


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
        return self.decision.id

    @property
    def target(self) -> Target:
        """The status of the task, pipeline or group, as far as its workloads show it."""
        tasks = status.tasks(self.workloads, ())
        return pipelines(tasks)[0] if self.decision.together else tasks[0]

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


def remember(session: Session, submitted: Submitted, note: Callable[[str], object]) -> None:
    """Record the id of the last task; note a failure."""
    if session.is_for_caller:
        return
    folder = _folder()
    try:
        folder.write(_FILE, submitted.id.encode())
    except OSError as error:
        note(
            f"warning: {folder.path}: {error.strerror}; commands without TASK will not find"
            f" {submitted.id}"
        )


def last(matches: Sequence[Target]) -> Target:
    """Return the task that this machine submitted last, or the newest one if it is none of them."""
    try:
        last_id = _folder().read(_FILE).decode(errors="replace")
    except OSError:
        last_id = ""
    return next((match for match in matches if match.id == last_id), matches[0])


def newest(note: Callable[[str], object]) -> Choose:
    """Return a choice of the newest of several tasks, which it notes."""

    def choose(text: Reference, matches: Sequence[Target]) -> Sequence[Target]:
        if text is None:
            target = last(matches)
            note(f"last task: {target.id} ({target.name})")
            return [target]
        target = matches[0]
        if len(matches) > 1:
            note(f"{text}: newest of {len(matches)} ({target.id})")
        return [target]

    return choose


def _folder() -> Folder:
    return Folder(settings.state_folder())
