"""Answers for errors: `{"detail": …}`, with a hint and the problems of files."""

import logging
import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from kubectl_sky.errors import (
    MAX_LISTED,
    ClusterError,
    Conflict,
    Forbidden,
    InUse,
    Invalid,
    InvalidFiles,
    KubeletUnreachable,
    NameTaken,
    NotFound,
    NotServed,
    Problem,
    Refused,
    SkyError,
    TaskFailed,
    Unauthorized,
    UnknownName,
    Unreachable,
    UserError,
)
from kubectl_sky.words.documents import Note, Part
from kubectl_sky_server.rest import documents

LOG = logging.getLogger("kubectl_sky_server.rest")

_RETRY_SECONDS = "1"

# The first class that an error has decides.
_STATUS: Mapping[type[SkyError], int] = {
    UnknownName: 404,
    NameTaken: 409,
    InUse: 409,
    UserError: 400,
    Invalid: 400,
    Unauthorized: 401,
    Forbidden: 403,
    Refused: 403,
    NotFound: 404,
    NotServed: 404,
    Conflict: 409,
    Unreachable: 503,
    KubeletUnreachable: 503,
    ClusterError: 502,
    TaskFailed: 409,
    SkyError: 500,
}


class Rejected(SkyError):
    """The server rejects a request before it is handled, with its own status."""

    def __init__(self, status: int, what: str, hint: str = "", retry_after: int = 0) -> None:
        super().__init__(what, hint)
        self.status = status
        self.retry_after = retry_after


def status_of(error: SkyError) -> int:
    if isinstance(error, Rejected):
        return error.status
    return next(status for kind, status in _STATUS.items() if isinstance(error, kind))


class Error(Part, frozen=True):
    """An error: what is wrong, and what to do next."""

    detail: str
    hint: str = ""
    problems: tuple[Problem, ...] | UnsetType = UNSET
    status: Annotated[int | UnsetType, Note("in the event that ends a stream")] = UNSET


def body_of(error: SkyError) -> Error:
    problems = error.problems[:MAX_LISTED] if isinstance(error, InvalidFiles) else UNSET
    return Error(translate(error.what), translate(error.hint), problems)


# Commands that errors name, and the requests that do the same.
_REQUESTS = (
    (re.compile(r"kubectl sky logs (\S+) --rank (\d+)"), r"GET /tasks/\1/logs?rank=\2"),
    (re.compile(r"kubectl sky logs ([a-z0-9][-a-z0-9]*)"), r"GET /tasks/\1/logs"),
    (re.compile(r"kubectl sky (?:status|doctor) ([a-z0-9][-a-z0-9]*)"), r"GET /tasks/\1"),
    (re.compile(r"kubectl sky stop ([a-z0-9][-a-z0-9]*)"), r"POST /tasks/\1/stop"),
    (re.compile(r"kubectl sky users show[^`\"]*"), "GET /quotas"),
    (re.compile(r"kubectl sky (gpus|queues|volumes)(?: list)?(?! ?[-\w])"), r"GET /\1"),
    (re.compile(r"kubectl sky list(?![-\w])"), "GET /tasks"),
    (re.compile(r"kubectl sky serve status(?! [-a-z0-9])"), "GET /services"),
)
_COMMAND = re.compile(r"(`[^`]*`|\bkubectl [^;\n]*)")
_FLAG = re.compile(r"(?<![-\w])--([a-z]+)(-[a-z]+)*")


def translate(text: str) -> str:
    """Say a message of the commands in words of REST: requests, and parameters without dashes.

    Other commands stay as they are.
    """
    for command, request in _REQUESTS:
        text = command.sub(request, text)
    parts = _COMMAND.split(text)
    parts[::2] = [
        _FLAG.sub(lambda flag: flag[0][2:].replace("-", "_"), part) for part in parts[::2]
    ]
    return "".join(parts)


def answer(error: SkyError) -> Response:
    status = status_of(error)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        retry_after = error.retry_after if isinstance(error, Rejected) else 0
        headers["Retry-After"] = str(retry_after or _RETRY_SECONDS)
    return documents.encode(body_of(error), status, headers)


def install(app: FastAPI) -> None:
    """Let the application answer its errors as JSON."""

    @app.exception_handler(SkyError)
    def _sky_error(request: Request, error: SkyError) -> Response:
        return answer(error)

    @app.exception_handler(HTTPException)
    def _http_error(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = _methods(request)
        return JSONResponse({"detail": error.detail}, error.status_code, headers)

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return JSONResponse({"detail": f"{where or 'body'}: {first['msg']}"}, 400)


def _methods(request: Request) -> str:
    """Return all methods of a path: routes know only their own."""
    path = request.url.path
    paths = request.app.openapi()["paths"]
    names = [name for name in paths if re.fullmatch(re.sub(r"{\w+}", "[^/]+", name), path)]
    operations = paths[path if path in paths else names[0]] if names else {}
    return ", ".join(sorted(operations)).upper()


def conceal_bug(error: Exception) -> SkyError:
    """Return what users may see of an error: of a bug, only that there is one.

    Neither the answer nor the log quotes the error of a bug: its text may have a secret.
    """
    if isinstance(error, SkyError):
        return error
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    position = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    LOG.error("internal error: %s at %s", type(error).__name__, position)
    return SkyError("internal error", "see the server's log")
