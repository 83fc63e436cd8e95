"""Submit: result and messages of pods."""

import pytest

from kubectl_sky.tasks import pending
from tests.e2e.command import Command, submitted
from tests.e2e.support import objects

HELLO = """
name: hello
envs: {A: "it's $(not) $home"}
run: echo "hello from $NODE_RANK of $NUM_NODES, $A"
"""


def test_submit_single_node_prints_id_and_output(
    sky: Command, kubectl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "_USUAL_START_SECONDS", 60.0)  # it says why a start takes longer
    done = sky("submit", "-", stdin=HELLO)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    task_id = submitted(done)
    assert len(task_id) == 8
    assert first.startswith(f"task/{task_id} submitted: hello, 1 node in namespace ")
    assert rest == ["hello from 0 of 1, it's $(not) $home"]
    assert objects(kubectl, task_id) == [f"ConfigMap/hello-{task_id}", f"Job/hello-{task_id}"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(
            "run: echo last words; nosuch",
            ["exit code 127 (command not found): "],
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
