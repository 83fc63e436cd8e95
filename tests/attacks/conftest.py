"""The fixtures of the end-to-end tests, for tests that attack."""

from tests.e2e.conftest import environment, kubectl, offline, sky  # noqa: F401
