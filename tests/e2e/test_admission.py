"""What the cluster's own rules refuse when some of a task is there already: nothing is left."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.conftest import Command
from tests.e2e.test_queues import until
from tests.e2e.test_submit import gone

TASK = "name: refused\nnum_nodes: 2\nsecrets: {T: x}\nrun: sleep 300\n"
API = "admissionregistration.k8s.io/v1"
JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}
JOBS |= {"resources": ["jobs"]}


def within(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


@contextmanager
def rule(kubectl: Command, *items: dict[str, Any]) -> Iterator[None]:
    """A rule of the cluster, for the test's namespace alone, that is heeded already."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    made = kubectl("apply", "-f", "-", stdin=text)
    trial = ("create", "job", "trial", "--image=x", "--dry-run=server")
    try:
        assert made.returncode == 0, made.stderr
        until(lambda: kubectl(*trial).returncode != 0)
        yield
    finally:
        kubectl("delete", "-f", "-", stdin=text)


def check(sky: Command, kubectl: Command, backend: str, says: str) -> None:
    done = sky("submit", "-", "--backend", backend, "--id", "refused1", stdin=TASK)
    assert done.returncode == 3, done.stderr
    assert says in done.stderr
    gone(kubectl, "refused1")


def test_a_policy_that_refuses(sky: Command, kubectl: Command, namespace: str) -> None:
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
        says = f"admission policy {namespace} refused it: no Jobs on Saturdays"
        check(sky, kubectl, "jobs", says)


def test_a_webhook_that_does_not_answer(sky: Command, kubectl: Command, namespace: str) -> None:
    webhook = {
        "name": "jobs.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [JOBS],
        "namespaceSelector": within(namespace),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 2,
    }
    item = {"apiVersion": API, "kind": "ValidatingWebhookConfiguration"}
    with rule(kubectl, item | {"metadata": {"name": namespace}, "webhooks": [webhook]}):
        check(sky, kubectl, "jobs", "admission webhook jobs.example.com does not answer")
