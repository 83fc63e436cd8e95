"""Run controllers in one process until a signal."""

import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from threading import Event
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe import escapes
from kubectl_sky.words.settings import Settings
from kubectl_sky_server.controllers.lease import LeaseKeeper, claims_of
from kubectl_sky_server.controllers.loop import Context, Controller, Loop

_MAX_LOG_LINE = 1000  # characters
_LEASE_REQUEST_SECONDS = 10.0  # less than a Lease lasts
_STOP_SECONDS = 10.0  # for what still runs; a kubelet kills the process after 30

_log = logging.getLogger(__name__)


@dataclass
class _Running:
    """What runs while this process leads; the loops by the names of controller and loop."""

    names: tuple[str, ...]
    is_leader: bool = False
    loops: dict[tuple[str, str], Loop[Any]] = field(default_factory=dict)

    def serve(self, host: str, port: int | None) -> AbstractContextManager[None]:
        """Serve probes and metrics, nothing without a port. Raises UserError."""
        if port is None:
            return nullcontext()
        from kubectl_sky_server.controllers import health  # noqa: PLC0415 -- its package is in an extra

        def collect() -> Iterator[health.Metric]:
            loops = {names: loop.numbers for names, loop in list(self.loops.items())}
            return health.metrics(self.names, self.is_leader, loops)

        return health.serve_health(host, port, collect)


class Options(Struct, frozen=True):
    """Which controllers to run; `namespace` None means all namespaces.

    The probes of the kubelet are answered on `health`, an address and a port. `retention` is how
    long finished tasks are kept.
    """

    names: Sequence[str]
    connection: Connection
    namespace: str | None
    settings: Settings
    health: tuple[str, int | None] = ("", None)
    retention: timedelta | None = None


def run(options: Options) -> None:
    """Run the controllers whenever this process holds their Leases, until SIGINT or SIGTERM.

    Raises SkyError.
    """
    _log_to_stderr()
    # Without waits: who has lost its Lease must not write, and loops repeat what fails.
    session = Session.connect(options.connection).impatient()
    session.check_ready()
    timely = Session.connect(replace(options.connection, request_timeout=_LEASE_REQUEST_SECONDS))
    keeper = LeaseKeeper(timely.impatient(), claims_of(options.names, options.namespace))
    running = _Running(tuple(options.names))
    with _stop_at_signals() as stop, running.serve(*options.health):
        try:
            while keeper.acquire(stop):
                _lead(options, session, keeper, stop, running)
        finally:
            keeper.release()


def _lead(
    options: Options, session: Session, keeper: LeaseKeeper, stop: Event, running: _Running
) -> None:
    """Run the controllers until a signal, or until a Lease is lost."""
    _log.info("running the controllers %s", ", ".join(options.names))
    context = Context(session, options.namespace, options.settings, options.retention)
    running.is_leader = True

    try:
        for name in options.names:
            for controller in find_controllers([name], context):
                controller.did = keeper.did  # type: ignore[method-assign]
                loop = Loop(controller, session, options.namespace)
                running.loops[name, type(controller).__name__] = loop
                loop.start()

        lost = keeper.keep(stop)
        if lost:
            _log.warning("%s; waiting for it", lost)
    finally:
        ended = list(running.loops.values())
        running.loops.clear()
        running.is_leader = False
        for loop in ended:
            loop.stop()
        for loop in ended:
            loop.join(_STOP_SECONDS / len(ended))


def find_controllers(names: Sequence[str], context: Context) -> Iterator[Controller[Any]]:
    for name in names:
        path = "controllers.tasks" if name == "tasks" else f"{name}.controller"
        module = import_module(f"kubectl_sky_server.{path}")
        create: Callable[[Context], Sequence[Controller[Any]]] = module.controllers
        yield from create(context)


@contextmanager
def _stop_at_signals() -> Iterator[Event]:
    """Set an Event at SIGINT and SIGTERM; PID 1 ignores them by default."""
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal(*_: object) -> None:
        """Set it in a thread: this one may just hold the lock of the Event."""
        parallel.run_daemon(stop.set)

    previous = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("kubectl_sky_server").setLevel(logging.INFO)


class OneLine(logging.Formatter):
    """Write a message in one line; it comes from strangers."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message in one line, without control characters."""
        return escapes.plain(" ".join(super().format(record).split())[:_MAX_LOG_LINE])
