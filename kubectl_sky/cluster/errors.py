"""Translate cluster errors into one line each: what happened, and a hint.

`refused` translates an HTTP status and its Status object, `unreachable` an exception of urllib3.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from urllib3 import exceptions

from kubectl_sky.cluster.admission import explain, without_values
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeletUnreachable,
    NoEarlierLog,
    NotFound,
    NotServed,
    Refused,
    Unauthorized,
    Unprocessed,
    Unreachable,
)
from kubectl_sky.words.names import KUBERNETES_PATH

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
)
SERVER_PREFIX = "kubectl-sky: "  # of messages by `kubectl sky api`, not by the API server

_MAX_TEXT_BYTES = 300  # of an answer without a Status
_MAX_MESSAGE_CHARACTERS = 4000  # characters of a message
# Of `serve` only, which the Role of `doctor --role` leaves out by default.
_OF_SERVICES = (
    "deployments.apps",
    "replicasets.apps",
    "horizontalpodautoscalers.autoscaling",
    "ingresses.networking.k8s.io",
)
_TRY_LATER = "try again later"
CHECK_ADDRESS = "check the server's address in the kubeconfig"
_CHECK_NETWORK = "check that the cluster runs and that you are on its network or VPN"
_CHECK_SKY_SERVER = "check the address of --server-url, and that `kubectl sky api` runs there"
METRICS = "metrics.k8s.io"  # of an add-on, which the API server asks
_NO_CONTAINER = re.compile(r"container (?P<container>\S+) is not valid for pod (?P<pod>\S+)")
_NO_EARLIER = re.compile(
    r'previous terminated container "(?P<container>[^"]*)" in pod "(?P<pod>[^"]*)" not found'
)
# The object that a conflict is about: a quota, if it is that of a request for another object.
_CONFLICT = re.compile(
    r'^Operation cannot be fulfilled on (?P<resource>(?P<plural>[\w-]+)[\w.-]*) "(?P<name>[^"]*)"'
)
_QUOTAS = ("resourcequotas", "clusterresourcequotas")
_BUSY_SECONDS = 10.0  # in which a quota that many requests change at a time may be free
# What an API server says of a kubelet: its request, or that it cannot connect for exec.
_KUBELET = re.compile(
    r'(?:Get|Post) \\?"?https?://[^/"\s]+/(?:containerLogs|exec|attach|portForward)/'
    r"|error dialing backend: "
)
_KUBELET_PROBLEMS = (
    (
        "tls: internal error",
        "has no serving certificate, which is probably pending",
        "ask a cluster admin to approve it: `kubectl get csr`",
    ),
    (
        "x509: ",
        "has a serving certificate that the API server does not trust",
        "ask a cluster admin to replace it",
    ),
    ("", "does not respond", ""),
)
_CHECK_CERTIFICATE = "check certificate-authority and server in the kubeconfig"


class RequestInfo(Struct, frozen=True):
    """The parts of a request that error messages need.

    `created` is the name of the object that is created, which the path does not have.
    """

    method: str
    path: str
    server: str
    created: str = ""

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
        return urlsplit(self.server).netloc or self.server


class Refusal(Struct, frozen=True):
    """A Status object from the server. `causes` are pairs of field and message."""

    info: RequestInfo
    status: int
    reason: str
    message: str
    kind: str
    name: str
    causes: tuple[tuple[str, str], ...]


def refuse(info: RequestInfo, status: int, data: bytes) -> ClusterError:
    """Translate a response with an HTTP status of 400 or more."""
    refusal = _read(info, status, data)
    if status >= 500:
        kubelet = explain_kubelet(info.parts["name"], refusal.message)
        if kubelet:
            return kubelet
    return _STATUSES.get(status, _other)(refusal)


def error_of_status(info: RequestInfo, body: Mapping[str, Any]) -> ClusterError:
    code = body.get("code")
    status = code if isinstance(code, int) else 500
    return refuse(info, status, json.dumps(body).encode())


def refuse_redirect(info: RequestInfo, status: int, location: str) -> ClusterError:
    """Return the error for a redirect, not followed to protect the credentials."""
    address = re.match(r"https?://[\w.:\[\]-]{1,255}(?=[/?#]|$)", location, re.ASCII)
    target = f" to {address[0]}" if address else ""
    return ClusterError(
        f"{info.host} returns a redirect{target} (HTTP {status}), which is not followed",
        "set the API server's own address in the kubeconfig",
    )


def restarting(info: RequestInfo, refusal: ClusterError) -> ClusterError:
    """Return the error for a refusal by a server that may have just restarted."""
    why = f"{info.host} was away, and may not know your rights yet"
    return Unprocessed(f"{refusal.what}; {why}", "try again")


def not_kubernetes(info: RequestInfo, why: str) -> ClusterError:
    """Return the error for an answer that is not one of an API server: of a gateway, for example.

    It may be a transient failure, and the API server may have processed the request.
    """
    return Unreachable(
        f"{info.server} does not answer like a Kubernetes API server"
        f" ({info.method} {info.resource}): {why}",
        CHECK_ADDRESS,
    )


def is_about_kubelet(data: bytes) -> bool:
    """Whether an API server could not reach the kubelet of a pod, by its answer."""
    return bool(_KUBELET.search(data[:_MAX_MESSAGE_CHARACTERS].decode(errors="replace")))


def explain_kubelet(pod: str, message: str) -> KubeletUnreachable | None:
    """Return the error for a kubelet that the API server cannot reach, or None.

    The message has its address, which says little to a user: `name_node` adds the name.
    """
    if not _KUBELET.search(message):
        return None
    _, problem, hint = next(entry for entry in _KUBELET_PROBLEMS if entry[0] in message)
    return KubeletUnreachable(f"the cluster node of pod {pod} {problem}", hint, problem)


def _read(info: RequestInfo, status: int, data: bytes) -> Refusal:
    try:
        body = _object(json.loads(data))
    except (ValueError, RecursionError):
        body = {}

    details = _object(body.get("details"))
    items = details.get("causes")
    items = items if isinstance(items, list) else []
    causes = tuple(
        (one_line(cause.get("field")), one_line(cause.get("message")))
        for cause in map(_object, items)
    )

    text = one_line(body.get("message") or ("" if body else _text(data)))
    if info.parts["plural"] == "secrets":  # messages may quote secret values
        text = without_values(text)
        causes = tuple((field, without_values(why)) for field, why in causes)

    return Refusal(
        info,
        status,
        one_line(body.get("reason")),
        text,
        one_line(details.get("kind")),
        one_line(details.get("name")),
        causes,
    )


def _text(data: bytes) -> str:
    """Return the beginning of an answer without a Status; of a proxy's page, only its title."""
    text = data[:_MAX_TEXT_BYTES].decode(errors="replace")
    if not text.lstrip().startswith("<"):
        return text
    title = re.search(r"<title>([^<]*)", text, re.IGNORECASE)
    return title[1] if title else ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def one_line(value: object) -> str:
    """Return server text as one line of printable characters."""
    words = " ".join(str(value or "")[:_MAX_MESSAGE_CHARACTERS].split())
    return "".join(character for character in words if character.isprintable())


def _explain_unauthorized(refusal: Refusal) -> ClusterError:
    if refusal.message.startswith(SERVER_PREFIX):  # its own words, or those about the API server
        reason = refusal.message.removeprefix(SERVER_PREFIX).removeprefix("unauthorized: ")
        return Unauthorized(
            f"unauthorized: {reason}",
            "use a kubeconfig user with a token, or --token: see `kubectl create token --help`",
        )

    if refusal.info.server.lower().startswith("http://"):
        return Unauthorized(
            f"unauthorized: credentials are not sent to {refusal.info.server}, without encryption",
            "use an https:// server",
        )

    return Unauthorized(
        f"unauthorized: {refusal.info.host} does not accept the credentials;"
        " the token may have expired",
        "log in to the cluster again",
    )


def _explain_forbidden(refusal: Refusal) -> ClusterError:
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
        return lacks_permission(f"user {rbac['user']}", rbac["verb"], resource, rbac["namespace"])
    stream = re.search(r"/pods/[^/]+/(?P<name>exec|portforward)$", refusal.info.path)
    if stream and refusal.message.rstrip().endswith("is forbidden:"):
        # Kubernetes 1.35 also requires "create", and its message does not say so.
        namespace = refusal.info.parts["namespace"]
        return lacks_permission("you", "create", f"pods/{stream['name']}", namespace)
    return Forbidden(refusal.message or f"forbidden: {refusal.info.resource}")


def lacks_permission(who: str, verb: str, resource: str, namespace: str | None) -> Forbidden:
    where = f" in namespace {namespace}" if namespace else " in the whole cluster"
    flag = f" -n {namespace}" if namespace else ""
    hint = f"run `kubectl sky doctor{flag}` to see all missing rights, or ask a cluster admin"
    extra = _role_extra(resource)
    if not namespace and extra != "cluster":  # doctor shows the rights in a namespace
        hint = "name a namespace with -n, or ask a cluster admin"
    elif extra:
        role = f"kubectl sky doctor{flag} --role --with {extra}"
        hint = f"ask a cluster admin to apply what `{role}` prints"
    if namespace == "default":  # often that of a kubeconfig without one
        set_namespace = "kubectl config set-context --current --namespace=NAME"
        hint += f"; to use another namespace, run `{set_namespace}`"
    return Forbidden(f"forbidden: {who} may not {verb} {resource}{where}", hint)


def _role_extra(resource: str) -> str:
    """Return what `doctor --role --with` needs to include a right to this resource."""
    if resource in _OF_SERVICES:
        return "serve"
    return "cluster" if resource == "nodes" else ""


def _not_found(refusal: Refusal) -> ClusterError:
    parts = refusal.info.parts
    if not refusal.reason and "container" in refusal.message:  # a message of the kubelet
        return NotFound(refusal.message)
    if not refusal.reason or not (refusal.name or refusal.kind == "namespaces"):
        # The API server has these itself: apps, batch, authentication.k8s.io.
        is_builtin = "." not in parts["group"] or parts["group"].endswith(".k8s.io")
        is_builtin = is_builtin and parts["group"] != METRICS
        hint = "install its controller, or choose another backend"
        if is_builtin:
            hint = (
                "use a complete cluster, such as that of `kubectl sky local up --driver kind`,"
                " or a newer Kubernetes"
            )
        return NotServed(
            f"the cluster does not serve {refusal.info.resource}"
            f" ({parts['group'] or 'core'}/{parts['version']})",
            hint,
        )
    if refusal.kind == "namespaces":
        name = refusal.name
        return NotFound(
            f"namespace {name} does not exist", f"create it with `kubectl create namespace {name}`"
        )
    where = f" in namespace {parts['namespace']}" if parts["namespace"] else ""
    resource = refusal.info.resource
    name = refusal.name or parts["name"]
    return NotFound(f"{resource} {name} not found{where}")


def _conflict(refusal: Refusal) -> ClusterError:
    info = refusal.info
    where = f" in namespace {info.parts['namespace']}" if info.parts["namespace"] else ""
    about = _CONFLICT.search(refusal.message)
    if about and about["plural"] in _QUOTAS and info.parts["plural"] != about["plural"]:
        return Unprocessed(
            f'quota "{about["name"]}" is busy: other requests change it at the same time',
            _TRY_LATER,
            _BUSY_SECONDS,
        )

    # The name of the details may be that of another kind than the request's.
    resource = about["resource"] if about else info.resource
    name = about["name"] if about else refusal.name or info.parts["name"]
    if refusal.reason == "AlreadyExists":
        if "object is being deleted" in refusal.message:
            return Conflict(
                f"{resource} {name} already exists{where}; it is being deleted",
                "wait until it is gone",
            )
        return Conflict(
            f"{resource} {name} already exists{where}", "choose another name, or delete it first"
        )
    if "exceeded quota" in refusal.message or "object has been modified" not in refusal.message:
        return Conflict(refusal.message or f"{resource} {name}{where} is in conflict")
    return Conflict(f"{resource} {name}{where} was changed by another client", "try again")


def _explain_gone(refusal: Refusal) -> ClusterError:
    return Expired(f"the list of {refusal.info.resource} is too old to continue", "list it again")


def _invalid(refusal: Refusal) -> ClusterError:
    explanation = explain(refusal.message)
    if explanation:
        return Refused(*explanation)
    what = f"{refusal.kind or refusal.info.resource} {refusal.name}".strip()
    causes = [f"{field}: {why}" if field else why for field, why in refusal.causes]
    why = ", and ".join(causes) or refusal.message
    return Invalid(f"the cluster refuses {what} as invalid: {why}")


def _bad_request(refusal: Refusal) -> ClusterError:
    explanation = explain(refusal.message)
    if explanation:
        return Refused(*explanation)

    strict = re.match(
        r"(.*) cannot be handled as .*?: strict decoding error: (.*)", refusal.message
    )
    if strict:
        return ClusterError(f"the cluster refuses {strict[1]} as invalid: {strict[2]}")

    earlier = _NO_EARLIER.search(refusal.message)
    if earlier:
        return NoEarlierLog(
            f"pod {earlier['pod']} has no earlier log:"
            f" its container {earlier['container']} was not restarted, or the log was deleted",
            "print the log without --previous",
        )

    if unknown := _NO_CONTAINER.search(refusal.message):
        pod = unknown["pod"]
        return ClusterError(
            f"pod {pod} has no container {unknown['container']}",
            f"omit -c for that of the task; see `kubectl describe pod {pod}` for all",
        )

    return ClusterError(f"the cluster refuses the request: {refusal.message}")


def _too_large(refusal: Refusal) -> ClusterError:
    info = refusal.info
    return ClusterError(
        f"{info.resource} {info.parts['name'] or info.created} is too large for the cluster:"
        f" {refusal.message or 'the API server takes 3 MiB'}",
        "put big files on a volume or into the image",
    )


def _busy(refusal: Refusal) -> ClusterError:
    return Unprocessed(
        f"{refusal.info.host} is overloaded: {refusal.message or 'too many requests'}",
        _TRY_LATER,
    )


def _explain_failure(refusal: Refusal) -> ClusterError:
    typed = re.match(
        r"failed to create typed patch object \([^;]*; [^)]*Kind=(\w+)\): (.*)", refusal.message
    )
    if typed:
        fields = typed[2].removeprefix("errors: ").replace("schema .", "schema, and .")
        name = refusal.info.parts["name"]
        return ClusterError(f"the cluster refuses {typed[1]} {name} as invalid: {fields}")

    if re.search("request is too large|message larger than max", refusal.message):
        return _too_large(refusal)
    if "resource quota evaluation timed out" in refusal.message:  # before anything is stored
        return Unprocessed(f"{refusal.info.host} is overloaded: {refusal.message}", _TRY_LATER)
    if re.match(r"etcdserver: |rpc error: code = (Unavailable|DeadlineExceeded)", refusal.message):
        return _unavailable(refusal)  # etcd restarts or elects a leader

    explanation = explain(refusal.message)
    if explanation:
        return ClusterError(*explanation)
    what = refusal.message or f"HTTP {refusal.status}"
    return ClusterError(f"{refusal.info.host} failed: {what}", _TRY_LATER)


def _unavailable(refusal: Refusal) -> ClusterError:
    return Unreachable(
        f"{refusal.info.host} is unavailable: {refusal.message or f'HTTP {refusal.status}'}",
        _TRY_LATER,
    )


def _other(refusal: Refusal) -> ClusterError:
    if refusal.status >= 500:
        return _explain_failure(refusal)
    what = refusal.message or "no reason given"
    return ClusterError(
        f"{refusal.info.host} refuses {refusal.info.method} {refusal.info.resource}"
        f" with HTTP {refusal.status}: {what}"
    )


_STATUSES: Mapping[int, Callable[[Refusal], ClusterError]] = {
    400: _bad_request,
    401: _explain_unauthorized,
    403: _explain_forbidden,
    404: _not_found,
    409: _conflict,
    410: _explain_gone,
    413: _too_large,
    422: _invalid,
    429: _busy,
    500: _explain_failure,
    502: _unavailable,
    503: _unavailable,
    504: _unavailable,
}


class TooLarge(exceptions.HTTPError):
    """Raised for a response larger than any list of Kubernetes objects."""


def unreachable(info: RequestInfo, error: Exception, proxy: str = "") -> ClusterError:
    """Translate an exception of urllib3; `proxy` names the one that was used."""
    while isinstance(error, exceptions.MaxRetryError) and error.reason:
        error = error.reason

    if proxy and _is_of_proxy(info, error):
        return _explain_proxy(info, error, proxy)
    if isinstance(error, exceptions.SSLError):
        return _explain_untrusted(info, error)

    for failure, result, what, hint in _FAILURES:
        if isinstance(error, failure):
            host = info.host.rsplit(":", 1)[0]
            why = _find_reason(_NOT_CONNECTED, str(error).lower()) or str(error)
            if hint == _CHECK_NETWORK and info.server.endswith(KUBERNETES_PATH):
                hint = _CHECK_SKY_SERVER
            elif why == _REFUSED and host in _LOOPBACK:
                hint = _CHECK_LOCAL
            return result(what.format(info=info, host=host, why=why), hint)

    return Unreachable(f"lost the connection to {info.host}", "try again")


def _is_of_proxy(info: RequestInfo, error: Exception) -> bool:
    """Whether a proxy did not connect to the server."""
    if isinstance(error, exceptions.ReadTimeoutError):  # else its URL is the path of the request
        return "://" in str(error.url) and not str(error.url).startswith(info.server)
    return isinstance(error, (exceptions.ProxyError, exceptions.ConnectTimeoutError))


def _explain_proxy(info: RequestInfo, error: Exception, proxy: str) -> ClusterError:
    text = one_line(getattr(error, "original_error", error))
    why = _find_reason(_NOT_CONNECTED, text.lower())
    answer = _PROXY_ANSWER.search(text)
    if answer:
        what = f"the proxy answers: {answer[1]}"
        hint = f"check the proxy {proxy}, and that it may connect to {info.host}"
    else:
        what = "the proxy does not answer" + (f": {why}" if why else "")
        hint = f"check the proxy {proxy}"
    return Unreachable(f"cannot reach {info.host}: {what}", hint)


def _explain_untrusted(info: RequestInfo, error: Exception) -> ClusterError:
    text = str(error)
    if "EOF" in text:
        return Unreachable(
            f"cannot reach {info.host}: it closed the connection before TLS started", _CHECK_NETWORK
        )
    why = _find_reason(_TLS, text) or " ".join(text.split())
    return ClusterError(f"no trusted connection to {info.host}: {why}", _CHECK_CERTIFICATE)


def _find_reason(table: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((why for word, why in table if word in text), None)


_REFUSED = "connection refused"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_CHECK_LOCAL = (
    "check that the cluster, or the tunnel to it, runs;"
    " if it is the practice cluster, run `kubectl sky local up`"
)
_NOT_CONNECTED = (
    ("refused", _REFUSED),
    ("no route to host", "no route to the host"),
    ("unreachable", "the network is unreachable"),
    ("timed out", "timed out"),
    ("name or service not known", "its host name is not known"),
    ("failed to resolve", "its host name is not known"),
)
# What an HTTP proxy answers to CONNECT, and a SOCKS proxy with a code or to a login.
_PROXY_ANSWER = re.compile(
    r"(?:Tunnel connection failed: |\b0x0[0-9a-f]: |(?=All offered SOCKS5|SOCKS5 ))(.*)"
)
_TLS = (
    ("PEM", "the kubeconfig's certificates or keys are damaged"),
    ("no start line", "the kubeconfig's certificates or keys are damaged"),
    ("no certificate or crl found", "the kubeconfig's certificate-authority is damaged"),
    ("Hostname mismatch", "its certificate is for another host name"),
    ("IP address mismatch", "its certificate is for another address"),
    ("certificate has expired", "its certificate has expired"),
    ("self-signed", "its certificate is not signed by the expected authority"),
    ("self signed", "its certificate is not signed by the expected authority"),
    ("unable to get local issuer", "its certificate is not signed by the expected authority"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS; the server's address may want http://"),
    ("CERTIFICATE_REQUIRED", "the server requires a client certificate"),
)
_UNKNOWN_HOST = "cannot reach {info.host}: the host name {host} is not known"
_TIMED_OUT = "{info.host} did not answer {info.method} {info.resource} in time"
_TOO_LARGE = "{info.host} answers {info.method} {info.resource} with more than the 64 MiB allowed"
_DAMAGED = "{info.host} answers {info.method} {info.resource} with damaged data"
_NO_ADDRESS = '"{info.server}" is not a server address'
_MORE_TIME = "try again, or allow more with --request-timeout"
_Failure = tuple[type[Exception], type[ClusterError], str, str]
_FAILURES: tuple[_Failure, ...] = (
    (exceptions.NameResolutionError, Unprocessed, _UNKNOWN_HOST, _CHECK_NETWORK),
    (
        exceptions.ConnectTimeoutError,
        Unprocessed,
        "cannot reach {info.host}: {why}",
        _CHECK_NETWORK,
    ),
    (exceptions.ReadTimeoutError, Unreachable, _TIMED_OUT, _MORE_TIME),
    (TimeoutError, Unreachable, _TIMED_OUT, _MORE_TIME),
    (TooLarge, ClusterError, _TOO_LARGE, CHECK_ADDRESS),
    (exceptions.DecodeError, ClusterError, _DAMAGED, CHECK_ADDRESS),
    (exceptions.LocationValueError, ClusterError, _NO_ADDRESS, "use https://HOST:PORT"),
)
