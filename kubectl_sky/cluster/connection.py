"""Which server, as whom: what the user asks for, and what was found for it."""

from typing import Protocol

import urllib3

from kubectl_sky.values import dataclass

POOL = 32  # connections that are kept


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


class Credentials(Protocol):
    """Who asks, and whether the server is who it should be."""

    @property
    def verified(self) -> bool:
        """Whether the server's certificate is looked at."""

    def bearer(self) -> str:
        """Return the Authorization header, "" for none. Raises ClusterError."""

    def pool(self) -> urllib3.PoolManager:
        """Return connections with these certificates. Raises OSError, ValueError, HTTPError."""


@dataclass(frozen=True)
class Target:
    """A server, the credentials for it, and the defaults that go with them.

    `renewable` says that reading the target again may give fresh credentials.
    """

    credentials: Credentials
    server: str
    context: str
    namespace: str
    renewable: bool


@dataclass(frozen=True)
class Contexts:
    """The names of the kubeconfig's contexts, and which is the current one ("" for none)."""

    names: tuple[str, ...] = ()
    current: str = ""
