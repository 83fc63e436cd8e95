"""Settings of the REST server."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from msgspec import Struct

from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.words.names import KUBERNETES_PATH

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SESSION_KEYS = "KUBECTL_SKY_SESSION_KEYS"

# The variables that locate the settings file. A caller's task reads no other variables.
_SETTINGS_VARIABLES = ("KUBECTL_SKY_CONFIG_HOME", "XDG_CONFIG_HOME")


class Limits(Struct, frozen=True):
    """What one caller may use.

    Rates are per second, with bursts of ten seconds. `stream_seconds` is the time limit of a log or
    event stream.
    """

    body_bytes: int = 1 << 20
    proxy_body_bytes: int = 4 << 20  # of requests to /kubernetes
    login_body_bytes: int = 16 << 10
    body_seconds: float = 60.0  # until the body of a request is complete
    requests_per_second: float = 50.0
    streams: int = 250
    stream_seconds: float = 24 * 3600.0
    request_seconds: float = 30.0  # for one request to the API server
    workers: int = 64  # requests that are handled at the same time
    wrong_tokens_per_second: float = 20.0  # of an address, that are reviewed for nothing
    reviews: int = 16  # new tokens that are reviewed at the same time; more wait
    submits: int = 4  # of them submits and renders; more wait, so that other requests do not
    nodes: int = 10_000  # of all tasks of a file
    manifest_bytes: int = 8 << 20  # of a file; they take ten times this memory

    def body_bytes_of(self, path: str) -> int:
        if path == "/login":
            return self.login_body_bytes
        proxied = path.startswith(f"{KUBERNETES_PATH}/")
        return self.proxy_body_bytes if proxied else self.body_bytes


@dataclass(frozen=True)
class Config:
    """How the server reaches the cluster, whom it trusts, and its limits.

    The `connection` gives the address and the CA of the API server. Its credentials are used only
    for `trust_x_user` and for the owner of a dashboard, never for a caller with a token. `hosts`
    are the accepted values of the Host header; empty accepts all.
    """

    connection: Connection = field(default_factory=Connection)
    hosts: tuple[str, ...] = LOOPBACK
    trust_x_user: bool = False
    owner: str = ""  # name of a dashboard's owner; empty: as the cluster knows the credentials
    login_code: str = ""  # of the one-time link that logs in the owner of a dashboard
    session_keys: Sequence[str] = ()  # of browsers; the first encrypts; none: a random one
    behind_proxy: bool = False  # its X-Forwarded-For ends with the address of the client
    audit: TextIO | None = None
    limits: Limits = field(default_factory=Limits)
    connect: Callable[[Connection], Session] = Session.connect
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def task_environ(self) -> dict[str, str]:
        """The variables for a caller's task: only those that locate the server's settings."""
        return {name: self.environ[name] for name in _SETTINGS_VARIABLES if name in self.environ}
