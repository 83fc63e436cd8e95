"""Print the trace of HTTP requests on stderr."""

import logging

from kubectl_sky.cli import output
from kubectl_sky.cluster.http_trace import LOGGER, LONG_BODIES, REQUESTS

_FIRST_LEVEL = 6  # of kubectl's -v that prints requests
_STEP = 5  # between the levels of the logger


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.error(record.getMessage())  # above the live line


def start(verbosity: int) -> None:
    """Print requests from level 6, headers from 7, and bodies from 8; nothing below 6."""
    logger = logging.getLogger(LOGGER)
    logger.propagate = False
    logger.handlers = [_Handler()]
    if verbosity < _FIRST_LEVEL:
        logger.setLevel(logging.CRITICAL)
    else:
        logger.setLevel(max(REQUESTS - _STEP * (verbosity - _FIRST_LEVEL), LONG_BODIES))
