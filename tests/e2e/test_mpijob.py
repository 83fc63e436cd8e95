"""MPIJobs with the real operator, and an image with mpirun and sshd."""

from datetime import datetime

import pytest

from tests.cluster.target import Cluster
from tests.e2e import gallery
from tests.e2e.command import ROOT, Command, submitted
from tests.e2e.support import GRACE, objects, selected_pods, until_deleted, wait_for_controller

pytestmark = pytest.mark.usefixtures("mpi")

IMAGE = "resources: {image_id: 'mpioperator/openmpi:v0.8.0'}\n"
FLAGS = ("--backend", "mpijob")


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has the operator."""
    return real_cluster


def remaining_objects(kubectl: Command, task_id: str) -> list[str]:
    """List the objects of a task, including those created by the operator."""
    names = kubectl("get", "mpijobs,pods", "-l", f"task-id={task_id}", "-o", "name").stdout.split()
    name = f"{task_id}-{task_id}"
    made = (f"job/{name}-launcher", f"cm/{name}-config", f"secret/{name}-ssh", f"svc/{name}")
    names += kubectl("get", *made, "-o", "name", "--ignore-not-found").stdout.split()
    return objects(kubectl, task_id) + names


def test_submit_mpijob_mpirun_reaches_all_nodes_with_task_variables(
    sky: Command, kubectl: Command
) -> None:
    """The processes that mpirun starts have the variables of the task."""
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
    assert selected_pods(kubectl, "mpijob01-mpijob01-ports") == ["mpijob01-mpijob01-launcher"]
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

    until_deleted(kubectl, "mpijob01")
    wait_for_controller(lambda: remaining_objects(kubectl, "mpijob01") == [])


def test_exec_mpijob_runs_in_launcher_and_workers(sky: Command) -> None:
    """What the operator adds to the pods does not make them another user's."""
    script = f"name: mpijob05\nnum_nodes: 2\n{IMAGE}run: sleep 300\n"
    done = sky("submit", "-", *FLAGS, "--id", "mpijob05", "--detach", stdin=script)
    assert done.returncode == 0, done.stderr
    wait_for_controller(lambda: sky.json("status", "mpijob05")["metadata"]["running_nodes"] == 2)
    done = sky("exec", "mpijob05", "--all-ranks", "--", "sh", "-c", "echo rank $NODE_RANK")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["node-0 | rank 0", "node-1 | rank 1"]


def test_submit_mpijob_failed_rank_stops_all_nodes(sky: Command, kubectl: Command) -> None:
    script = f"""
name: mpijob02
num_nodes: 4
{IMAGE}
run: |
  mpirun sh -c 'echo rank $SKYPILOT_NODE_RANK; [ $SKYPILOT_NODE_RANK != 2 ] || exit 7; sleep 300'
"""
    done = sky("submit", "-", *FLAGS, "--id", "mpijob02", stdin=script)
    assert done.returncode == 4, done.stderr
    assert "task mpijob02 (mpijob02) failed: node-0: exit code 7" in done.stderr

    output = sky("status", "mpijob02").stdout
    assert "failed — node-0: exit code 7" in output
    assert output.count("Stopped") == 3

    (pod,) = kubectl.json("get", "pods", "-l", "task-id=mpijob02")["items"]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    conditions = kubectl.json("get", "mpijob", "mpijob02-mpijob02")["status"]["conditions"]
    (failed,) = (condition for condition in conditions if condition["type"] == "Failed")
    took = datetime.fromisoformat(failed["lastTransitionTime"]) - datetime.fromisoformat(ended)
    assert took.total_seconds() < GRACE
    assert sky("stop", "mpijob02").returncode in (0, 3)  # 3: a busy kubelet needs more than 30 s

    until_deleted(kubectl, "mpijob02")
    wait_for_controller(lambda: remaining_objects(kubectl, "mpijob02") == [])


def test_submit_mpijob_failed_setup_of_single_node_stops_all_nodes(sky: Command) -> None:
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
    metadata = sky.json("status", "mpijob03")["metadata"]
    assert (metadata["detailed_status"], metadata["nodes"][2]["exit_code"]) == ("failed_setup", 9)
    assert sky("stop", "mpijob03").returncode == 0


def test_submit_mpijob_restarted_rank_0_reaches_remaining_nodes(sky: Command) -> None:
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
    assert "failed: node-0: exit code 5 after 1 restart" in done.stderr
    assert sky("stop", "mpijob04").returncode == 0


def test_submit_mpijob_image_without_ssh_fails_task_with_message(sky: Command) -> None:
    done = sky("submit", "-", *FLAGS, stdin="num_nodes: 2\nrun: echo never\n")
    assert done.returncode == 4, done.stderr
    assert "the image has no ssh: an MPIJob needs openssh-server, openssh-client" in done.stderr
    assert sky("stop", submitted(done)).returncode == 0


def test_submit_mpijob_example_prints_expected_output(sky: Command) -> None:
    block = gallery.blocks()["21-mpijob"]
    done = sky("submit", str(ROOT / "examples" / "21-mpijob.yaml"))
    assert done.returncode == 0, done.stderr
    # mpirun may warn that it could not set the process group in time, or that a daemon has ended
    noise = ("Warning: setpgid", "PRTE ERROR")
    lines = [line for line in done.stdout.splitlines()[1:] if not any(map(line.count, noise))]
    assert sorted(lines) == block.splitlines()[2:]
    assert sky.json("status", submitted(done))["status"] == "completed"


def test_mpijob_that_runs_longer_than_max_duration_fails_in_those_words(sky: Command) -> None:
    script = f"name: late\nnum_nodes: 2\nmax_duration: 8s\n{IMAGE}run: sleep 600\n"
    done = sky("submit", "-", *FLAGS, "--id", "mpilate1", "--detach", stdin=script)
    assert done.returncode == 0, done.stderr
    assert sky("wait", "mpilate1").returncode == 4
    assert "it ran longer than max_duration 8s" in sky("doctor", "mpilate1").stdout
