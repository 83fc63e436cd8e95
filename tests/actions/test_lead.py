"""Who leads pipelines, groups and failed tasks: a client, or a controller that holds a Lease."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread

import pytest

from kubectl_sky.cluster import leases
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.leases import Claim
from kubectl_sky.errors import TaskFailed
from kubectl_sky.observe.nodes import State
from kubectl_sky.tasks import pipeline
from kubectl_sky.tasks.find import get_by_label
from kubectl_sky.tasks.pipeline import controller_leads, wait_for_all
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import kinds, names
from tests import clock, fake_cluster
from tests.actions.conftest import Submitter, lose
from tests.builders import ID
from tests.fake_cluster import FakeCluster, interrupt_soon

CHAIN = "name: chain\n" + "".join(f"---\nname: {name}\nrun: 'true'\n" for name in "abc")
GROUP = (
    "name: duo\nexecution: parallel\nprimary_tasks: [a]\n"
    "---\nname: a\nrun: 'true'\n---\nname: b\nrun: 'true'\n"
)
NODES = "name: wide\nnum_nodes: 3\nrun: 'true'\n"
CLAIM = Claim("default", names.controller_lease("tasks", False), "controller-1", 45)
STAGES = [f"{name}-{names.part_id(ID, stage)}" for stage, name in enumerate("abc", 1)]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(pipeline, "_CHECK_SECONDS", 0.01)


def put_lease(api: FakeCluster, **spec: object) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    fields = {"holderIdentity": "c", "leaseDurationSeconds": 600, "renewTime": now} | spec
    manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    api.put(manifest | {"metadata": {"name": CLAIM.name}, "spec": fields})


def run(api: FakeCluster, stage: int, exit_code: int = 0) -> None:
    api.start(STAGES[stage])
    api.finish(STAGES[stage], exit_code)


def suspended(api: FakeCluster) -> list[bool]:
    jobs = [text.split()[1] for text in api.names() if text.startswith("jobs ")]
    return [bool(api.get(kinds.JOB, name)["spec"].get("suspend")) for name in jobs]


def step(
    api: FakeCluster,
    label: str = names.PIPELINE,
    token: str | None = None,
    now: datetime | None = None,
) -> float | None:
    session = api.session(Connection(token=token))
    target = get_by_label(session, "default", label, ID)
    if not pipeline.needs_action(target):
        return -1
    return pipeline.lead(session, target, now or datetime.now(UTC)).seconds


@pytest.mark.parametrize(
    ("spec", "live"),
    [
        ({}, True),
        ({"holderIdentity": ""}, False),
        ({"renewTime": "2020-01-01T00:00:00.000000Z"}, False),
        ({"renewTime": None}, False),
        ({"leaseDurationSeconds": -1}, False),
        ({"renewTime": "9999-12-31T23:59:59.000000Z"}, False),
    ],
)
def test_lease_is_live_only_with_holder_and_recent_renewal(
    api: FakeCluster, spec: dict[str, object], live: bool
) -> None:
    put_lease(api, **spec)
    assert controller_leads(api.session(), "default") is live


def test_lease_forbidden_or_missing_is_no_controller(api: FakeCluster) -> None:
    assert not controller_leads(api.session(), "default")
    put_lease(api)
    api.forbidden.add("get leases")
    assert not controller_leads(api.session(), "default")


def test_lease_held_by_other_process_cannot_be_taken_until_released(api: FakeCluster) -> None:
    session = api.session()
    other = Claim(CLAIM.namespace, CLAIM.name, "controller-2", 45)
    lease = leases.hold(session, CLAIM)
    assert lease and lease.live(session.now())
    assert leases.hold(session, other) is None
    renewed = leases.hold(session, CLAIM, lease)
    assert renewed and api.requests[-1].startswith("patch leases")
    leases.release(session, CLAIM, renewed)
    assert not controller_leads(session, "default")
    assert leases.hold(session, other)
    assert leases.hold(session, CLAIM, renewed) is None


def test_lead_pipeline_resumes_next_stage_once(api: FakeCluster, send: Submitter) -> None:
    send(CHAIN)
    assert suspended(api) == [False, True, True]
    assert step(api) == -1
    api.start(STAGES[0])
    api.finish(STAGES[0])
    api.requests.clear()
    assert step(api) is None
    assert suspended(api) == [False, False, True]
    assert step(api) == -1
    assert api.writes == [f"patch jobs {STAGES[1]}"]


def test_lead_pipeline_with_failed_stage_cancels_later_stages(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    api.start(STAGES[0])
    api.finish(STAGES[0], 3)
    step(api)
    assert [text for text in api.names() if text.startswith("jobs ")] == [f"jobs {STAGES[0]}"]


def test_lead_pipeline_without_its_first_stage_resumes_nothing(
    api: FakeCluster, send: Submitter
) -> None:
    send(CHAIN)
    api.remove(kinds.JOB, STAGES[0])
    assert step(api) == -1
    assert suspended(api) == [True, True]


@pytest.mark.parametrize(("delay", "left"), [("30s", 23.0), ("0s", None)])
def test_lead_group_stops_auxiliary_task_after_delay(
    api: FakeCluster,
    send: Submitter,
    monkeypatch: pytest.MonkeyPatch,
    delay: str,
    left: float | None,
) -> None:
    end = clock.stop(monkeypatch, fake_cluster)
    send(GROUP.replace("primary_tasks: [a]", f"primary_tasks: [a]\ntermination_delay: {delay}"))
    api.start(STAGES[0])
    assert step(api) == -1
    api.finish(STAGES[0])
    assert step(api, now=end + timedelta(seconds=7)) == left
    assert (f"jobs {STAGES[1]}" in api.names()) is (left is not None)


@pytest.mark.parametrize("request_", ["list jobs", "get leases", "delete jobs"])
def test_wait_group_stops_auxiliary_task_across_an_outage(
    api: FakeCluster, send: Submitter, request_: str
) -> None:
    send(GROUP)
    run(api, 0)
    api.start(STAGES[1])
    session = api.session()
    target = get_by_label(session, "default", names.PIPELINE, ID)
    lose(api, request_)
    (finished,) = wait_for_all(session, [target], Wait(leads=True), UI())
    assert finished.state is State.COMPLETED
    assert f"jobs {STAGES[1]}" not in api.names()


def test_wait_failed_node_stops_others_across_an_outage(api: FakeCluster, send: Submitter) -> None:
    send(NODES)
    for node in range(3):
        api.start(f"wide-{ID}-node-{node}")
    api.finish(f"wide-{ID}-node-1", 3)
    session = api.session()
    lose(api, "patch jobs")
    target = get_by_label(session, "default", names.TASK_ID, ID)
    (finished,) = wait_for_all(session, [target], Wait(leads=True), UI())
    assert finished.state is State.FAILED
    assert set(api.writes[-2:]) == {f"patch jobs wide-{ID}-node-{node}" for node in (0, 2)}


def test_wait_several_tasks_stops_nodes_of_the_second_while_the_first_runs(
    api: FakeCluster, send: Submitter
) -> None:
    other = "cdfg2345"
    send("name: first\nrun: 'true'\n")
    send(NODES, task_id=other)
    api.start(f"first-{ID}")
    for node in range(3):
        api.start(f"wide-{other}-node-{node}")
    api.finish(f"wide-{other}-node-1", 3)
    session = api.session()
    targets = [get_by_label(session, "default", names.TASK_ID, text) for text in (ID, other)]
    api.after("patch jobs", lambda: api.finish(f"first-{ID}"), nth=2)
    first, second = wait_for_all(session, targets, Wait(20, leads=True), UI())
    assert (first.state, second.state) == (State.COMPLETED, State.FAILED)


def test_wait_several_tasks_interrupted_ends_its_threads(api: FakeCluster, send: Submitter) -> None:
    send(NODES)
    send(NODES, task_id="cdfg2345")
    session = api.session()
    targets = [get_by_label(session, "default", names.TASK_ID, text) for text in (ID, "cdfg2345")]
    api.after("watch jobs", interrupt_soon)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        wait_for_all(session, targets, Wait(), UI())
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith(("wait", "watch")):
            thread.join(60)
            assert not thread.is_alive()


def test_lead_task_with_failed_node_stops_others_once(api: FakeCluster, send: Submitter) -> None:
    send(NODES)
    for node in range(3):
        api.start(f"wide-{ID}-node-{node}")
    api.finish(f"wide-{ID}-node-1", 3)
    api.requests.clear()
    assert step(api, names.TASK_ID) is None
    assert step(api, names.TASK_ID) == -1
    assert sorted(api.writes) == [f"patch jobs wide-{ID}-node-{node}" for node in (0, 2)]


def test_follow_pipeline_with_live_controller_never_acts(api: FakeCluster, send: Submitter) -> None:
    """A controller and a client lead at the same time: each stage is resumed once."""
    put_lease(api)
    api.tokens["controller"] = "controller"
    done = Event()

    def control() -> None:
        while not done.wait(0.05):
            step(api, token="controller")

    def first() -> None:
        run(api, 0)
        api.requests.clear()
        api.sent.clear()

    send.ui.then = first
    for stage in (1, 2):
        api.after(f"patch jobs {STAGES[stage]}", partial(run, api, stage))
    controller = Thread(target=control)
    api.after("watch jobs", controller.start)
    try:
        send(CHAIN, follow=True)
    finally:
        done.set()
        controller.join()
    assert api.writes == [f"patch jobs {name}" for name in STAGES[1:]]
    patches = [request for request in api.sent if request.method == "PATCH"]
    assert {request.headers.get("Authorization") for request in patches} == {"Bearer controller"}


def test_follow_pipeline_after_lease_expires_resumes_stage(
    api: FakeCluster, send: Submitter
) -> None:
    put_lease(api)

    def die() -> None:
        put_lease(api, renewTime="2020-01-01T00:00:00.000000Z")

    def first() -> None:
        run(api, 0)
        api.requests.clear()

    send.ui.then = first
    api.after(f"get leases {CLAIM.name}", die, nth=3)
    api.after(f"patch jobs {STAGES[1]}", partial(run, api, 1, 3))
    with pytest.raises(TaskFailed):
        send(CHAIN, follow=True)
    assert api.writes[0] == f"patch jobs {STAGES[1]}"
    assert api.count(f"get leases {CLAIM.name}") >= 3


@pytest.mark.parametrize(
    ("text", "without", "with_controller"),
    [
        (CHAIN, "stages 2 to 3 are suspended", "a controller resumes stages 2 to 3; no client"),
        (GROUP, "b will keep running", "a controller stops b when the primary tasks have finished"),
        (NODES, "", "a controller stops the other nodes of a task when one fails; no client"),
    ],
)
def test_submit_detached_notes_who_goes_on(
    api: FakeCluster, send: Submitter, text: str, without: str, with_controller: str
) -> None:
    send(text)
    assert [note for note in send.ui.noted if without and note.startswith(without)] or not without
    assert not [note for note in send.ui.noted if note.startswith("a controller")]
    put_lease(api)
    send(text)
    assert [note for note in send.ui.noted if note.startswith(with_controller)]


def test_remaining_delays_are_zero_when_primary_task_failed(
    api: FakeCluster, send: Submitter
) -> None:
    send(GROUP.replace("primary_tasks: [a]", "primary_tasks: [a]\ntermination_delay: 1h"))
    api.start(STAGES[0])
    api.finish(STAGES[0], 1)
    assert step(api) is None
    assert f"jobs {STAGES[1]}" not in api.names()


def test_leadership_asks_cluster_every_few_seconds_only(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_CHECK_SECONDS", 60.0)
    leads = pipeline.Leadership(api.session(), "default")
    assert leads() and leads()
    assert api.count("get leases") == 2  # of the namespace and of all namespaces
