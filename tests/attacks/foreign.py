"""Objects that another user of the namespace creates under our names and labels."""

import json
from typing import Any

from tests.e2e.command import Command

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
