"""Tasks: submit, list, show and stop them."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from msgspec import UNSET, Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, Field

from kubectl_sky.errors import NameTaken
from kubectl_sky.observe.documents import Pipeline, Task, TaskList
from kubectl_sky.observe.findings import Diagnosis
from kubectl_sky.observe.goodput import Goodput
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.timeline import Timeline
from kubectl_sky.render.manifests import as_yaml
from kubectl_sky.submitting import submit as submission
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.tasks import (
    deletion,
    describe,
    doctor,
    find,
    goodput,
    history,
    multikueue,
    paging,
    pipeline,
    timeline,
)
from kubectl_sky.tasks import stop as stopping
from kubectl_sky.tasks.pending import explain_target
from kubectl_sky.tasks.stop import Stopped
from kubectl_sky.tasks.submissions import Submission
from kubectl_sky.tasks.ui import Collected
from kubectl_sky.words import names
from kubectl_sky.words.documents import Note, Part
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.documents import DocumentRoute, deleting, encode
from kubectl_sky_server.rest.files import BODY, TaskText, report_of, source_of
from kubectl_sky_server.rest.identity import AnyCaller, AnyScope, Caller, Scopes
from kubectl_sky_server.rest.lists import LiveLists
from kubectl_sky_server.rest.problems import Rejected

router = APIRouter(tags=["tasks"], route_class=DocumentRoute)

_CURSOR = "^[0-9TZ:.+-]{1,40},[A-Za-z0-9._-]{1,63},[a-z0-9-]{1,63}$"  # a position in the list

TaskId = Annotated[
    str,
    Path(pattern=f"^{names.ID.pattern}$", description="Id of a task, pipeline or group."),
]


class SubmitOptions(BaseModel):
    """Where and how a task is submitted."""

    id: str | None = Field(
        None, max_length=100, description="Task id; submitting the same task again is a no-op."
    )
    dry_run: submission.DryRun = Field(
        "none", description="client: render only; server: let the cluster check it."
    )
    queue: str | None = Field(None, max_length=253, description="Queue of Kueue or Volcano.")
    backend: str | None = Field(None, max_length=40, description="Backend, or auto.")


@router.get("/tasks")
def list_tasks(
    request: Request,
    caller: AnyCaller,
    scopes: Scopes,
    limit: Annotated[int, Query(ge=1, le=1000, description="Tasks of a page.")] = 1000,
    cursor: Annotated[
        str | None, Query(pattern=_CURSOR, description="`next` of the previous page.")
    ] = None,
    deleted: Annotated[
        bool, Query(description="Finished tasks whose objects were deleted, as far as known.")
    ] = False,
) -> TaskList:
    """List your tasks, newest first.

    A page is a number of tasks, whatever objects run them. Tasks that are submitted or deleted
    between two pages are neither repeated nor missed.
    """
    if deleted:
        past = [history.read(caller.session, scope) for scope in scopes]
        tasks = {task.position(): task for part in past for task in part.tasks}
        chosen, last = paging.cut(tasks, limit, _position(cursor))
        documents = [tasks[position].document for position in chosen]
        notes = [note for part in past for note in part.notes] or UNSET
        return TaskList(tasks=documents, pipelines=[], next=last and ",".join(last), notes=notes)

    lists: LiveLists = request.app.state.lists
    live = lists.find(caller, scopes[0]) if len(scopes) == 1 else None
    if live:
        return live.page(caller, limit, _position(cursor))

    page = paging.read_several(caller.session, scopes, limit, _position(cursor))
    return TaskList(
        tasks=[task.document for task in page.tasks],
        pipelines=[pipeline.document for pipeline in page.pipelines],
        next=page.last and ",".join(page.last),
    )


@router.post("/tasks/submit", openapi_extra=BODY)
async def submit(
    request: Request,
    caller: AnyCaller,
    text: TaskText,
    options: Annotated[SubmitOptions, Query()],
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=255,
            description="The same key of the same user always submits the same task.",
        ),
    ] = None,
) -> Submission:
    """Submit a task, pipeline or group; returns when everything is sent.

    Local files are refused: use a git repository, a bucket or a volume.
    """
    if idempotency_key and options.id:
        raise Rejected(400, "id and the header Idempotency-Key exclude each other")
    config: Config = request.app.state.config
    key = idempotency_key
    task_id = options.id
    if key:
        text_of_key = json.dumps([caller.user.name, caller.session.namespace, key])
        task_id = names.part_id(text_of_key, 0)
    work = partial(_submit, config, caller, text, options, task_id)
    try:
        submitted = await to_thread.run_sync(work, limiter=request.app.state.submit_threads)
    except NameTaken as error:
        if key:
            raise NameTaken(error.what, "use another Idempotency-Key for another task") from None
        raise
    request.state.task = submitted.task_id
    return submitted


def _submit(
    config: Config, caller: Caller, text: bytes, options: SubmitOptions, task_id: str | None
) -> Submission:
    overrides = Overrides(task_id=task_id, queue=options.queue, backend=options.backend)
    session = caller.session
    ui = Collected()
    submission.submit(
        submission.Options(
            source=source_of(text, config, overrides),
            connection=caller.connection,
            user=caller.user.name,
            dry_run=options.dry_run,
            follow=False,
        ),
        ui,
        lambda connection: session,
    )
    # REST has all fields, also those that are not known.
    manifests = as_yaml(ui.manifests.all) if ui.manifests else None
    if not ui.result:
        return Submission(
            task_id=task_id or "",
            pipeline_id=None,
            task_ids=None,
            status="dry-run",
            message=f"Dry run ({options.dry_run}): nothing was submitted",
            **report_of(ui),
            manifests=manifests,
        )
    submitted = replace(
        ui.result.document(report_of(ui)), task_id=ui.result.id, manifests=manifests
    )
    if submitted.pipeline_id is not UNSET:
        return submitted
    return replace(submitted, pipeline_id=None, task_ids=None)


@router.post("/tasks/stop", responses=deleting(Stopped))
def stop_all(caller: AnyCaller, scope: AnyScope) -> Stopped | Response:
    """Stop all your tasks and delete their objects, logs included."""
    return _answer(_stop(caller, find.list_tasks(caller.session, scope)))


def _stop(caller: Caller, tasks: Sequence[TaskStatus]) -> Stopped:
    """Stop tasks, and wait some seconds until they are gone."""
    warnings = stopping.stop(caller.session, tasks)
    remaining = multikueue.wait_until_gone(caller.session, tasks, deletion.REQUEST_SECONDS)
    return stopping.describe_stopped(tasks, remaining, warnings)


def _answer(document: "Stopped | TaskStopped") -> Response:
    code = 202 if document.remaining else 200
    return encode(document, code)


@router.get("/tasks/{task_id}")
def show(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> Task | Pipeline:
    """Show a task and its nodes, or a pipeline or group with its tasks."""
    target = find.get(caller.session, scope, task_id)
    return explain_target(caller.session, target).document


class TaskStopped(Part, frozen=True):
    """A stopped task or pipeline."""

    task_id: str
    status: Annotated[str, Note("`stopped`, or `deleting` while pods or Jobs exist")]
    message: str
    remaining: Annotated[list[str], Note("what still exists, and what keeps it")] = field(
        default_factory=list
    )
    warnings: Annotated[list[str], Note("objects that may remain")] = field(default_factory=list)


@router.post("/tasks/{task_id}/stop", responses=deleting(TaskStopped))
def stop(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> TaskStopped | Response:
    """Stop a task, pipeline or group and delete its objects, logs included."""
    stopped = _stop(caller, find.get_tasks(caller.session, scope, [task_id]))
    message = f"Task {task_id} stopped successfully"
    if stopped.remaining:
        message = f"Task {task_id} is being deleted: {'; '.join(stopped.remaining)}"
    return _answer(
        TaskStopped(task_id, stopped.status, message, stopped.remaining, stopped.warnings)
    )


class TaskResumed(Struct, frozen=True):
    """A stage of a pipeline that was suspended."""

    task_id: str
    status: Annotated[str, Note("`resumed`")]
    message: str


@router.post("/tasks/{task_id}/resume")
def resume(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> TaskResumed:
    """Resume the next stage of a pipeline, as the tasks controller does: once, when it is due."""
    target = find.get(caller.session, scope, task_id)
    stage = None if isinstance(target, TaskStatus) else target.to_resume
    if stage is None:
        raise Rejected(409, f"no stage of {task_id} is ready to resume")
    pipeline.resume(caller.session, stage)
    message = f"Stage {stage.name} ({stage.id}) resumed"
    return TaskResumed(stage.id, "resumed", message)


@router.get("/tasks/{task_id}/doctor")
def diagnose(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> Diagnosis:
    """Explain why a task does not start or has failed, and how to fix it."""
    task = find.get_task(caller.session, scope, task_id)
    return doctor.diagnose(caller.session, task).document


class Manifests(Struct, frozen=True):
    """The objects of a task as the cluster has them; secret values are redacted."""

    manifests: str


@router.get("/tasks/{task_id}/manifests")
def show_manifests(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> Manifests:
    """Return the objects of a task as the cluster has them; secret values are redacted."""
    task = find.get_task(caller.session, scope, task_id)
    return Manifests(describe.as_yaml(caller.session, task))


class TaskFile(Struct, frozen=True):
    """The YAML that a task was submitted with; null if it is too long to be kept."""

    file: str | None


@router.get("/tasks/{task_id}/file")
def show_file(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> TaskFile:
    """Return the YAML that a task, pipeline or group was submitted with, without secret values."""
    target = find.get(caller.session, scope, task_id)
    return TaskFile(describe.task_file(caller.session, target))


@router.get("/tasks/{task_id}/timeline")
def show_timeline(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> Timeline:
    """Show when each node of a task or pipeline was queued, scheduled, started and run."""
    target = find.get(caller.session, scope, task_id)
    return timeline.read(caller.session, find.tasks_of(target))


@router.get("/tasks/{task_id}/goodput")
def show_goodput(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> Goodput:
    """Show what the time of a task or pipeline went into, by the logs of each first node.

    The task's `step_regex` is not used here.
    """
    target = find.get(caller.session, scope, task_id)
    return goodput.read_first_node(caller.session, find.tasks_of(target))


class ClusterEvents(Struct, frozen=True):
    """Kubernetes events, newest first: those of a task's objects, or of a namespace."""

    events: list[describe.ClusterEvent]


@router.get("/tasks/{task_id}/cluster-events")
def show_events(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> ClusterEvents:
    """Show the Kubernetes events of a task's objects, newest first."""
    task = find.get_task(caller.session, scope, task_id)
    return ClusterEvents(describe.list_events(caller.session, task))


def _position(cursor: str | None) -> paging.Position | None:
    if cursor is None:
        return None
    created_at, task_id, namespace = cursor.split(",")
    return created_at, task_id, namespace
