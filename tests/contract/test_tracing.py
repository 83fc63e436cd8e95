"""Without its variables or its packages, nothing of OpenTelemetry is used; e2e has the spans."""

import subprocess
import sys

import pytest

from kubectl_sky.cluster import tracing

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
UNUSED = """
import sys
from kubectl_sky.cluster import tracing
tracing.start("x", {environ})
with tracing.span("work", "CLIENT", {{"a": "b"}}, [(b"traceparent", b"x")]) as span:
    span.answered(500, "/tasks")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_SERVICE_NAME": "x"},
        COLLECTOR | {"OTEL_SDK_DISABLED": "true"},
        COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_tracing_that_is_off_imports_nothing(environ: dict[str, str]) -> None:
    code = UNUSED.format(environ=environ)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tracing_without_packages_names_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    tracing.start("x", COLLECTOR)
    assert caplog.messages == ["no traces: run pip install 'kubectl-sky[otel]'"]
    assert tracing._tracers == []
