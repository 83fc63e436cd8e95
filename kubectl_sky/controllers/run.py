"""Run controllers in one process until a signal."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import kopf

from kubectl_sky import __version__
from kubectl_sky.cluster.connection import Connection, Target, Tls
from kubectl_sky.cluster.session import Session
from kubectl_sky.controllers import tasks
from kubectl_sky.controllers.context import Context
from kubectl_sky.controllers.fairshare import handlers as fairshare
from kubectl_sky.controllers.ray import handlers as ray
from kubectl_sky.errors import ClusterError
from kubectl_sky.settings import Settings

Register = Callable[[kopf.OperatorRegistry, Context], None]

_REGISTER: Mapping[str, Register] = {
    "tasks": tasks.register,
    "ray": ray.register,
    "fairshare": fairshare.register,
}
_PREFIX = "kubectl-sky"  # of kopf's annotations
_PAGE_SIZE = 500
_SILENCE_SECONDS = 150.0  # bookmarks come every minute: a longer silence is a dead connection


@dataclass(frozen=True)
class Options:
    """Which controllers to run; `namespace` None means all namespaces."""

    names: Sequence[str]
    connection: Connection
    namespace: str | None
    settings: Settings


def run(options: Options) -> None:
    """Run the controllers until SIGINT or SIGTERM. Raises ClusterError."""
    session = Session.connect(options.connection)
    session.check_ready()
    registry = kopf.OperatorRegistry()
    context = Context(session, options.namespace, options.settings, operator_settings())
    register_all(options.names, registry, context)
    login_with(session, registry)
    try:
        asyncio.run(_operate(registry, context))
    except kopf.LoginError as error:
        raise ClusterError(str(error)) from None


def register_all(names: Sequence[str], registry: kopf.OperatorRegistry, context: Context) -> None:
    """Register the handlers of the controllers with these names."""
    for name in names:
        _REGISTER[name](registry, context)


def operator_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: our annotations, pages, and no watch of CRDs and namespaces."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.watching.chunk_size = _PAGE_SIZE
    settings.watching.inactivity_timeout = _SILENCE_SECONDS
    settings.persistence.finalizer = f"{_PREFIX}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
    return settings


async def _operate(registry: kopf.OperatorRegistry, context: Context) -> None:
    logging.getLogger("kopf").setLevel(logging.WARNING)
    everywhere = context.namespace is None
    await kopf.operator(
        registry=registry,
        settings=context.operator,
        standalone=True,
        clusterwide=everywhere,
        namespaces=[context.namespace] if context.namespace else [],
    )


def login_with(session: Session, registry: kopf.OperatorRegistry) -> None:
    """Let kopf use the server and the credentials of our session, renewed when they fail."""

    async def login(**_: object) -> kopf.AiohttpSession:
        target = await asyncio.to_thread(session.fresh_target)
        return kopf.AiohttpSession(
            server=target.server,
            default_namespace=target.namespace,
            expiration=_expiration(target.expires),
            aiohttp_session=_http_session(session, target),
        )

    kopf.on.login(registry=registry)(login)


def _expiration(expires: float | None) -> datetime | None:
    return None if expires is None else datetime.fromtimestamp(expires, UTC)


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
