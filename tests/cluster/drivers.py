"""The ways to a cluster, in the order in which they are tried."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import machine, nodes, practice
from tests.cluster.access import Access
from tests.cluster.components import USERS
from tests.cluster.shell import Broken, Unavailable, find
from tests.cluster.target import OTHERS, Cluster


@dataclass(frozen=True)
class Driver:
    """One way. `prepare` does what takes long once; `start` has a cluster while it is open."""

    name: str
    usable: Callable[[], bool]
    prepare: Callable[[], object]
    start: Callable[[], AbstractContextManager[Cluster]]


def choose() -> Driver:
    """Return the first way to a real cluster that is open here."""
    return next(driver for driver in DRIVERS if driver.usable())


def prepare(driver: Driver | None = None) -> Driver:
    """Do what takes long the first time for one, or for the one to choose. Raises Unavailable."""
    driver = driver or choose()
    try:
        driver.prepare()
    except (Broken, OSError) as error:
        raise Unavailable(str(error)) from error
    return driver


def _kubectl() -> Path:
    program = find("kubectl")
    return Path(program) if program else machine.kubectl()


@contextmanager
def _given() -> Iterator[Cluster]:
    """The cluster of KUBECONFIG, with the users that the tests expect."""
    kubectl = _kubectl()
    folder = Path(tempfile.mkdtemp(prefix="kubectl-sky-"))
    access = Access(kubectl, os.environ["KUBECONFIG"], folder)
    try:
        users = access.create()
        yield Cluster(access.kubeconfig, kubectl, "KUBECONFIG", users)
    finally:
        access.remove()
        shutil.rmtree(folder)


@contextmanager
def _machine() -> Iterator[Cluster]:
    place = machine.up()
    try:
        users = {name: USERS[name][0] for name in OTHERS}
        yield Cluster(place.kubeconfig, machine.kubectl(), "machine", users)
    finally:
        machine.down(place)


DRIVERS = (
    Driver("the cluster of KUBECONFIG", lambda: "KUBECONFIG" in os.environ, _kubectl, _given),
    Driver("a cluster built from Go modules", lambda: True, machine.prepare, _machine),
)

# Those that a test asks for by name.
NAMED = {
    "practice": Driver("the practice cluster", lambda: True, lambda: None, practice.cluster),
    "nodes": Driver("three cluster nodes", lambda: True, nodes.prepare, nodes.cluster),
}
