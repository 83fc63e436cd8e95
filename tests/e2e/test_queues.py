"""Queues on the real cluster with the real Kueue and AppWrapper controllers."""

import json
import os
import re
from time import sleep

import pytest

from kubectl_sky.spec.quantity import quantity
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.e2e.gallery import check_run
from tests.e2e.kueue import API, made, queue
from tests.e2e.support import (
    FAILING,
    TROUBLE_ID,
    failure_texts,
    objects,
    record_snapshot,
    selected_pods,
    until_deleted,
    wait_for_controller,
)
from tests.observe.troubles import REFUSALS, Refusal
from tests.polling import eventually

pytestmark = pytest.mark.usefixtures("kueue", "gold")

QUOTA = [{"name": "cpu", "nominalQuota": "400m"}, {"name": "memory", "nominalQuota": "4Gi"}]
TASK = """
num_nodes: 3
resources: {cpus: 100m, memory: 32Mi}
run: |
  echo rank $NODE_RANK
"""
# Runs until /tmp/go exists.
HOLDING = TASK + "  until [ -e /tmp/go ]; do sleep 0.2; done\n"
# As in the README of AppWrapper: 4 CPUs, and two tasks of 3 CPUs.
README_QUOTA = [{"name": "cpu", "nominalQuota": 4}, {"name": "memory", "nominalQuota": "4Gi"}]
FIRST, SECOND = (task.replace("cpus: 100m", "cpus: 1") for task in (HOLDING, TASK))
KINDS = {"appwrapper": "AppWrapper", "indexed": "Job", "jobset": "JobSet"}


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has the controllers."""
    return real_cluster


@pytest.fixture
def gold(kueue: None, kubectl: Command, namespace: str) -> str:
    """Create a queue in the namespace with quota for one TASK."""
    made(kubectl, *queue("gold", namespace, QUOTA))
    return "gold"


@pytest.fixture
def user_queue(kueue: None, kubectl: Command, namespace: str) -> str:
    """Create the queue of the README, with quota for one SECOND; skip if CPUs are missing."""
    nodes = kubectl.json("get", "nodes")["items"]
    if sum(quantity(node["status"]["allocatable"]["cpu"]) for node in nodes) < 4:
        pytest.skip("the nodes have no four CPUs together; that of the tests' own cluster has more")
    made(kubectl, *queue("user-queue", namespace, README_QUOTA))
    return "user-queue"


def remaining_objects(kubectl: Command, task_id: str) -> list[str]:
    listed = kubectl(
        "get", "appwrappers,jobsets,pods,jobs", "-l", f"task-id={task_id}", "-o", "name"
    )
    return objects(kubectl, task_id) + listed.stdout.split()


def check_queues(sky: Command, kind: str) -> None:
    """Check that one task is admitted and one is pending, once Kueue has counted them."""

    def counted() -> bool:
        header, _gold, row = [line.split() for line in sky("queues", "list").stdout.splitlines()]
        assert header == ["QUEUE", "CLUSTERQUEUE", "ADMITTED", "PENDING", "STATE"]
        return (row[0], row[2:]) == ("user-queue", ["1", "1", "open"])

    eventually(counted)
    output = sky("queues", "status", "user-queue").stdout
    assert re.search(r"^plain +cpu +3 +3 +4$", output, re.MULTILINE), output
    assert re.search(rf"^1 +{kind}/second02-second02 +0 ", output, re.MULTILINE), output
    queue_status = sky.json("queues", "list")["queues"][1]
    assert queue_status["waiting"][0]["position"] == 1


def times(kubectl: Command, task_id: str) -> tuple[list[str], list[str]]:
    """Return the creation and the end times of the pods of a task."""
    pods = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    ended = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in pods]
    begins = [pod["metadata"]["creationTimestamp"] for pod in pods]
    return begins, [state["finishedAt"] for state in ended]


@pytest.mark.usefixtures("user_queue")
@pytest.mark.parametrize("backend", KINDS)
def test_submit_queued_second_task_waits_until_first_completes(
    sky: Command, kubectl: Command, backend: str
) -> None:
    flags = ("--backend", backend, "--queue", "user-queue", "-d", "--ports", "80")
    for task_id, task in (("first001", FIRST), ("second02", SECOND)):
        done = sky("submit", "-", *flags, "--id", task_id, stdin=f"name: {task_id}{task}")
        assert (done.returncode, "no gang scheduler" in done.stderr) == (0, False), done.stderr
    wait_for_controller(lambda: sky.json("status", "first001")["status"] == "running")
    place = "first of 1 in the queue user-queue: couldn't assign flavors to pod set"
    wait_for_controller(lambda: place in sky("status", "second02").stdout)
    assert "pending (queued) — node-0: Queued" in sky("status", "second02").stdout
    assert kubectl("get", "pods", "-l", "task-id=second02", "-o", "name").stdout == ""

    verdict = sky("doctor", "second02").stdout
    assert "the queue's quota is in use: 2 more cpu needed" in verdict

    check_queues(sky, KINDS[backend])
    rank = "node-0-0" if backend == "jobset" else "0"
    assert selected_pods(kubectl, "first001-first001-ports") == [f"first001-first001-{rank}"]
    assert sky("exec", "first001", "--all-ranks", "--", "touch", "/tmp/go").returncode == 0

    done = sky("wait", "first001", "second02")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"task/{name} ({name}) completed" for name in ("first001", "second02")
    ]

    first, other = (sky.json("status", name)["metadata"] for name in ("first001", "second02"))
    _, ends = times(kubectl, "first001")
    begins, _ = times(kubectl, "second02")
    assert max(ends) <= min(begins), "no pod starts before the first task completes"

    if backend == "appwrapper":
        phase = ("appwrapper/first001-first001", "--for=jsonpath={.status.phase}=Succeeded")
        assert kubectl("wait", *phase, "--timeout=60s").returncode == 0
    assert first["succeeded_nodes"] == other["succeeded_nodes"] == 3

    lines = sky("logs", "second02").stdout.splitlines()
    assert sorted(lines) == [f"node-{rank} | rank {rank}" for rank in range(3)]

    for task_id in ("first001", "second02"):
        assert sky("stop", task_id).returncode == 0
        until_deleted(kubectl, task_id)
    wait_for_controller(
        lambda: (
            remaining_objects(kubectl, "first001") + remaining_objects(kubectl, "second02") == []
        )
    )


def test_submit_queued_task_prints_position_and_follows(sky: Command) -> None:
    flags = ("--backend", "appwrapper", "--queue", "gold")
    assert sky("submit", "-", *flags, "-d", "--id", "before01", stdin=HOLDING).returncode == 0
    wait_for_controller(lambda: sky.json("status", "before01")["status"] == "running")
    process = sky.start("submit", sky.write("task.yaml", TASK), *flags, "--id", "follow01")
    assert process.stderr
    assert any("queued: first of 1 in the queue gold" in line for line in process.stderr)
    assert sky("exec", "before01", "--all-ranks", "--", "touch", "/tmp/go").returncode == 0
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    assert sorted(out.splitlines()[1:]) == [f"node-{n} | rank {n}" for n in range(3)]
    again = sky("submit", "-", *flags, "--id", "follow01", "-d", stdin=TASK)
    assert again.stdout.startswith("task/follow01 unchanged"), again.stderr


def test_submit_appwrapper_failed_node_stops_remaining_nodes(
    sky: Command, kubectl: Command
) -> None:
    flags = ("--backend", "appwrapper", "--id", "failing1")
    done = sky("submit", "-", *flags, stdin=FAILING)
    assert done.returncode == 4, done.stderr
    assert "logs and its quota for an hour" in done.stderr
    for command, text in failure_texts(sky, "failing1").items():
        assert "failed" in text and "node-2" in text, (command, text)
        assert "exit code 7" in text, (command, text)
    assert sky("status", "failing1").stdout.count("Stopped") == 3
    assert sky("stop", "failing1").returncode == 0
    until_deleted(kubectl, "failing1")
    wait_for_controller(lambda: remaining_objects(kubectl, "failing1") == [])


def test_submit_appwrapper_restart_restarts_all_nodes(sky: Command) -> None:
    script = """
name: again
num_nodes: 2
resources: {cpus: 50m, memory: 32Mi, job_recovery: {max_restarts_on_errors: 1}}
run: |
  echo rank $NODE_RANK
  test $NODE_RANK = 0 || exit 5
  sleep 300
"""
    flags = ("--backend", "appwrapper", "--queue", "gold", "--id", "again001")
    done = sky("submit", "-", *flags, stdin=script)
    assert done.returncode == 4, done.stderr
    assert "failed: node-1: exit code 5 after 1 restart" in done.stderr
    assert sky.json("status", "again001")["metadata"]["restarts"] == 1


def test_queues_high_priority_task_is_queued_first(
    sky: Command, kubectl: Command, cluster: Cluster, namespace: str
) -> None:
    """Also as a user without the right to read the quota."""
    urgent = {"metadata": {"name": f"{namespace}-urgent"}, "value": 1000}
    made(kubectl, {"apiVersion": API, "kind": "WorkloadPriorityClass"} | urgent)
    for allowed in (
        ("role", "alice", "--verb=list", "--resource=localqueues,workloads.kueue.x-k8s.io"),
        ("rolebinding", "alice", "--role=alice", f"--user={cluster.users['alice']}"),
    ):
        assert kubectl("create", *allowed).returncode == 0
    task = "name: {}\nresources: {{cpus: 300m, memory: 32Mi{}}}\nrun: sleep 300\n"
    flags = ("--backend", "indexed", "--queue", "gold", "-d", "--id")
    done = sky("submit", "-", *flags, "inside01", stdin=task.format("inside", ""))
    assert done.returncode == 0, done.stderr
    wait_for_controller(lambda: sky.json("status", "inside01")["status"] == "running")
    high = f", priority_class: {namespace}-urgent"
    for task_id, name, more in (("later002", "later", ""), ("urgent03", "urgent", high)):
        done = sky("submit", "-", *flags, task_id, stdin=task.format(name, more))
        assert done.returncode == 0, done.stderr
    wait_for_controller(lambda: "second of 2 in the queue gold" in sky("status", "later002").stdout)
    assert "first of 2 in the queue gold" in sky("status", "urgent03").stdout
    # Kueue writes what a queue holds some seconds after it admits.
    wait_for_controller(lambda: sky.json("queues", "list")["queues"][0]["admitted"] == 1)
    status = sky("queues", "status", "gold", "--context", "alice")
    assert re.search(r"^plain +cpu +300m +\? +\?$", status.stdout, re.MULTILINE), status.stdout
    assert "Next task:    would be third in queue" in status.stdout
    rows = [line.split()[:3] for line in status.stdout.splitlines()[-2:]]
    assert rows == [
        ["1", "Job/urgent-urgent03", "1000"],
        ["2", "Job/later-later002", "0"],
    ]
    assert "quota and the workloads of other namespaces are hidden" in status.stderr
    assert sky("stop", "inside01", "later002", "urgent03").returncode == 0


def test_submit_dry_run_says_when_queue_admits_task(sky: Command, kubectl: Command) -> None:
    """Kueue admits each node of HOLDING by itself: three admissions are enough for a guess."""
    task = "name: later\nresources: {cpus: 200m, memory: 32Mi}\nrun: echo\n"
    flags = ("submit", "-", "--queue", "gold")

    def forecast(text: str) -> str:
        done = sky(*flags, "--dry-run=server", "-o", "name", stdin=text)
        assert (done.returncode, "never" in text) == (0, False), done.stderr
        return done.stderr

    assert "forecast: queue gold admits it now with flavor plain; starts now on " in forecast(task)
    assert sky(*flags, "-d", "--id", "before01", stdin=HOLDING).returncode == 0
    wait_for_controller(lambda: sky.json("queues", "list")["queues"][0]["recent_admissions"] == 3)
    needs = r"waits in queue gold: it needs \S+ more cpu.* of flavor plain"
    guess = r"about \d\S+ until it is admitted: a guess from 3 admissions of the last 6h"
    wait_for_controller(
        lambda: bool(re.search(f"{needs}; would be first in queue; {guess}", forecast(task)))
    )
    assert sky(*flags, "-d", "--id", "later001", stdin=task).returncode == 0
    wait_for_controller(lambda: "would be second in queue" in forecast(task))
    status = sky("queues", "status", "gold").stdout
    next_task = r"^Next task: +would be admitted now if it requests up to 100m cpu, \S+ memory$"
    assert re.search(next_task, status, re.MULTILINE)
    assert re.search(r"^1 +Job/later-\S+ +0 +\S+ +about \d\S+ +couldn't", status, re.MULTILINE)
    done = sky(*flags, "--dry-run=server", stdin=task.replace("200m", "2"))
    assert (done.returncode, done.stdout) == (3, "")
    assert 'can never be admitted: queue "gold": cpu: requested 2, at most 400m of' in done.stderr


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_doctor_queued_task_reports_reason(
    sky: Command, kubectl: Command, namespace: str, refusal: Refusal
) -> None:
    if refusal.patch:
        patch = ("--type=merge", "-p", json.dumps(refusal.patch))
        assert kubectl("patch", "clusterqueue", f"{namespace}-gold", *patch).returncode == 0
    if refusal.after:
        flags = ("--backend", "indexed", "--queue", "gold", "-d")
        done = sky("submit", "-", *flags, stdin=HOLDING)
        assert done.returncode == 0, done.stderr
        wait_for_controller(lambda: sky.json("list")["tasks"][0]["status"] == "running")
    rendered = sky("render", "-", "--id", TROUBLE_ID, *refusal.flags, stdin=TASK)
    assert kubectl("apply", "-f", "-", stdin=rendered.stdout).returncode == 0

    def reported() -> bool:
        findings = sky.json("doctor", TROUBLE_ID)["findings"]
        return any(
            finding["rule"] == refusal.rule and refusal.says in finding["what"]
            for finding in findings
        )

    wait_for_controller(reported)
    if os.environ.get("RECORD_SNAPSHOTS"):
        record_snapshot(sky, refusal.name)
    assert sky("stop", TROUBLE_ID).returncode == 0


@pytest.mark.usefixtures("mpi")
def test_submit_mpijob_in_queue_is_admitted_as_single_workload(
    sky: Command, kubectl: Command
) -> None:
    script = """
name: mpi
num_nodes: 3
resources: {cpus: 100m, memory: 64Mi, image_id: 'mpioperator/openmpi:v0.8.0'}
run: mpirun sh -c 'echo rank $SKYPILOT_NODE_RANK'
"""
    done = sky("submit", "-", "--backend", "mpijob", "--queue", "gold", stdin=script)
    assert done.returncode == 0, done.stderr
    lines = set(done.stdout.splitlines())
    assert {f"node-0 | rank {rank}" for rank in range(3)} <= lines
    (workload,) = kubectl.json("get", "workloads.kueue.x-k8s.io")["items"]
    assert sum(group["count"] for group in workload["spec"]["podSets"]) == 3
    assert sky("stop", submitted(done)).returncode == 0


def test_submit_pipeline_in_queue_admits_stages_in_order(sky: Command, kubectl: Command) -> None:
    """A later stage is queued only after it is resumed."""
    task = "---\nresources: {{cpus: 100m, memory: 32Mi, image_id: 'busybox:1.36'}}\nrun: {}\n"
    script = "name: chain\n" + task.format("sleep 4; echo first") + task.format("echo second")
    done = sky("submit", "-", "--queue", "gold", "-d", "--id", "chain001", stdin=script)
    assert done.returncode == 0, done.stderr

    held = "jobs", "-l", "kubectl-sky/stage=2", "-o", "jsonpath={.items[*].metadata.labels}"
    assert "queue-name" not in kubectl("get", *held).stdout

    again = sky("submit", "-", "--queue", "gold", "-d", "--id", "chain001", stdin=script)
    assert again.stdout.startswith("pipeline/chain001 unchanged")

    done = sky("submit", "-", "--queue", "gold", "--id", "chain001", stdin=script)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "/" not in line] == ["first", "second"]

    workloads = kubectl.json("get", "workloads.kueue.x-k8s.io")["items"]
    assert {workload["spec"]["queueName"] for workload in workloads} == {"gold"}

    jobs = kubectl.json("get", "jobs")["items"]
    first, second = sorted(jobs, key=lambda job: str(job["metadata"]["labels"]["task-name"]))
    assert first["status"]["completionTime"] <= second["status"]["startTime"]
    assert sky("stop", "chain001").returncode == 0


def test_submit_appwrapper_example_prints_expected_output(sky: Command) -> None:
    check_run(sky, "18-appwrapper")


def test_timeline_has_the_time_in_the_queue(sky: Command, gold: str) -> None:
    flags = ("--queue", gold, "--detach", "--backend", "indexed")
    first, second = (task.replace("100m", "130m") for task in (HOLDING, TASK))  # no room for a node
    assert sky("submit", "-", "--id", "first002", *flags, stdin=first).returncode == 0
    eventually(lambda: sky.json("status", "first002")["metadata"]["running_nodes"] == 3)
    second += "  sleep 1.5\n"  # times are in whole seconds
    assert sky("submit", "-", "--id", "second02", *flags, stdin=second).returncode == 0

    def phases() -> list[list[str]]:
        (task,) = sky.json("status", "second02", "--timeline")["tasks"]
        return [[phase["phase"] for phase in node["phases"]] for node in task["nodes"]]

    eventually(lambda: phases() == [["queued"]] * 3)
    sleep(1.5)
    assert sky("stop", "first002", "-y").returncode == 0
    assert sky("wait", "second02", "--timeout", "60s").returncode == 0
    assert all(node[0] == "queued" and node[-1] == "run" for node in phases()), phases()


@pytest.mark.parametrize("backend", ["indexed", "appwrapper", "jobset"])
def test_max_duration_of_task_in_queue_fails_it_in_the_words_of_the_user(
    request: pytest.FixtureRequest, sky: Command, gold: str, backend: str
) -> None:
    """The deadline of the Job comes before that of Kueue, which would suspend it for good."""
    if backend == "jobset":
        request.getfixturevalue("jobset")
    flags = ("--queue", gold, "--backend", backend, "--max-duration", "5s", "--num-nodes", "2")
    done = sky("submit", "-", "--id", "late0001", "--detach", *flags, stdin=HOLDING)
    assert done.returncode == 0, done.stderr
    assert sky("wait", "late0001", "--timeout", "100s", timeout=200).returncode == 4
    why = "it ran longer than max_duration 5s"
    eventually(lambda: why in sky("list", "-o", "wide").stdout)  # pods end before the Job says it
    for command in (("list", "-o", "wide"), ("status", "late0001"), ("doctor", "late0001")):
        assert why in sky(*command).stdout, command
