"""The application: routers, errors and limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from msgspec import Struct
from starlette.staticfiles import StaticFiles

from kubectl_sky import __version__
from kubectl_sky.words import assets
from kubectl_sky_server.rest import (
    cluster,
    documents,
    files,
    gpus,
    metrics,
    pages,
    problems,
    proxy,
    quotas,
    services,
    streams,
    tasks,
    volumes,
)
from kubectl_sky_server.rest.admission import Admission
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.guard import Guard
from kubectl_sky_server.rest.identity import Identities
from kubectl_sky_server.rest.limits import Rates, Streams
from kubectl_sky_server.rest.lists import LiveLists
from kubectl_sky_server.rest.memory import Memory
from kubectl_sky_server.rest.transfer import Transfer

_ROUTERS = (
    streams,
    tasks,
    volumes,
    files,
    cluster,
    gpus,
    services,
    quotas,
    pages,
)
_ONLY_POST = ("/tasks/submit", "/tasks/stop", "/volumes/create")
_OTHERS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"]
_ERRORS = (400, 401, 403, 404, 409, 413, 415, 421, 429, 500, 502, 503)


def create_app(config: Config) -> FastAPI:
    app = FastAPI(
        title="kubectl-sky",
        version=__version__,
        summary="Run SkyPilot task files on Kubernetes, as the caller.",
        lifespan=_lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: "_".join([*map(str, route.tags), route.name]),
        responses={status: documents.describe(problems.Error) for status in _ERRORS},
    )

    app.state.config = config
    app.state.identities = Identities(config)
    app.state.admission = Admission(config, app.state.identities)
    app.state.rates = Rates(config.limits.requests_per_second)
    app.state.submit_threads = CapacityLimiter(config.limits.submits)
    app.state.proxy_threads = CapacityLimiter(proxy.MAX_THREADS)
    app.state.streams = Streams(config.limits.streams)
    app.state.review_threads = CapacityLimiter(config.limits.reviews)
    app.state.lists = LiveLists(Memory.of_process())

    problems.install(app)
    app.add_api_route("/", _root, responses={200: documents.describe(Health)}, name="root")
    for path in _ONLY_POST:  # else the last word would be an invalid id
        app.add_api_route(path, _post_only, methods=_OTHERS, include_in_schema=False)
    for module in _ROUTERS:
        app.include_router(module.router)

    app.mount("/schemas", StaticFiles(directory=assets.folder("schemas")))
    app.mount("/ui", pages.Pages())
    app.include_router(proxy.router)
    app.add_middleware(Transfer)
    identities = app.state.identities
    app.add_middleware(Guard, config=config, identities=identities, admission=app.state.admission)
    metrics.install(app)
    app.openapi = partial(_openapi, app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, object]:
    """Return the OpenAPI; invalid parameters are answered with 400, not with 422."""
    if not app.openapi_schema:
        schema = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes
        )

        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["security"] = [{"token": []}]
        for path in ("/", "/login", *metrics.PROBES):
            for operation in schema["paths"][path].values():
                operation["security"] = []
                operation["responses"].pop("401", None) if path != "/login" else None
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)

        routes = [route for module in _ROUTERS for route in module.router.routes]
        schema["components"]["schemas"] |= documents.components(routes, problems.Error, Health)
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = schema
    return app.openapi_schema


class Health(Struct, frozen=True):
    """The answer of `GET /`."""

    status: str
    service: str


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Set how many requests are handled at the same time."""
    current_default_thread_limiter().total_tokens = app.state.config.limits.workers
    yield


def _post_only() -> None:
    raise HTTPException(405)


def _root(request: Request) -> Response:
    """Show that the server runs; a browser is sent to the dashboard."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/ui/", 303)
    return documents.encode(Health("ok", "k8s-cli-api"))
