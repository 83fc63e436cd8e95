"""`local`: start, stop and inspect a local cluster; one at a time."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.local import kubeconfig
from kubectl_sky.local.driver import CLUSTER, ClusterSpec, ClusterState, Gpus
from kubectl_sky.local.kind import Kind
from kubectl_sky.local.practice import Practice
from kubectl_sky.local.process import Background
from kubectl_sky.local.state_dir import Record, StateDir
from kubectl_sky.words.documents import AnyJson

DOWN = "take it down first: `kubectl sky local down`"
PURGE = "remove it first: `kubectl sky local down --purge`"
_DEFAULT_DRIVER = "practice"


Driver = Practice | Kind
_DRIVERS: Mapping[str, Callable[[StateDir], Driver]] = {
    "practice": lambda state_dir: Practice(Background(state_dir.folder / "practice")),
    "kind": lambda state_dir: Kind(state_dir.folder / "kubeconfig-of-the-program"),
}


class ClusterOptions(Struct, frozen=True):
    """The values of the flags; None keeps the previous value."""

    driver: str | None = None
    nodes: int | None = None
    gpus: str | None = None
    port: int | None = None


class LocalCluster(Struct, frozen=True):
    """The local cluster: `local status`. Drivers add fields of their own."""

    state: ClusterState
    driver: str = ""
    nodes: int = 0
    gpus: str = ""
    server: str = ""
    kubeconfig: str = ""
    used_in: str = ""
    note: str = ""
    context: str = ""


class Status(LocalCluster, frozen=True):
    """The cluster, with the fields of its driver, and whether this command started it."""

    details: tuple[tuple[str, str | int], ...] = ()
    started: bool = False

    def as_json(self) -> dict[str, AnyJson]:
        """Return the fields for programs, in a flat object."""
        fields = {name: getattr(self, name) for name in LocalCluster.__struct_fields__}
        return fields | dict(self.details)


def up(
    state_dir: StateDir, requested: ClusterOptions, use: bool, waiting: Callable[[], None]
) -> Status:
    """Start the cluster and write its kubeconfig; `use` merges it into the user's.

    Raises UserError if a cluster with other options is running.
    """
    with state_dir.lock(waiting):
        record, state = _choose(state_dir, requested)
        driver = _DRIVERS[record.driver](state_dir)

        running = state is ClusterState.RUNNING
        if running:
            _check(state_dir, record, requested)
        else:
            record = _start(state_dir, driver, record, requested)

        config = kubeconfig.sky_local_only(driver.kubeconfig())
        kubeconfig.write(state_dir.kubeconfig, config)

        path = kubeconfig.user_path()
        if use and path != state_dir.kubeconfig:
            before = kubeconfig.use(path, config)
            before = record.before if before == CLUSTER else before
            state_dir.change(used_in=str(path), before=before)
            record = state_dir.read() or record
        return _status(state_dir, record, driver, ClusterState.RUNNING, started=not running)


def down(state_dir: StateDir, purge: bool, waiting: Callable[[], None]) -> Status:
    """Stop the cluster, or delete it with `purge`. Return the status before."""
    with state_dir.lock(waiting):
        record = state_dir.read()
        if record is None:
            if purge:
                state_dir.purge()
            return Status(ClusterState.ABSENT)

        driver = _DRIVERS[record.driver](state_dir)
        state = driver.state()
        before = _status(state_dir, record, driver, state)

        if purge:
            if state is not ClusterState.ABSENT:
                driver.delete()
            if record.used_in:
                kubeconfig.forget(Path(record.used_in), record.before)
            state_dir.purge()
        else:
            if state is ClusterState.RUNNING:
                driver.stop()
            state_dir.change(up=False)
        return before


def status(state_dir: StateDir) -> Status:
    record = state_dir.read()
    if record is None:
        return Status(ClusterState.ABSENT, note="run `kubectl sky local up` to create one")
    driver = _DRIVERS[record.driver](state_dir)
    try:
        state = driver.state()
        problem = ""
    except SkyError as error:
        state = ClusterState.UNKNOWN
        problem = str(error)
    return _status(state_dir, record, driver, state, problem)


def _choose(state_dir: StateDir, requested: ClusterOptions) -> tuple[Record, ClusterState]:
    """Return the selected cluster and its state.

    Raises UserError if another cluster exists already.
    """
    record = state_dir.read()
    name = requested.driver or (record.driver if record else _DEFAULT_DRIVER)
    if record and record.driver != name:
        if _DRIVERS[record.driver](state_dir).state() is not ClusterState.ABSENT:
            message = f"the local cluster uses driver {record.driver}"
            raise UserError(f"--driver {name}: {message}", PURGE)
        record = None

    state = _DRIVERS[name](state_dir).state()
    if record is None:
        if state is not ClusterState.ABSENT:
            message = (
                f'a cluster "{CLUSTER}" already exists, which `kubectl sky local` did not create'
            )
            raise UserError(f"{name}: {message}", "remove it, or choose another --driver")
        record = Record(name, nodes=1)
    return record, state


def _start(
    state_dir: StateDir, driver: Driver, record: Record, requested: ClusterOptions
) -> Record:
    nodes = requested.nodes or record.nodes
    gpus = _gpus(requested, record)
    if gpus and gpus.uuids and (nodes > 1 or record.driver != _DEFAULT_DRIVER):
        what = "--gpus host: the GPUs of this machine are those of one node of a practice cluster"
        raise UserError(what, "use --nodes 1 and no --driver; tasks of several nodes fit on it")

    gpus_text = str(gpus) if gpus else None
    record = state_dir.write(
        Record(record.driver, nodes, gpus_text, False, record.used_in, record.before)
    )

    try:
        driver.start(ClusterSpec(nodes, gpus, requested.port))
    except BaseException:
        with suppress(SkyError):
            if driver.state() is ClusterState.ABSENT:
                state_dir.forget()
        raise
    state_dir.change(up=True)
    return record


def _gpus(requested: ClusterOptions, record: Record) -> Gpus | None:
    text = requested.gpus or record.gpus
    return Gpus.read(text) if text and text != "none" else None


def _check(state_dir: StateDir, record: Record, requested: ClusterOptions) -> None:
    """Raise UserError if the running cluster does not match the flags."""
    gpus = _gpus(requested, record)
    if requested.nodes not in (None, record.nodes):
        raise UserError(f"--nodes {requested.nodes}: the cluster runs with {record.nodes}", DOWN)
    if (str(gpus) if gpus else None) != record.gpus:
        message = f"the cluster runs with {record.gpus or 'none'}"
        raise UserError(f"--gpus {requested.gpus}: {message}", DOWN)
    server = _server(state_dir)
    if requested.port and server and urlsplit(server).port != requested.port:
        raise UserError(f"--port {requested.port}: the cluster runs at {server}", DOWN)


def _server(state_dir: StateDir) -> str:
    try:
        return kubeconfig.server(kubeconfig.read(state_dir.kubeconfig))
    except SkyError:
        return ""


def _status(
    state_dir: StateDir,
    record: Record,
    driver: Driver,
    state: ClusterState,
    note: str = "",
    started: bool = False,
) -> Status:
    if state is ClusterState.STOPPED and record.up:
        note = "it stopped unexpectedly; run `kubectl sky local up` to start it again"
    elif state in (ClusterState.STOPPED, ClusterState.ABSENT):
        note = "`kubectl sky local up` starts it again"

    server = _server(state_dir)
    context = CLUSTER if server else ""
    return Status(
        state,
        record.driver,
        record.nodes,
        record.gpus or "",
        server,
        str(state_dir.kubeconfig),
        record.used_in or "",
        note,
        context,
        tuple(driver.details().items()),
        started,
    )
