"""Tasks: submit, list, show and stop them."""

import base64
import binascii
import json
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, Field

from kubectl_sky import names
from kubectl_sky.actions import doctor, find, manifests, task_events, usage
from kubectl_sky.actions import stop as stopping
from kubectl_sky.actions import submit as submission
from kubectl_sky.actions.flags import Overrides
from kubectl_sky.actions.pending import explain_pending
from kubectl_sky.actions.ui import Collected
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.render.manifests import as_yaml
from kubectl_sky.server import models
from kubectl_sky.server.config import Config
from kubectl_sky.server.files import BODY, TaskText, source_of
from kubectl_sky.server.identity import AnyCaller, AnyScope, Caller
from kubectl_sky.server.problems import Rejected

router = APIRouter(tags=["tasks"])

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


@router.get("/tasks", response_model=models.TaskList)
def list_tasks(
    caller: AnyCaller,
    scope: AnyScope,
    limit: Annotated[int, Query(ge=1, le=1000, description="Tasks of a page.")] = 1000,
    cursor: Annotated[
        str | None, Query(max_length=500, description="`next` of the previous page.")
    ] = None,
) -> dict[str, object]:
    """List your tasks, newest first."""
    tasks = find.list_tasks(caller.session, scope)
    if cursor is not None:
        position = _position(cursor)
        tasks = [task for task in tasks if task.position() < position]
    page = tasks[:limit]
    more = len(tasks) > limit
    return {
        "tasks": [task.as_json() for task in page],
        "next": _cursor(page[-1]) if more else None,
    }


@router.post("/tasks/submit", response_model=models.Submitted, openapi_extra=BODY)
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
) -> dict[str, object]:
    """Submit a task, pipeline or group; returns when everything is sent.

    Local files are refused: use a git repository, a bucket or a volume.
    """
    if idempotency_key and options.id:
        raise Rejected(400, "id and the header Idempotency-Key exclude each other")
    task_id = _id_of_key(caller, idempotency_key) if idempotency_key else options.id
    work = partial(_submit, request.app.state.config, caller, text, options, task_id)
    return await to_thread.run_sync(work, limiter=request.app.state.submit_threads)


def _submit(
    config: Config, caller: Caller, text: bytes, options: SubmitOptions, task_id: str | None
) -> dict[str, object]:
    overrides = Overrides(task_id=task_id, queue=options.queue, backend=options.backend)
    session, ui = caller.session, Collected()
    submission.submit(
        submission.Options(
            source=source_of(text, config, overrides),
            # A file must not choose a context of the server's kubeconfig.
            connection=Connection(context=session.context or session.server, anonymous=True),
            user=caller.user.name,
            dry_run=options.dry_run,
            follow=False,
        ),
        ui,
        lambda connection: session,
    )
    if ui.manifests:
        message = f"Dry run ({options.dry_run}): nothing was submitted"
        result: dict[str, object] = {"task_id": task_id or "", "status": "dry-run"}
        return result | {"message": message, "manifests": as_yaml(ui.manifests.all)} | ui.as_json()
    assert ui.result
    return {"task_id": ui.result.id} | ui.result.as_json() | ui.as_json()


def _id_of_key(caller: Caller, key: str) -> str:
    """Return the id of the task with an idempotency key, different for each user."""
    parts = (caller.user.name, caller.session.namespace, key)
    return names.part_id(json.dumps(parts), 0)


@router.post("/tasks/stop", response_model=models.StoppedAll, response_model_exclude_none=True)
def stop_all(caller: AnyCaller, scope: AnyScope) -> dict[str, object]:
    """Stop all your tasks and delete their objects, logs included."""
    tasks = find.list_tasks(caller.session, scope)
    warnings = _stop(caller, tasks)
    message = f"Stopped {len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    ids = [task.id for task in tasks]
    return {"count": len(tasks), "message": message, "task_ids": ids, "warnings": warnings}


def _stop(caller: Caller, tasks: list[TaskStatus]) -> list[str] | None:
    """Stop tasks and return warnings about objects that may remain."""
    return list(map(stopping.secret_warning, stopping.stop(caller.session, tasks))) or None


@router.get("/tasks/{task_id}", response_model=models.TaskStatus | models.PipelineStatus)
def show(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Show a task and its nodes, or a pipeline or group with its tasks."""
    target = find.get(caller.session, scope, task_id)
    if isinstance(target, TaskStatus):
        target = explain_pending(caller.session, target)
    return target.as_json()


@router.post(
    "/tasks/{task_id}/stop", response_model=models.Stopped, response_model_exclude_none=True
)
def stop(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Stop a task, pipeline or group and delete its objects, logs included."""
    warnings = _stop(caller, find.get_tasks(caller.session, scope, [task_id]))
    message = f"Task {task_id} stopped successfully"
    return {"task_id": task_id, "message": message, "warnings": warnings}


@router.get("/tasks/{task_id}/doctor", response_model=models.Verdict)
def diagnose(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Explain why a task does not start or has failed, and how to fix it."""
    task = find.get_task(caller.session, scope, task_id)
    return doctor.diagnose(caller.session, task).as_json()


@router.get("/tasks/{task_id}/manifests", response_model=models.Manifests)
def show_manifests(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Return the objects of a task as the cluster has them; secret values are redacted."""
    task = find.get_task(caller.session, scope, task_id)
    return {"manifests": manifests.as_yaml(caller.session, task)}


@router.get("/tasks/{task_id}/usage", response_model=models.Usage)
def show_usage(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Show what the nodes of a task use, if the cluster measures it."""
    task = find.get_task(caller.session, scope, task_id)
    samples = usage.top(caller.session, task)
    return {"task_id": task.id, "nodes": [sample.as_json() for sample in samples]}


@router.get("/tasks/{task_id}/cluster-events", response_model=models.ClusterEvents)
def show_events(caller: AnyCaller, scope: AnyScope, task_id: TaskId) -> dict[str, object]:
    """Show the Kubernetes events of a task's objects, newest first."""
    task = find.get_task(caller.session, scope, task_id)
    return {"events": task_events.list_events(caller.session, task)}


def _cursor(task: TaskStatus) -> str:
    return base64.urlsafe_b64encode(json.dumps(task.position()).encode()).decode()


def _position(cursor: str) -> tuple[str, str, str]:
    try:
        created_at, task_id, namespace = json.loads(base64.b64decode(cursor, b"-_", validate=True))
        return str(created_at), str(task_id), str(namespace)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise Rejected(400, "cursor: not a cursor of this server") from None
