"""The entry script of a node: barrier, phases, orphaned processes and bash startup files."""

import json
import re

import pytest
import yaml

from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.polling import eventually

BUSYBOX = "busybox:1.36"
PYTHON = "python:3.13-slim"
STRICT = """
config: {kubernetes: {pod_config: {spec: {
  securityContext: {runAsUser: 1000, runAsNonRoot: true},
  containers: [{securityContext: {readOnlyRootFilesystem: true}}]}}}}
"""


def without(sky: Command, kubectl: Command, script: str, task_id: str, *ranks: int) -> None:
    """Create a task without the Jobs of some ranks."""
    done = sky("render", "-", "--id", task_id, "--user", "tester", stdin=script)
    assert done.returncode == 0, done.stderr
    kept = [
        item
        for item in yaml.safe_load_all(done.stdout)
        if item["metadata"]["labels"].get("node-idx") not in {str(rank) for rank in ranks}
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": kept})
    assert kubectl("apply", "-f", "-", stdin=text).returncode == 0


def failed_nodes(sky: Command, task_id: str) -> dict[int, dict[str, object]]:
    """Return the nodes by rank once all have failed; `wait` would stop the remaining ones."""

    def failed() -> dict[int, dict[str, object]]:
        nodes = sky.json("status", task_id)["metadata"]["nodes"]
        assert all(node["state"] == "failed" for node in nodes), nodes
        return {node["index"]: node for node in nodes}

    nodes = eventually(failed, 90)
    assert sky("wait", task_id, "--timeout", "90s").returncode == 4
    return nodes


def test_barrier_missing_nodes_are_named_after_timeout(
    sky: Command, kubectl: Command, cluster: Cluster
) -> None:
    seconds = 3 if cluster.driver == "practice" else 8  # pods start within
    script = f"name: lone\nnum_nodes: 5\nresources: {{image_id: '{BUSYBOX}'}}\nrun: echo never\n"
    script += f"envs: {{KUBECTL_SKY_BARRIER_TIMEOUT: '{seconds}'}}\n"
    without(sky, kubectl, script, "lonely01", 1, 3, 4)
    nodes = failed_nodes(sky, "lonely01")
    message = str(nodes[0]["message"])
    cause = "no connection from|no address for"  # with and without Python
    pattern = f"gave up waiting for the other nodes after {seconds} seconds: ({cause}) rank 1, 3, 4"
    assert re.fullmatch(pattern, message)
    assert nodes[2]["message"] == message, "what rank 0 knows"
    assert (nodes[0]["reason"], nodes[0]["phase"]) == ("NODES_MISSING", "start")
    logged = sky("logs", "lonely01", "--rank", "0").stdout
    assert logged == f"node-0 | kubectl-sky: {message}\n"


@pytest.mark.practice_only
def test_barrier_invalid_timeout_fails_task_with_message(sky: Command) -> None:
    script = "num_nodes: 2\nenvs: {KUBECTL_SKY_BARRIER_TIMEOUT: '1h'}\nrun: echo never\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4
    assert "KUBECTL_SKY_BARRIER_TIMEOUT is not a whole number of seconds: 1h" in done.stderr


@pytest.mark.practice_only
def test_submit_failed_setup_is_reported_as_failed_setup(sky: Command) -> None:
    done = sky("submit", "-", stdin="name: bad\nsetup: echo a; exit 9\nrun: echo never\n")
    assert done.returncode == 4
    assert "failed: node-0: setup failed (exit code 9)" in done.stderr
    assert done.stdout.splitlines()[1:] == [
        "kubectl-sky: setup begins",
        "a",
        "kubectl-sky: setup failed with exit code 9",
    ]

    task = sky.json("status", submitted(done))
    assert task["status"] == "failed"

    [node] = task["metadata"]["nodes"]
    assert (node["reason"], node["phase"], node["exit_code"]) == ("FAILED_SETUP", "setup", 9)

    failed = sky("submit", "-", stdin="name: bad\nsetup: 'true'\nrun: exit 9\n")
    [node] = sky.json("status", submitted(failed))["metadata"]["nodes"]
    assert (node["reason"], node["exit_code"], "phase" in node) == ("Error", 9, False)


SETUP = """
setup: |
  env | grep ^SKYPILOT_SETUP | sort
  echo "$SKYPILOT_NODE_IPS" | wc -l
run: |
  env | grep -c ^SKYPILOT_SETUP
  true
"""


@pytest.mark.practice_only
def test_setup_variables_are_set_only_in_setup(sky: Command) -> None:
    done = sky("submit", "-", stdin=f"name: s\nresources: {{image_id: '{BUSYBOX}'}}\n{SETUP}")
    assert done.returncode == 0, done.stderr
    _, _, addresses, rank, gpus, lines, _, left = done.stdout.splitlines()
    assert addresses.startswith("SKYPILOT_SETUP_NODE_IPS=")
    assert (rank, gpus) == ("SKYPILOT_SETUP_NODE_RANK=0", "SKYPILOT_SETUP_NUM_GPUS_PER_NODE=0")
    assert (lines.strip(), left) == ("1", "0")


ORPHANS = """
  for i in 1 2 3 4 5; do (sh -c 'sleep 0.2 & exit 0' &); done
  for i in 1 2 3 4 5 6 7 8 9 10; do
    sleep 1
    zombies=$(cat /proc/[0-9]*/status | grep -c '^State:.*Z')
    [ "$zombies" != 0 ] || break
  done
  echo "$zombies"
"""


@pytest.mark.parametrize("image", [PYTHON, BUSYBOX], ids=["python", "busybox"])
def test_entry_orphaned_processes_are_reaped(sky: Command, image: str) -> None:
    """The entry script is PID 1, so it has to reap orphaned processes."""
    done = sky("submit", "-", stdin=f"name: o\nresources: {{image_id: '{image}'}}\nrun: |{ORPHANS}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["0"]


def test_submit_multi_node_as_non_root_nodes_reach_each_other(sky: Command) -> None:
    script = f"name: r\nnum_nodes: 2\nresources: {{image_id: '{BUSYBOX}'}}\n{STRICT}"
    done = sky("submit", "-", stdin=f"{script}run: echo $SKYPILOT_NODE_IPS | wc -w\n")
    assert done.returncode == 0, done.stderr
    words = [line.split() for line in done.stdout.splitlines()[1:]]
    assert sorted(words) == [["node-0", "|", "2"], ["node-1", "|", "2"]]


BASHRC = """
setup: |
  printf 'case $- in\\n    *i*) ;;\\n      *) return;;\\nesac\\nexport KEPT=yes\\n' >> ~/.bashrc
  mkdir -p ~/miniconda3/etc/profile.d
  echo 'conda() { echo "conda $*"; }' > ~/miniconda3/etc/profile.d/conda.sh
run: |
  echo "kept: $KEPT"
  conda activate train
  echo "once: ${BASH_ENV-}"
  bash -c 'echo "inner: $KEPT"'
"""


@pytest.mark.practice_only
def test_run_bashrc_and_conda_from_setup_are_loaded(sky: Command) -> None:
    """The run section loads conda and all of ~/.bashrc, even below Debian's guard."""
    done = sky("submit", "-", stdin=f"name: b\n{BASHRC}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[3:] == [
        "kept: yes",
        "conda activate train",
        "once: ",
        "inner: yes",
    ]


@ON_REAL
@pytest.mark.parametrize("nodes", [1, 2])
def test_script_for_bash_in_image_without_bash_fails_at_once(sky: Command, nodes: int) -> None:
    head = f"name: arrays\nnum_nodes: {nodes}\nresources: {{image_id: '{BUSYBOX}'}}\n"
    done = sky("submit", "-", stdin=f"{head}run: |\n  gpus=(0 1)\n  echo done\n")
    assert done.returncode == 4
    assert "the image has no bash, and run uses an array on line 1" in done.stdout + done.stderr


@ON_REAL
def test_script_that_sh_of_image_can_run_runs_and_says_so(sky: Command) -> None:
    head = f"name: test\nresources: {{image_id: '{BUSYBOX}'}}\n"
    done = sky("submit", "-", stdin=f'{head}run: |\n  [[ "$NODE_RANK" == 0 ]] && echo head\n')
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        0,
        ["kubectl-sky: the image has no bash: its sh runs the scripts", "head"],
    )
