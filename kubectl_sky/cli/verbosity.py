"""Print on stderr what is logged: decisions, HTTP requests, and waits for the server."""

import logging
from collections.abc import Callable

from kubectl_sky.cli import output
from kubectl_sky.cluster import backoff
from kubectl_sky.cluster.http_trace import LOGGER, LONG_BODIES, REQUESTS
from kubectl_sky.words import decisions

_DECISIONS_LEVEL = 4  # of kubectl's -v, at which it explains what it does
_FIRST_LEVEL = 6  # that prints requests
_STEP = 5  # between the levels of the logger


class _Handler(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(record.getMessage())  # above the live line


def show_waits(note: Callable[[str], object]) -> None:
    """Note when requests wait for the API server."""
    logger = logging.getLogger(backoff.LOGGER)
    logger.propagate = False
    logger.handlers = [_Handler(note)]


def start(verbosity: int) -> None:
    """Print decisions from level 4, requests from 6, headers from 7, and bodies from 8."""
    explains = verbosity >= _DECISIONS_LEVEL
    _logger_of(decisions.LOGGER).setLevel(logging.INFO if explains else logging.CRITICAL)
    logger = _logger_of(LOGGER)
    if verbosity < _FIRST_LEVEL:
        logger.setLevel(logging.CRITICAL)
    else:
        logger.setLevel(max(REQUESTS - _STEP * (verbosity - _FIRST_LEVEL), LONG_BODIES))


def _logger_of(name: str) -> logging.Logger:
    """Return a logger that prints its lines on stderr."""
    logger = logging.getLogger(name)
    logger.propagate = False
    logger.handlers = [_Handler(output.error)]
    return logger
