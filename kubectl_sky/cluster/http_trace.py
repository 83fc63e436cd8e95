"""Trace HTTP requests for `-v=6` to `-v=9`, without credentials and Secrets."""

import json
import logging
import re
from collections.abc import Mapping
from time import monotonic
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from kubectl_sky.cluster.transport import Request
from kubectl_sky.words.secret import REDACTED

LOGGER = "kubectl_sky.http"
# Levels of the logger: each one adds to those before it.
REQUESTS = 20
HEADERS = 15
BODIES = 10
LONG_BODIES = 5

_SECRET_HEADERS = re.compile("authorization|cookie|token|websocket-protocol", re.IGNORECASE)
_SECRET_FIELDS = re.compile(
    "token|password|secret(?!name)|credential|(?:api|access|private).?key", re.IGNORECASE
)
_VALUES = ("data", "stringData", "annotations")  # maps of a Secret that hold values

_logger = logging.getLogger(LOGGER)
# Who logs notes at INFO does not ask for requests.
_logger.setLevel(logging.WARNING)


class Trace:
    """The trace of one request, which begins with it. Does nothing unless the logger is enabled."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._started_at = monotonic()
        self._is_secret = "/secrets" in request.url.partition("?")[0]

    def __enter__(self) -> Self:
        self._log_headers(">", self._request.headers)
        if self._request.body is not None:
            self._log_body(">", self._request.body)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            self._log_line(f": {type(error).__name__}")

    def log_answer(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self._log_line(f" {status}")
        self._log_headers("<", headers)
        if data:
            self._log_body("<", data)

    def _log_line(self, result: str) -> None:
        if _logger.isEnabledFor(REQUESTS):
            milliseconds = (monotonic() - self._started_at) * 1000
            request = f"{self._request.method} {_show_url(self._request.url)}"
            _logger.log(REQUESTS, "%s%s in %.0f ms", request, result, milliseconds)

    def _log_headers(self, arrow: str, headers: Mapping[str, str]) -> None:
        for name, value in headers.items() if _logger.isEnabledFor(HEADERS) else ():
            text = REDACTED if _SECRET_HEADERS.search(name) else value
            _logger.log(HEADERS, "  %s %s: %s", arrow, name, text)

    def _log_body(self, arrow: str, body: object) -> None:
        if not _logger.isEnabledFor(BODIES):
            return
        longest = 10_240 if _logger.isEnabledFor(LONG_BODIES) else 1024  # characters
        text = _show_body(body, self._is_secret)
        more = f" … {len(text):,} characters" if len(text) > longest else ""
        _logger.log(BODIES, "  %s %s%s", arrow, text[:longest], more)


def _show_url(url: str) -> str:
    """Return a URL without user, password and tokens."""
    parts = urlsplit(url)
    query = [
        (name, _show_value(name, value))
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return parts._replace(
        netloc=parts.netloc.rpartition("@")[2], query=urlencode(query, safe=",=/()!")
    ).geturl()


def _show_value(name: str, value: str) -> str:
    return REDACTED if _SECRET_FIELDS.search(name) else value


def _show_body(body: object, is_secret: bool) -> str:
    """Return a JSON body with redacted values; other bodies only by their size."""
    value = body
    if isinstance(body, bytes):
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return f"{len(body):,} bytes"
    return json.dumps(_redact(value, is_secret), ensure_ascii=False, separators=(",", ":"))


def _redact(value: Any, is_secret: bool) -> Any:
    if isinstance(value, list):
        return [_redact(item, is_secret) for item in value]
    if not isinstance(value, dict):
        return value
    is_secret = is_secret or str(value.get("kind")).startswith("Secret")
    if "value" in value and _SECRET_FIELDS.search(str(value.get("name"))):  # a variable
        value = value | {"value": REDACTED}
    return {name: _redact_field(name, item, is_secret) for name, item in value.items()}


def _redact_field(name: str, value: Any, is_secret: bool) -> Any:
    if is_secret and name in _VALUES and isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    if isinstance(value, str) and _SECRET_FIELDS.search(name):
        return REDACTED
    return _redact(value, is_secret)
