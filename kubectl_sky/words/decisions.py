"""Decisions and their reasons, which `-v=4` prints."""

import logging

LOGGER = "kubectl_sky.decisions"

_logger = logging.getLogger(LOGGER)
# Who logs notes at INFO does not ask for decisions.
_logger.setLevel(logging.WARNING)


def are_logged() -> bool:
    return _logger.isEnabledFor(logging.INFO)


def log_decision(what: str, why: str) -> None:
    """Log what was decided, and because of what: a flag, a field, a setting, the cluster."""
    _logger.info("%s: %s", what, why)
