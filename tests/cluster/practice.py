"""The practice cluster with the users that the tests expect, and a kubectl for it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from practice_tests import process
from tests.cluster import machine
from tests.cluster.components import USERS
from tests.cluster.shell import Broken, Unavailable, find
from tests.cluster.target import ADMIN, OTHERS, Cluster

_CONTEXT = "sky-local"  # its administrator's
_GPUS = "A100:8"  # as many as the other clusters of the tests pretend to have


def kubectl() -> Path:
    """Return a kubectl, the installed one or one built now. Raises Unavailable."""
    program = find("kubectl")
    try:
        return Path(program) if program else machine.kubectl()
    except (Broken, OSError) as error:
        raise Unavailable(str(error)) from error


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Have one with the users that the tests expect."""
    people = {name: USERS[name][0] for name in OTHERS}
    flags = [flag for person in people.values() for flag in ("--user", person)]
    with process.server("--gpus", _GPUS, *flags) as started:
        yield Cluster(_kubeconfig(started.folder), None, "practice", people)


def _kubeconfig(folder: Path) -> Path:
    """Write its kubeconfig anew, with the contexts that the tests expect."""
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    for context in config["contexts"]:
        if context["name"] == _CONTEXT:
            context["name"] = ADMIN
    config["current-context"] = ADMIN
    written = folder / "kubeconfig-of-the-tests"
    written.touch(mode=0o600)
    written.write_text(json.dumps(config))
    return written
