"""Every surface says the same of a task: commands, REST, the dashboard and the Python API.

A task of two nodes is changed by users, kubelets and controllers, then all surfaces are compared.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from kubectl_sky import Client
from kubectl_sky.cli import main
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, pending, watch
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names
from kubectl_sky.words.owners import User
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from tests.actions.conftest import Recorder, Submitter, put_warning, shorten_waits
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: pair\nnum_nodes: 2\nrun: train\n"
LABELS = (names.TASK, names.TASK_ID, names.USERNAME, names.NODE_IDX)
STEM = f"pair-{ID}-node"

Json = dict[str, Any]
Event = Callable[[FakeCluster, str], None]


def pod_of(api: FakeCluster, job: str) -> str | None:
    """Return the newest pod of a Job."""
    pods = [name.removeprefix("pods ") for name in api.names() if name.startswith(f"pods {job}-")]
    return pods[-1] if pods else None


def runs(api: FakeCluster, job: str) -> str | None:
    """Return the running pod of a Job that exists."""
    pod = pod_of(api, job) if f"jobs {job}" in api.names() else None
    return pod if pod and api.get(kinds.POD, pod)["status"]["phase"] == "Running" else None


def start(api: FakeCluster, job: str) -> None:
    if f"jobs {job}" in api.names() and not pod_of(api, job):
        api.start(job)


def finish(api: FakeCluster, job: str, exit_code: int) -> None:
    if runs(api, job):
        api.finish(job, exit_code)


def fail(api: FakeCluster, job: str, **status: Any) -> None:
    """Let the pod fail before its container exits: by the kubelet or the scheduler."""
    if pod := runs(api, job):
        api.finish(job, 1)
        api.change(kinds.POD, pod, status={"phase": "Failed", **status})


def evict(api: FakeCluster, job: str) -> None:
    fail(api, job, reason="Evicted", message="The node was low on resource: memory.")


def preempt(api: FakeCluster, job: str) -> None:
    reason = {"reason": "PreemptionByScheduler", "message": "preempting to accommodate a pod"}
    fail(api, job, conditions=[{"type": "DisruptionTarget", "status": "True", **reason}])


def delete_job(api: FakeCluster, job: str) -> None:
    if f"jobs {job}" in api.names():
        api.remove(kinds.JOB, job)


def hold_job(api: FakeCluster, job: str) -> None:
    """Delete a Job that a finalizer keeps."""
    if f"jobs {job}" in api.names():
        metadata = api.get(kinds.JOB, job)["metadata"] | {"finalizers": ["example.com/stuck"]}
        api.change(kinds.JOB, job, metadata=metadata)
        api.remove(kinds.JOB, job)


def relabel_job(api: FakeCluster, job: str, label: str) -> None:
    if f"jobs {job}" in api.names():
        metadata = api.get(kinds.JOB, job)["metadata"]
        metadata["labels"].pop(label, None)
        api.change(kinds.JOB, job, metadata=metadata)


def delete_pod(api: FakeCluster, job: str) -> None:
    """Delete the pod: the Job of a running one fails, a finished one leaves its Job as it is."""
    pod = pod_of(api, job)
    if pod and f"jobs {job}" in api.names():
        if runs(api, job):
            api.finish(job, 137)
        api.remove(kinds.POD, pod)


def lose_upload(api: FakeCluster, job: str) -> None:
    """Let a started node wait for files whose client is gone."""
    if pod := runs(api, job):
        item = api.get(kinds.POD, pod)
        item["metadata"].setdefault("annotations", {})[names.AWAITS_UPLOAD] = "true"
        item["status"]["containerStatuses"][0]["started"] = False
        api.put(item)


CPU = "Insufficient cpu"
CLAIM = 'persistentvolumeclaim "data" is being deleted'


def unschedulable(api: FakeCluster, job: str, why: str = CPU) -> None:
    start(api, job)
    if pod := runs(api, job):
        message = f"0/2 nodes are available: 2 {why}."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Pending", "conditions": [condition | {"message": message}]}
        api.change(kinds.POD, pod, status=status)
        api.change(kinds.JOB, job, status={"active": 1})


def unhandled(api: FakeCluster, job: str) -> None:
    """Leave the pod to a scheduler that does not run."""
    start(api, job)
    if pod := runs(api, job):
        spec = {"schedulerName": "missing", "containers": []}
        api.change(kinds.POD, pod, spec=spec, status={"phase": "Pending"})
        api.change(kinds.JOB, job, status={"active": 1})


def reject(api: FakeCluster, job: str) -> None:
    """Let the API server reject the pod of a Job that has none."""
    if f"jobs {job}" in api.names() and not pod_of(api, job):
        put_warning(api, job, uid=api.get(kinds.JOB, job)["metadata"]["uid"])


def suspend(api: FakeCluster, job: str, queue: str = "") -> None:
    """Suspend a Job that has no pod, by hand or in a queue."""
    if f"jobs {job}" in api.names() and not pod_of(api, job):
        item = api.get(kinds.JOB, job)
        item["metadata"]["labels"] |= {names.QUEUE: queue} if queue else {}
        api.change(kinds.JOB, job, metadata=item["metadata"], spec=item["spec"] | {"suspend": True})


EVENTS: dict[str, Event] = {
    "start": start,
    "complete": partial(finish, exit_code=0),
    "fail": partial(finish, exit_code=7),
    "evict": evict,
    "preempt": preempt,
    "delete Job": delete_job,
    "delete pod": delete_pod,
    "delete Job with finalizer": hold_job,
    "unschedulable": unschedulable,
    "volume is Terminating": partial(unschedulable, why=CLAIM),
    "lose upload": lose_upload,
    "unhandled": unhandled,
    "reject": reject,
    "suspend": suspend,
    "queue": partial(suspend, queue="gold"),
    **{f"unlabel Job {label}": partial(relabel_job, label=label) for label in LABELS},
}
# What happens to the two nodes, the state, the exit code of `wait`, and words of the note.
STATES: list[tuple[Sequence[tuple[str, int]], str, int, str]] = [
    ([], "pending", 1, ""),
    ([("unhandled", 0)], "pending", 1, "node-0: NotScheduled"),
    ([("reject", 0), ("reject", 1)], "pending", 1, 'node-0: RuntimeClass "fast" not found'),
    ([("start", 0), ("start", 1)], "running", 1, ""),
    ([("start", 0), ("start", 1), ("complete", 0), ("complete", 1)], "completed", 0, ""),
    ([("start", 0), ("start", 1), ("delete Job", 1), ("complete", 0)], "failed", 4, "JobNotFound"),
    (
        [("start", 0), ("start", 1), (f"unlabel Job {names.TASK}", 1), ("complete", 0)],
        "failed",
        4,
        "JobNotFound",
    ),
    ([("start", 0), ("start", 1), ("fail", 1)], "failed", 4, "exit code 7"),
    ([("start", 0), ("start", 1), ("fail", 1), ("complete", 0)], "failed", 4, "exit code 7"),
    (
        [("start", 0), ("start", 1), ("fail", 1), ("delete pod", 1), ("complete", 0)],
        "failed",
        4,
        "PodNotFound",
    ),
    ([("start", 0), ("start", 1), ("evict", 1), ("complete", 0)], "failed", 4, "Evicted"),
    (
        [("start", 0), ("start", 1), ("preempt", 1), ("complete", 0)],
        "failed",
        4,
        "the scheduler preempted its pod",
    ),
    ([("suspend", 0), ("suspend", 1)], "pending", 1, "Suspended"),
    (
        [("start", 0), ("start", 1), ("delete Job", 1), ("delete Job with finalizer", 0)],
        "running",
        1,
        "waits for finalizer example.com/stuck",
    ),
    ([("queue", 0), ("queue", 1)], "pending", 1, "Queued"),
    ([("unschedulable", 0), ("unschedulable", 1)], "pending", 1, "insufficient cpu"),
    (
        [("volume is Terminating", 0), ("volume is Terminating", 1)],
        "pending",
        1,
        "is being deleted",
    ),
    (
        [("start", 0), ("start", 1), ("lose upload", 0), ("lose upload", 1)],
        "pending",
        1,
        f"waits for files; submit again with --id {ID}",
    ),
]


class Surfaces:
    """The surfaces of one cluster in memory with one task of two nodes."""

    def __init__(self, api: FakeCluster, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self._capture = capture
        Submitter(api, folder, Recorder())(TASK)
        api.tokens = {"token": "alice"}
        config = Config(
            connection=Connection(),
            hosts=("testserver",),
            connect=api.session,
            limits=Limits(requests_per_second=1000),
        )
        headers = {"Authorization": "Bearer token"}
        self.rest = TestClient(create_app(config), headers=headers)

    def change(self, event: str, node: int) -> None:
        """Apply an event to a node."""
        EVENTS[event](self.api, f"{STEM}-{node}")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return exit code, stdout and stderr."""
        code = main.main(list(arguments))
        return code, *self._capture.readouterr()

    def listed(self) -> list[TaskStatus]:
        """Return the task as alice lists it."""
        return find.list_tasks(self.api.session(), Scope("default", User("alice")))

    def tasks(self) -> dict[str, Json]:
        """Return the task by each surface that shows it as JSON."""

        def command(*arguments: str) -> Json:
            return dict(json.loads(self.run(*arguments, "-o", "json")[1]))

        scope = Scope("default", None)
        ends_at = monotonic() + 0.5  # seconds, in which missing nodes are explained
        watched = next(
            update.tasks[0]
            for update in pending.watch_explained(self.api.session(), scope)
            if update and (not update.tasks[0].incomplete or monotonic() > ends_at)
        )
        client = Client()
        answers = self.rest.get("/tasks").json(), self.rest.get(f"/tasks/{ID}").json()
        return {
            "list": command("list")["tasks"][0],
            "status": command("status", ID),
            "GET /tasks": answers[0]["tasks"][0],
            "GET /tasks/ID": answers[1],
            "watch": watched.as_json(),
            "Python list": client.list()[0].as_json(),
            "Python status": client.status(ID).as_json(),
        }

    def states(self) -> dict[str, str]:
        """Return the state of the task by each surface."""
        shown = {name: str(task["status"]) for name, task in self.tasks().items()}
        shown["list table"] = self.run("list")[1].splitlines()[1].split()[2]
        shown["doctor"] = json.loads(self.run("doctor", ID, "-o", "json")[1])["status"]
        shown["GET doctor"] = self.rest.get(f"/tasks/{ID}/doctor").json()["status"]
        return shown

    def exit_codes(self, *, finished: bool) -> dict[str, int]:
        """Return the exit code of each command that tells how the task ended."""
        codes = {"wait": self.run("wait", ID, "--timeout", "0s")[0]}
        if finished:
            codes["logs"] = self.run("logs", ID)[0]
            codes["logs -f"] = self.run("logs", "-f", ID)[0]
            end = self.rest.get(f"/tasks/{ID}/logs", headers={"Accept": "text/event-stream"}).text
            codes["REST logs"] = 4 if '"state":"failed"' in end else 0
        return codes


New = Callable[[], Surfaces]


@pytest.fixture
def surfaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[New]:
    """Return new clusters, each with the task."""
    shorten_waits(monkeypatch)
    monkeypatch.setattr(pending, "_FIRST_LOOK", 0.0)
    monkeypatch.setattr(watch, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(watch, "_GRACE_SECONDS", 0.2, raising=False)
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"KUBECTL_SKY_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.chdir(tmp_path)
    opened: list[Surfaces] = []

    def new() -> Surfaces:
        api = FakeCluster()
        monkeypatch.setattr(Session, "connect", api.session)
        opened.append(Surfaces(api, tmp_path, capsys))
        return opened[-1]

    yield new
    for item in opened:
        item.rest.close()


@pytest.mark.parametrize(
    ("events", "state", "code", "words"), STATES, ids=lambda value: str(value)[-40:]
)
def test_surfaces_task_in_each_state_agree(
    surfaces: New, events: Sequence[tuple[str, int]], state: str, code: int, words: str
) -> None:
    shown = surfaces()
    for event, node in events:
        shown.change(event, node)
    writes = list(shown.api.writes)
    assert set(shown.states().values()) == {state}, shown.states()
    for surface, task in shown.tasks().items():
        assert words in task["metadata"]["note"], (surface, task)
    codes = shown.exit_codes(finished=shown.listed()[0].finished)
    assert set(codes.values()) == {code}, codes
    assert shown.api.writes == writes, "reading changes nothing"


def test_following_failed_task_does_not_stop_other_nodes(surfaces: New) -> None:
    shown = surfaces()
    for event, node in (("start", 0), ("start", 1), ("fail", 1)):
        shown.change(event, node)
    pod = pod_of(shown.api, f"{STEM}-0")
    writes = list(shown.api.writes)
    shown.api.after(f"get pods/log {pod}", lambda: shown.change("complete", 0))
    code, _, err = shown.run("logs", "-f", ID)
    assert (code, "node-1 failed: exit code 7; the other nodes go on" in err) == (4, True)
    assert shown.api.writes == writes
    code, _, err = shown.run("wait", ID, "--continue", "--all-users")
    assert (code, "the owner continues a task" in err) == (2, True)


def test_following_task_with_unexplained_missing_node_fails_after_grace_time(surfaces: New) -> None:
    """Without the right to list Services it is not known why a node has no Job."""
    shown = surfaces()
    shown.api.forbidden.add("list services")
    for event, node in (("start", 0), ("unlabel Job task-id", 1), ("complete", 0)):
        shown.change(event, node)
    note = "incomplete: 1 of 2 nodes found"
    assert {task["metadata"]["note"] for task in shown.tasks().values()} == {note}
    for command in (("wait", ID), ("logs", "-f", ID), ("status", "-w", ID)):
        code, _, err = shown.run(*command)
        assert (code, f"is {note}; not found: node-1" in err) == (4, True), (command, err)


def test_surfaces_pod_deleted_after_recorded_failure_keep_cause(surfaces: New) -> None:
    shown = surfaces()
    for node in (0, 1):
        shown.change("start", node)
    shown.api.log(f"{STEM}-1-0", b"ModuleNotFoundError: No module named 'torch'\n")
    shown.change("fail", 1)
    shown.change("complete", 0)
    assert shown.run("wait", ID)[0] == 4, "it records the cause"

    shown.change("delete pod", 1)
    notes = {surface: task["metadata"]["note"] for surface, task in shown.tasks().items()}
    unknown = {notes.pop(surface) for surface in ("GET /tasks", "GET /tasks/ID")}
    assert unknown == {"node-1: PodNotFound"}, "the server keeps no files of its callers"
    assert set(notes.values()) == {"node-1: exit code 7"}

    (code, out, _) = shown.run("wait", ID)
    (_, doctor, _) = shown.run("doctor", ID)
    assert (code, out) == (4, f"task/{ID} (pair) failed: node-1: exit code 7\n")
    assert 'Python module "torch" not found' in doctor and "restart" not in doctor
    assert "No module named 'torch'" in shown.run("logs", ID)[2]
    assert set(shown.exit_codes(finished=True).values()) == {4}


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 1)), max_size=8))
def test_surfaces_after_random_events_agree(surfaces: New, events: list[tuple[str, int]]) -> None:
    shown = surfaces()
    for event, node in events:
        note(f"{event} node-{node}")
        shown.change(event, node)
    if not (listed := shown.listed()):
        return  # all its Jobs are deleted, or somebody else's
    states = shown.states()
    note(str(states))
    assert len(set(states.values())) == 1
    codes = shown.exit_codes(finished=listed[0].finished)
    note(str(codes))
    expected = {"completed": 0, "failed": 4}.get(states["list"], 1)
    assert set(codes.values()) == {expected}
