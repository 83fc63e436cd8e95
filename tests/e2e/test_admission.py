"""Objects refused by admission policies and webhooks: submit deletes what it has created."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.shell import run
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import until_deleted, wait_for_controller

TASK = "name: refused\nnum_nodes: 2\nsecrets: {T: x}\nrun: sleep 300\n"
API = "admissionregistration.k8s.io/v1"
JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}
JOBS |= {"resources": ["jobs"]}


def within(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


@contextmanager
def rule(kubectl: Command, *items: dict[str, Any]) -> Iterator[str]:
    """Apply an admission rule to the namespace; yield its error message once enforced."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    made = kubectl("apply", "-f", "-", stdin=text)
    trial = ("create", "job", "trial", "--image=x", "--dry-run=server")
    try:
        assert made.returncode == 0, made.stderr
        wait_for_controller(lambda: kubectl(*trial).returncode != 0)
        yield kubectl(*trial).stderr
    finally:
        kubectl("delete", "-f", "-", stdin=text)


class Refusing(BaseHTTPRequestHandler):
    """An admission webhook that allows only the first node of a task."""

    def do_POST(self) -> None:
        """Answer a review."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        allowed = request["name"].endswith("-node-0")
        status = {"message": "one Job a day for each of you"}
        response = {"uid": request["uid"], "allowed": allowed, "status": status}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps(review | {"response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Disable the request log."""


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Serve the webhook; return its client config for the API server."""
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    flags = ("-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate)
    names = ("-subj", "/CN=refusing", "-addext", "subjectAltName=IP:127.0.0.1")
    run(["openssl", "req", *flags, *names])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {
            "url": f"https://127.0.0.1:{server.server_port}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        }
        server.shutdown()
        thread.join()


def webhook(namespace: str, where: dict[str, Any], seconds: int) -> dict[str, Any]:
    hook = {
        "name": "jobs.example.com",
        "clientConfig": where,
        "rules": [JOBS],
        "namespaceSelector": within(namespace),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": seconds,
    }
    item = {"apiVersion": API, "kind": "ValidatingWebhookConfiguration"}
    return item | {"metadata": {"name": namespace}, "webhooks": [hook]}


def check(sky: Command, kubectl: Command, says: str, *hints: str) -> None:
    done = sky("submit", "-", "--backend", "jobs", "--id", "refused1", stdin=TASK)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    expected = [f"error: {says}; the created objects were deleted again"]
    expected += [f"hint: {hint}" for hint in hints]
    assert done.stderr.splitlines()[-len(expected) :] == expected
    until_deleted(kubectl, "refused1")


def test_submit_denied_by_admission_policy_leaves_no_objects(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    metadata = {"name": namespace}
    policy = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [JOBS]},
            "validations": [{"expression": "false", "message": "no Jobs on Saturdays"}],
        },
    }
    binding = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": within(namespace)},
        },
    }
    with rule(kubectl, policy, binding):
        says = f"admission policy {namespace} denied the request: no Jobs on Saturdays"
        check(sky, kubectl, says)


def test_submit_denied_by_webhook_leaves_no_objects(
    sky: Command, kubectl: Command, cluster: Cluster, namespace: str, refusing: dict[str, Any]
) -> None:
    """The webhook denies the second node after the first is created."""
    with rule(kubectl, webhook(namespace, refusing, 20)) as message:
        if "failed calling webhook" in message and cluster.driver != "machine":
            pytest.skip("the cluster's server does not reach what listens on this machine")
        says = (
            "admission webhook jobs.example.com denied the request: one Job a day for each of you"
        )
        check(sky, kubectl, says)


def test_submit_unreachable_webhook_leaves_no_objects(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    with rule(kubectl, webhook(namespace, {"url": "https://127.0.0.1:1/"}, 2)):
        hint = "ask a cluster admin to repair it, or try again later"
        check(sky, kubectl, "admission webhook jobs.example.com does not answer", hint)
