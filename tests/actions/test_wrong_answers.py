"""Answers of wrong types, as of a gateway before the API server, to each request of a command."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cluster import backoff
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from tests.actions.conftest import Run, Submitter
from tests.builders import CREATED, ID
from tests.fake_cluster import FakeCluster

Keys = tuple[str | int, ...]

TASK = "name: train\nnum_nodes: 2\nresources: {cpus: 2, ports: 8080}\nrun: echo\n"
RICH = """
name: other
volumes: {/data: data, /new: {size: 1}}
resources: {accelerators: 'A100:1'}
secrets: {A: b}
config: {kubernetes: {quota: {queue: gold}}}
run: echo
"""
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
COMMANDS = {
    "submit": ("submit", "rich.yaml", "--detach", "--id", "xyzw2345"),
    "submit-again": ("submit", "train.yaml", "--detach", "--id", ID),
    "submit-pipeline": ("submit", "both.yaml", "--detach", "--id", "xyzw2345"),
    "dry-run": ("submit", "rich.yaml", "--dry-run=server"),
    "list": ("list", "--all-namespaces"),
    "status": ("status", ID),
    "timeline": ("status", ID, "--timeline"),
    "logs": ("logs", ID),
    "wait": ("wait", ID, "--timeout", "0.02s"),
    "exec": ("exec", ID, "--", "true"),
    "stop": ("stop", ID),
    "doctor": ("doctor",),
    "doctor-task": ("doctor", ID),
    "volumes": ("volumes", "list"),
    "volumes-create": ("volumes", "create", "more", "1"),
    "volumes-delete": ("volumes", "delete", "data", "--yes"),
    "gpus": ("gpus",),
    "queues": ("queues", "list"),
    "ports": ("ports", ID),
    "top": ("top", ID),
    "usage": ("usage",),
    "clean": ("clean", "--yes"),
    "diff": ("diff", "train.yaml", "--id", ID),
}
ANSWERS: tuple[Any, ...] = (
    {},
    [],
    None,
    "x",
    {"metadata": {}, "items": [1]},
    {"metadata": {"name": "x"}, "items": [{"metadata": {}}], "status": []},
)
# Those that read most of an answer come first: each request is tried with the first that sends it.
DEEP = ("doctor-task", "list", "status", "volumes", "gpus", "queues", "ports", "top", "stop")


def put(api: FakeCluster, kind: Kind, name: str, **fields: Any) -> None:
    metadata = {"name": name} | fields.pop("metadata", {})
    api.put({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields})


def condition(kind: str, status: str) -> dict[str, Any]:
    texts = {"reason": "Why", "message": "because"}
    return {"type": kind, "status": status, "lastTransitionTime": CREATED, **texts}


def fill(api: FakeCluster) -> None:
    """Put what a cluster has, with the fields that commands read."""
    sizes = {"cpu": "8", "nvidia.com/gpu": "8"}
    put(
        api,
        kinds.NODE,
        "worker-1",
        metadata={"labels": {"nvidia.com/gpu.product": "A100"}},
        spec={"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": False},
        status={
            "allocatable": sizes,
            "capacity": sizes,
            "addresses": [{"type": "ExternalIP", "address": "192.0.2.1"}],
            "conditions": [condition("Ready", "True")],
        },
    )
    hard = {"pods": "50"}
    put(
        api,
        kinds.RESOURCE_QUOTA,
        "few",
        spec={"hard": hard},
        status={"hard": hard, "used": {"pods": "1"}},
    )
    limit = {"type": "Container", "max": {"cpu": "64"}, "defaultRequest": {"cpu": "1"}}
    put(api, kinds.LIMIT_RANGE, "limits", spec={"limits": [limit]})
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    put(api, kinds.STORAGE_CLASS, "standard", metadata=default, provisioner="x")


def fill_namespace(api: FakeCluster) -> None:
    """Put what tasks use, and an event."""
    labels = {"volume-id": "bcdf6789", "volume-name": "data", "username": "alice"}
    put(
        api,
        kinds.PVC,
        "data-bcdf6789",
        metadata={"labels": labels | {"skypilot-volume": "true"}},
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        status={"phase": "Bound", "capacity": {"storage": "1Gi"}},
    )
    put(
        api,
        kinds.EVENT,
        "event",
        type="Warning",
        reason="FailedMount",
        message="not found",
        involvedObject={"kind": "Pod", "name": f"train-{ID}-node-1-0", "uid": "u"},
        count=2,
        firstTimestamp=CREATED,
        lastTimestamp=CREATED,
        series={"count": 2, "lastObservedTime": CREATED},
    )
    usage = [{"name": "main", "usage": {"cpu": "1", "memory": "1Gi"}}]
    put(api, kinds.POD_METRICS, f"train-{ID}-node-0-0", containers=usage, timestamp=CREATED)


def fill_queues(api: FakeCluster) -> None:
    """Put the objects of Kueue."""
    reserved = [{"name": "f", "resources": [{"name": "cpu", "total": "1"}]}]
    used: dict[str, Any] = {"flavorsReservation": reserved}
    used |= {"pendingWorkloads": 1, "conditions": [condition("Active", "True")]}
    put(api, kinds.LOCAL_QUEUE, "gold", spec={"clusterQueue": "all"}, status=used)
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
    put(api, kinds.CLUSTER_QUEUE, "all", spec=spec, status=used)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    put(
        api,
        kinds.QUEUED_WORKLOAD,
        "job-train",
        metadata={"ownerReferences": [owner | {"controller": True}]},
        spec={"queueName": "gold", "priority": 1},
        status={"conditions": [condition("QuotaReserved", "False")]},
    )


def run_nodes(api: FakeCluster) -> None:
    """Let node-0 of the task run, and node-1 wait."""
    pod = api.start(f"train-{ID}-node-0")
    api.log(pod, b"hello\n")
    item = api.get(kinds.POD, pod)
    end = {"terminated": {"exitCode": 1, "startedAt": CREATED, "finishedAt": CREATED}}
    item["spec"]["nodeName"] = "worker-1"
    item["status"]["containerStatuses"][0] |= {"restartCount": 1, "lastState": end}
    item["status"]["initContainerStatuses"] = [{"name": "files", "image": "i", "state": end}]
    item["status"]["conditions"] = [condition("Ready", "True")]
    api.put(item)
    waiting = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    api.change(
        kinds.POD,
        api.start(f"train-{ID}-node-1"),
        status={
            "phase": "Pending",
            "conditions": [condition("PodScheduled", "False")],
            "containerStatuses": [waiting],
        },
    )


class Gateway:
    """Runs commands with the same cluster, and replaces one answer."""

    def __init__(self, api: FakeCluster, run: Run) -> None:
        self._api = api
        self._run = run
        self._before = api.saved()

    def run(self, command: str) -> tuple[int, str, str]:
        self._api.restore(self._before)
        return self._run(*COMMANDS[command])

    def answers(self, command: str) -> dict[str, Any]:
        """Run a command; return its requests without names of objects, and their answers."""
        bodies: dict[str, Any] = {}

        def keep(request: str, body: Any) -> Any:
            bodies.setdefault(_kind(request), copy.deepcopy(body))
            return body

        self._api.alter = keep
        self.code = self.run(command)[0]
        return bodies

    def run_changed(
        self, command: str, request: str, path: Keys, value: Any
    ) -> tuple[int, str, str]:
        """Run a command with another value in the first answer to a request."""
        replaced = False

        def alter(name: str, body: Any) -> Any:
            nonlocal replaced
            if replaced or _kind(name) != request:
                return body
            replaced = True
            return changed(body, path, value)

        self._api.alter = alter
        return self.run(command)

    def problem(self, command: str, request: str, path: Keys, value: Any) -> str:
        """Run a command with another value in the first answer to a request; return what is bad."""
        code, out, err = self.run_changed(command, request, path, value)
        if "internal error" in err or code not in (0, 3, self.code):
            return f"exit {code}: {err}"
        if "\x1b" in out + err:
            return "an escape sequence"
        if code == 3 and self.code != 3 and "does not answer" in err and "fake.example" not in err:
            return f"no server in {err}"
        left = set(self._api.names()) - {" ".join(key.split("/")[-2:]) for key in self._before}
        return f"left behind: {sorted(left)}: {err}" if code == 3 and left else ""


def _kind(request: str) -> str:
    return " ".join(request.split()[:2])


def paths(value: Any, path: Keys = ()) -> Iterator[Keys]:
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value[:1]):
            yield from paths(inner, (*path, key))


def changed(body: Any, path: Keys, value: Any) -> Any:
    """Return a copy of an answer with another value at a path."""
    if not path:
        return value
    body = copy.deepcopy(body)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return body


def valued(body: Any, path: Keys) -> Any:
    for key in path:
        body = body[key]
    return body


@pytest.fixture
def gateway(
    api: FakeCluster, send: Submitter, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Gateway:
    """A cluster with a task and what it may use."""
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.02)
    api.kinds |= {kinds.LOCAL_QUEUE, kinds.CLUSTER_QUEUE, kinds.QUEUED_WORKLOAD}
    api.kinds |= {kinds.QUEUE_PRIORITY, kinds.POD_METRICS}
    fill(api)
    fill_namespace(api)
    fill_queues(api)
    send(TASK)
    run_nodes(api)
    for name, text in (("rich", RICH), ("train", TASK), ("both", PIPELINE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return Gateway(api, run)


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_answer_to_any_request_exits_3_and_leaves_nothing(
    gateway: Gateway, command: str
) -> None:
    problems = {
        (request, json.dumps(answer)): problem
        for request in gateway.answers(command)
        for answer in ANSWERS
        if (problem := gateway.problem(command, request, (), answer))
    }
    assert not problems


@pytest.mark.parametrize("command", DEEP)
def test_field_of_wrong_type_exits_3_or_is_not_read(gateway: Gateway, command: str) -> None:
    values: tuple[Any, ...] = ([{}], "x\x1b[2J", 10**30)
    earlier = {request for name in DEEP[: DEEP.index(command)] for request in gateway.answers(name)}
    problems = {
        (request, path): problem
        for request, body in gateway.answers(command).items()
        if request not in earlier
        for path in paths(body)
        for value in values
        if (problem := gateway.problem(command, request, path, value))
        and not problem.startswith("exit 2: ")  # a text with another value
    }
    assert not problems


UNREADABLE = (
    "10000-01-01T23:58:59Z",
    "-0001-12-31T00:01:00Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z",
)


@pytest.mark.parametrize("command", ("list", "status", "timeline", "doctor-task", "queues"))
def test_time_that_users_may_write_is_unreadable_is_no_time(gateway: Gateway, command: str) -> None:
    problems = {
        (request, path): err
        for request, body in gateway.answers(command).items()
        for path in paths(body)
        if "metadata" not in path and valued(body, path) == CREATED
        for value in UNREADABLE
        for code, _, err in [gateway.run_changed(command, request, path, value)]
        if code != gateway.code
    }
    assert gateway.code == 0
    assert not problems


def test_wrong_answer_names_server_request_and_field(api: FakeCluster, run: Run) -> None:
    api.alter = lambda request, body: {"metadata": {}, "items": [{"metadata": {"name": 3}}]}
    code, out, err = run("list", "--user", "alice")
    assert (code, out) == (3, "")
    assert err.splitlines()[0].startswith(
        "error: https://fake.example does not answer like a Kubernetes API server (GET jobs.batch):"
        " Expected `str`, got `int` - at `$.items[0].metadata.name`"
    )
