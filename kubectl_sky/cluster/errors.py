"""Translate cluster errors into one line each: what happened, and a hint.

`refused` translates an HTTP status and its Status object, `unreachable` a transport exception.
The table at the end of each section lists the known cases.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from urllib3 import exceptions as urllib3_errors

from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    NotServed,
    Refused,
    Unauthorized,
    Unreachable,
)

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
)
_Match = re.Match[str]
_VALUE = re.compile(r'(Invalid value: |got )(?:"(?:[^"\\]|\\.)*"|\S.*)')
_MAX_MESSAGE_CHARACTERS = 4000  # characters of a message
_CHECK_NETWORK = "check that the cluster runs and that you are on its network or VPN"
_CHECK_CERTIFICATE = "check certificate-authority and server in the kubeconfig"


@dataclass(frozen=True)
class Call:
    """The parts of a request that error messages need."""

    method: str
    path: str
    server: str

    @property
    def parts(self) -> dict[str, str]:
        """Group, version, namespace, plural and name; empty if missing in the path."""
        match = _PATH.match(self.path)
        groups = match.groupdict() if match else {}
        return {
            key: unquote(groups.get(key) or "")
            for key in ("group", "version", "namespace", "plural", "name")
        }

    @property
    def resource(self) -> str:
        """The resource as RBAC writes it: `jobs.batch`."""
        parts = self.parts
        return ".".join(filter(None, (parts["plural"], parts["group"]))) or self.path

    @property
    def host(self) -> str:
        """Host and port of the server."""
        return urlsplit(self.server).netloc or self.server


# Refusals of the API server


@dataclass(frozen=True)
class Refusal:
    """A Status object from the server. `causes` are pairs of field and message."""

    call: Call
    status: int
    reason: str
    message: str
    kind: str
    name: str
    causes: tuple[tuple[str, str], ...]


def refused(call: Call, status: int, data: bytes) -> ClusterError:
    """Translate a response with an HTTP status of 400 or more."""
    refusal = _read(call, status, data)
    return _STATUSES.get(status, _other)(refusal)


def refused_status(call: Call, body: Mapping[str, Any]) -> ClusterError:
    """Translate a Status received in a stream."""
    code = body.get("code")
    return refused(call, code if isinstance(code, int) else 500, json.dumps(body).encode())


def redirected(call: Call, status: int, location: str) -> ClusterError:
    """Return the error for a redirect, not followed to protect the credentials."""
    address = re.match(r"https?://[\w.:\[\]-]{1,255}(?=[/?#]|$)", location, re.ASCII)
    target = f" to {address[0]}" if address else ""
    return ClusterError(
        f"{call.host} returns a redirect{target} (HTTP {status}), which is not followed",
        "set the API server's own address in the kubeconfig",
    )


def not_kubernetes(call: Call) -> ClusterError:
    """Return the error for a response that is not a JSON object."""
    return ClusterError(
        f"{call.server} does not answer like a Kubernetes API server",
        "check the server's address in the kubeconfig",
    )


def _read(call: Call, status: int, data: bytes) -> Refusal:
    body = _object(_parsed(data))
    details = _object(body.get("details"))
    causes = tuple(
        (one_line(cause.get("field")), one_line(cause.get("message")))
        for cause in map(_object, _array(details.get("causes")))
    )
    text = one_line(body.get("message") or ("" if body else data[:300].decode(errors="replace")))
    if call.parts["plural"] == "secrets":  # messages may quote secret values
        text = without_values(text)
        causes = tuple((field, without_values(why)) for field, why in causes)
    return Refusal(
        call,
        status,
        one_line(body.get("reason")),
        text,
        one_line(details.get("kind")),
        one_line(details.get("name")),
        causes,
    )


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def one_line(value: object) -> str:
    """Return server text as one line of printable characters."""
    words = " ".join(str(value or "")[:_MAX_MESSAGE_CHARACTERS].split())
    return "".join(character for character in words if character.isprintable())


def _unauthorized(refusal: Refusal) -> ClusterError:
    if refusal.call.server.lower().startswith("http://"):
        return Unauthorized(
            f"unauthorized: credentials are not sent to {refusal.call.server}, without encryption",
            "use an https:// server",
        )
    return Unauthorized(
        f"unauthorized: {refusal.call.host} does not accept the credentials;"
        " the token may have expired",
        "log in to the cluster again",
    )


def _forbidden(refusal: Refusal) -> ClusterError:
    explanation = explain(refusal.message)
    if explanation:
        return Refused(*explanation)
    rbac = re.match(
        r'.*is forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<what>[^"]*)"'
        r' in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?',
        refusal.message,
    )
    if rbac:
        resource = rbac["what"] + (f".{rbac['group']}" if rbac["group"] else "")
        return _lacks_permission(f"user {rbac['user']}", rbac["verb"], resource, rbac["namespace"])
    stream = re.search(r"/pods/[^/]+/(?P<name>exec|portforward)$", refusal.call.path)
    if stream and refusal.message.rstrip().endswith("is forbidden:"):
        # Kubernetes 1.35 also requires "create", and its message does not say so.
        namespace = refusal.call.parts["namespace"]
        return _lacks_permission("you", "create", f"pods/{stream['name']}", namespace)
    return Forbidden(refusal.message or f"forbidden: {refusal.call.resource}")


def _lacks_permission(who: str, verb: str, resource: str, namespace: str | None) -> Forbidden:
    where = f" in namespace {namespace}" if namespace else " in the whole cluster"
    flag = f" -n {namespace}" if namespace else ""
    return Forbidden(
        f"forbidden: {who} may not {verb} {resource}{where}",
        f"check with `kubectl auth can-i {verb} {resource}{flag}`, or ask a cluster admin",
    )


def _not_found(refusal: Refusal) -> ClusterError:
    parts = refusal.call.parts
    if not refusal.reason and "container" in refusal.message:  # a message of the kubelet
        return NotFound(refusal.message)
    if not refusal.reason or not (refusal.name or refusal.kind == "namespaces"):
        return NotServed(
            f"the cluster does not serve {refusal.call.resource}"
            f" ({parts['group'] or 'core'}/{parts['version']})",
            "install its controller, or choose another backend",
        )
    if refusal.kind == "namespaces":
        name = refusal.name
        return NotFound(
            f"namespace {name} does not exist", f"create it with `kubectl create namespace {name}`"
        )
    where = f" in namespace {parts['namespace']}" if parts["namespace"] else ""
    resource, name = refusal.call.resource, refusal.name or parts["name"]
    return NotFound(f"{resource} {name} not found{where}")


def _conflict(refusal: Refusal) -> ClusterError:
    call = refusal.call
    name = refusal.name or call.parts["name"]
    where = f" in namespace {call.parts['namespace']}" if call.parts["namespace"] else ""
    if refusal.reason == "AlreadyExists":
        deleting = "; it is being deleted" if "object is being deleted" in refusal.message else ""
        return Conflict(
            f"{call.resource} {name} already exists{where}{deleting}",
            "wait until it is gone" if deleting else "choose another name, or delete it first",
        )
    if "exceeded quota" in refusal.message or "object has been modified" not in refusal.message:
        return Conflict(refusal.message or f"{call.resource} {name}{where} is in conflict")
    return Conflict(f"{call.resource} {name}{where} was changed by another client", "try again")


def _gone(refusal: Refusal) -> ClusterError:
    return Expired(f"the list of {refusal.call.resource} is too old to continue", "list it again")


def _invalid(refusal: Refusal) -> ClusterError:
    explanation = explain(refusal.message)
    if explanation:
        return Refused(*explanation)
    what = f"{refusal.kind or refusal.call.resource} {refusal.name}".strip()
    causes = [f"{field}: {why}" if field else why for field, why in refusal.causes]
    if not causes:
        return ClusterError(f"the cluster refuses {what} as invalid: {refusal.message}")
    return ClusterError(f"the cluster refuses {what} as invalid: {', and '.join(causes)}")


def _bad_request(refusal: Refusal) -> ClusterError:
    explanation = explain(refusal.message)
    if explanation:
        return Refused(*explanation)
    strict = re.match(
        r"(.*) cannot be handled as .*?: strict decoding error: (.*)", refusal.message
    )
    if strict:
        return ClusterError(f"the cluster refuses {strict[1]} as invalid: {strict[2]}")
    return ClusterError(f"the cluster refuses the request: {refusal.message}")


def _too_large(refusal: Refusal) -> ClusterError:
    return ClusterError(
        f"{refusal.call.resource} {refusal.call.parts['name']} is too large for the cluster:"
        f" {refusal.message or 'the API server takes 3 MiB'}",
        "put big files on a volume or into the image",
    )


def _busy(refusal: Refusal) -> ClusterError:
    return Unreachable(  # nothing was done; a retry may succeed
        f"{refusal.call.host} is overloaded: {refusal.message or 'too many requests'}",
        "try again later",
    )


def _failed(refusal: Refusal) -> ClusterError:
    typed = re.match(
        r"failed to create typed patch object \([^;]*; [^)]*Kind=(\w+)\): (.*)", refusal.message
    )
    if typed:
        fields = typed[2].removeprefix("errors: ").replace("schema .", "schema, and .")
        name = refusal.call.parts["name"]
        return ClusterError(f"the cluster refuses {typed[1]} {name} as invalid: {fields}")
    if "request is too large" in refusal.message:
        return _too_large(refusal)
    if re.match(r"etcdserver: |rpc error: code = (Unavailable|DeadlineExceeded)", refusal.message):
        return _unavailable(refusal)  # etcd restarts or elects a leader
    node = re.match(
        r'(?:Get|Post) "?https://([^/:"]+):\d+/(?:containerLogs|exec)/', refusal.message
    )
    if node:
        return Unreachable(
            f"the API server cannot reach node {node[1]}", f"see `kubectl describe node {node[1]}`"
        )
    explanation = explain(refusal.message)
    if explanation:
        return ClusterError(*explanation)
    what = refusal.message or f"HTTP {refusal.status}"
    return ClusterError(f"{refusal.call.host} failed: {what}", "try again later")


def _unavailable(refusal: Refusal) -> ClusterError:
    return Unreachable(
        f"{refusal.call.host} is unavailable: {refusal.message or f'HTTP {refusal.status}'}",
        "try again later",
    )


def _other(refusal: Refusal) -> ClusterError:
    if refusal.status >= 500:
        return _failed(refusal)
    what = refusal.message or "no reason given"
    return ClusterError(
        f"{refusal.call.host} refuses {refusal.call.method} {refusal.call.resource}"
        f" with HTTP {refusal.status}: {what}"
    )


_STATUSES: Mapping[int, Callable[[Refusal], ClusterError]] = {
    400: _bad_request,
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    409: _conflict,
    410: _gone,
    413: _too_large,
    422: _invalid,
    429: _busy,
    500: _failed,
    502: _unavailable,
    503: _unavailable,
    504: _unavailable,
}


# Refusals by quotas, limits, policies and webhooks


def explain(message: str) -> tuple[str, str] | None:
    """Explain a refusal by quota, limit, policy or webhook; None for others."""
    for pattern, explanation in _RULES:
        match = pattern.search(message)
        if match:
            return explanation(match)
    return None


def without_values(message: str) -> str:
    """Remove the values quoted in an error message about a Secret."""
    return _VALUE.sub(r"\1(not shown)", message)


def _amounts(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _quota(match: _Match) -> tuple[str, str]:
    used, limited = _amounts(match["used"]), _amounts(match["limited"])
    parts = [
        f"{what}: requested {amount}, used {used.get(what, '?')} of {limited.get(what, '?')}"
        for what, amount in _amounts(match["asked"]).items()
    ]
    return (
        f"quota {match['quota']} is full: {', '.join(parts)}",
        "stop a task, request less, or ask a cluster admin for a larger quota",
    )


def _quota_requires(match: _Match) -> tuple[str, str]:
    return (
        f"quota {match['quota']} requires {match['what']}",
        "set cpus and memory under resources",
    )


def _not_entitled(match: _Match) -> tuple[str, str]:
    """Explain an AppWrapper whose user may not create the wrapped resources."""
    return (
        f"user {match['user']} is not entitled to the contained resources:"
        f" creating {match['what']} in namespace {match['where']} is not allowed",
        "ask a cluster admin for this permission: `kubectl sky doctor --role` prints a Role",
    )


def _webhook(match: _Match) -> tuple[str, str]:
    return f"admission webhook {match['name']} denied the request: {match['why']}", ""


def _webhook_down(match: _Match) -> tuple[str, str]:
    return (
        f"admission webhook {match['name']} does not answer",
        "ask a cluster admin to repair it, or try again later",
    )


def _policy(match: _Match) -> tuple[str, str]:
    return f"admission policy {match['name']} denied the request: {match['why']}", ""


def _pod_security(match: _Match) -> tuple[str, str]:
    return (
        f"Pod Security level {match['level']} of the namespace denied the pod: {match['why']}",
        "change the pod with config.kubernetes.pod_config (restricted needs runAsNonRoot: true),"
        " or use a namespace with another level",
    )


def _terminating(match: _Match) -> tuple[str, str]:
    return f"namespace {match['name']} is being deleted", "wait, or use another namespace with -n"


def _no_priority_class(match: _Match) -> tuple[str, str]:
    return (
        f'priority class "{match["name"]}" not found',
        "set resources.priority_class to one of `kubectl get priorityclasses`",
    )


def _no_service_account(match: _Match) -> tuple[str, str]:
    name, namespace = match["name"], match["namespace"]
    return (
        f'service account "{name}" not found in namespace "{namespace}"',
        f"`kubectl get serviceaccounts -n {namespace}` lists the existing ones",
    )


def _limits(match: _Match) -> tuple[str, str]:
    return (
        f"a LimitRange of the namespace denied the request: {match['why']}",
        "see `kubectl describe limitrange`",
    )


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Match], tuple[str, str]]], ...] = (
    (
        re.compile(
            r"exceeded quota: (?P<quota>\S+), requested: (?P<asked>\S+),"
            r" used: (?P<used>\S+), limited: (?P<limited>\S+)"
        ),
        _quota,
    ),
    (re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>.+)"), _quota_requires),
    (
        re.compile(
            r"User (?P<user>\S+) is not authorized to create (?P<what>\S+) in (?P<where>[^\s,\]]+)"
        ),
        _not_entitled,
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]*)" denied the request:? ?(?P<why>.*)'),
        _webhook,
    ),
    (re.compile(r'failed calling webhook "(?P<name>[^"]*)"'), _webhook_down),
    (
        re.compile(
            r"ValidatingAdmissionPolicy '(?P<name>[^']*)' with binding '[^']*' denied request:"
            r" (?P<why>.*)"
        ),
        _policy,
    ),
    (re.compile(r'violates PodSecurity "(?P<level>[^"]*)": (?P<why>.*)'), _pod_security),
    (
        re.compile(r"unable to create new content in namespace (?P<name>\S+) because it is being"),
        _terminating,
    ),
    (re.compile(r"no PriorityClass with name (?P<name>\S+) was found"), _no_priority_class),
    (
        re.compile(
            r"error looking up service account (?P<namespace>[^/\s]+)/(?P<name>[^:\s]+):"
            r" serviceaccount .* not found"
        ),
        _no_service_account,
    ),
    (re.compile(r"is forbidden: (?P<why>(?:maximum|minimum|max limit|\[).+)"), _limits),
)


# Failures of the transport


class TooLarge(urllib3_errors.HTTPError):
    """Raised for a response larger than any list of Kubernetes objects."""


def unreachable(call: Call, error: Exception) -> ClusterError:
    """Return the error for an exception of urllib3 or a socket."""
    while isinstance(error, urllib3_errors.MaxRetryError) and error.reason:
        error = error.reason
    handler = next((handler for test, handler in _FAILURES if isinstance(error, test)), _lost)
    return handler(call, error)


def restarting(call: Call, refusal: ClusterError) -> ClusterError:
    """Return a retryable error for a refusal by a server that has just restarted."""
    return Unreachable(f"{call.host} has just restarted and returned: {refusal.what}", "try again")


def _unresolved(call: Call, error: Exception) -> ClusterError:
    host = call.host.rsplit(":", 1)[0]
    return Unreachable(
        f"cannot reach {call.host}: the host name {host} is not known", _CHECK_NETWORK
    )


def _not_connected(call: Call, error: Exception) -> ClusterError:
    text = str(error).lower()
    why = next((why for word, why in _NOT_CONNECTED if word in text), str(error))
    return Unreachable(f"cannot reach {call.host}: {why}", _CHECK_NETWORK)


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
    return Unreachable(f"cannot reach {call.host}: timed out", _CHECK_NETWORK)


def _untrusted(call: Call, error: Exception) -> ClusterError:
    text = str(error)
    if "EOF" in text:
        return Unreachable(
            f"cannot reach {call.host}: it closed the connection before TLS started", _CHECK_NETWORK
        )
    why = next((why for word, why in _TLS if word in text), " ".join(text.split()))
    return ClusterError(f"no trusted connection to {call.host}: {why}", _CHECK_CERTIFICATE)


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


def _answer_too_large(call: Call, error: Exception) -> ClusterError:
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
    return ClusterError(f"{call.server!r} is not a server address", "use https://HOST:PORT")


def _proxy(call: Call, error: Exception) -> ClusterError:
    return Unreachable(
        f"cannot reach {call.host}: the proxy does not answer",
        "check HTTPS_PROXY, NO_PROXY and proxy-url in the kubeconfig",
    )


def _lost(call: Call, error: Exception) -> ClusterError:
    return Unreachable(f"lost the connection to {call.host}", "try again")


_FAILURES: tuple[tuple[type[Exception], Callable[[Call, Exception], ClusterError]], ...] = (
    (urllib3_errors.NameResolutionError, _unresolved),
    (urllib3_errors.ProxyError, _proxy),
    (urllib3_errors.NewConnectionError, _not_connected),
    (urllib3_errors.ConnectTimeoutError, _connect_timed_out),
    (urllib3_errors.ReadTimeoutError, _timed_out),
    (TimeoutError, _timed_out),
    (TooLarge, _answer_too_large),
    (urllib3_errors.DecodeError, _damaged),
    (urllib3_errors.SSLError, _untrusted),
    (urllib3_errors.LocationValueError, _bad_address),
)
