"""Objects that another user of the namespace creates under our names and labels."""

import json
from typing import Any

from tests.e2e.command import Command
from tests.polling import eventually

FOREIGN_POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 0,
    "containers": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh", "-c", "echo from the foreign pod; sleep 300"],
        }
    ],
}


def create(kubectl: Command, *items: dict[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubectl("create", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr


def copied_metadata(kubectl: Command, kind: str, name: str, **labels: str) -> dict[str, Any]:
    """Return a copy of the labels and annotations of the user's object."""
    metadata = kubectl.json("get", kind, name)["metadata"]
    kept = {key: dict(metadata.get(key, {})) for key in ("labels", "annotations")}
    for key in [key for key in kept["labels"] if "controller-uid" in key or "job-name" in key]:
        del kept["labels"][key]
    kept["labels"] |= labels
    return kept


def foreign_job(kubectl: Command, name: str, like: str, **labels: str) -> None:
    metadata = copied_metadata(kubectl, "job", like, **labels)
    template = {"metadata": {"labels": metadata["labels"]}, "spec": FOREIGN_POD}
    create(
        kubectl,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, **metadata},
            "spec": {"backoffLimit": 0, "template": template},
        },
    )


def receiving() -> dict[str, Any]:
    """Return a pod that accepts uploads."""
    mounts = [
        {"name": "scripts", "mountPath": "/etc/kubectl-sky"},
        {"name": "kubectl-sky", "mountPath": "/kubectl-sky"},
    ]
    volumes = [
        {"name": "scripts", "configMap": {"name": "evil-scripts"}},
        {"name": "kubectl-sky", "emptyDir": {}},
    ]
    containers = [{**FOREIGN_POD["containers"][0], "volumeMounts": mounts}]
    return {**FOREIGN_POD, "containers": containers, "volumes": volumes}


def foreign_pod(kubectl: Command, name: str, like: str, spec: dict[str, Any] | None = None) -> None:
    pod = kubectl.json("get", "pod", "-l", f"job-name={like}")["items"][0]["metadata"]["name"]
    metadata = copied_metadata(kubectl, "pod", pod)
    create(
        kubectl,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": spec or FOREIGN_POD,
        },
    )


def until_foreign_run(kubectl: Command, count: int) -> None:
    def check() -> bool:
        pods = kubectl.json("get", "pods", "--field-selector", "status.phase=Running")["items"]
        names = [pod["metadata"]["name"] for pod in pods]
        return bool(sum(name.startswith("evil") for name in names) >= count)

    eventually(check, 90)
