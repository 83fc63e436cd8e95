"""Timelines of nodes, from their objects and events."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_sky.observe import status, timeline
from kubectl_sky.observe.setups import SetupTimes, container_key
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.timeline import NodeTimeline
from kubectl_sky.words import age, names
from kubectl_sky.words.documents import as_json
from tests.builders import ID, make_job, make_pod
from tests.reading import read_jobs, read_objects, read_pods

Json = dict[str, Any]

NOW = age.parse("2026-01-01T01:00:00Z")


def at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T00:{minute:02}:{second:02}Z"


def minute(number: int) -> datetime:
    return datetime(2026, 1, 1, 0, number, tzinfo=UTC)


def condition(kind: str, minute: int, status: str = "True") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": at(minute)}


def event(reason: str, minute: int, pod: Json, path: str = "spec.containers{main}") -> Json:
    about = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "fieldPath": path}
    return {"involvedObject": about, "reason": reason, "firstTimestamp": at(minute)}


def pod_of(*, ended: int | None = 9, scheduled: int = 1) -> Json:
    """A pod that is scheduled in minute 1, whose container starts in minute 3."""
    running: Json = {"running": {"startedAt": at(3)}}
    end = {"exitCode": 0, "reason": "Completed", "startedAt": at(3), "finishedAt": at(ended or 0)}
    conditions = [condition("PodScheduled", scheduled)]
    if ended is None:
        return make_pod(phase="Running", state=running, conditions=conditions)
    return make_pod(phase="Succeeded", state={"terminated": end}, conditions=conditions)


def timeline_of(
    pod: Json | None,
    *events: Json,
    job: Json | None = None,
    setup: SetupTimes | None = None,
    **kinds: Any,
) -> NodeTimeline:
    job = job or make_job()
    pods = (pod,) if pod else ()
    objects = {"Job": (job,), "Pod": pods, "Event": events, **kinds}
    (task,) = status.tasks(read_jobs([job]), read_pods(pods))
    snapshot = TaskSnapshot(ID, "default", read_objects(objects), task=task)
    setups = {container_key("default", task.nodes[0]): setup} if setup else {}
    return timeline.task_timeline(snapshot, task, setups).nodes[0]


def shown(node: NodeTimeline) -> list[str]:
    """Return `phase start-end` in minutes and seconds."""
    return [
        f"{span.phase} {span.start:%M:%S}-{format(span.end, '%M:%S') if span.end else ''}"
        for span in node.phases
    ]


def test_finished_node_has_all_phases_without_gaps() -> None:
    pod = pod_of()
    init = {"startedAt": at(1, 10), "finishedAt": at(1, 40), "exitCode": 0}
    sidecar = {"running": {"startedAt": at(1, 40)}}
    pod["spec"]["initContainers"] = [{"name": "sync", "restartPolicy": "Always"}]
    pod["status"]["initContainerStatuses"] = [
        {"name": "fetch", "state": {"terminated": init}},
        {"name": "sync", "state": sidecar},
    ]

    node = timeline_of(
        pod, event("Pulling", 2, pod), event("Pulled", 2, pod) | {"firstTimestamp": at(2, 50)}
    )
    assert shown(node) == [
        "scheduling 00:00-01:00",
        "starting 01:00-01:10",
        "files 01:10-01:40",
        "starting 01:40-02:00",
        "image 02:00-02:50",
        "starting 02:50-03:00",
        "run 03:00-09:00",
    ]
    assert node.unknown == ()


def test_running_node_goes_on_in_its_last_phase() -> None:
    assert shown(timeline_of(pod_of(ended=None)))[-1] == "run 03:00-"


def test_image_that_is_being_pulled_goes_on() -> None:
    pod = pod_of()
    pod["status"] |= {"phase": "Pending", "containerStatuses": []}
    node = timeline_of(pod, event("Pulling", 2, pod), event("Failed", 2, pod))
    assert shown(node) == ["scheduling 00:00-01:00", "starting 01:00-02:00", "image 02:00-"]


def test_events_of_another_pod_of_that_name_do_not_count() -> None:
    pod = pod_of()
    other = event("Pulling", 2, pod)
    other["involvedObject"]["uid"] = "uid-of-an-earlier-pod"
    assert timeline_of(pod, other).unknown == ("image",)


def test_uploaded_files_end_when_the_pod_is_ready() -> None:
    pod = pod_of()
    pod["metadata"]["annotations"][names.AWAITS_UPLOAD] = "true"
    node = timeline_of(pod)
    assert (shown(node)[-1], node.unknown) == ("unknown 03:00-09:00", ("image", "run"))
    pod["status"]["conditions"].append(condition("Ready", 5))
    assert shown(timeline_of(pod))[-2:] == ["files 03:00-05:00", "run 05:00-09:00"]


def test_nodes_have_met_when_the_pod_is_ready() -> None:
    pod = pod_of()
    pod["metadata"]["annotations"][names.AWAITS_NODES] = "true"
    pod["status"]["conditions"].append(condition("Ready", 5))
    assert shown(timeline_of(pod))[-2:] == ["meeting 03:00-05:00", "run 05:00-09:00"]


def test_ended_node_has_met_the_others_when_its_entry_script_says_so() -> None:
    pod = pod_of()
    pod["metadata"]["annotations"][names.AWAITS_NODES] = "true"
    assert shown(timeline_of(pod))[-1] == "run 03:00-09:00", "a part of it"

    start = int(datetime(2026, 1, 1, 0, 4, tzinfo=UTC).timestamp())
    text = f"started {start} setup {start + 60} {start + 120}"
    pod["status"]["containerStatuses"][-1]["state"]["terminated"]["message"] = text
    assert shown(timeline_of(pod))[-4:] == [
        "meeting 03:00-04:00",
        "starting 04:00-05:00",
        "setup 05:00-06:00",
        "run 06:00-09:00",
    ]


def queued_job(*conditions: Json, **spec: Any) -> Json:
    job = make_job()
    job["metadata"]["labels"][names.QUEUE] = "team"
    return job | {"spec": spec, "status": {"conditions": list(conditions)}}


def workload(*conditions: Json) -> Json:
    owner = {"name": "train", "uid": make_job()["metadata"]["uid"]}
    metadata = {"name": "job-train", "ownerReferences": [owner]}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def test_queued_node_waits_until_it_is_admitted() -> None:
    waiting = timeline_of(None, job=queued_job(suspend=True))
    assert shown(waiting) == ["queued 00:00-"]
    resumed = queued_job(condition("Suspended", 2, "False"))
    assert shown(timeline_of(None, job=resumed)) == ["queued 00:00-02:00", "scheduling 02:00-"]
    kueue = (workload(condition("QuotaReserved", 1), condition("Admitted", 2)),)
    admitted = timeline_of(pod_of(scheduled=3), job=queued_job(), Workload=kueue)
    assert shown(admitted)[:2] == ["queued 00:00-02:00", "scheduling 02:00-03:00"]
    preempted = (workload(condition("Evicted", 1, "False"), condition("Admitted", 2)),)
    again = timeline_of(pod_of(scheduled=3), job=queued_job(), Workload=preempted)
    assert shown(again)[0] == "scheduling 02:00-03:00", "it ran before, nobody knows when"


def test_restarted_node_has_its_latest_attempt() -> None:
    job = make_job()
    job["spec"] = {"backoffLimit": 3}
    first = make_pod(phase="Failed")
    second = pod_of()
    second["metadata"] |= {"name": "second", "uid": "uid-second", "creationTimestamp": at(0, 30)}
    (task,) = status.tasks(read_jobs([job]), read_pods([first, second]))
    snapshot = TaskSnapshot(
        ID, "default", read_objects({"Job": (job,), "Pod": (first, second)}), task=task
    )
    node = timeline.task_timeline(snapshot, task, {}).nodes[0]
    assert (node.restarts, shown(node)[0]) == (1, "scheduling 00:30-01:00")


@pytest.mark.parametrize(
    ("begun", "ended", "expected"),
    [
        (at(4), at(6), ["starting 03:00-04:00", "setup 04:00-06:00", "run 06:00-09:00"]),
        (at(3), at(9), ["setup 03:00-09:00"]),
        (at(6), at(4), ["run 03:00-09:00"]),
        (at(4), at(10), ["run 03:00-09:00"]),
        (at(2), at(4), ["run 03:00-09:00"]),
    ],
)
def test_setup_is_what_the_completed_pod_tells_within_its_time(
    begun: str, ended: str, expected: list[str]
) -> None:
    pod = pod_of()
    times = [age.parse(begun), age.parse(ended)]
    (end,) = (
        status["state"]["terminated"]
        for status in pod["status"]["containerStatuses"]
        if status["name"] == names.CONTAINER
    )
    seconds = [f"{time.timestamp():.0f}" for time in times if time]
    end["message"] = f"setup {' '.join(seconds)}\n"
    assert shown(timeline_of(pod))[-len(expected) :] == expected


@pytest.mark.parametrize(
    ("end", "setup", "expected"),
    [
        (None, SetupTimes(minute(4)), ["starting 03:00-04:00", "setup 04:00-"]),
        (None, SetupTimes(minute(3), minute(6)), ["setup 03:00-06:00", "run 06:00-"]),
        (9, SetupTimes(minute(3), minute(6)), ["setup 03:00-06:00", "run 06:00-09:00"]),
        (9, SetupTimes(minute(4)), ["starting 03:00-04:00", "setup 04:00-09:00"]),
        (9, SetupTimes(minute(4), minute(10)), ["run 03:00-09:00"]),
        (9, SetupTimes(minute(2)), ["run 03:00-09:00"]),
        (None, SetupTimes(), ["run 03:00-"]),
    ],
)
def test_setup_of_running_or_failed_pod_is_what_its_log_tells(
    end: int | None, setup: SetupTimes, expected: list[str]
) -> None:
    pod = pod_of(ended=end)
    assert shown(timeline_of(pod, setup=setup))[-len(expected) :] == expected


def test_setup_that_began_before_the_pod_was_ready_ends_the_meeting() -> None:
    pod = pod_of(ended=None)
    pod["metadata"]["annotations"][names.AWAITS_NODES] = "true"
    pod["status"]["conditions"].append(condition("Ready", 5))
    setup = SetupTimes(minute(4))
    assert shown(timeline_of(pod, setup=setup))[-2:] == ["meeting 03:00-04:00", "setup 04:00-"]
    late = SetupTimes(minute(6), minute(7))
    assert shown(timeline_of(pod, setup=late))[-4:] == [
        "meeting 03:00-05:00",
        "starting 05:00-06:00",
        "setup 06:00-07:00",
        "run 07:00-",
    ]


def test_clocks_of_the_cluster_that_differ_give_no_negative_times() -> None:
    pod = pod_of(scheduled=4)  # by the scheduler's clock, after the container started
    assert shown(timeline_of(pod)) == ["scheduling 00:00-04:00", "run 04:00-09:00"]


def test_finished_node_without_pod_is_unknown_until_the_end_of_its_job() -> None:
    node = timeline_of(None, job=make_job(end="Complete"))
    assert (shown(node), "run" in node.unknown) == (["unknown 00:00-09:00"], True)


def test_json_has_times_in_utc() -> None:
    node = as_json(timeline_of(pod_of(ended=None)))
    assert node["phases"][-1] == {"phase": "run", "start": at(3), "end": None}
    assert (node["state"], node["restarts"], node["unknown"]) == ("running", 0, ["image"])


def test_summary_names_the_phases_of_the_node_that_ended_last() -> None:
    pod = pod_of()
    events = event("Pulling", 1, pod), event("Pulled", 2, pod)
    last = timeline_of(pod, *events)
    first = timeline_of(pod_of(ended=4))
    task = timeline.TaskTimeline(ID, "train", "completed", (first, last))
    assert (
        task.summary == "completed in 9m00s: queued 1m00s, starting 1m00s, image 1m00s, run 6m00s"
    )


def test_summary_of_unknown_times_says_completed() -> None:
    task = timeline.TaskTimeline(ID, "train", "completed", ())
    assert task.summary == "completed"
