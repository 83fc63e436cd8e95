"""Spans for OpenTelemetry, of the server and the controllers.

They are exported if OpenTelemetry's environment variables name a collector and its packages are
installed; nothing of it is imported otherwise. Spans have methods, routes, paths and statuses: no
queries, headers, bodies, tokens or texts of errors.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from kubectl_sky import __version__

Kind = Literal["INTERNAL", "SERVER", "CLIENT"]
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_STATUS, _ERROR = "http.response.status_code", "error.type"
_SERVER_ERROR = 500

_log = logging.getLogger(__name__)


class Span:
    """A span, or nothing if none are exported."""

    def __init__(self, span: Any = None) -> None:  # noqa: ANN401 -- its types may be missing
        self._span = span

    def answered(self, status: int, route: str = "") -> None:
        """Note the status of an answer, and its route, which is known only now."""
        if self._span is None:
            return
        self._span.set_attribute(_STATUS, status)
        if route:
            self._span.set_attribute("http.route", route)
            self._span.update_name(f"{self._span.name} {route}")
        if status >= _SERVER_ERROR:
            self.failed(str(status))

    def failed(self, error: str) -> None:
        """Note the type of an error."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415

            self._span.set_attribute(_ERROR, error)
            self._span.set_status(StatusCode.ERROR)


_tracers: list[Any] = []  # the one of this process, after `start`


def start(service: str, environ: Mapping[str, str]) -> None:
    """Export the spans of this process from now on, if the environment names a collector."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if is_off or exporter != "otlp" or not any(map(environ.get, _ENDPOINTS)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        _log.warning("no traces: run pip install 'kubectl-sky[otel]'")
        return
    name = environ.get("OTEL_SERVICE_NAME", service)
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracers[:] = [provider.get_tracer("kubectl_sky", __version__)]


@contextmanager
def span(
    name: str,
    kind: Kind = "INTERNAL",
    attributes: Mapping[str, str] | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Iterator[Span]:
    """Trace what the block does; the headers of its request may have the span of its sender."""
    if not _tracers:
        yield Span()
        return
    from opentelemetry import propagate, trace  # noqa: PLC0415

    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    with _tracers[0].start_as_current_span(
        name,
        context=propagate.extract(carrier) if carrier else None,
        kind=trace.SpanKind[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        current = Span(started)
        try:
            yield current
        except Exception as error:
            current.failed(type(error).__name__)
            raise


def request_attributes(method: str, url: str) -> dict[str, str]:
    """Return the attributes of a request to the API server: no query, which has selectors."""
    parts = urlsplit(url)
    return {
        "http.request.method": method,
        "server.address": parts.hostname or "",
        "url.path": parts.path,
    }
