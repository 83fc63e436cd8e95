"""What a cluster held after each released version had submitted the tasks in `tasks/`.

To record a release: submit the tasks with it under the ids in `IDS` to a practice cluster, then run
`python -m tests.recorded < objects.json` with the output of
`kubectl get configmaps,secrets,services,jobs,pods -o json`.
"""

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "objects.json").is_file())
IDS = {  # of the task files; `chain` was submitted with --detach, `squares` with --array 1-3
    "hello": "hello001",
    "bad": "failed01",
    "ring": "ring0001",
    "files": "files001",
    "squares": "squares1",
    "indexed": "indexed1",
    "chain": "chain001",
}
_SCRIPT = re.compile(r"<runtime/([a-z.]+)>")


def objects(version: str) -> list[dict[str, Any]]:
    """Return the objects of a version, with the scripts that it sent."""
    items: list[dict[str, Any]] = json.loads((FOLDER / version / "objects.json").read_text())
    for item in items:
        for key, text in item.get("data", {}).items():
            match = _SCRIPT.fullmatch(text)
            if match:
                item["data"][key] = (FOLDER / version / "runtime" / f"{match[1]}.txt").read_text()
    return items


def manifests(version: str) -> list[dict[str, Any]]:
    """Return what the version sent: without pods, and without what the cluster added."""
    return [_sent(item) for item in objects(version) if item["kind"] != "Pod"]


def _sent(item: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key != "status"}
    names = ("name", "labels", "annotations")
    metadata = item["metadata"]
    kept["metadata"] = {name: metadata[name] for name in names if metadata.get(name)}
    if item["kind"] == "Service":
        kept["spec"] = {k: v for k, v in item["spec"].items() if k != "clusterIPs"}
    if item["kind"] == "Job":
        added = ("batch.kubernetes.io/", "controller-uid", "job-name")
        template = item["spec"]["template"]
        labels = template["metadata"]["labels"]
        own = {key: value for key, value in labels.items() if not key.startswith(added)}
        template = {**template, "metadata": {**template["metadata"], "labels": own}}
        kept["spec"] = {k: v for k, v in item["spec"].items() if k != "selector"}
        kept["spec"]["template"] = template
    return kept
