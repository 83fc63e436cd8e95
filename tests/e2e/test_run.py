"""Tasks without a file: `run`, and `submit --from`."""

from pathlib import Path

import pytest

from tests.e2e.command import Command, submitted
from tests.e2e.terminal import run_on_terminal

SHOWS = 'for word; do printf "<%s>\\n" "$word"; done'
WORDS = ("a b", "$HOME", "*", "it's", '"', "", "\\n", "--lr=3e-4")
SAVED = """
name: again
resources: {image_id: "busybox:1.36"}
envs: {EPOCHS: 1}
secrets: {PASSWORD: null}
workdir: .
run: echo $EPOCHS ${#PASSWORD}; cat data.txt
"""


def test_run_passes_words_and_exit_code_of_the_command(sky: Command) -> None:
    done = sky("run", "--image", "busybox:1.36", "--", "sh", "-c", SHOWS, "sh", *WORDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [f"<{word}>" for word in WORDS]
    failed = sky("run", "--image", "busybox:1.36", 'echo "$SKYPILOT_NODE_RANK" && exit 3')
    assert (failed.returncode, failed.stdout.splitlines()[1:]) == (4, ["0"])
    assert "exit code 3" in failed.stderr


@pytest.fixture
def task(sky: Command, tmp_path: Path) -> str:
    """A task with a secret and local files."""
    (tmp_path / "data.txt").write_text("before\n")
    done = sky("submit", "-", "--secret", "PASSWORD=first", stdin=SAVED)
    assert done.stdout.splitlines()[1:] == ["1 5", "before"], done.stderr
    return submitted(done)


def test_submit_from_task_takes_flags_new_files_and_secrets(
    sky: Command, task: str, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("after\n")
    refused = sky("submit", "--from", task)
    assert refused.returncode == 2
    assert f"<task/{task}>" in refused.stderr
    assert "secrets.PASSWORD: the value is not set" in refused.stderr
    flags = ("--secret-file", "/dev/stdin", "--env", "EPOCHS=20", "--num-nodes", "2")
    done = sky("submit", "--from", task, *flags, stdin="PASSWORD=abc\n")  # is read once
    assert done.returncode == 0, done.stderr
    lines = [f"node-{rank} | {text}" for rank in (0, 1) for text in ("20 3", "after")]
    assert sorted(done.stdout.splitlines()[1:]) == sorted(lines)
    assert f"workdir: {tmp_path} is uploaded as it is now" in done.stderr
    assert f"the files of task {task} are not kept" in done.stderr
    assert submitted(done) != task


@pytest.mark.practice_only
def test_submit_from_task_asks_for_secrets_on_a_terminal(sky: Command, task: str) -> None:
    code, screen = run_on_terminal(
        sky, "submit", "--from", task, types="typed-it\n", when="PASSWORD: "
    )
    assert code == 0, screen
    assert "1 8" in screen
    assert "typed-it" not in screen


@pytest.mark.practice_only
def test_submit_from_task_keeps_its_array_and_is_refused_without_kept_file(
    sky: Command, kubectl: Command
) -> None:
    done = sky("run", "--array", "3,5", "--id", "array001", "true")
    assert done.returncode == 0, done.stderr
    same = sky("submit", "--from", "array001")
    assert same.returncode == 0, same.stderr
    assert "submitted: true, 2 tasks of one node" in same.stdout
    again = sky("submit", "--from", "array001", "--array", "7", "--detach")
    assert again.returncode == 0, again.stderr
    assert kubectl("delete", "configmap", "-l", "task-id=array001").returncode == 0
    lost = sky("submit", "--from", "array001", "--array", "7")
    assert lost.returncode == 2
    assert "the cluster keeps no file of task array001" in lost.stderr
