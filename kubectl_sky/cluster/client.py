"""Send HTTP requests with the Kubernetes client: its pool, TLS, proxies and credentials.

Nothing else imports its REST layer. Retries, limits of size and time, and decoding are ours, in
`transport` and `session`.
"""

from typing import TYPE_CHECKING

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject

from kubectl_sky.cluster import deadlines

if TYPE_CHECKING:
    from kubectl_sky.cluster.transport import Request

_MAX_CONNECTIONS = 32  # connections kept open in the pool


class Client:
    """A client for the server and the certificates of one configuration. Thread-safe."""

    def __init__(self, configuration: Configuration) -> None:
        """Raises HTTPError, OSError, ValueError or ImportError for invalid settings."""
        configuration.connection_pool_maxsize = _MAX_CONNECTIONS
        configuration.keep_alive = True  # otherwise firewalls drop idle log streams
        configuration.retries = False  # otherwise urllib3 retries, and follows redirects
        self._rest = RESTClientObject(configuration)
        deadlines.bound(self.pool_manager)

    @property
    def pool_manager(self) -> urllib3.PoolManager:
        """The pool, for WebSockets, which the Kubernetes client does not bound."""
        manager: urllib3.PoolManager = self._rest.pool_manager
        return manager

    def send(self, request: "Request") -> urllib3.BaseHTTPResponse:
        """Send a request once and return its open answer. Raises HTTPError, TimeoutError."""
        headers = request.headers.copy()
        content_type = headers.pop("Content-Type", "application/json")
        if request.body is not None:
            # Given a JSON type, the client encodes the body, which is encoded already. A leading
            # space is no part of a header's value.
            headers["Content-Type"] = f" {content_type}"
        try:
            answer = self._rest.request(
                request.method,
                request.url,
                headers=headers,
                body=request.body,
                _request_timeout=(request.connect, request.read),
            )
        except ApiException as error:  # only a TLS error: the client raises none for a status
            raise urllib3.exceptions.SSLError(error.reason) from None
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    def close(self) -> None:
        """Close the idle connections."""
        self._rest.close()
