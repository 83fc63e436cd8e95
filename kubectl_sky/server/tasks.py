"""Tasks: submit, list, show and stop them."""

import base64
import binascii
import json
from typing import Annotated

from fastapi import APIRouter, Query

from kubectl_sky.actions import find
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.server import models
from kubectl_sky.server.identity import AnyCaller, AnyScope
from kubectl_sky.server.problems import Rejected

router = APIRouter(tags=["tasks"])


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
        tasks = [task for task in tasks if _key(task) < position]
    page = tasks[:limit]
    more = len(tasks) > limit
    return {
        "tasks": [task.as_json() for task in page],
        "next": _cursor(page[-1]) if more else None,
    }


def _key(task: TaskStatus) -> tuple[str, str, str]:
    return task.created_at, task.id, task.namespace


def _cursor(task: TaskStatus) -> str:
    return base64.urlsafe_b64encode(json.dumps(_key(task)).encode()).decode()


def _position(cursor: str) -> tuple[str, str, str]:
    try:
        created_at, task_id, namespace = json.loads(base64.b64decode(cursor, b"-_", validate=True))
        return str(created_at), str(task_id), str(namespace)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise Rejected(400, "cursor: not a cursor of this server") from None
