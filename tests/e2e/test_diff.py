"""`diff` against a task in the cluster: nothing for the same file, each change once."""

import pytest

from tests.e2e.command import Command

TASK = """\
name: train
envs: {EPOCHS: 1}
secrets: {TOKEN: hunter2}
resources: {cpus: 0.1, ports: 8080}
run: |
  echo $EPOCHS
"""


@pytest.fixture
def file(sky: Command) -> str:
    path = sky.write("train.yaml", TASK)
    assert sky("submit", path, "--id", "diff0001", "--detach").returncode == 0
    return path


def test_diff_of_same_file_is_empty_and_of_changes_is_exit_code_1(sky: Command, file: str) -> None:
    done = sky("diff", file)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    sky.write("train.yaml", TASK.replace("EPOCHS: 1", "EPOCHS: 2").replace("hunter2", "hunter3"))
    done = sky("diff", file, "--id", "diff0001")
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stdout.splitlines() if line[:1] in ("+", "-")]
    changed = [line for line in lines if line[:3] not in ("---", "+++")]
    assert changed == [
        "-  TOKEN: '*** (before)'",
        "+  TOKEN: '*** (after)'",
        "-          value: '1'",
        "+          value: '2'",
    ]
    assert "hunter" not in done.stdout + done.stderr
