"""Follow on a cluster in memory: changes of the task while a client watches."""

import time
from functools import partial
from threading import Thread

import pytest

from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import Forbidden, Interrupted, SkyError, TaskFailed
from kubectl_sky.tasks import find, pending
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.follow import follow
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.words import kinds
from tests.actions.conftest import Recorder, Submitter, lose, put_warning
from tests.builders import ID
from tests.fake_cluster import FakeCluster, interrupt_soon

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"
OVER_QUOTA = (
    f'Error creating: pods "{JOB}-x" is forbidden: exceeded quota: q, requested: cpu=1,'
    " used: cpu=1, limited: cpu=1"
)
EVERYBODY = Scope("default", None)
TWO = HELLO + "num_nodes: 2\n"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"


def jobs(send: Submitter) -> list[str]:
    return [plan.name for plan in send.ui.results[0].decision.plans]


def test_follow_interrupted_leaves_task_running(api: FakeCluster, send: Submitter) -> None:
    send.ui.then = lambda: api.start(JOB)
    api.after("get pods/log", interrupt_soon)
    with pytest.raises(Interrupted, match=f"interrupted; task {ID} goes on"):
        send(HELLO, follow=True)
    assert api.names() == [f"configmaps {JOB}", f"jobs {JOB}", f"pods {JOB}-0"]


def test_follow_without_right_to_watch_says_that_the_task_goes_on(
    api: FakeCluster, send: Submitter
) -> None:
    api.forbidden.add("watch jobs")
    with pytest.raises(Forbidden) as caught:
        send(HELLO, follow=True)
    assert caught.value.what.startswith(
        f"task {ID} was submitted and goes on, but cannot be followed: forbidden: "
    )
    assert f"jobs {JOB}" in api.names()


def test_follow_failed_task_reports_exit_code(api: FakeCluster, send: Submitter) -> None:
    def run() -> None:
        api.log(api.start(JOB), b"last words\n")
        api.finish(JOB, 3)

    send.ui.then = run
    with pytest.raises(TaskFailed, match=r"failed: node-0: exit code 3$"):
        send(HELLO, follow=True)
    assert send.ui.lines == ["last words"]


def test_follow_failed_task_with_filtered_log_quotes_last_lines(
    api: FakeCluster, send: Submitter
) -> None:
    def run() -> None:
        api.log(api.start(JOB), b"first\nlast words\n")
        api.finish(JOB, 3)

    send.ui.then = run
    send.ui.filters_logs = True
    with pytest.raises(TaskFailed, match=r"exit code 3; its last lines:\n  first\n  last words$"):
        send(HELLO, follow=True)


def unschedulable(api: FakeCluster) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "0/2 nodes are available: 2 Insufficient cpu."
    status = {"phase": "Pending", "conditions": [condition], "containerStatuses": []}
    api.change(kinds.POD, api.start(JOB), status=status)


def test_follow_pending_task_reports_each_stage_once(api: FakeCluster, send: Submitter) -> None:
    def schedule(text: str) -> None:
        send.ui.noted.append(text)
        if "pending" in text:
            api.change(kinds.POD, f"{JOB}-0", status={"conditions": []})
            api.finish(JOB)

    send.ui.then = lambda: unschedulable(api)
    send.ui.note = schedule  # type: ignore[method-assign]
    send(HELLO, follow=True)
    stages = [text for text in send.ui.noted if text.startswith("hello: ")]
    assert stages == ["hello: pending: 2/2 cluster nodes have insufficient cpu: a node requests 0"]


def test_follow_task_whose_pods_are_refused_reports_the_quota(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        put_warning(api, JOB, message=OVER_QUOTA)

    def wait(text: str) -> None:
        send.ui.noted.append(text)
        if "waiting for a pod" in text:
            refuse()
        elif "pending" in text:
            api.start(JOB)
            api.finish(JOB)

    for name in ("_FIRST_LOOK", "_LOOK_INTERVAL", "_USUAL_START_SECONDS"):
        monkeypatch.setattr(pending, name, 0.0)
    send.ui.note = wait  # type: ignore[method-assign]
    send(HELLO, follow=True)
    stages = [text for text in send.ui.noted if text.startswith("hello: ")]
    assert stages == [
        "hello: waiting for a pod",
        'hello: pending: quota "q" exceeded: a node requests cpu=1, and cpu=1 of cpu=1 are in use',
    ]


def test_follow_pending_task_times_out_with_cause(api: FakeCluster, send: Submitter) -> None:
    send(HELLO)
    unschedulable(api)
    session = api.session()
    task = find.get_task(session, EVERYBODY, ID)
    with pytest.raises(SkyError) as caught:
        follow(session, task, LogRequest(LogOptions(follow=True), start_timeout=0.1), send.ui)
    cause = "2/2 cluster nodes have insufficient cpu: a node requests 0"
    assert caught.value.what == f"task {ID} did not start in time: {cause}"
    assert (caught.value.exit_code, "kubectl sky doctor" in caught.value.hint) == (1, True)


def test_follow_deleted_job_is_stopped_task(api: FakeCluster, send: Submitter) -> None:
    send.ui.then = lambda: api.log(api.start(JOB), b"begun\n")
    send.ui.on["begun"] = lambda: api.remove(kinds.JOB, JOB)
    with pytest.raises(TaskFailed, match="was stopped: its Jobs have been deleted"):
        send(HELLO, follow=True)


def test_follow_lost_connections_print_every_line_once(api: FakeCluster, send: Submitter) -> None:
    def broken() -> None:
        api.break_streams()
        api.log(f"{JOB}-0", b"two\n")

    send.ui.then = lambda: api.log(api.start(JOB), b"one\n")
    send.ui.on["one"] = broken
    send.ui.on["two"] = lambda: api.finish(JOB)
    send(HELLO, follow=True)
    assert send.ui.lines == ["one", "two"]


def test_follow_expired_watch_reads_existing_objects_again(
    api: FakeCluster, send: Submitter
) -> None:
    def run() -> int:
        api.log(api.start(JOB), b"one\n")
        api.finish(JOB)
        return 410

    api.before("watch jobs", run)
    send(HELLO, follow=True)
    assert (send.ui.lines, api.count("watch jobs")) == (["one"], 2)


def test_follow_cluster_without_initial_events_lists_and_watches(
    api: FakeCluster, send: Submitter
) -> None:
    def run() -> int:
        api.log(api.start(JOB), b"one\n")
        api.finish(JOB)
        return 410

    api.sends_initial_events = False
    api.before("watch jobs", run, nth=2)
    send(HELLO, follow=True)
    assert send.ui.lines == ["one"]
    assert api.count("list jobs") == 4  # two of them before the submit


def test_follow_restart_before_the_first_look_shows_the_logs_of_both_pods(
    api: FakeCluster, send: Submitter
) -> None:
    """A busy API server reports the first pod, its end and the next pod at once."""

    def run() -> None:
        api.log(api.start(JOB), b"one\n")
        api.finish(JOB, 3, final=False)
        api.log(api.start(JOB), b"two\n")
        api.finish(JOB)

    send.ui.then = run
    send(HELLO + "resources: {job_recovery: {max_restarts_on_errors: 2}}\n", follow=True)
    assert sorted(send.ui.lines) == ["one", "two"]


def test_follow_finished_task_on_a_slow_server_prints_its_log(
    api: FakeCluster, send: Submitter
) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"done\n")
    api.finish(JOB)
    api.before("watch jobs", lambda: time.sleep(0.3))
    session = api.session()
    task = find.get_task(session, EVERYBODY, ID)
    follow(session, task, LogRequest(LogOptions(follow=True)), send.ui)
    assert send.ui.lines == ["done"]


def test_follow_restarted_node_prints_logs_of_both_pods(api: FakeCluster, send: Submitter) -> None:
    def crash() -> None:
        api.finish(JOB, 1, final=False)
        api.log(api.start(JOB), b"second\n")

    send.ui.then = lambda: api.log(api.start(JOB), b"first\n")
    send.ui.on = {"first": crash, "second": lambda: api.finish(JOB)}
    send(HELLO + "resources: {job_recovery: {max_restarts_on_errors: 2}}\n", follow=True)
    assert send.ui.lines == ["first", "second"]


def fail_first_node(api: FakeCluster) -> None:
    first = f"{JOB}-node-0"
    api.start(first)
    api.start(f"{JOB}-node-1")
    api.finish(first, 1)


def test_follow_failed_node_stops_remaining_nodes(api: FakeCluster, send: Submitter) -> None:
    second = f"{JOB}-node-1"
    send.ui.then = partial(fail_first_node, api)
    api.after(f"patch jobs {second}", lambda: api.finish(second, 143))
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 1"):
        send(TWO, follow=True)
    assert api.get(kinds.JOB, second)["spec"]["activeDeadlineSeconds"] == 1
    assert api.count("patch jobs") == 1


@pytest.mark.parametrize("request_", ["patch jobs", "get leases"])
def test_follow_outage_when_a_node_fails_stops_remaining_nodes_later(
    api: FakeCluster, send: Submitter, request_: str
) -> None:
    second = f"{JOB}-node-1"
    send.ui.then = partial(fail_first_node, api)
    lose(api, request_)
    api.after(f"patch jobs {second}", lambda: api.finish(second, 143))
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 1"):
        send(TWO, follow=True)


def test_follow_nodes_that_fail_together_are_named_once(api: FakeCluster, send: Submitter) -> None:
    """Node 0 fails in the same second, while the client stops it: both lack the program."""
    first = f"{JOB}-node-0"
    second = f"{JOB}-node-1"

    def run() -> None:
        api.start(first)
        api.start(second)
        api.finish(second, 127)

    send.ui.then = run
    api.after(f"patch jobs {first}", lambda: api.finish(first, 127))
    with pytest.raises(TaskFailed) as caught:
        send(TWO, follow=True)
    assert caught.value.what.endswith("failed: node-1: exit code 127 (command not found)")
    assert not [text for text in send.ui.noted if text.startswith("node-0 failed")]


@pytest.mark.parametrize("message", ["", "setup failed with exit code 127"])
@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("", "install it in setup, set image_id, or run `kubectl sky config set"),
        ("resources: {image_id: 'docker:debian'}\n", "install it in setup, or use an image"),
    ],
)
def test_follow_missing_command_offers_an_image(
    api: FakeCluster, send: Submitter, image: str, hint: str, message: str
) -> None:
    def fail() -> None:
        api.start(JOB)
        api.finish(JOB, 127, message=message)

    send.ui.then = fail
    with pytest.raises(TaskFailed) as caught:
        send(HELLO + image, follow=True)
    assert caught.value.hint.startswith(hint)
    assert str(caught.value).endswith(f"\nhint: {caught.value.hint}")


def test_follow_without_right_to_patch_keeps_remaining_nodes(
    api: FakeCluster, send: Submitter
) -> None:
    first = f"{JOB}-node-0"
    second = f"{JOB}-node-1"

    def run() -> None:
        api.forbidden.add("patch jobs")
        api.start(first)
        api.log(api.start(second), b"begun\n")
        api.finish(first, 1)

    send.ui.then = run
    send.ui.on["node-1 begun"] = lambda: api.finish(second)
    with pytest.raises(TaskFailed, match="failed: node-0: exit code 1"):
        send(TWO, follow=True)


def test_follow_pipeline_completed_stage_resumes_next_stage(
    api: FakeCluster, send: Submitter
) -> None:
    def first() -> None:
        api.log(api.start(jobs(send)[0]), b"one\n")

    def second() -> None:
        assert api.get(kinds.JOB, jobs(send)[0])["status"]["conditions"]
        api.log(api.start(jobs(send)[1]), b"two\n")

    send.ui.then = first
    api.after("patch jobs", second)
    send.ui.on["one"] = lambda: api.finish(jobs(send)[0])
    send.ui.on["two"] = lambda: api.finish(jobs(send)[1])
    send(PIPELINE, follow=True)
    assert send.ui.lines == ["one", "two"]
    assert api.count("patch jobs") == 1
    stages = [text.split(":")[0] for text in send.ui.noted if text.startswith("stage ")]
    assert stages == ["stage 1 of 2", "stage 2 of 2"]


@pytest.mark.parametrize("request_", ["patch jobs", "get leases"])
def test_follow_pipeline_outage_between_stages_resumes_next_stage_later(
    api: FakeCluster, send: Submitter, request_: str
) -> None:
    def run() -> None:
        api.start(jobs(send)[0])
        api.finish(jobs(send)[0])

    def resumed() -> None:
        api.start(jobs(send)[1])
        api.finish(jobs(send)[1])

    send.ui.then = run
    lose(api, request_)
    api.after("patch jobs", resumed)
    send(PIPELINE, follow=True)
    assert [api.get(kinds.JOB, job)["spec"]["suspend"] for job in jobs(send)[1:]] == [False]


def test_follow_pipeline_failed_stage_cancels_remaining_stages(
    api: FakeCluster, send: Submitter
) -> None:
    def run() -> None:
        api.start(jobs(send)[0])
        api.finish(jobs(send)[0], 1)

    send.ui.then = run
    message = r"failed at stage 1 of 2: one, .*\(cancelled: stage 2 two\): node-0: exit code 1$"
    lose(api, "delete jobs")
    with pytest.raises(TaskFailed, match=message):
        send(PIPELINE, follow=True)
    assert not api.count("patch jobs")
    assert [name for name in api.names() if "two" in name] == []


def test_follow_pipeline_deleted_stage_is_stopped_task(api: FakeCluster, send: Submitter) -> None:
    def run() -> None:
        api.start(jobs(send)[0])
        api.remove(kinds.JOB, jobs(send)[1])
        api.finish(jobs(send)[0])

    send.ui.then = run
    with pytest.raises(TaskFailed, match="was stopped: its Jobs have been deleted"):
        send(PIPELINE, follow=True)


def test_follow_pipeline_with_two_clients_runs_every_stage_once(
    api: FakeCluster, send: Submitter
) -> None:
    """Both clients resume stage 2; the second request changes nothing."""
    other = Recorder()
    clients: list[Thread] = []

    def run() -> None:
        request = LogRequest(LogOptions(follow=True), leads=True)
        target = send.ui.results[0].target
        clients.append(Thread(target=follow, args=(api.session(), target, request, other)))
        clients[0].start()
        api.log(api.start(jobs(send)[0]), b"one\n")

    def both() -> None:
        if send.ui.lines[:1] == other.lines[:1] == ["one"]:
            api.finish(jobs(send)[0])

    send.ui.then = run
    send.ui.on["one"] = other.on["one"] = both
    api.after("patch jobs", lambda: api.log(api.start(jobs(send)[1]), b"two\n"))
    api.after("patch jobs", lambda: api.finish(jobs(send)[1]), nth=2)
    send(PIPELINE, follow=True)
    clients[0].join(60)
    assert send.ui.lines == other.lines == ["one", "two"]
    assert api.count("patch jobs") == 2


@pytest.mark.parametrize("live", [True, False])
def test_follow_completed_task_on_terminal_ends_with_its_times(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    def run() -> None:
        api.start(JOB)
        api.finish(JOB)

    monkeypatch.setattr(Recorder, "live", live)
    send.ui.then = run
    send(HELLO, follow=True)
    assert any(note.startswith("completed") for note in send.ui.noted) is live
