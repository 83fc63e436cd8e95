"""For all tests: the cluster, and a home that is not the user's."""

import os
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import crashes
from tests.cluster import packages
from tests.cluster.shell import Unavailable, absent

pytest_plugins = [
    "tests.cluster.programs",  # the others import it
    "tests.cluster.fixtures",
    "tests.cluster.controllers",
    "tests.cluster.multikueue",
    "tests.cluster.bucket_driver",
    "tests.cluster.pod_metrics",
    "tests.cluster.plane",
]

# A busy machine is no failure, and what CI tests is the same each time.
settings.register_profile("tests", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tests")

_OF_THE_USER = ("KUBECONFIG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
_OUTCOMES = ("passed", "failed", "error", "skipped")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End with a command for each failed test, and with one line of what ran and what did not."""
    left_out = os.environ.get("NOT_RUN")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, pytest.TerminalReporter):  # in a worker
        return
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    if failed:
        reporter.write_line("run each failed test alone:", bold=True)
    for test in dict.fromkeys(report.nodeid for report in failed):
        reporter.write_line(f"  .venv/bin/pytest -n0 {shlex.quote(test)}")
    if not left_out:
        return
    counts = {name: len(reporter.stats.get(name, ())) for name in _OUTCOMES}
    numbers = [f"{count:,} {name}" for name, count in counts.items() if count]
    reporter.write_line(f"{', '.join(numbers) or 'no tests'}; NOT RUN: {left_out}", bold=True)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests away from the user's clusters and settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in _OF_THE_USER:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def watch_children() -> Iterator[None]:
    """Learn how each child process ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", crashes.Popen)
        yield


@pytest.fixture(autouse=True)
def no_crash() -> Iterator[None]:
    """Fail a test in which a child process crashed."""
    crashes.recorded.clear()
    yield
    assert not crashes.recorded


@pytest.fixture(params=["sh", "bash", pytest.param("busybox sh", marks=pytest.mark.tools)])
def shell(request: pytest.FixtureRequest) -> str:
    """The shells of images: Debian's, and that of small ones."""
    command = str(request.param)
    if command.startswith("busybox"):
        try:
            packages.require("busybox")
        except Unavailable as error:
            absent(str(error))
    return command
