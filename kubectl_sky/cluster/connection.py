"""Connection flags, and the server and credentials they resolve to."""

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from kubectl_sky.cluster.client import Client

Headers = tuple[tuple[str, str], ...]


class Connection(Struct, frozen=True):
    """Connection flags; None means that the kubeconfig decides.

    `request_timeout` is in seconds and limits each request that is not a stream. `anonymous` leaves
    out all credentials: only the server, its CA and the proxy count. `server_url` is the address of
    a kubectl-sky server that the requests go through, and `server_user` the name for one that
    trusts X-User. `requests_per_second` limits how many requests start; None for no limit.
    `workers` are the contexts of MultiKueue's worker clusters.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    server: str | None = None
    token: str | None = None
    namespace: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None
    insecure: bool | None = None
    anonymous: bool = False
    server_url: str | None = None
    server_user: str | None = None
    certificate_authority: str | None = None
    requests_per_second: float | None = None
    workers: tuple[str, ...] = ()


class Target(Struct, frozen=True):
    """A server, its credentials and the defaults of the context.

    `authorization` is a header value, "" for none. `client` has the certificates and the proxy.
    `renewable` means that resolving the connection again may return fresh credentials. `user` is
    the name of the user in the kubeconfig, and `impersonation` are the headers of the one that it
    acts as. `proxy` is how messages name the proxy, "" for none. `compressed` is whether to ask
    for compressed answers.
    """

    server: str
    context: str
    namespace: str
    authorization: str
    client: "Client"
    renewable: bool = False
    user: str = ""
    impersonation: Headers = ()
    proxy: str = ""
    compressed: bool = True


class Contexts(Struct, frozen=True):
    """The contexts of the kubeconfig, and the current one ("" for none)."""

    names: tuple[str, ...] = ()
    current: str = ""
