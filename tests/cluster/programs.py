"""Programs built from Go modules, all before the first test: a test's time is limited.

A test names those that it runs: `pytest.mark.builds("rclone")`. The cache keeps them.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster import golang
from tests.cluster.shell import Broken, Unavailable

MODULES = Path(__file__).parent / "modules"


class Program(NamedTuple):
    """A package of a Go module whose recipe is in a folder of `modules`."""

    module: str
    package: str


PROGRAMS = {
    "actionlint": Program("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    "krew": Program("krew", "sigs.k8s.io/krew/cmd/krew"),
    "krew-validate": Program("krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "network-policies": Program("network-policies", "."),
    "oauth2-proxy": Program("oauth2-proxy", "github.com/oauth2-proxy/oauth2-proxy/v7"),
    "rclone": Program("rclone", "github.com/rclone/rclone"),  # serves a store of buckets, too
}


def path(name: str) -> Path:
    """Return a program, built if the cache does not have it. Raises Unavailable, Broken."""
    module, package = PROGRAMS[name]
    return golang.build(name, MODULES / module, package)


def build(name: str) -> None:
    """Build a program. Where it cannot be had, the tests that run it say so."""
    with suppress(Unavailable, Broken, OSError):
        path(name)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the tests of this run name."""
    if session.config.option.collectonly:
        return
    marks = [mark for item in session.items for mark in item.iter_markers("builds")]
    names = sorted({name for mark in marks for name in mark.args})
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for name in names:
            build(name)
