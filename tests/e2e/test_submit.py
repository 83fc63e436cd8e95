"""Submit: result, idempotence, rollback and messages."""

import pytest

from tests.e2e.command import Command, submitted
from tests.e2e.support import objects

HELLO = "name: hello\nrun: echo hello from $NODE_RANK of $NUM_NODES\n"


def test_submit_single_node_prints_id_and_output(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", stdin=HELLO)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    task_id = submitted(done)
    assert len(task_id) == 8
    assert first.startswith(f"task/{task_id} submitted: hello, 1 node in namespace ")
    assert rest == ["hello from 0 of 1"]
    assert objects(kubectl, task_id) == [f"ConfigMap/hello-{task_id}", f"Job/hello-{task_id}"]


@pytest.mark.practice_only
def test_submit_multi_node_prefixes_lines_and_sets_variables(
    sky: Command, kubectl: Command
) -> None:
    script = """
name: ring
num_nodes: 3
secrets: {TOKEN: s3cr3t}
run: |
  echo "$NODE_RANK/$NUM_NODES $SKYPILOT_NODE_RANK/$SKYPILOT_NUM_NODES ${#TOKEN}"
  test "$(echo "$SKYPILOT_NODE_IPS" | wc -l)" = 3
  test "$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((NODE_RANK + 1))p")" = "$POD_IP"
  test "$MASTER_ADDR" = "$(echo "$SKYPILOT_NODE_IPS" | sed -n 1p)" && echo met
"""
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[1:]
    for rank in range(3):
        mine = [line for line in lines if line.startswith(f"node-{rank} | ")]
        assert mine == [f"node-{rank} | {rank}/3 {rank}/3 6", f"node-{rank} | met"]
    task_id = submitted(done)
    assert objects(kubectl, task_id) == [
        f"ConfigMap/ring-{task_id}",
        *(f"Job/ring-{task_id}-node-{rank}" for rank in range(3)),
        f"Secret/ring-{task_id}",
        f"Service/ring-{task_id}",
    ]


@pytest.mark.practice_only
def test_submit_sets_labels_resources_and_variables(sky: Command, kubectl: Command) -> None:
    script = """
name: My Task
resources: {cpus: 100m, memory: 64Mi, accelerators: "A100:2", image_id: "python:3.11"}
envs: {A: "it's $(not) $HOME"}
run: echo "$A"
"""
    done = sky("submit", "-", "--detach", "--id", "labels01", stdin=script)
    assert done.returncode == 0, done.stderr
    job = kubectl.json("get", "job", "my-task-labels01")
    expected = {
        "skypilot-task": "true",
        "task-id": "labels01",
        "task-name": "My-Task",
        "username": "tester",
        "node-idx": "0",
    }
    assert expected.items() <= job["metadata"]["labels"].items()
    template = job["spec"]["template"]
    assert expected.items() <= template["metadata"]["labels"].items()
    container = template["spec"]["containers"][0]
    assert container["image"] == "python:3.11"
    sizes = {"cpu": "100m", "memory": "64Mi"}
    assert container["resources"]["limits"] == sizes | {"nvidia.com/gpu": "2"}
    assert sizes.items() <= container["resources"]["requests"].items()
    assert template["spec"]["automountServiceAccountToken"] is False
    done = sky("wait", "labels01", "--timeout", "60s")
    assert done.returncode == 0, done.stderr
    assert sky("logs", "labels01").stdout == "it's $(not) $HOME\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(
            "run: echo last words; nosuch",
            ["exit code 127 (command not found)\n"],
            id="exit 127",
            marks=pytest.mark.practice_only,
        ),
        pytest.param(
            "setup: |\n  echo 'ERROR: no such package'; echo '[notice] new release'; exit 9\n"
            "run: echo never",
            ["setup failed (exit code 9): ERROR: no such package\n"],
            id="setup",
            marks=pytest.mark.practice_only,
        ),
        pytest.param(
            "resources: {memory: 32Mi}\nrun: python3 -c 'x = bytearray(10**9)'",
            ["OOMKilled (exit code 137)"],
            id="out of memory",
        ),
        pytest.param(
            "run: kill -9 $$",
            ["exit code 137 (SIGKILL: killed, often out of memory)\n"],
            id="killed",
            marks=pytest.mark.practice_only,
        ),
    ],
)
def test_submit_failed_task_exits_with_4(sky: Command, script: str, message: list[str]) -> None:
    done = sky("submit", "-", stdin=f"name: bad\n{script}\n")
    assert done.returncode == 4
    task_id = submitted(done)
    assert f"error: task {task_id} (bad) failed: node-0: " in done.stderr
    for words in message:
        assert words in done.stderr
    assert "last lines" not in done.stderr, "the log was shown"
    assert "never" not in done.stdout
    assert sky("logs", task_id).returncode == 4
    assert sky("wait", task_id).returncode == 4


@pytest.mark.practice_only
def test_submit_several_failed_nodes_names_first(sky: Command) -> None:
    script = (
        "num_nodes: 3\nrun: sleep $((NODE_RANK * 6)); test $NODE_RANK = 2 || exit 1$NODE_RANK\n"
    )
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4
    assert "failed: node-0: exit code 10" in done.stderr


def test_submit_existing_id_with_changed_task_is_refused(sky: Command, kubectl: Command) -> None:
    assert sky("submit", "-", "--id", "other001", "--env", "A=1", stdin=HELLO).returncode == 0
    before = kubectl("get", "jobs,configmaps", "-o", "yaml").stdout
    changed = HELLO.replace("hello from", "goodbye from")
    done = sky("submit", "-", "--id", "other001", "--env", "A=2", "--cpus", "1", stdin=changed)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: --id other001 belongs to a different task; these fields differ:" in done.stderr
    assert 'containers[main].env[A].value: "1" would become "2"' in done.stderr
    assert "containers[main].resources.limits" in done.stderr
    assert "ConfigMap/hello-other001: data[run.sh]" in done.stderr
    assert kubectl("get", "jobs,configmaps", "-o", "yaml").stdout == before


@pytest.mark.practice_only
def test_clean_orphans_deletes_old_objects_without_job(sky: Command, kubectl: Command) -> None:
    rendered = sky("render", "-", "--id", "orphan01", "--user", "tester", stdin=HELLO)
    kubectl("apply", "-f", "-", stdin=rendered.stdout.split("---\n")[0])
    assert sky("submit", "-", "--id", "alive001", stdin=HELLO).returncode == 0
    done = sky("clean", "--orphans", "--dry-run", "--older-than", "0s")
    assert "ConfigMap/hello-orphan01" in done.stdout
    assert "alive001" not in done.stdout
    assert objects(kubectl, "orphan01")
    assert "ConfigMap/hello-orphan01" in sky("clean", "--dry-run=client", "--older-than=0s").stdout
    young = sky("clean", "--yes")
    assert young.stdout == "", "young objects may belong to a running submit"
    assert "1 orphan younger than 10 minutes kept" in young.stderr
    done = sky("clean", "--orphans", "--yes", "--older-than", "0s")
    assert (done.returncode, done.stderr) == (0, "Removed 1 orphan\n")
    assert not objects(kubectl, "orphan01")
    assert len(objects(kubectl, "alive001")) == 2


@pytest.mark.practice_only
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("serviceAccountName", 'service account "nope" not found in namespace'),
        ("priorityClassName", 'priority class "nope" not found'),
    ],
)
def test_submit_missing_object_of_pod_is_error(
    sky: Command, kubectl: Command, spec: str, message: str
) -> None:
    config = f"config: {{kubernetes: {{pod_config: {{spec: {{{spec}: nope}}}}}}}}\n"
    done = sky("submit", "-", "--id", "missing1", stdin=HELLO + config)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert f"error: {message}" in done.stderr
    assert objects(kubectl, "missing1") == []


def test_submit_over_job_quota_is_refused(sky: Command, kubectl: Command) -> None:
    kubectl("create", "quota", "few", "--hard=count/jobs.batch=2")
    done = sky("submit", "-", "--id", "quota001", "--num-nodes", "4", stdin=HELLO)
    assert (done.returncode, done.stdout) == (3, "")
    assert "quota few is full: count/jobs.batch: requested 4, used 0 of 2" in done.stderr
    assert done.stderr.count("\n") == 2, "error, hint"
    assert objects(kubectl, "quota001") == []


def test_submit_dry_run_creates_no_objects(sky: Command, kubectl: Command) -> None:
    for form in ("client", "server"):
        done = sky("submit", "-", "--id", "dryrun01", f"--dry-run={form}", stdin=HELLO)
        assert done.returncode == 0, done.stderr
        assert (
            f"Job/hello-dryrun01 created ({'server ' * (form == 'server')}dry run)" in done.stdout
        )
    rendered = sky("render", "-", "--id", "dryrun01", "--user", "tester", stdin=HELLO).stdout
    sent = sky(
        "submit", "-", "--id", "dryrun01", "--dry-run=client", "-o", "yaml", stdin=HELLO
    ).stdout
    assert [line for line in sent.splitlines() if "namespace:" not in line] == rendered.splitlines()
    assert objects(kubectl, "dryrun01") == []


@pytest.mark.practice_only
def test_submit_unschedulable_task_times_out_with_reason(sky: Command) -> None:
    done = sky("submit", "-", "--cpus", "500", "--wait-timeout", "4s", stdin=HELLO)
    assert done.returncode == 1
    cause = "insufficient cpu: a node requests 500"
    assert len([line for line in done.stderr.splitlines() if "pending: " in line]) == 1
    assert f"{cause}; " in done.stderr and "did not start in time: 1/1 cluster" in done.stderr
    assert "kubectl sky doctor " in done.stderr.splitlines()[-1]
