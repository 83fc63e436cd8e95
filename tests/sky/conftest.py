"""SkyPilot's names over a cluster in memory."""

from tests.api.conftest import api

__all__ = ["api"]
