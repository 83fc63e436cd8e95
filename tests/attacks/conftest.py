"""The fixtures of the end-to-end tests, and users, for tests that attack."""

from tests.attacks.roles import alice, role  # noqa: F401
from tests.e2e.conftest import environment, kubectl, offline, sky  # noqa: F401
