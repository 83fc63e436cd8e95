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


@pytest.mark.usefixtures("file")
@pytest.mark.practice_only
def test_diff_runs_external_program_and_reports_unknown_tasks(sky: Command) -> None:
    program = "diff -r -q"
    external = Command(
        sky.program, {**sky.environment, "KUBECTL_EXTERNAL_DIFF": program}, sky.folder
    )
    done = external("diff", "-", stdin=TASK.replace("echo", "printf"))
    assert done.returncode == 1, done.stderr
    assert "/LIVE/v1.ConfigMap." in done.stdout and " differ\n" in done.stdout
    broken = Command(sky.program, {**sky.environment, "KUBECTL_EXTERNAL_DIFF": "/none"}, sky.folder)
    done = broken("diff", "-", stdin=TASK.replace("echo", "printf"))
    assert (done.returncode, done.stderr) == (
        2,
        "error: KUBECTL_EXTERNAL_DIFF=/none: no such file or directory\n",
    )
    done = sky("diff", "-", stdin=TASK.replace("train", "other"))
    assert done.returncode == 2
    assert 'error: task "other" not found in namespace' in done.stderr
    done = sky("diff", "-", "--id", "none0001", stdin=TASK)
    assert done.returncode == 2 and 'task "none0001" not found' in done.stderr
