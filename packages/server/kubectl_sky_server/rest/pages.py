"""The dashboard: its files, and how browsers log in and out."""

import os
import re
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from kubectl_sky_server.rest.admission import Admission
from kubectl_sky_server.rest.identity import SESSION_HEADER, Identities

STATIC = Path(__file__).parent / "static"  # built from web/ by `make web`

# Everything is a file of this server: no inline script or style, no other site.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_HASHED_NAME = re.compile(r"-[0-9A-Z]{8}\.(js|css)$")
_FOR_EVER = "public, max-age=31536000, immutable"

router = APIRouter(tags=["browser"])


class Credentials(BaseModel):
    """A bearer token of the cluster, or the code of a one-time link."""

    token: str = Field("", max_length=16384)
    code: str = Field("", max_length=100)


class LoggedIn(BaseModel):
    """The session of a browser: it sends the id as the header X-Kubectl-Sky-Session."""

    session: str


@router.post("/login", response_model=LoggedIn)
async def login(request: Request, credentials: Credentials) -> LoggedIn:
    """Start the session of a browser, which stands for the token for at most twelve hours."""
    identities: Identities = request.app.state.identities
    admission: Admission = request.app.state.admission
    credential = identities.find_login(request, credentials.token.strip(), credentials.code)
    request.state.caller = await admission.admit(request, credential)
    return LoggedIn(session=identities.open_session(request, credential))


@router.post("/logout", status_code=204)
async def logout(request: Request) -> None:
    """End the session of a browser, with its streams."""
    identities: Identities = request.app.state.identities
    identities.log_out(request)
    request.app.state.streams.end(request.headers.get(SESSION_HEADER, ""))


@router.get("/ui", include_in_schema=False)
def without_slash() -> Response:
    """Send a browser to the pages, whose links are relative."""
    return RedirectResponse("/ui/", 308)


class Pages(StaticFiles):
    """The files of the dashboard; names with a hash are cached for ever."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC, html=True)

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        hashed = _HASHED_NAME.search(os.fspath(full_path))
        response.headers["Cache-Control"] = _FOR_EVER if hashed else "no-cache"
        response.headers["Content-Security-Policy"] = _POLICY
        return response
