"""`wait`: what it shows meanwhile, over a cluster in memory."""

from typing import Any

import pytest

from kubectl_sky.errors import SkyError
from kubectl_sky.observe import status, waiting
from kubectl_sky.tasks import find, pending
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.pending import explain_pending
from kubectl_sky.tasks.pipeline import wait_for_all
from kubectl_sky.tasks.ui import WaitingLine
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import kinds
from tests.actions.conftest import Recorder, Submitter
from tests.builders import ID, make_job, make_pod, terminated
from tests.fake_cluster import FakeCluster
from tests.reading import read_jobs, read_pods

TASK = "name: train\nrun: echo hello\n"
JOB = f"train-{ID}"
BACKOFF = {"reason": "ImagePullBackOff", "message": "not found"}


class LiveRecorder(Recorder):
    """A live interface: it keeps what it showed, and runs something when a text is shown."""

    def __init__(self, live: bool = True) -> None:
        super().__init__()
        self._live = live
        self.shown: list[WaitingLine | None] = []

    @property
    def live(self) -> bool:
        return self._live

    def waiting(self, task_id: str, waiting: WaitingLine | None) -> None:
        assert task_id == ID
        self.shown.append(waiting)
        for text, action in list(self.on.items()):
            if waiting and text in waiting.text:
                del self.on[text]
                action()

    @property
    def texts(self) -> list[str]:
        texts = [item.text if item else "" for item in self.shown]
        return [text for text, before in zip(texts, [None, *texts], strict=False) if text != before]


def wait(api: FakeCluster, ui: LiveRecorder, timeout: float | None = None) -> Any:
    session = api.session()
    (target,) = find.get_targets(session, Scope("default", None), [ID])
    return wait_for_all(session, [target], Wait(timeout), ui)


def test_wait_on_terminal_shows_stage_then_cluster_node(api: FakeCluster, send: Submitter) -> None:
    def start() -> None:
        pod = api.start(JOB)
        api.change(kinds.POD, pod, spec=api.get(kinds.POD, pod)["spec"] | {"nodeName": "gpu-7"})

    send(TASK)
    ui = LiveRecorder()
    ui.on = {"waiting for a pod": start, "running on gpu-7": lambda: api.finish(JOB)}
    (finished,) = wait(api, ui, timeout=60)
    assert finished.state == "completed"
    assert ui.texts[0] == "train: waiting for a pod"
    assert ui.texts[-2:] == ["train: running on gpu-7", ""], "the line is erased"
    limits = {(item.since, item.limit) for item in ui.shown if item}
    assert len(limits) == 1 and limits.pop()[1] == 60, "the time is that of the whole wait"


def test_wait_in_a_pipe_reports_stages_as_submit_does(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    blocked = make_pod(0, "Pending", {"waiting": BACKOFF})["status"]
    api.change(kinds.POD, api.start(JOB), status=blocked)
    ui = LiveRecorder(live=False)
    ui.on = {"pending": lambda: api.finish(JOB)}
    (finished,) = wait(api, ui, timeout=60)
    assert finished.state == "completed"
    assert ui.texts == ['train: pending: pulling image "python:3.13-slim" failed: not found', ""]


def test_wait_in_a_pipe_is_silent_about_quick_starts_and_runs(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "_USUAL_START_SECONDS", 60.0)
    send(TASK)
    ui = LiveRecorder(live=False)
    with pytest.raises(SkyError, match="gave up waiting"):
        wait(api, ui, timeout=0.1)
    api.start(JOB)
    with pytest.raises(SkyError, match="gave up waiting"):
        wait(api, ui, timeout=0.1)
    assert (ui.shown, ui.noted, api.count("list events")) == ([], [], 0)


def test_wait_goes_on_when_the_reason_cannot_be_read(api: FakeCluster, send: Submitter) -> None:
    def refuse() -> int:
        api.finish(JOB)
        return 400

    send(TASK)
    api.change(kinds.POD, api.start(JOB), status={"phase": "Pending"})
    api.before("list events", refuse)
    (finished,) = wait(api, LiveRecorder())
    assert (finished.state, api.count("list events")) == ("completed", 1)


def test_explain_pending_event_without_object_name_is_ignored(
    api: FakeCluster, send: Submitter
) -> None:
    """Anyone who may create events can create such a one."""
    event = {"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedMount"}
    send(TASK)
    pod = api.start(JOB)
    api.change(kinds.POD, pod, status={"phase": "Pending"})
    about: dict[str, dict[str, str]] = {"a": {}, "b": {"name": pod}, "c": {}}
    for name, involved in about.items():
        api.put(event | {"metadata": {"name": name}, "involvedObject": involved})
    task = find.get_task(api.session(), Scope("default", None), ID)
    assert [node.reason for node in explain_pending(api.session(), task).nodes] == ["FailedMount"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([make_pod(0, state={"running": {}})], "train: running on worker-1"),
        (
            [make_pod(0, "Succeeded", terminated(0)), make_pod(1, state={"running": {}})],
            "train: 1 of 2 nodes completed; running on worker-1",
        ),
    ],
)
def test_progress_names_cluster_nodes_and_completed_nodes(pods: Any, expected: str) -> None:
    ends = ["Complete" if pod["status"]["phase"] == "Succeeded" else "" for pod in pods]
    jobs = [make_job(rank, len(pods), end) for rank, end in enumerate(ends)]
    (task,) = status.tasks(read_jobs(jobs), read_pods(pods))
    assert waiting.progress(task) == expected
