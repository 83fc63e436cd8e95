"""The tasks that a submit sent, and the last one of this machine: what no TASK means."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Problem
from kubectl_sky.observe import status
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.spec.dangers import RiskyField
from kubectl_sky.tasks import evidence
from kubectl_sky.tasks.find import Choose, Reference, Target, tasks_of
from kubectl_sky.words import settings
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.facts import Place
from kubectl_sky.words.private import Folder
from kubectl_sky.workloads import registry

if TYPE_CHECKING:
    from kubectl_sky.workloads.decide import Decision

_FILE = "last-task"


class Submission(Document, frozen=True, kw_only=True):
    """A submit: `submit`, `POST /tasks/submit`."""

    file: Annotated[str, Note("of several files: its path")] = ""
    task_id: Annotated[
        str | UnsetType, Note("of a single task; of REST, also the id of a pipeline")
    ] = UNSET
    pipeline_id: Annotated[str | UnsetType | None, Note("of a pipeline or group")] = UNSET
    status: Annotated[str, Note("`submitted`, `unchanged` or, of REST, `dry-run`")]
    message: str
    task_ids: Annotated[list[str] | UnsetType | None, Note("of a pipeline or group")] = UNSET
    notes: list[str]
    warnings: list[Problem]
    dangers: list[RiskyField]
    manifests: Annotated[str | UnsetType | None, Note("of a dry run of REST: YAML")] = UNSET


class SubmissionList(Document, frozen=True, kw_only=True):
    """A submit of several files: `submit FILE FILE`."""

    submitted: Annotated[list[Submission], Note("each with the warnings and dangers of its file")]
    notes: Annotated[list[str], Note("of all files")]


class Submitted(Struct, frozen=True):
    """Tasks in the cluster: the decision, and the workloads as the API server returned them.

    `unchanged` is whether an earlier submit had sent everything. `file` is the path of the file.
    """

    decision: "Decision"
    workloads: tuple[Json, ...]
    unchanged: bool = False
    file: str = ""
    place: Place = Place("", "", "")

    @property
    def id(self) -> str:
        return self.decision.id

    @property
    def target(self) -> Target:
        """The status of the task, pipeline or group, as far as its workloads show it."""
        tasks = status.tasks(map(registry.read, self.workloads), ())
        return pipelines(tasks)[0] if self.decision.together else tasks[0]

    def document(self, report: Mapping[str, Any], file: str = "") -> Submission:
        """Return the result of a submit for programs, with what was reported of its file."""
        decision = self.decision
        outcome = "unchanged" if self.unchanged else "submitted"
        phrase = "was submitted before" if self.unchanged else "submitted successfully"

        task_id = UNSET if decision.together else self.id
        pipeline_id = self.id if decision.together else UNSET
        task_ids = [plan.id for plan in decision.plans] if decision.together else UNSET

        return Submission(
            file=file,
            task_id=task_id,
            pipeline_id=pipeline_id,
            status=outcome,
            message=f"{decision.word.capitalize()} {phrase} with ID: {self.id}",
            task_ids=task_ids,
            **report,
        )


def remember(session: Session, submitted: Submitted, note: Callable[[str], object]) -> None:
    """Record the id of the last task, and where volumes keep its logs; note a failure."""
    if session.is_for_caller:
        return
    for task in tasks_of(submitted.target):
        if task.logs:  # the cluster forgets where when the task is deleted
            evidence.write(session, task)
    folder = Folder(settings.state_folder())
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
        last_id = Folder(settings.state_folder()).read(_FILE).decode(errors="replace")
    except OSError:
        last_id = ""
    return next((match for match in matches if match.id == last_id), matches[0])


def newest(note: Callable[[str], object]) -> Choose:
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
