"""Trace HTTP requests for `-v=6` to `-v=9`, without credentials and Secrets."""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from kubectl_sky.words.secret import REDACTED

LOGGER = "kubectl_sky.http"
# Levels of the logger: each one adds to those before it.
REQUESTS, HEADERS, BODIES, LONG_BODIES = 20, 15, 10, 5

_MAX_CHARACTERS = {BODIES: 1024, LONG_BODIES: 10_240}  # characters of a body
_SECRET_HEADERS = re.compile("authorization|cookie|token|websocket-protocol", re.IGNORECASE)
_SECRET_FIELDS = re.compile(
    "token|password|secret(?!name)|credential|(?:api|access|private).?key", re.IGNORECASE
)
_VALUES = ("data", "stringData", "annotations")  # maps of a Secret that hold values

_logger = logging.getLogger(LOGGER)
# Who logs notes at INFO does not ask for requests.
_logger.setLevel(logging.WARNING)


class Trace:
    """The trace of one request. Does nothing unless the logger is enabled."""

    def __init__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        self._started_at = monotonic()
        self._request = f"{method} {_shown_url(url)}"
        self._is_secret = "/secrets" in urlsplit(url).path
        if _logger.isEnabledFor(HEADERS):
            self._log_headers(">", headers.items())
        if body and _logger.isEnabledFor(BODIES):
            self._log_body(">", body)

    @staticmethod
    def enabled() -> bool:
        """Return whether requests are traced."""
        return _logger.isEnabledFor(REQUESTS)

    def failed(self, error: Exception) -> None:
        """Log a request without an answer."""
        _logger.log(REQUESTS, "%s: %s in %s", self._request, type(error).__name__, self._elapsed)

    def answered(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        """Log the answer; `data` is empty for a stream."""
        _logger.log(REQUESTS, "%s %s in %s", self._request, status, self._elapsed)
        if _logger.isEnabledFor(HEADERS):
            self._log_headers("<", headers.items())
        if data and _logger.isEnabledFor(BODIES):
            self._log_body("<", data)

    @property
    def _elapsed(self) -> str:
        return f"{(monotonic() - self._started_at) * 1000:.0f} ms"

    def _log_headers(self, arrow: str, headers: Iterable[tuple[str, str]]) -> None:
        for name, value in headers:
            text = REDACTED if _SECRET_HEADERS.search(name) else value
            _logger.log(HEADERS, "  %s %s: %s", arrow, name, text)

    def _log_body(self, arrow: str, data: bytes) -> None:
        longest = _MAX_CHARACTERS[LONG_BODIES if _logger.isEnabledFor(LONG_BODIES) else BODIES]
        text = _shown_body(data, self._is_secret)
        more = f" … {len(text):,} characters" if len(text) > longest else ""
        _logger.log(BODIES, "  %s %s%s", arrow, text[:longest], more)


def _shown_url(url: str) -> str:
    """Return a URL without user, password and tokens."""
    parts = urlsplit(url)
    query = [
        (name, REDACTED if _SECRET_FIELDS.search(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return parts._replace(
        netloc=parts.netloc.rpartition("@")[2], query=urlencode(query, safe=",=/()!")
    ).geturl()


def _shown_body(data: bytes, is_secret: bool) -> str:
    """Return a JSON body with redacted values; other bodies only by their size."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return f"{len(data):,} bytes"
    return json.dumps(_redacted(value, is_secret), ensure_ascii=False, separators=(",", ":"))


def _redacted(value: Any, is_secret: bool) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, list):
        return [_redacted(item, is_secret) for item in value]
    if not isinstance(value, dict):
        return value
    is_secret = is_secret or str(value.get("kind")).startswith("Secret")
    if "value" in value and _SECRET_FIELDS.search(str(value.get("name"))):  # a variable
        value = value | {"value": REDACTED}
    return {name: _redacted_field(name, item, is_secret) for name, item in value.items()}


def _redacted_field(name: str, value: Any, is_secret: bool) -> Any:  # noqa: ANN401 -- JSON
    if is_secret and name in _VALUES and isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    if isinstance(value, str) and _SECRET_FIELDS.search(name):
        return REDACTED
    return _redacted(value, is_secret)
