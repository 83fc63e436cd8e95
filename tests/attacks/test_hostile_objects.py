"""Jobs and pods with values of any type in any field: `list` shows them or prints an error."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cli.main import main
from tests.attacks.hostile import HostileServer, answer

METADATA = {
    "name": "a",
    "namespace": "default",
    "uid": "u",
    "resourceVersion": "1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {
        "skypilot-task": "true",
        "task-id": "abcd0001",
        "task-name": "a",
        "username": "u",
        "node-idx": "0",
    },
    "annotations": {},
}
CONDITION = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
OBJECTS: dict[str, Any] = {
    "jobs": {
        "metadata": METADATA,
        "spec": {"parallelism": 1, "completions": 1},
        "status": {"active": 1, "conditions": [CONDITION]},
    },
    "pods": {
        "metadata": METADATA,
        "spec": {"nodeName": "n", "containers": [{"name": "task"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "task", "state": RUNNING, "restartCount": 0}],
        },
    },
}
VALUES: tuple[Any, ...] = (None, 1, "x\x1b[2J", [], {}, [1], 10**30)

Keys = tuple[str | int, ...]


def paths(value: Any, path: Keys = ()) -> Iterator[Keys]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


def changed(item: Any, path: Keys, value: Any) -> Any:
    item = copy.deepcopy(item)
    inner = item
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return item


@pytest.mark.parametrize("plural", ["jobs", "pods"])
def test_list_objects_with_random_values_exits_with_0_or_3(
    plural: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "/none")
    items = dict(OBJECTS)

    def serve(head: str) -> Iterator[bytes]:
        name = head.split()[1].partition("?")[0].rpartition("/")[2]
        body = {"metadata": {}, "items": [items[name]]} if name in items else {"groups": []}
        yield answer(json.dumps(body).encode())

    server = HostileServer(serve)
    failures = []
    for path in paths(OBJECTS[plural]):
        for value in VALUES:
            items[plural] = changed(OBJECTS[plural], path, value)
            code = main(["list", "--server", server.url, "--user", "u", "-n", "default"])
            printed = capsys.readouterr()
            if code not in (0, 3) or "\x1b" in printed.out + printed.err:
                failures.append((path, value, code, printed))
    server.close()
    assert not failures
