"""Send HTTP requests with the Kubernetes client: its pool, TLS, proxies and credentials.

Nothing else imports its REST layer. Retries, limits and decoding are ours, in `transport` and
`session`.
"""

import os
import re
from ipaddress import ip_address
from math import inf
from urllib.parse import urlsplit

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject, should_bypass_proxies

from kubectl_sky.cluster import open_sockets
from kubectl_sky.cluster.transport import Reply, Request, read, remaining

_MAX_CONNECTIONS = 32  # connections kept open in the pool


class Client:
    """A client for the server and the certificates of one configuration. Thread-safe."""

    def __init__(self, configuration: Configuration) -> None:
        """Raises HTTPError, OSError or ValueError for invalid settings."""
        configuration.connection_pool_maxsize = _MAX_CONNECTIONS
        configuration.keep_alive = True  # otherwise firewalls drop idle log streams
        configuration.retries = False  # otherwise urllib3 retries, and follows redirects
        self._rest = RESTClientObject(configuration)
        self.pool_manager: urllib3.PoolManager = self._rest.pool_manager
        open_sockets.register(self.pool_manager)

    def send(self, request: Request) -> Reply:
        """Send a request once and return its answer. Raises HTTPError, TimeoutError."""
        seconds = remaining(request.deadline)
        timeouts = min(request.connect, seconds), min(request.silence or inf, seconds)

        try:
            with open_sockets.OPEN.in_use():
                answer = self._rest.request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    body=request.body,
                    _request_timeout=timeouts,
                )
        except ApiException as error:  # only a TLS error: the client raises none for a status
            raise urllib3.exceptions.SSLError(error.reason) from None

        response: urllib3.BaseHTTPResponse = answer.response
        if request.streamed and 200 <= response.status < 300:  # 204 for an empty log
            open_sockets.limit_waits(response, request.silence)
            return Reply(response.status, response.headers, b"", response)
        return Reply(response.status, response.headers, read(response, request.deadline))

    def close(self) -> None:
        self._rest.close()


def choose_proxy(configuration: Configuration, proxy_url: str) -> str:
    """Set the proxy that kubectl uses; return how messages name it, "" for none.

    NO_PROXY does not count for `proxy_url`, of the kubeconfig, and no proxy of the environment is
    for this machine's own servers. A SOCKS proxy resolves the server's name.
    """
    server = str(configuration.host)
    if proxy_url:
        configuration.no_proxy = None
    elif _is_loopback(urlsplit(server).hostname or ""):
        configuration.proxy = None

    url = configuration.proxy
    if not url or should_bypass_proxies(server, configuration.no_proxy or ""):
        return ""
    configuration.proxy = re.sub(r"^socks5:", "socks5h:", url)
    shown = re.sub(r"//.*@", "//", url)  # without a password
    return f"{shown} of {'proxy-url in the kubeconfig' if proxy_url else _variable(server)}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _variable(server: str) -> str:
    """Return the name of the variable that sets the proxy for a server."""
    names = (f"{urlsplit(server).scheme}_proxy", "all_proxy")
    spellings = [spelling for name in names for spelling in (name, name.upper())]
    return next(filter(os.environ.get, spellings), "the system's settings")
