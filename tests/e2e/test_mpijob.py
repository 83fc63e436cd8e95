"""MPIJobs with the real operator, and an image that has mpirun and sshd."""

from datetime import datetime

import pytest

from tests.cluster.target import Cluster
from tests.e2e import killing
from tests.e2e.conftest import ROOT, Command, submitted
from tests.e2e.test_ports import led_to
from tests.e2e.test_queues import until
from tests.e2e.test_submit import gone, objects
from tests.e2e.test_truth import PAIR

pytestmark = pytest.mark.usefixtures("mpi")

IMAGE = "resources: {image_id: 'mpioperator/openmpi:v0.8.0'}\n"
FLAGS = ("--backend", "mpijob")


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """Only the real one has the operator."""
    return real_cluster


def left(kubectl: Command, task_id: str) -> list[str]:
    """What of a task is in the cluster, and what the operator made of it."""
    found = kubectl("get", "mpijobs,pods", "-l", f"task-id={task_id}", "-o", "name").stdout.split()
    name = f"{task_id}-{task_id}"
    made = (f"job/{name}-launcher", f"cm/{name}-config", f"secret/{name}-ssh", f"svc/{name}")
    found += kubectl("get", *made, "-o", "name", "--ignore-not-found").stdout.split()
    return objects(kubectl, task_id) + found


def test_mpirun_reaches_all_nodes(sky: Command, kubectl: Command) -> None:
    """And what it starts has the variables of the task."""
    script = f"""
name: mpijob01
num_nodes: 3
{IMAGE}
envs: {{WORD: a b}}
secrets: {{TOKEN: s3cr3t}}
setup: echo setup of $SKYPILOT_NODE_RANK
run: |
  mpirun sh -c 'echo "$OMPI_COMM_WORLD_RANK on $SKYPILOT_NODE_RANK of $NUM_NODES: $WORD $TOKEN"'
  mpirun -x FIRST=$MASTER_ADDR sh -c '
    test $MASTER_ADDR = $FIRST && echo again on $NODE_RANK, $(echo $SKYPILOT_NODE_IPS | wc -w)'
"""
    flags = (*FLAGS, "--id", "mpijob01", "--ports", "80")
    done = sky("submit", "-", *flags, stdin=script)
    assert done.returncode == 0, done.stderr
    assert led_to(kubectl, "mpijob01-mpijob01-ports") == ["mpijob01-mpijob01-launcher"]
    assert "mpijob: `run` runs on rank 0 alone; mpirun starts programs on all nodes" in done.stderr
    lines = set(done.stdout.splitlines())
    for rank in range(3):
        assert f"node-{rank} | setup of {rank}" in lines
        assert f"node-0 | {rank} on {rank} of 3: a b s3cr3t" in lines
        assert f"node-0 | again on {rank}, 3" in lines, done.stdout
    assert "node-0 | 1 on 1 of 3: a b s3cr3t" in sky("logs", "mpijob01").stdout.splitlines()
    assert sky("wait", "mpijob01").stdout == "task/mpijob01 (mpijob01) completed\n"
    rows = sky("list").stdout.splitlines()
    assert rows[1].split()[:4] == ["mpijob01", "mpijob01", "completed", "3/3"]
    again = sky("submit", "-", *flags, stdin=script)
    assert again.stdout.startswith("task/mpijob01 unchanged: mpijob01, 3 nodes")
    assert sky("stop", "mpijob01").stdout == "task/mpijob01 (mpijob01) stopped\n"
    gone(kubectl, "mpijob01")
    until(lambda: left(kubectl, "mpijob01") == [])


def test_one_fails_and_the_others_end(sky: Command, kubectl: Command) -> None:
    script = f"""
name: mpijob02
num_nodes: 4
{IMAGE}
run: |
  mpirun sh -c 'echo rank $SKYPILOT_NODE_RANK; [ $SKYPILOT_NODE_RANK != 2 ] || exit 7; sleep 300'
"""
    done = sky("submit", "-", *FLAGS, "--id", "mpijob02", stdin=script)
    assert done.returncode == 4, done.stderr
    assert "task mpijob02 (mpijob02) failed: node-0: Error (exit code 7)" in done.stderr
    told = sky("status", "mpijob02").stdout
    assert "failed — node-0: Error (exit code 7)" in told
    assert told.count("Stopped") == 3
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=mpijob02")["items"]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    conditions = kubectl.json("get", "mpijob", "mpijob02-mpijob02")["status"]["conditions"]
    (failed,) = (found for found in conditions if found["type"] == "Failed")
    took = datetime.fromisoformat(failed["lastTransitionTime"]) - datetime.fromisoformat(ended)
    assert took.total_seconds() <= 10
    assert sky("stop", "mpijob02").returncode == 0
    gone(kubectl, "mpijob02")
    until(lambda: left(kubectl, "mpijob02") == [])


def test_a_failed_setup_of_one_node_ends_all(sky: Command) -> None:
    script = f"""
name: mpijob03
num_nodes: 3
{IMAGE}
setup: test $SKYPILOT_NODE_RANK != 2 || exit 9
run: echo never
"""
    done = sky("submit", "-", *FLAGS, "--id", "mpijob03", stdin=script)
    assert done.returncode == 4, done.stderr
    assert "node-2 | kubectl-sky: setup failed with exit code 9" in done.stdout.splitlines()
    assert "never" not in done.stdout
    told = sky.json("status", "mpijob03")["metadata"]
    assert (told["job_status"], told["nodes"][2]["exit_code"]) == ("FAILED_SETUP", 9)
    assert sky("stop", "mpijob03").returncode == 0


def test_rank_0_starts_again_and_meets_the_others(sky: Command) -> None:
    script = """
name: mpijob04
num_nodes: 2
resources: {image_id: 'mpioperator/openmpi:v0.8.0', job_recovery: {max_restarts_on_errors: 1}}
run: |
  mpirun sh -c 'test $MASTER_ADDR = ${SKYPILOT_NODE_IPS%%[!0-9.]*} && echo rank $SKYPILOT_NODE_RANK'
  exit 5
"""
    done = sky("submit", "-", *FLAGS, "--id", "mpijob04", stdin=script)
    assert done.returncode == 4, done.stderr
    lines = [line for line in done.stdout.splitlines() if " | rank " in line]
    assert sorted(lines) == ["node-0 | rank 0"] * 2 + ["node-0 | rank 1"] * 2
    assert "failed: node-0: Error (exit code 5) after 1 restart" in done.stderr
    assert sky("stop", "mpijob04").returncode == 0


def test_an_image_without_ssh_is_told(sky: Command) -> None:
    done = sky("submit", "-", *FLAGS, stdin="num_nodes: 2\nrun: echo never\n")
    assert done.returncode == 4, done.stderr
    assert "the image has no ssh: an MPIJob needs openssh-server, openssh-client" in done.stderr
    assert sky("stop", submitted(done)).returncode == 0


def test_submit_killed_at_each_write_is_shown_completed_and_stopped(
    sky: Command, kubectl: Command, cluster: Cluster
) -> None:
    text = PAIR.replace("busybox:1.36", "mpioperator/openmpi:v0.8.0")
    killing.check(sky, kubectl, cluster, "mpijob", text=text)


def test_the_example(sky: Command) -> None:
    done = sky("submit", str(ROOT / "examples" / "21-mpijob.yaml"))
    assert done.returncode == 0, done.stderr
    # mpirun may warn of a program that it started before it could give it a group of its own
    lines = [line for line in done.stdout.splitlines()[1:] if "Warning: setpgid" not in line]
    assert sorted(lines) == [f"node-0 | rank {n} of MPI on node {n} of 3" for n in range(3)]
    assert sky.json("status", submitted(done))["status"] == "completed"
