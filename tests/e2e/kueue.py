"""What makes a queue of Kueue."""

import json
from typing import Any

from tests.e2e.command import Command

API = "kueue.x-k8s.io/v1beta2"


def queue(name: str, namespace: str, resources: Any) -> list[dict[str, Any]]:
    group = {
        "coveredResources": [resource["name"] for resource in resources],
        "flavors": [{"name": "plain", "resources": resources}],
    }
    cluster_queue = f"{namespace}-{name}"

    return [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "plain"}},
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": cluster_queue},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": cluster_queue},
        },
    ]


def made(kubectl: Command, *items: dict[str, Any]) -> None:
    manifest = json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    done = kubectl("apply", "-f", "-", stdin=manifest)
    assert done.returncode == 0, done.stderr
