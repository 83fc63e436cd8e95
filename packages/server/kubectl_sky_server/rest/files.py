"""Task files in requests: read them, check them, render them."""

import io
import json
import re
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from msgspec import Struct

from kubectl_sky.actions.documents import REQUEST
from kubectl_sky.errors import Problem
from kubectl_sky.render.manifests import as_yaml
from kubectl_sky.spec.dangers import RiskyField
from kubectl_sky.submitting import render as rendering
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.taskfile import Source
from kubectl_sky.submitting.validate import Validation, check
from kubectl_sky.tasks.ui import Collected
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.documents import DocumentRoute
from kubectl_sky_server.rest.identity import AnyCaller, Caller
from kubectl_sky_server.rest.problems import Rejected, translate

router = APIRouter(tags=["files"], route_class=DocumentRoute)

_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
# What YAML does not allow as it is, or reads as a line break.
_UNPRINTABLE = re.compile(
    r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


_TASK = {
    "name": "train",
    "num_nodes": 2,
    "resources": {"cpus": "1", "memory": "1Gi", "image_id": "python:3.13-slim"},
    "envs": {"EPOCHS": "3"},
    "run": "echo node $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES",
}
_HELLO = {"name": "hello", "run": "echo hello"}
_SERVICE = {
    "name": "web",
    "resources": {"ports": 8080},
    "service": {"readiness_probe": "/"},
    "run": "python3 -m http.server 8080",
}


def body_of(
    schema: object, json_example: object = _TASK, yaml_example: object = _HELLO
) -> dict[str, object]:
    """Return the request body of an operation, a task file, for the OpenAPI, with examples."""
    body = {
        "required": True,
        "description": "The fields of a task as JSON, or a task file as YAML: a task, a pipeline or"
        " a group.",
        "content": {
            "application/json": {"schema": schema, "example": json_example},
            "application/yaml": {"schema": schema, "example": yaml_example},
        },
    }
    return {"requestBody": body}


BODY = body_of({"type": "object", "minProperties": 1})
SERVICE_BODY = body_of({"type": "object", "minProperties": 1}, _SERVICE, _SERVICE)


async def _raw_body(request: Request) -> bytes:
    return await request.body()


def _task_text(request: Request, body: Annotated[bytes, Depends(_raw_body)]) -> bytes:
    """Return the body as YAML. Raises Rejected if it is neither JSON nor YAML."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type in _YAML:
        return body
    if media_type != "application/json":
        hint = "send the header: Content-Type: application/yaml (or application/json)"
        raise Rejected(415, "the body must be YAML or JSON", hint)
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise Rejected(400, f"the body is not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise Rejected(400, "the body must be a JSON object with the fields of a task")
    # JSON with other escapes is YAML, so that the same reader checks it.
    text = json.dumps(value, ensure_ascii=False)  # with indents, depth would multiply the size
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


TaskText = Annotated[bytes, Depends(_task_text)]


def source_of(text: bytes, config: Config, overrides: Overrides | None = None) -> Source:
    """Return the source of a caller's task: it reads no file and no variable of the server."""
    return Source(
        REQUEST,
        overrides or Overrides(),
        config.task_environ,
        io.BytesIO(text),
        local_files=False,
        max_nodes=config.limits.nodes,
        max_bytes=config.limits.manifest_bytes,
    )


class Rendered(Struct, frozen=True):
    """Manifests as a YAML stream."""

    notes: list[str]
    warnings: list[Problem]
    dangers: list[RiskyField]
    manifests: str


@router.post("/render", openapi_extra=BODY)
async def render(
    request: Request,
    caller: AnyCaller,
    text: TaskText,
    id: Annotated[str | None, Query(max_length=100, description="Task id.")] = None,  # noqa: A002
) -> Rendered:
    """Return the manifests that submit would send; secret values are redacted."""
    work = partial(_render, request.app.state.config, caller, text, id)
    return await to_thread.run_sync(work, limiter=request.app.state.submit_threads)


def _render(config: Config, caller: Caller, text: bytes, task_id: str | None) -> Rendered:
    ui = Collected()
    source = source_of(text, config, Overrides(task_id=task_id))
    facts = rendering.offline_facts(caller.user.name, caller.session.namespace, config.task_environ)
    manifests = rendering.render_files([source], facts, ui)
    return Rendered(**report_of(ui), manifests=as_yaml(manifests.all))


@router.post("/validate", openapi_extra=body_of({"type": "object"}))
def validate(request: Request, caller: AnyCaller, text: TaskText) -> Validation:
    """Report every problem of a task file, and the fields that reach beyond the task."""
    config: Config = request.app.state.config
    reports = check([REQUEST], io.BytesIO(text), config.task_environ, local_files="refuse")
    problems = [problem for report in reports for problem in report.problems]
    return Validation(
        valid=not any(problem.severity == "error" for problem in problems),
        problems=problems,
        dangers=[item.report for report in reports for item in report.review.dangers],
    )


def report_of(ui: Collected) -> dict[str, Any]:
    """Return the fields of documents about a file, with notes in words of REST."""
    return ui.report | {"notes": [translate(note) for note in ui.notes_]}
