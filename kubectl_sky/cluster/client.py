"""Send HTTP requests with the Kubernetes client: its pool, TLS, proxies and credentials.

Nothing else imports its REST layer. Retries, limits and decoding are ours, in `transport` and
`session`.
"""

from math import inf

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject

from kubectl_sky.cluster import open_sockets
from kubectl_sky.cluster.transport import Reply, Request, read, remaining

_MAX_CONNECTIONS = 32  # connections kept open in the pool


class Client:
    """A client for the server and the certificates of one configuration. Thread-safe."""

    def __init__(self, configuration: Configuration) -> None:
        """Raises HTTPError, OSError, ValueError or ImportError for invalid settings."""
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
