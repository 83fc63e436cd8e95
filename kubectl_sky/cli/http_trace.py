"""Print on stderr what connections log: the trace of HTTP requests, and waits for the server."""

import logging
from collections.abc import Callable

from kubectl_sky.cli import output
from kubectl_sky.cluster import backoff
from kubectl_sky.cluster.http_trace import LOGGER, LONG_BODIES, REQUESTS

_FIRST_LEVEL = 6  # of kubectl's -v that prints requests
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
    """Print requests from level 6, headers from 7, and bodies from 8; nothing below 6."""
    logger = logging.getLogger(LOGGER)
    logger.propagate = False
    logger.handlers = [_Handler(output.error)]
    if verbosity < _FIRST_LEVEL:
        logger.setLevel(logging.CRITICAL)
    else:
        logger.setLevel(max(REQUESTS - _STEP * (verbosity - _FIRST_LEVEL), LONG_BODIES))
