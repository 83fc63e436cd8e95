"""For all tests: the cluster, and a home that is not the user's."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # machines are busy at times
settings.load_profile("patient")

pytest_plugins = ["tests.cluster.fixtures"]

_OF_THE_USER = ("KUBECONFIG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests away from the user's clusters and settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in _OF_THE_USER:
            patch.delenv(name, raising=False)
        yield
