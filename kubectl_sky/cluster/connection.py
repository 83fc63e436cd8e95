"""Which API server, as which user: what the flags ask for, and what the kubeconfig resolves to."""

from dataclasses import dataclass

import urllib3


@dataclass(frozen=True)
class Connection:
    """What the user's flags say about the connection; None means that the kubeconfig decides.

    `request_timeout` is in seconds and bounds each request that is not a stream.
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


@dataclass(frozen=True)
class Target:
    """A server, the credentials for it, and the defaults that go with them.

    `authorization` is a header's value, "" for none. `pool` has the certificates and the proxy.
    `renewable` says that resolving the connection again may give fresh credentials, and `expires`
    when these end, in seconds since 1970; None where that is not known.
    """

    server: str
    context: str
    namespace: str
    authorization: str
    pool: urllib3.PoolManager
    renewable: bool = False
    expires: float | None = None


@dataclass(frozen=True)
class Contexts:
    """The names of the kubeconfig's contexts, and the current one ("" for none)."""

    names: tuple[str, ...] = ()
    current: str = ""
