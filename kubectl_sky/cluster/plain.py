"""Read the kubeconfig that most people have: one file with a token or certificates in it.

The Kubernetes client reads all kinds, and takes as long to import as all else of a command. What
is not plain, whatever is wrong, and every message about it, is left to the client.
"""

import os
import socket
import ssl
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import urllib3
import yaml
from urllib3.connection import HTTPConnection

from kubectl_sky.cluster.connection import POOL, Connection, Target
from kubectl_sky.values import dataclass

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CERTIFICATE = "client-certificate"
_KEY = "client-key"
_AUTHORITY = "certificate-authority"
_INSECURE = "insecure-skip-tls-verify"
_NAME = "tls-server-name"
_USER = {"token", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data"}
_CLUSTER = {"server", _AUTHORITY, f"{_AUTHORITY}-data", _INSECURE, _NAME, "extensions"}
_PROXIES = {"http_proxy", "https_proxy", "all_proxy"}
# As client-go asks, or firewalls forget a quiet log stream: seconds, seconds, probes.
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}


@dataclass(frozen=True)
class _Credentials:
    token: str
    context: ssl.SSLContext | None
    server_name: str | None

    @property
    def verified(self) -> bool:
        return self.context is None or self.context.verify_mode is not ssl.CERT_NONE

    def bearer(self) -> str:
        return f"Bearer {self.token}" if self.token else ""

    def pool(self) -> urllib3.PoolManager:
        given: dict[str, Any] = {}
        if self.context:
            given = {"ssl_context": self.context, "server_hostname": self.server_name}
        return urllib3.PoolManager(maxsize=POOL, socket_options=_alive(), **given)


def locate(path: str, connection: Connection) -> Target | None:
    """Return the target that a file names; None where the client is needed, if only to complain."""
    try:
        return _located(Path(path), connection)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return None


def _located(path: Path, connection: Connection) -> Target | None:
    config = yaml.load(path.read_text(), _LOADER)
    name = connection.context or config["current-context"]
    context = _named(config, "context", name)
    cluster = _named(config, "cluster", connection.cluster or context["cluster"])
    user = _named(config, "user", context["user"])
    if set(user) - _USER or set(cluster) - _CLUSTER or not cluster["server"] or _proxied():
        return None
    server = (connection.server or cluster["server"]).rstrip("/")
    secure = server.lower().startswith("https:")
    insecure = connection.insecure
    verify = not (cluster.get(_INSECURE) if insecure is None else insecure)
    return Target(
        _Credentials(
            str(connection.token or user.get("token") or "").strip(),
            _tls(cluster, user, path.parent, verify=verify) if secure else None,
            cluster.get(_NAME) or None,
        ),
        server,
        str(name),
        connection.namespace or str(context.get("namespace") or "default"),
        renewable=False,
    )


def _named(config: dict[str, Any], kind: str, name: object) -> dict[str, Any]:
    for one in config[f"{kind}s"]:
        if one["name"] == name:
            return dict(one[kind])
    raise LookupError(name)


def _proxied() -> bool:
    return any(os.environ[name] for name in os.environ if name.lower() in _PROXIES)


def _tls(
    cluster: dict[str, Any], user: dict[str, Any], folder: Path, *, verify: bool
) -> ssl.SSLContext:
    context = urllib3.util.create_urllib3_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    authority = _content(cluster, _AUTHORITY, folder)
    if authority:
        context.load_verify_locations(cadata=authority.decode())
    else:
        context.load_default_certs()
    certificate, key = _content(user, _CERTIFICATE, folder), _content(user, _KEY, folder)
    if certificate:
        # OpenSSL reads a key from a file only: in a private folder, for as long as that takes
        with tempfile.TemporaryDirectory(prefix="kubectl-sky-") as private:
            both = Path(private) / "pem"
            both.touch(mode=0o600)
            both.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(both, password="")  # or OpenSSL asks the terminal
    return context


def _content(section: dict[str, Any], name: str, folder: Path) -> bytes:
    """What a section says itself, else the file that it names beside its own."""
    data, file = section.get(f"{name}-data"), section.get(name)
    if not data and not file:
        return b""
    found = b64decode(data, validate=True) if data else (folder / str(file)).read_bytes()
    if not found:
        raise ValueError("empty")
    return found


def _alive() -> list[tuple[int, int, int]]:
    """Options of sockets, beside urllib3's own."""
    known = {name: seconds for name, seconds in _ALIVE.items() if hasattr(socket, name)}
    if "TCP_KEEPIDLE" in known:
        known.pop("TCP_KEEPALIVE", None)  # another system's name for it
    each = [(socket.IPPROTO_TCP, getattr(socket, name), known[name]) for name in known]
    alive = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return [*HTTPConnection.default_socket_options, alive, *each]
