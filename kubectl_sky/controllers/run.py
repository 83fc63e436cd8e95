"""Run controllers in one process until a signal."""

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, repeat

import aiohttp
import kopf

from kubectl_sky import __version__
from kubectl_sky.cluster.connection import Connection, Target, Tls
from kubectl_sky.cluster.session import Session
from kubectl_sky.controllers import tasks
from kubectl_sky.controllers.context import Context
from kubectl_sky.controllers.health import serve_health
from kubectl_sky.controllers.lease import LeaseKeeper, claims_of
from kubectl_sky.errors import ClusterError
from kubectl_sky.fairshare import handlers as fairshare
from kubectl_sky.observe import escapes
from kubectl_sky.ray import controller as ray
from kubectl_sky.words.settings import Settings

Register = Callable[[kopf.OperatorRegistry, Context], None]

_REGISTER: Mapping[str, Register] = {
    "tasks": tasks.register,
    "ray": ray.register,
    "fairshare": fairshare.register,
}
_PREFIX = "kubectl-sky"  # of kopf's annotations
_NOT_INSTALLED = "Unresolved resources"  # kopf's warning of kinds that a cluster need not serve
_PAGE_SIZE = 500
_MAX_LOG_LINE = 1000  # characters
_RETRY_SECONDS = (1, 1, 2, 3, 5, 8, 13, 21, 34)  # of kopf's requests; then a minute, for ever
_LEASE_REQUEST_SECONDS = 10.0  # less than a Lease lasts
_SILENCE_SECONDS = 150.0  # bookmarks come every minute: a longer silence is a dead connection

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
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
    """Run the controllers until SIGINT or SIGTERM. Raises SkyError."""
    _log_to_stderr()
    session = Session.connect(options.connection)
    session.check_ready()
    try:
        asyncio.run(_run(options, session))
    except kopf.LoginError as error:
        raise ClusterError(str(error)) from None


def _log_to_stderr() -> None:
    """Log our steps, and kopf's warnings, in one line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(lambda record: not record.getMessage().startswith(_NOT_INSTALLED))
    logging.basicConfig(handlers=[handler])
    logging.getLogger(__package__).setLevel(logging.INFO)


class OneLine(logging.Formatter):
    """Write an exception as one line, not as a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, and the exception after it; both come from strangers."""
        error = record.exc_info[1] if record.exc_info else None
        record.exc_info, record.exc_text, record.stack_info = None, None, None
        text = super().format(record)
        whole = f"{text}: {type(error).__name__}: {error}" if error else text
        return escapes.plain(" ".join(whole.split())[:_MAX_LOG_LINE])


async def _run(options: Options, session: Session) -> None:
    """Run the operator whenever this process holds the Leases of its controllers."""
    timely = Session.connect(replace(options.connection, request_timeout=_LEASE_REQUEST_SECONDS))
    keeper = LeaseKeeper(timely, claims_of(options.names, options.namespace))
    async with serve_health(*options.health):
        try:
            while await _lead(options, session, keeper):
                pass
        finally:
            await keeper.release()


async def _lead(options: Options, session: Session, keeper: LeaseKeeper) -> bool:
    """Run the operator until a signal or until a Lease is lost; return whether it was lost."""
    stopped, signalled = asyncio.Event(), asyncio.Event()
    _set_on_signals(stopped, signalled)
    if not await _finished_first(keeper.acquire(), stopped):
        return False
    _log.info("running the controllers %s", ", ".join(options.names))
    keeping = asyncio.create_task(keeper.keep())
    keeping.add_done_callback(lambda task: stopped.set())
    try:
        await _operate(options, session, stopped)
    finally:
        lost = keeping.done() and not signalled.is_set()
        keeping.cancel()
    if lost:
        _log.warning("%s; waiting for it", keeping.result())
    return lost


def _set_on_signals(*events: asyncio.Event) -> None:
    """Let SIGINT and SIGTERM set events; PID 1 ignores them by default."""

    def set_all() -> None:
        for event in events:
            event.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, set_all)


async def _finished_first(work: Coroutine[None, None, None], stopped: asyncio.Event) -> bool:
    """Return True when the work is done, False when it is stopped before."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        working.cancel()
        return False
    working.result()
    return True


async def _operate(options: Options, session: Session, stopped: asyncio.Event) -> None:
    registry = kopf.OperatorRegistry()
    settings = operator_settings()
    settings.scanning.disabled = options.namespace is not None  # needs rights on all namespaces
    context = Context(session, options.namespace, options.settings, settings, options.retention)
    register_all(options.names, registry, context)
    login_with(session, registry)
    await kopf.operator(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=options.namespace is None,
        namespaces=[options.namespace] if options.namespace else [],
        stop_flag=stopped,
    )


def register_all(names: Sequence[str], registry: kopf.OperatorRegistry, context: Context) -> None:
    """Register the handlers of the controllers with these names."""
    for name in names:
        _REGISTER[name](registry, context)


def operator_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: lists in pages, our annotations and finalizer."""
    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.chunk_size = _PAGE_SIZE
    settings.watching.inactivity_timeout = _SILENCE_SECONDS
    settings.persistence.finalizer = f"{_PREFIX}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
    return settings


class _Backoffs(Iterable[float]):
    """Seconds between the attempts of a request, without end: an outage never stops the loop."""

    def __iter__(self) -> Iterator[float]:
        """Return the seconds of one request."""
        return chain(_RETRY_SECONDS, repeat(60.0))


def login_with(session: Session, registry: kopf.OperatorRegistry) -> None:
    """Let kopf use the server and the credentials of our session, renewed when they fail."""

    async def login(**_: object) -> kopf.AiohttpSession:
        target = await asyncio.to_thread(session.fresh_target)
        return kopf.AiohttpSession(
            server=target.server,
            default_namespace=target.namespace,
            aiohttp_session=_http_session(session, target),
        )

    kopf.on.login(registry=registry)(login)


def _http_session(session: Session, target: Target) -> aiohttp.ClientSession:
    headers = [("User-Agent", f"kubectl-sky/{__version__}"), *session.impersonation_headers()]
    if target.authorization:
        headers.append(("Authorization", target.authorization))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls_context(target.tls)),
        headers=headers,
        proxy=target.tls.proxy or None,
    )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS settings of a connection for aiohttp."""
    context = ssl.create_default_context(cafile=tls.authority or None)
    if not tls.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None)
    return context
