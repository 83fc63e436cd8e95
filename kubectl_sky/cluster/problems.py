"""Translate what the server refuses into one line of plain words: what happened; what next.

A refusal is an HTTP status of 400 or more with a Status object. What never reached the server is
translated in `failures`.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kubectl_sky.cluster import admission
from kubectl_sky.cluster.call import Call
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    NotServed,
    Refused,
    Unreachable,
)
from kubectl_sky.values import dataclass

_MAX_TEXT = 4000  # characters of a message


@dataclass(frozen=True)
class Refusal:
    """A Status as the server sent it. `causes` are pairs of field and message."""

    call: Call
    status: int
    reason: str
    message: str
    kind: str
    name: str
    causes: tuple[tuple[str, str], ...]


def refused(call: Call, status: int, data: bytes) -> ClusterError:
    """Translate an answer with an HTTP status of 400 or more."""
    refusal = _read(call, status, data)
    return _BY_STATUS.get(status, _other)(refusal)


def refused_status(call: Call, body: Mapping[str, Any]) -> ClusterError:
    """Translate a Status that came inside a stream."""
    code = body.get("code")
    return refused(call, code if isinstance(code, int) else 500, json.dumps(body).encode())


def redirected(call: Call, status: int, location: str) -> ClusterError:
    """The error of a redirect, which is never followed: credentials are for one server."""
    address = re.match(r"https?://[\w.:\[\]-]{1,255}(?=[/?#]|$)", location, re.ASCII)
    target = f" to {address[0]}" if address else ""
    return ClusterError(
        f"{call.host} answers with a redirect{target} (HTTP {status}), which is not followed",
        "set the API server's own address in the kubeconfig",
    )


def not_kubernetes(call: Call) -> ClusterError:
    """The error of an answer that is not a JSON object."""
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
    if call.parts["plural"] == "secrets":  # messages may quote what was sent
        text = admission.without_values(text)
        causes = tuple((field, admission.without_values(why)) for field, why in causes)
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
    """Return what a server says as one line that is safe on a terminal."""
    words = " ".join(str(value or "")[:_MAX_TEXT].split())
    return "".join(character for character in words if character.isprintable())


def _unauthorized(refusal: Refusal) -> ClusterError:
    if refusal.call.server.lower().startswith("http://"):
        return ClusterError(
            f"unauthorized: credentials are not sent to {refusal.call.server}, without encryption",
            "use an https:// server",
        )
    return ClusterError(
        f"unauthorized: {refusal.call.host} does not accept the credentials;"
        " the token may have expired",
        "log in to the cluster again",
    )


def _forbidden(refusal: Refusal) -> ClusterError:
    told = admission.explain(refusal.message)
    if told:
        return Refused(*told)
    rbac = re.match(
        r'.*is forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<what>[^"]*)"'
        r' in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?',
        refusal.message,
    )
    if rbac:
        resource = rbac["what"] + (f".{rbac['group']}" if rbac["group"] else "")
        return _lacking(f"user {rbac['user']}", rbac["verb"], resource, rbac["namespace"])
    stream = re.search(r"/pods/[^/]+/(?P<name>exec|portforward)$", refusal.call.path)
    if stream and refusal.message.rstrip().endswith("is forbidden:"):
        # Kubernetes 1.35 checks "create" on top of "get", and does not say so.
        namespace = refusal.call.parts["namespace"]
        return _lacking("you", "create", f"pods/{stream['name']}", namespace)
    return Forbidden(refusal.message or f"forbidden: {refusal.call.resource}")


def _lacking(who: str, verb: str, resource: str, namespace: str | None) -> Forbidden:
    where = f" in namespace {namespace}" if namespace else " in the whole cluster"
    flag = f" -n {namespace}" if namespace else ""
    return Forbidden(
        f"forbidden: {who} may not {verb} {resource}{where}",
        f"check with `kubectl auth can-i {verb} {resource}{flag}`,"
        " or ask the cluster's administrator",
    )


def _not_found(refusal: Refusal) -> ClusterError:
    parts = refusal.call.parts
    if not refusal.reason and "container" in refusal.message:  # in the words of a node
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
        being = "; it is being deleted" if "object is being deleted" in refusal.message else ""
        return Conflict(
            f"{call.resource} {name} already exists{where}{being}",
            "wait until it is gone" if being else "choose another name, or delete it first",
        )
    if "exceeded quota" in refusal.message or "object has been modified" not in refusal.message:
        return Conflict(refusal.message or f"{call.resource} {name}{where} is in conflict")
    return Conflict(f"{call.resource} {name}{where} was changed by somebody else", "try again")


def _gone(refusal: Refusal) -> ClusterError:
    return Expired(f"the list of {refusal.call.resource} is too old to continue", "list it again")


def _invalid(refusal: Refusal) -> ClusterError:
    told = admission.explain(refusal.message)
    if told:
        return Refused(*told)
    what = f"{refusal.kind or refusal.call.resource} {refusal.name}".strip()
    causes = [f"{field}: {why}" if field else why for field, why in refusal.causes]
    if not causes:
        return ClusterError(f"the cluster refuses {what} as invalid: {refusal.message}")
    return ClusterError(f"the cluster refuses {what} as invalid: {', and '.join(causes)}")


def _bad_request(refusal: Refusal) -> ClusterError:
    told = admission.explain(refusal.message)
    if told:
        return Refused(*told)
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
    return Unreachable(  # it did nothing, and will answer when it has less to do
        f"{refusal.call.host} has too much to do: {refusal.message or 'too many requests'}",
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
        return _away(refusal)  # the database starts again or has a new leader
    node = re.match(
        r'(?:Get|Post) "?https://([^/:"]+):\d+/(?:containerLogs|exec)/', refusal.message
    )
    if node:
        return Unreachable(
            f"the API server cannot reach node {node[1]}", f"see `kubectl describe node {node[1]}`"
        )
    told = admission.explain(refusal.message)
    if told:
        return ClusterError(*told)
    what = refusal.message or f"HTTP {refusal.status}"
    return ClusterError(f"{refusal.call.host} failed: {what}", "try again later")


def _away(refusal: Refusal) -> ClusterError:
    return Unreachable(
        f"{refusal.call.host} cannot serve now: {refusal.message or f'HTTP {refusal.status}'}",
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


_BY_STATUS: Mapping[int, Callable[[Refusal], ClusterError]] = {
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
    502: _away,
    503: _away,
    504: _away,
}
