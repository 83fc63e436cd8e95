"""An object refused by an admission policy: submit deletes what it has created."""

import json

from tests.e2e.command import Command
from tests.e2e.support import until_deleted, wait_for_controller

TASK = "name: refused\nnum_nodes: 2\nsecrets: {T: x}\nrun: sleep 300\n"


def test_submit_denied_by_admission_policy_leaves_no_objects(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    api = "admissionregistration.k8s.io/v1"
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [jobs | {"resources": ["jobs"]}]},
            "validations": [{"expression": "false", "message": "no Jobs on Saturdays"}],
        },
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})

    try:
        made = kubectl("apply", "-f", "-", stdin=text)
        assert made.returncode == 0, made.stderr
        trial = ("create", "job", "trial", "--image=x", "--dry-run=server")
        wait_for_controller(lambda: kubectl(*trial).returncode != 0)
        done = sky("submit", "-", "--backend", "jobs", "--id", "refused1", stdin=TASK)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert done.stderr.splitlines()[-1] == (
            f"error: admission policy {namespace} denied the request: no Jobs on Saturdays;"
            " the created objects were deleted again"
        )
        until_deleted(kubectl, "refused1")
    finally:
        kubectl("delete", "-f", "-", stdin=text)
