"""`local`: start, stop and inspect a local cluster; one at a time."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.local import kubeconfig
from kubectl_sky.local.driver import CLUSTER, Driver, Gpus, State, Wanted
from kubectl_sky.local.drivers import DEFAULT, DRIVERS
from kubectl_sky.local.place import Place, Record

DOWN = "take it down first: `kubectl sky local down`"
PURGE = "remove it first: `kubectl sky local down --purge`"


@dataclass(frozen=True)
class Asked:
    """The values of the flags; None keeps the previous value."""

    driver: str | None = None
    nodes: int | None = None
    gpus: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Status:
    """The status of the cluster. `note` is a hint for the user."""

    state: State
    driver: str = ""
    nodes: int = 0
    gpus: str = ""
    server: str = ""
    kubeconfig: str = ""
    used_in: str = ""
    note: str = ""
    details: tuple[tuple[str, str | int], ...] = ()
    started: bool = False  # whether this command started it

    def as_json(self) -> dict[str, object]:
        """Return the status for JSON output."""
        names = ("state", "driver", "nodes", "gpus", "server", "kubeconfig", "used_in", "note")
        fields = {name: getattr(self, name) for name in names}
        return {**fields, "context": CLUSTER if self.server else "", **dict(self.details)}


def up(place: Place, asked: Asked, use: bool, waiting: Callable[[], None]) -> Status:
    """Start the cluster and write its kubeconfig; `use` merges it into the user's.

    Raises UserError if a cluster with other options is running.
    """
    with place.lock(waiting):
        record, state = _chosen(place, asked)
        driver = DRIVERS[record.driver](place)
        running = state is State.RUNNING
        if running:
            _check(place, record, asked)
        else:
            record = _start(place, driver, record, asked)
        config = kubeconfig.own(driver.kubeconfig())
        kubeconfig.write(place.kubeconfig, config)
        if use:
            record = _use(place, record, config)
        return _status(place, record, driver, State.RUNNING, started=not running)


def down(place: Place, purge: bool, waiting: Callable[[], None]) -> Status:
    """Stop the cluster, or delete it with `purge`. Return the status before."""
    with place.lock(waiting):
        record = place.read()
        if record is None:
            if purge:
                place.purge()
            return Status(State.ABSENT)
        driver = DRIVERS[record.driver](place)
        state = driver.state()
        before = _status(place, record, driver, state)
        if purge:
            if state is not State.ABSENT:
                driver.delete()
            if record.used_in:
                kubeconfig.forget(Path(record.used_in), record.before)
            place.purge()
        else:
            if state is State.RUNNING:
                driver.stop()
            place.change(up=False)
        return before


def status(place: Place) -> Status:
    """Return the status of the cluster."""
    record = place.read()
    if record is None:
        return Status(State.ABSENT, note="run `kubectl sky local up` to create one")
    driver = DRIVERS[record.driver](place)
    try:
        state, problem = driver.state(), ""
    except SkyError as error:
        state, problem = State.UNKNOWN, str(error)
    return _status(place, record, driver, state, problem)


def _chosen(place: Place, asked: Asked) -> tuple[Record, State]:
    """Return the selected cluster and its state.

    Raises UserError if another cluster exists already.
    """
    record = place.read()
    name = asked.driver or (record.driver if record else DEFAULT)
    if record and record.driver != name:
        if DRIVERS[record.driver](place).state() is not State.ABSENT:
            message = f"the local cluster uses driver {record.driver}"
            raise UserError(f"--driver {name}: {message}", PURGE)
        record = None
    state = DRIVERS[name](place).state()
    if record is None:
        if state is not State.ABSENT:
            message = (
                f'a cluster "{CLUSTER}" already exists, which `kubectl sky local` did not create'
            )
            raise UserError(f"{name}: {message}", "remove it, or choose another --driver")
        record = Record(name, nodes=1)
    return record, state


def _start(place: Place, driver: Driver, record: Record, asked: Asked) -> Record:
    nodes = asked.nodes or record.nodes
    gpus = _gpus(asked, record)
    record = place.write(
        Record(
            record.driver, nodes, str(gpus) if gpus else None, False, record.used_in, record.before
        )
    )
    try:
        driver.start(Wanted(nodes, gpus, asked.port))
    except BaseException:
        with suppress(SkyError):
            if driver.state() is State.ABSENT:
                place.forget()
        raise
    place.change(up=True)
    return record


def _gpus(asked: Asked, record: Record) -> Gpus | None:
    text = asked.gpus or record.gpus
    return Gpus.read(text) if text and text != "none" else None


def _check(place: Place, record: Record, asked: Asked) -> None:
    """Raise UserError if the running cluster does not match the flags."""
    gpus = _gpus(asked, record)
    if asked.nodes not in (None, record.nodes):
        raise UserError(f"--nodes {asked.nodes}: the cluster runs with {record.nodes}", DOWN)
    if (str(gpus) if gpus else None) != record.gpus:
        message = f"the cluster runs with {record.gpus or 'none'}"
        raise UserError(f"--gpus {asked.gpus}: {message}", DOWN)
    server = _server(place)
    if asked.port and server and urlsplit(server).port != asked.port:
        raise UserError(f"--port {asked.port}: the cluster runs at {server}", DOWN)


def _use(place: Place, record: Record, config: dict[str, Any]) -> Record:
    """Merge the context into the user's kubeconfig.

    Does nothing if that is the kubeconfig of the cluster itself.
    """
    path = kubeconfig.of_user()
    if path == place.kubeconfig:
        return record
    before = kubeconfig.use(path, config)
    place.change(used_in=str(path), before=record.before if before == CLUSTER else before)
    return place.read() or record


def _server(place: Place) -> str:
    try:
        return kubeconfig.server(kubeconfig.read(place.kubeconfig))
    except SkyError:
        return ""


def _status(
    place: Place,
    record: Record,
    driver: Driver,
    state: State,
    note: str = "",
    started: bool = False,
) -> Status:
    if state is State.STOPPED and record.up:
        note = "it stopped unexpectedly; run `kubectl sky local up` to start it again"
    elif state in (State.STOPPED, State.ABSENT):
        note = "`kubectl sky local up` starts it again"
    return Status(
        state,
        record.driver,
        record.nodes,
        record.gpus or "",
        _server(place),
        str(place.kubeconfig),
        record.used_in or "",
        note,
        tuple(driver.details().items()),
        started,
    )
