"""Explanations of API server messages that a small test cluster does not produce."""

import pytest

from kubectl_sky.cluster import admission, errors
from kubectl_sky.cluster.errors import RequestInfo
from kubectl_sky.errors import KubeletUnreachable

INFO = RequestInfo("POST", "/apis/batch/v1/namespaces/n/jobs", "https://s:1")


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (
            400,
            'admission webhook "check.example.com" denied the request: no root please',
            "admission webhook check.example.com denied the request: no root please",
        ),
        (
            403,
            'admission webhook "vappwrapper.kb.io" denied the request: spec.components[0].template:'
            " Forbidden: User bob is not authorized to create jobs in n",
            "user bob is not entitled to the contained resources: creating jobs in namespace n is",
        ),
        (
            401,
            "kubectl-sky: unauthorized: s:2 does not accept the credentials",
            "unauthorized: s:2 does not accept the credentials",
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "check.example.com": failed to call'
            ' webhook: Post "https://x": dial tcp: connect: connection refused',
            "admission webhook check.example.com does not answer; ask a cluster admin",
        ),
        (
            422,
            "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied"
            " request: too many",
            "admission policy p denied the request: too many",
        ),
        (
            403,
            'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: main;'
            " limits.memory for: main",
            "quota q requires limits.cpu for: main; limits.memory for: main",
        ),
        (
            403,
            'jobs.batch "a" is forbidden: unable to create new content in namespace n because it'
            " is being terminated",
            "namespace n is being deleted; wait",
        ),
        (429, "too many requests", "s:1 is overloaded"),
        (503, "not ready", "s:1 is unavailable: not ready; try again later"),
        (
            500,
            "etcdserver: leader changed",
            "s:1 is unavailable: etcdserver: leader changed; try",
        ),
        (500, "rpc error: code = Unavailable desc = EOF", "s:1 is unavailable: rpc error"),
        (
            400,
            'previous terminated container "main" in pod "p" not found',
            "pod p has no earlier log: its container main was not restarted, or the log was"
            " deleted; print the log without --previous",
        ),
        (
            400,
            "container x is not valid for pod p",
            "pod p has no container x; omit -c for that of the task; see",
        ),
        (
            409,
            'Operation cannot be fulfilled on resourcequotas "team": the object has been modified;'
            " please apply your changes to the latest version and try again",
            'quota "team" is busy: other requests change it at the same time; try again later',
        ),
        (
            409,
            'Operation cannot be fulfilled on persistentvolumes "disk": the object has been'
            " modified; please apply your changes to the latest version and try again",
            "persistentvolumes disk in namespace n was changed by another client; try again",
        ),
        (
            409,
            'Operation cannot be fulfilled on jobs.batch "a": the object has been modified; please'
            " apply your changes to the latest version and try again",
            "jobs.batch a in namespace n was changed by another client; try again",
        ),
    ],
)
def test_refused_messages_of_api_server_are_explained(
    status: int, message: str, expected: str
) -> None:
    """Messages from the source of the API server that the test cluster does not produce."""
    body = b'{"kind": "Status", "reason": "X", "message": %s}' % _quoted(message)
    assert str(errors.refuse(INFO, status, body)).startswith(expected)


SILENT = "the cluster node of pod p does not respond"
KUBELET = "https://10.250.0.13:10250"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (
            500,
            f'Get "{KUBELET}/containerLogs/n/p/main?follow=true": dial tcp 10.250.0.13:10250: i/o'
            " timeout",
            SILENT,
        ),
        (500, f'Get "{KUBELET}/containerLogs/n/p/main": net/http: TLS handshake timeout', SILENT),
        (500, "Get https://worker-2:10250/containerLogs/n/p/main: dial tcp: refused", SILENT),
        (500, 'Get "https://[fd00::3]:10250/containerLogs/n/p/main": dial tcp: refused', SILENT),
        (503, f'Get "{KUBELET}/containerLogs/n/p/main": No agent available', SILENT),
        (
            502,
            f'Get "{KUBELET}/containerLogs/n/p/main": proxy error from 127.0.0.1:9345 while dialing'
            " 10.250.0.13:10250, code 502: 502 Bad Gateway",
            SILENT,
        ),
        (500, "error dialing backend: dial tcp 10.250.0.13:10250: i/o timeout", SILENT),
        (500, "error dialing backend: No agent available", SILENT),
        (
            500,
            f'Get "{KUBELET}/containerLogs/n/p/main": remote error: tls: internal error',
            "the cluster node of pod p has no serving certificate, which is probably pending; ask a"
            " cluster admin to approve it: `kubectl get csr`",
        ),
        (
            500,
            f'Get "{KUBELET}/containerLogs/n/p/main": tls: failed to verify certificate: x509: x',
            "the cluster node of pod p has a serving certificate that the API server does not"
            " trust; ask a cluster admin to replace it",
        ),
    ],
)
def test_kubelet_that_api_server_cannot_reach_is_that_of_one_pod(
    status: int, message: str, expected: str
) -> None:
    """The texts of API servers, with konnectivity and of k3s too."""
    body = b'{"kind": "Status", "message": %s}' % _quoted(message)
    info = RequestInfo("GET", "/api/v1/namespaces/n/pods/p/log", "https://s:1")
    error = errors.refuse(info, status, body)
    assert isinstance(error, KubeletUnreachable)
    assert str(error) == expected
    assert errors.is_about_kubelet(body)


def _quoted(text: str) -> bytes:
    return b'"' + text.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


@pytest.mark.parametrize("text", ["a plain refusal", "", "x" * 10_000])
def test_explain_unknown_message_is_none(text: str) -> None:
    assert admission.explain(text) is None


@pytest.mark.parametrize("body", [b"", b"null", b"[1]", b"<html>bad\ngateway</html>", b"{}"])
@pytest.mark.parametrize("status", [400, 401, 403, 409, 410, 413, 418, 422, 429, 500, 502, 599])
def test_refused_any_response_has_single_line_message(status: int, body: bytes) -> None:
    text = str(errors.refuse(INFO, status, body))
    assert text.strip()
    assert "\n" not in text


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/apis/apps/v1/namespaces/n/deployments", "use a complete cluster, such as that of"),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", "use a complete cluster, such as"),
        ("/apis/metrics.k8s.io/v1beta1/namespaces/n/pods", "install its controller, or"),
        ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/n/jobsets", "install its controller, or"),
    ],
)
def test_error_unserved_kind_hints_at_cluster_or_controller(path: str, hint: str) -> None:
    error = errors.refuse(RequestInfo("GET", path, "https://s:1"), 404, b"404 page not found")
    assert error.hint.startswith(hint)


NGINX = (
    "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center>"
    "<h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center></body></html>"
)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (413, NGINX),
        (413, "Request entity too large: limit is 3145728"),
        (500, "etcdserver: request is too large"),
        (500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max"),
    ],
)
def test_created_object_that_is_too_large_is_named(status: int, text: str) -> None:
    info = RequestInfo("POST", "/api/v1/namespaces/n/configmaps", "https://s:1", "train-x1")
    error = errors.refuse(info, status, text.encode())
    assert error.what.startswith("configmaps train-x1 is too large for the cluster: ")
    assert "<" not in str(error)
