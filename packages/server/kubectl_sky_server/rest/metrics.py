"""Metrics for Prometheus, and whether the server is alive and ready."""

import threading
from time import monotonic

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubectl_sky.errors import SkyError
from kubectl_sky_server.rest.identity import Identities
from kubectl_sky_server.rest.limits import Streams

router = APIRouter(tags=["operation"])

_READY_SECONDS = 5.0  # an answer of the API server counts this long
PROBES = frozenset({"/healthz", "/metrics", "/readyz"})  # asked every few seconds
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class Metrics:
    """Counters of one application."""

    def __init__(self, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "path", "status")
        self.requests = Counter(
            "kubectl_sky_requests", "Requests by route.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "kubectl_sky_request_seconds",
            "Seconds until an answer begins.",
            ("method", "path"),
            registry=self.registry,
        )
        gauge = Gauge("kubectl_sky_open_streams", "Open streams.", registry=self.registry)
        gauge.set_function(lambda: streams.total)


class Measured:
    """Count each request; measure the time until its answer begins."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = monotonic()
        method = scope["method"] if scope["method"] in _METHODS else "other"

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The path of the route, as ids would make too many labels.
                path = getattr(scope.get("route"), "path", "other")
                self._metrics.requests.labels(method, path, str(message["status"])).inc()
                self._metrics.seconds.labels(method, path).observe(monotonic() - started_at)
            await send(message)

        await self._app(scope, receive, send_counted)


class Readiness:
    """Whether the API server is ready; asked every few seconds at most."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._lock = threading.Lock()
        self._until = 0.0
        self._error = ""

    def error(self) -> str:
        """Return why the server is not ready, or an empty text."""
        with self._lock:
            if monotonic() >= self._until:
                self._error = ""
                try:
                    self._identities.anonymous().check_ready()
                except SkyError as error:
                    self._error = error.what
                self._until = monotonic() + _READY_SECONDS
            return self._error


def install(app: FastAPI) -> None:
    app.state.metrics = Metrics(app.state.streams)
    app.state.readiness = Readiness(app.state.identities)
    app.include_router(router)
    app.add_middleware(Measured, metrics=app.state.metrics)


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Return metrics for Prometheus; no token is needed."""
    registry = request.app.state.metrics.registry
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Show that the server runs; no token is needed."""
    return "ok"


@router.get("/readyz", response_class=PlainTextResponse)
def readyz(request: Request) -> Response:
    """Show whether the API server is ready; no token is needed."""
    error = request.app.state.readiness.error()
    code = 503 if error else 200
    return PlainTextResponse(error or "ok", code)
