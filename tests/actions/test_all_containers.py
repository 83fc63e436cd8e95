"""`logs --all-containers` and `-c`, over a cluster in memory."""

import json
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kubectl_sky.cluster.streams import has_terminated
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID, Json, terminated
from tests.fake_cluster import FakeCluster
from tests.polling import eventually
from tests.reading import read_pod

RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WAITING: Json = {"waiting": {"reason": "PodInitializing"}}
ENDED = terminated(0)
CONTAINERS = ("fetch", "main", "proxy")


def pod_of(rank: int) -> str:
    return f"ring-{ID}-node-{rank}-0"


def report(
    api: FakeCluster,
    pod: str,
    *states: Json,
    phase: str = "Running",
    last: Json | None = None,
) -> None:
    """Let the kubelet report the init container `fetch`, `main` and the sidecar `proxy`."""
    statuses = [
        {"name": name, "state": state} for name, state in zip(CONTAINERS, states, strict=True)
    ]
    statuses[1] |= {"lastState": last or {}}
    status = {"phase": phase, "initContainerStatuses": statuses[:1]}
    api.change(kinds.POD, pod, status=status | {"containerStatuses": statuses[1:]})


def finish(api: FakeCluster, ranks: int) -> None:
    """End all containers, then the Jobs."""
    for rank in range(ranks):
        api.finish(f"ring-{ID}-node-{rank}")
        report(api, pod_of(rank), ENDED, ENDED, ENDED, phase="Succeeded")


@pytest.fixture
def ring(api: FakeCluster, send: Submitter) -> None:
    """A finished task of two nodes; each container of a pod wrote two lines."""
    send("name: ring\nnum_nodes: 2\nrun: echo\n")
    for rank in range(2):
        api.start(f"ring-{ID}-node-{rank}")
    for word in (b"one\n", b"two\n"):
        for container in CONTAINERS:
            for rank in range(2):
                api.log(pod_of(rank), container.encode() + b" " + word, container)
    finish(api, 2)


def lines(rank: int, *texts: str) -> str:
    return "".join(f"node-{rank} {text.split()[0]} | {text}\n" for text in texts)


ALL = [f"{container} {word}" for container in CONTAINERS for word in ("one", "two")]
FIRST = [f"{container} one" for container in CONTAINERS]
LAST = [f"{container} two" for container in CONTAINERS]


@pytest.mark.usefixtures("ring")
@pytest.mark.parametrize(
    ("flags", "out"),
    [
        ("--all-containers --rank 1", lines(1, *FIRST, *LAST)),
        ("--all-containers --rank 1 -f", lines(1, *FIRST, *LAST)),
        ("--all-containers --by-node", lines(0, *ALL) + lines(1, *ALL)),
        ("--all-containers --rank 0 --tail 1", lines(0, *LAST)),
        (
            "--all-containers --rank 0 --limit-bytes 4",
            "".join(f"node-0 {name} | {name[:4]}\n" for name in CONTAINERS),
        ),
        ("--all-containers --rank 0 --tail 1 -o raw", "fetch two\nmain two\nproxy two\n"),
        ("-c proxy --rank 0", "node-0 | proxy one\nnode-0 | proxy two\n"),
        ("-c fetch --rank 0 -f", "node-0 | fetch one\nnode-0 | fetch two\n"),
    ],
)
def test_logs_containers_have_prefixes_and_limits_of_their_own(
    run: Run, flags: str, out: str
) -> None:
    assert run("logs", ID, *flags.split()) == (0, out, "")


@pytest.mark.usefixtures("ring")
def test_logs_all_containers_json_names_container(run: Run) -> None:
    code, out, _ = run("logs", ID, "--all-containers", "-o", "json", "--tail", "1")
    documents = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(item["container"], item["rank"]) for item in documents] == [
        (container, rank) for container in CONTAINERS for rank in range(2)
    ]
    assert all(item["text"] == f"{item['container']} two" for item in documents)


@pytest.mark.usefixtures("ring")
def test_logs_all_containers_output_dir_has_a_file_per_container(run: Run, tmp_path: Path) -> None:
    flags = ("--all-containers", "--output-dir", str(tmp_path / "logs"))
    assert run("logs", ID, *flags)[0] == 0
    assert {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()} == {
        f"{ID}-node-{rank}{suffix}.log": f"{name} one\n{name} two\n"
        for rank in range(2)
        for name, suffix in zip(CONTAINERS, ("-fetch", "", "-proxy"), strict=True)
    }


@pytest.mark.usefixtures("ring")
def test_logs_all_containers_count_against_max_log_requests(run: Run) -> None:
    flags = ("--all-containers", "--max-log-requests")
    _, out, err = run("logs", ID, *flags, "5")
    assert "at most 5 logs are read at a time; --max-log-requests 6 prints them in order" in err
    assert out == lines(0, *ALL) + lines(1, *ALL)
    assert run("logs", ID, *flags, "6")[2] == ""
    code, out, err = run("logs", ID, "-f", *flags, "2")
    assert (code, sorted(out.splitlines())) == (
        0,
        sorted((lines(0, *ALL) + lines(1, *ALL)).splitlines()),
    )
    assert err == "reading 2 logs at a time; the remaining logs follow as these end\n"


@pytest.mark.usefixtures("ring")
def test_logs_container_and_all_containers_are_refused(run: Run) -> None:
    code, out, err = run("logs", ID, "-c", "proxy", "--all-containers")
    assert (code, out) == (2, "")
    assert "error: -c cannot be combined with --all-containers" in err


@pytest.mark.usefixtures("ring")
def test_logs_waiting_container_is_told_as_kubectl_does(run: Run, api: FakeCluster) -> None:
    report(api, pod_of(0), RUNNING, WAITING, {}, phase="Pending")
    about = f'container "{{}}" in pod "{pod_of(0)}" is waiting to start'
    waiting = f"{about.format('main')}: PodInitializing\n{about.format('proxy')} - no logs yet\n"
    code, out, err = run("logs", ID, "--rank", "0", "--all-containers")
    assert (code, out, err) == (0, lines(0, "fetch one", "fetch two"), waiting)

    report(api, pod_of(0), ENDED, RUNNING, WAITING)
    code, out, err = run("logs", ID, "--rank", "0", "-c", "proxy")
    assert (code, out, err) == (0, "", f"{about.format('proxy')}: PodInitializing\n")


@pytest.mark.usefixtures("ring")
def test_logs_previous_reads_the_containers_that_restarted(run: Run, api: FakeCluster) -> None:
    report(api, pod_of(0), ENDED, RUNNING, RUNNING, last=terminated(1))
    flags = ("--rank", "0", "--all-containers", "--previous")
    assert run("logs", ID, *flags) == (0, lines(0, "main one", "main two"), "")


def follow(run: Run, *flags: str) -> tuple[Thread, dict[str, Any]]:
    result: dict[str, Any] = {}
    arguments = ("logs", ID, "-f", "--all-containers", *flags)
    thread = Thread(target=lambda: result.update(done=run(*arguments)), daemon=True)
    thread.start()
    return thread, result


def test_logs_follow_waits_for_containers_that_have_not_begun(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: ring\nrun: echo\n")
    pod = api.start(f"ring-{ID}")
    report(api, pod, RUNNING, WAITING, WAITING, phase="Pending")
    api.log(pod, b"fetched\n", "fetch")
    thread, result = follow(run)
    eventually(lambda: api.count("get pods/log") > 0)

    report(api, pod, ENDED, RUNNING, WAITING)
    api.log(pod, b"begun\n")
    eventually(lambda: api.count("get pods/log") > 3)

    report(api, pod, ENDED, RUNNING, RUNNING)
    api.log(pod, b"listening\n", "proxy")
    api.log(pod, b"done\n")
    api.finish(f"ring-{ID}")
    report(api, pod, ENDED, ENDED, ENDED, phase="Succeeded")
    thread.join(60)
    code, out, _ = result["done"]
    expected = ["fetch | fetched", "main | begun", "main | done", "proxy | listening"]
    assert (code, sorted(out.splitlines())) == (0, [f"node-0 {line}" for line in expected])


def test_logs_follow_eight_ranks_of_three_containers_lose_and_double_no_line(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    """Connections break all the time, and six logs at a time are read."""
    send("name: ring\nnum_nodes: 8\nrun: echo\n")
    for rank in range(8):
        report(api, api.start(f"ring-{ID}-node-{rank}"), RUNNING, RUNNING, RUNNING)
    thread, result = follow(run, "--max-log-requests", "6")
    streams = [(rank, container) for rank in range(8) for container in CONTAINERS]
    for number in range(50):
        for rank, container in streams:
            api.log(pod_of(rank), b"line %d\n" % number, container)
        if number % 10 == 5:
            eventually(lambda: api.count("get pods/log") > 6)
            api.break_streams()
    finish(api, 8)
    thread.join(120)
    code, out, err = result["done"]
    assert code == 0, err
    assert err.count("reading 6 logs at a time") == 1
    assert Counter(out.splitlines()) == Counter(
        f"node-{rank} {container} | line {number}"
        for rank, container in streams
        for number in range(50)
    )


def test_logs_follow_notes_deleted_pod_once(run: Run, api: FakeCluster, send: Submitter) -> None:
    send("name: ring\nrun: echo\n")
    pod = api.start(f"ring-{ID}")
    report(api, pod, RUNNING, RUNNING, RUNNING)
    thread, result = follow(run)
    eventually(lambda: api.count("get pods/log") > 5)
    api.remove(kinds.POD, pod)
    api.break_streams()
    eventually(lambda: api.count(f"get pods {pod}") > 2)
    api.remove(kinds.JOB, f"ring-{ID}")
    thread.join(60)
    assert result["done"][2].count(f"pod {pod} was deleted\n") == 1


@pytest.mark.parametrize(
    ("container", "policy", "code", "has_ended"),
    [
        ("fetch", "Always", 0, True),
        ("fetch", "Always", 1, False),
        ("fetch", "Never", 1, True),
        ("proxy", "Never", 0, False),
        ("main", "Always", 0, False),
        ("main", "OnFailure", 0, True),
    ],
)
def test_container_has_terminated_by_its_restart_policy(
    container: str, policy: str, code: int, has_ended: bool
) -> None:
    init = [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]
    states = [{"name": name, "state": terminated(code)} for name in CONTAINERS]
    pod = {
        "spec": {"restartPolicy": policy, "initContainers": init},
        "status": {"phase": "Running", "initContainerStatuses": states},
    }
    assert has_terminated(read_pod(pod), container) is has_ended
