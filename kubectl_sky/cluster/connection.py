"""Connection flags, and the server and credentials they resolve to."""

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from kubectl_sky.cluster.client import Client

Headers = tuple[tuple[str, str], ...]


class Connection(Struct, frozen=True):
    """Connection flags; None means that the kubeconfig decides."""

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    server: str | None = None
    token: str | None = None
    namespace: str | None = None
    as_user: str | None = None
    as_uid: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None  # seconds of each request that is not a stream
    insecure: bool | None = None
    anonymous: bool = False  # leaves out credentials: only the server, its CA and the proxy count
    server_url: str | None = None  # a kubectl-sky server that the requests go through
    server_user: str | None = None  # the name for one that trusts X-User
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    tls_server_name: str | None = None
    requests_per_second: float | None = None  # that may start; None for no limit
    workers: tuple[str, ...] = ()  # contexts of MultiKueue's worker clusters


class Target(Struct, frozen=True):
    """A server, its credentials and the defaults of the context."""

    server: str
    context: str
    namespace: str
    authorization: str  # header value; empty for none
    client: "Client"  # has the certificates and the proxy
    renewable: bool = False  # resolving the connection again may return fresh credentials
    user: str = ""  # name of the user in the kubeconfig
    impersonation: Headers = ()  # headers of the user that it acts as
    proxy: str = ""  # how messages name the proxy; empty for none
    compressed: bool = True  # asks for compressed answers


class Contexts(Struct, frozen=True):
    """The contexts of the kubeconfig, and the current one ("" for none)."""

    names: tuple[str, ...] = ()
    current: str = ""
