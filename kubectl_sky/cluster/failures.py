"""Translate the failures of the transport into one line: nothing answered, and why."""

from collections.abc import Callable

from urllib3 import exceptions as transport

from kubectl_sky.cluster.call import Call
from kubectl_sky.errors import ClusterError, Unreachable

_CHECK = "check that the cluster runs and that you are on its network or VPN"
_TRUST = "check certificate-authority and server in the kubeconfig"


class TooLarge(transport.HTTPError):
    """The answer is larger than any list of Kubernetes objects."""


def unreachable(call: Call, error: Exception) -> ClusterError:
    """Return the error for an exception of urllib3 or of the socket."""
    while isinstance(error, transport.MaxRetryError) and error.reason:
        error = error.reason
    explain = next((explain for test, explain in _FAILURES if isinstance(error, test)), _lost)
    return explain(call, error)


def unready(call: Call, refusal: ClusterError) -> ClusterError:
    """Return the error for a refusal by a server that has just come back: it may not last."""
    return Unreachable(f"{call.host} has just come back, and says: {refusal.what}", "try again")


def _unresolved(call: Call, error: Exception) -> ClusterError:
    host = call.host.rsplit(":", 1)[0]
    return Unreachable(f"cannot reach {call.host}: the host name {host} is not known", _CHECK)


def _not_connected(call: Call, error: Exception) -> ClusterError:
    text = str(error).lower()
    why = next((why for word, why in _NOT_CONNECTED if word in text), str(error))
    return Unreachable(f"cannot reach {call.host}: {why}", _CHECK)


_NOT_CONNECTED = (
    ("refused", "connection refused"),
    ("no route to host", "no route to the host"),
    ("unreachable", "the network is unreachable"),
    ("timed out", "timed out"),
)


def _timed_out(call: Call, error: Exception) -> ClusterError:
    return Unreachable(
        f"{call.host} did not answer {call.method} {call.resource} in time",
        "try again, or allow more with --request-timeout",
    )


def _connect_timed_out(call: Call, error: Exception) -> ClusterError:
    return Unreachable(f"cannot reach {call.host}: timed out", _CHECK)


def _untrusted(call: Call, error: Exception) -> ClusterError:
    text = str(error)
    if "EOF" in text:
        return Unreachable(f"cannot reach {call.host}: it hung up before TLS began", _CHECK)
    why = next((why for word, why in _TLS if word in text), " ".join(text.split()))
    return ClusterError(f"no trusted connection to {call.host}: {why}", _TRUST)


_TLS = (
    ("PEM", "the kubeconfig's certificates or keys are damaged"),
    ("no certificate or crl found", "the kubeconfig's certificate-authority is damaged"),
    ("no start line", "the kubeconfig's certificates or keys are damaged"),
    ("Hostname mismatch", "its certificate is for another host name"),
    ("IP address mismatch", "its certificate is for another address"),
    ("certificate has expired", "its certificate has expired"),
    ("self-signed", "its certificate is not signed by the expected authority"),
    ("self signed", "its certificate is not signed by the expected authority"),
    ("unable to get local issuer", "its certificate is not signed by the expected authority"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS; the server's address may want http://"),
    ("wrong version number", "it does not speak TLS; the server's address may want http://"),
    ("CERTIFICATE_REQUIRED", "it wants a client certificate"),
    ("certificate required", "it wants a client certificate"),
)


def _too_large(call: Call, error: Exception) -> ClusterError:
    return ClusterError(
        f"{call.host} answers {call.method} {call.resource} with more than the 64 MiB allowed",
        "check the server's address in the kubeconfig",
    )


def _damaged(call: Call, error: Exception) -> ClusterError:
    return ClusterError(
        f"{call.host} answers {call.method} {call.resource} with damaged data",
        "check the server's address in the kubeconfig",
    )


def _bad_address(call: Call, error: Exception) -> ClusterError:
    return ClusterError(f"{call.server!r} is no server address", "it looks like https://HOST:PORT")


def _proxy(call: Call, error: Exception) -> ClusterError:
    return Unreachable(
        f"cannot reach {call.host}: the proxy does not answer",
        "check HTTPS_PROXY, NO_PROXY and proxy-url in the kubeconfig",
    )


def _lost(call: Call, error: Exception) -> ClusterError:
    return Unreachable(f"lost the connection to {call.host}", "try again")


_FAILURES: tuple[tuple[type[Exception], Callable[[Call, Exception], ClusterError]], ...] = (
    (transport.NameResolutionError, _unresolved),
    (transport.ProxyError, _proxy),
    (transport.NewConnectionError, _not_connected),
    (transport.ConnectTimeoutError, _connect_timed_out),
    (transport.ReadTimeoutError, _timed_out),
    (TimeoutError, _timed_out),
    (TooLarge, _too_large),
    (transport.DecodeError, _damaged),
    (transport.SSLError, _untrusted),
    (transport.LocationValueError, _bad_address),
)
