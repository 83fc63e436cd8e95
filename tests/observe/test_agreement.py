"""List, status, wait, doctor and logs agree about a task after any events."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.cli import doctor, tasks
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.explain import Surroundings, explain
from kubectl_sky.observe.failure import describe
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.verdict import judge
from kubectl_sky.tasks.pending import may_wait
from kubectl_sky.words import kinds, names
from tests.builders import condition, make_job, make_pod, make_service, make_silent, terminated
from tests.observe.test_doctor import SNAPSHOTS, load
from tests.observe.world import EVENTS, LISTED, WATCHED, World, described
from tests.reading import read, read_jobs, read_metadata, read_objects, read_pods

_EVENTS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3)), max_size=12)
BACKENDS = st.sampled_from(  # with the limit of failures
    [("jobs", 0), ("jobs", 1), ("indexed", 0), ("indexed", 1), ("appwrapper", 0), ("jobset", 0)]
)


def folded(world: World) -> TaskStatus:
    (task,) = status.fold(world.owned())
    return task


def states(task: TaskStatus, seen: TaskSnapshot) -> set[str]:
    """Return the state of the task by each command."""
    (row,) = tasks.listing([task], None, []).splitlines()[1:]
    verdict = judge(task, seen)
    return {
        row.split()[2],
        re.search(r"^Status: +(\w+)", tasks.details(task), re.MULTILINE)[1],  # type: ignore[index]
        tasks.line(task).split()[2].rstrip(":"),
        doctor.format_verdict(verdict).partition(") ")[2].removeprefix("is ").split(":")[0],
        json.loads(tasks.listing([task], "json", []))["tasks"][0]["status"],
    }


def _nodes(task: TaskStatus) -> str:
    (line,) = (line for line in tasks.details(task).splitlines() if line.startswith("Nodes:"))
    return line


def words(task: TaskStatus, seen: TaskSnapshot) -> list[str]:
    """Return what every command says of a task; REST and the pages have the document's note."""
    texts = [tasks.listing([task], "wide", []), tasks.details(task), tasks.line(task)]
    texts += [describe(task, None), task.document.metadata.note]
    return [*texts, doctor.format_verdict(judge(task, seen))]


def happened(world: World, events: Sequence[tuple[Callable[..., None], int]]) -> None:
    """Apply events to a world; a test that fails prints them."""
    note(f"a task of {world.nodes} nodes, backend {world.backend}, limit {world.limit}")
    for event, rank in events:
        note(described(event, rank % world.nodes))
        event(world, rank % world.nodes)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), BACKENDS, _EVENTS)
def test_commands_after_random_events_agree(
    nodes: int, backend: tuple[str, int], events: list[tuple[Callable[..., None], int]]
) -> None:
    name, limit = backend
    world = World.submitted(nodes, limit, name)
    happened(world, events)
    if len(world.lost) == nodes:
        assert not world.owned()
        return
    task = folded(world)
    for labels in (LISTED, WATCHED):
        assert status.fold(world.owned(*labels)) == [task]
    assert states(task, world.snapshot()) == {str(task.state)}

    # The real ends of the Jobs, not the folded status.
    completed = world.completed - world.lost
    failed = world.failed - world.lost
    if world.lost or failed:
        assert task.state is State.FAILED
    elif len(completed) == nodes:
        assert task.state is State.COMPLETED
    else:
        assert task.state is State.RUNNING
    assert task.count(State.COMPLETED) == len(completed)

    # The same counts, and the same node.
    (row,) = tasks.listing([task], None, []).splitlines()[1:]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)[,)]", _nodes(task))}
    assert row.split()[3] == f"{counts.get('running', 0) + counts.get('completed', 0)}/{nodes}"
    assert sum(counts.values()) == nodes
    for rank in sorted(world.lost)[:1]:
        for text in words(task, world.snapshot()):
            assert "JobNotFound" in text or "its Job was deleted or lost its labels" in text
            assert nodes == 1 or f"node-{rank}" in text


@pytest.mark.parametrize("name", sorted(path.stem for path in SNAPSHOTS.glob("fault-*.json")))
def test_recorded_fault_has_the_same_rank_and_cause_in_every_command(name: str) -> None:
    """Each of tests/nodes/causes.py, with each kind of task, as three cluster nodes showed it."""
    seen = load(name)
    (bare,) = status.tasks(seen.workloads, seen.of(kinds.POD))
    verdict = judge(bare, seen)
    task = verdict.task
    assert states(task, seen) == {str(task.state)}
    if not task.note:
        assert not verdict.findings
        return

    first = task.first_failure
    rank = first.name if first else task.note.partition(":")[0]
    cause = task.note.partition(" (")[0].rpartition(": ")[2].partition(";")[0]
    if first:
        assert verdict.cause
        assert verdict.cause.ranks == (first.index,)
    for text in words(task, seen):
        told = " ".join(text.split()).casefold()  # doctor wraps its lines
        assert rank in told
        # Doctor says what the cluster node was short of instead.
        assert cause.casefold() in told or cause == "Evicted"


def test_random_events_that_fail_a_test_are_printed() -> None:
    @settings(database=None, print_blob=False)
    @given(st.just([(World.fail, 1), (EVENTS[1], 0)]))
    def failing(events: list[tuple[Callable[..., None], int]]) -> None:
        happened(World.submitted(2, backend="indexed"), events)
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        failing()
    printed = "\n".join(caught.value.__notes__)
    assert "a task of 2 nodes, backend indexed, limit 0" in printed
    assert "fail node-1\nrelabel_job node-0 skypilot-task" in printed


def test_deadline_of_a_wrapped_job_is_the_cause_also_while_its_pods_exist() -> None:
    """Its conditions do not name the deadline, and its pods only that they were killed."""
    world = World.submitted(2, backend="appwrapper")
    wrapper = world.jobs[0]
    wrapper["metadata"]["annotations"][names.MAX_DURATION] = "5s"
    wrapper["spec"]["components"][0]["template"]["spec"]["activeDeadlineSeconds"] = 5
    deployed = condition("ResourcesDeployed") | {"lastTransitionTime": "2026-01-01T00:08:00Z"}
    wrapper["status"] = {"phase": "Failed", "conditions": [deployed, condition("Unhealthy")]}
    for rank in world.pods:
        world.pods[rank]["status"] = make_pod(rank, "Failed", terminated(143))["status"]
        world.terminate(rank)

    task = folded(world)
    assert (task.state, task.nodes[1].pod) == (State.FAILED, world.pods[1]["metadata"]["name"])
    for text in words(task, world.snapshot()):
        assert "it ran longer than max_duration 5s" in text


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_node_that_starts_again_after_another_has_completed_waits_for_it(backend: str) -> None:
    world = World.submitted(2, limit=1, backend=backend)
    world.complete(0)
    assert folded(world).note == ""
    world.clock += 1
    world.fail(1)

    task = folded(world)
    note = "node-1: waits for node-0, which has completed"
    assert (task.state, task.note) == (State.RUNNING, note)
    verdict = judge(task, world.snapshot())
    assert verdict.summary.startswith("it waits for node-0, which has completed")
    assert "an array" in verdict.findings[0].then


def test_node_that_can_meet_nobody_has_failed_and_is_stopped_for_it() -> None:
    world = World.submitted(2, limit=1)
    world.complete(0)
    world.clock += 1
    world.fail(1)
    world.pods[1]["metadata"]["annotations"] = {names.AWAITS_NODES: "true"}
    world.pods[1]["status"]["containerStatuses"][-1]["started"] = False

    cause = "node-1: it started after another node had completed"
    task = folded(world)
    job = task.nodes[1].job
    assert (task.state, task.note, task.surviving_jobs) == (State.FAILED, cause, (job,))
    assert judge(task, world.snapshot()).summary.startswith("it waits for node-0")

    body = task.workload.stopping("node-1")
    world.jobs[1]["metadata"]["annotations"] |= body["metadata"]["annotations"]
    world.terminate(1)
    assert (folded(world).note, folded(world).surviving_jobs) == (cause, ())
    world.pods.pop(1)
    failed = condition("Failed", "DeadlineExceeded")
    world.jobs[1]["status"]["conditions"] = [failed]
    assert folded(world).note == cause
    assert judge(folded(world), world.snapshot()).summary.startswith("it waited for a node")


@pytest.mark.parametrize("are_gone", [False, True])
def test_lost_cluster_node_is_the_cause_not_those_that_were_stopped_for_it(are_gone: bool) -> None:
    world = World.submitted(3, backend="indexed")
    lost = make_silent(world.pods[2], "n3", "2026-01-01T00:00:30Z")
    taint = condition("DisruptionTarget", "DeletionByTaintManager")
    lost["status"]["conditions"].append(taint | {"lastTransitionTime": "2026-01-01T00:05:30Z"})
    world.pods[2] = lost
    for rank in (0, 1):
        world.pods[rank]["status"] = make_pod(rank, "Failed", terminated(143))["status"]
    for rank in range(3):
        world.terminate(rank)
    world.jobs[0]["status"] |= {
        "conditions": [condition("Failed", "BackoffLimitExceeded")],
    }
    if are_gone:
        del world.pods[0], world.pods[1]

    task = folded(world)
    assert (task.state, [node.state for node in task.nodes]) == (State.FAILED, [State.FAILED] * 3)
    assert task.first_failure == task.nodes[2]
    for text in words(task, world.snapshot()):
        assert "node-2" in text
        assert "node-0" not in text.partition("failed")[2].partition("\n")[0]
        assert "its cluster node was lost" in text


@pytest.mark.parametrize("event", [World.delete_job, World.relabel_job])
def test_status_node_without_job_is_failed_in_every_command(event: object) -> None:
    world = World.submitted(2)
    event(world, 1)  # type: ignore[operator]
    task = folded(world)
    assert (task.state, task.note) == (State.FAILED, "node-1: JobNotFound")
    assert not task.over, "node-0 still runs, and can be stopped"
    assert task.nodes[1].job == "train-bcdf2345-node-1"
    assert tasks.line(task) == "task/bcdf2345 (train) failed: node-1: JobNotFound"
    assert 'Job "train-bcdf2345-node-1" not found' in describe(task, None)
    text = doctor.format_verdict(judge(task, world.snapshot()))
    assert "failed: its Job was deleted or lost its labels" in text
    assert "node-1: its Job was deleted" in text
    assert "wait for" not in text


@pytest.mark.parametrize("backend", ["jobs", "indexed", "appwrapper", "jobset"])
def test_list_failed_task_counts_completed_node(backend: str) -> None:
    world = World.submitted(2, backend=backend)
    world.complete(0)
    world.fail(1)
    task = folded(world)
    assert tasks.nodes(task) == "1/2"
    assert "Nodes:      2 (1 failed, 1 completed)" in tasks.details(task)


def test_doctor_missing_pod_is_only_finding() -> None:
    world = World.submitted(2)
    world.delete_pod(1)
    task = folded(world)
    assert task.note == "node-1: PodNotFound"
    verdict = judge(task, world.snapshot())
    assert [finding.rule for finding in verdict.findings] == ["pod-not-found"]
    assert verdict.findings[0].what == "its pod is gone; the cause is not known"


def test_status_terminating_pod_becomes_deleted() -> None:
    world = World.submitted(1)
    world.terminate(0)
    task = folded(world)
    assert (task.state, task.nodes[0].reason) == (State.RUNNING, "Terminating")
    world.clock += 1
    world.fail(0)
    assert folded(world).note == "node-0: PodDeleted (exit code 3)"


@pytest.mark.parametrize(
    ("grace_ends", "note"),
    [("00:06:30", "node-0: exit code 3"), ("00:05:20", "node-0: PodDeleted (exit code 3)")],
)
def test_status_pod_deleted_after_failure_keeps_reason(grace_ends: str, note: str) -> None:
    pod = make_pod(0, "Failed", terminated(3, at="2026-01-01T00:05:00Z"))
    times = {"deletionTimestamp": f"2026-01-01T{grace_ends}Z", "deletionGracePeriodSeconds": 30}
    pod["metadata"] |= times
    (task,) = status.tasks(read_jobs([make_job(end="Failed")]), read_pods([pod]))
    assert task.note == note


def test_status_pod_without_labels_is_running() -> None:
    world = World.submitted(2)
    world.relabel_pod(1)
    task = folded(world)
    assert (task.state, tasks.nodes(task)) == (State.RUNNING, "2/2")
    assert task.nodes[1].reason == "PodNotFound"


def incomplete(*services: dict[str, object], **spec: object) -> TaskStatus:
    jobs = [make_job(rank, 20) for rank in range(18)]
    for job in jobs:
        job["spec"] |= spec
    owned = ownership.explain(ownership.decide(read_jobs(jobs), []), read_metadata(services))
    (task,) = status.fold(owned)
    return task


def test_status_interrupted_submit_is_incomplete() -> None:
    task = incomplete(make_service())
    assert (task.state, task.note) == (State.PENDING, "incomplete: 18 of 20 nodes submitted")
    assert task.next_step == (
        "submit it again with --id bcdf2345, or run `kubectl sky stop bcdf2345`"
    )
    (warning,) = tasks.incomplete([task])
    assert warning.startswith('warning: task "train" (bcdf2345) is incomplete: 18 of 20 nodes')
    assert "Next:       submit it again" in tasks.details(task)
    verdict = judge(task, World.submitted(1).snapshot())
    assert verdict.summary == task.note


def test_status_missing_nodes_without_service_is_unknown() -> None:
    other = make_service(make_job(0))
    other["metadata"]["labels"]["task-id"] = "zzzz2345"
    elsewhere = make_service(make_job(0, 20))
    elsewhere["metadata"]["namespace"] = "elsewhere"
    task = incomplete(other, elsewhere)
    assert (task.missing, task.note) == (Missing.UNKNOWN, "incomplete: 18 of 20 nodes found")
    assert task.next_step == "run `kubectl sky stop bcdf2345`, then submit it again"


def test_status_expired_jobs_count_as_completed() -> None:
    jobs = [make_job(rank, 3, "Complete") for rank in range(2)]
    for job in jobs:
        job["spec"] = {"ttlSecondsAfterFinished": 60}
    owned = ownership.explain(
        ownership.decide(read_jobs(jobs), []), read_metadata([make_service(*jobs)])
    )
    (task,) = status.fold(owned)
    assert (task.state, tasks.nodes(task), task.note) == (State.COMPLETED, "3/3", "")
    assert [task.count(state) for state in (State.COMPLETED, State.RUNNING)] == [3, 0]


def test_status_job_created_meanwhile_is_not_missing() -> None:
    jobs = [make_job(rank, 2) for rank in range(2)]
    decided = ownership.explain(
        ownership.decide(read_jobs(jobs[:1]), []), read_metadata([make_service(jobs[0])])
    )
    (task,) = status.fold(ownership.confirm(decided, read_metadata(jobs)))
    assert (task.state, task.missing) == (State.PENDING, Missing.UNKNOWN)
    (task,) = status.fold(ownership.confirm(decided, read_metadata(jobs[:1])))
    assert (task.state, task.missing) == (State.FAILED, Missing.DELETED)


@pytest.mark.parametrize(
    ("minutes", "missing"), [(9, Missing.DELETED), (11, Missing.EXPIRED)], ids=["early", "late"]
)
def test_missing_job_with_autostop_is_deleted_before_expiry(minutes: int, missing: Missing) -> None:
    jobs = [make_job(rank, 2) for rank in range(2)]
    for job in jobs:
        job["spec"]["ttlSecondsAfterFinished"] = 600
    created = datetime.fromisoformat(jobs[0]["metadata"]["creationTimestamp"])
    owned = ownership.decide(read_jobs(jobs[:1]), [])
    now = created + timedelta(minutes=minutes)
    (task,) = status.fold(ownership.explain(owned, read_metadata([make_service(*jobs)]), now))
    assert task.missing is missing
    assert (task.state is State.FAILED) == (missing is Missing.DELETED)


def test_nodes_that_wait_to_meet_name_the_missing_ones_and_the_next_step() -> None:
    world = World.submitted(2)
    events = []
    for rank, pod in world.pods.items():
        pod["metadata"]["annotations"] = {names.AWAITS_NODES: "true"}
        pod["status"]["containerStatuses"][-1]["started"] = False
        text = f"Startup probe failed: waiting for node-{1 - rank} (no connection)"
        about = {"kind": "Pod", "name": pod["metadata"]["name"]}
        metadata = {"namespace": pod["metadata"]["namespace"]}
        events.append(
            {
                "metadata": metadata,
                "involvedObject": about,
                "type": "Warning",
                "reason": "Unhealthy",
                "message": text,
            }
        )

    snapshot = world.snapshot()
    objects = {**snapshot.objects, **read_objects({"Event": events})}
    snapshot = replace(snapshot, objects=objects)
    verdict = judge(folded(world), snapshot)
    reason = "waits to meet node-1 (no connection)"
    assert (verdict.task.note, verdict.summary) == (f"node-0: {reason}", reason)
    assert "NetworkPolicies" in verdict.findings[0].then
    assert verdict.document.stages["start"] == "problem"
    assert verdict.document.stages["run"] == "not reached"


def test_node_that_has_its_files_and_waits_for_others_says_so() -> None:
    """Its startup probe waits for both, and only its event tells for which."""
    world = World.submitted(2)
    for pod in world.pods.values():
        annotations = {names.AWAITS_UPLOAD: "true", names.AWAITS_NODES: "true"}
        pod["metadata"]["annotations"] = annotations
        pod["status"]["containerStatuses"][-1]["started"] = False

    task = folded(world)
    assert task.note.startswith("node-0: waits for files")
    assert may_wait([task])
    key = (task.namespace, task.nodes[0].pod)
    said = "Startup probe failed: waiting for"
    probe = read(kinds.EVENT, {"message": f"{said} node-1 (no address)"})
    explained = explain(task, Surroundings(warnings={key: probe}))
    assert explained.nodes[0].message == "node-1 (no address)"
    probe = read(kinds.EVENT, {"message": f"{said} files"})
    assert explain(task, Surroundings(warnings={key: probe})) == task
