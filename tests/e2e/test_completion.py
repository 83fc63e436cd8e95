"""Completion by kubectl and by bash, on a cluster that has a task."""

import os
import pty
import select
import subprocess
import time

import pytest

from tests.e2e.command import Command
from tests.polling import eventually

TASK = "name: train\nrun: 'true'\n"


def complete(kubectl: Command, *words: str) -> list[str]:
    """Return the lines that kubectl prints for its own shell scripts."""
    done = kubectl("__complete", "sky", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def task(sky: Command) -> str:
    assert sky("submit", "-", "--id", "tabs0001", "--detach", stdin=TASK).returncode == 0
    assert sky("wait", "tabs0001").returncode == 0
    return "tabs0001"


@pytest.mark.practice_only
def test_kubectl_completes_tasks_flags_and_commands(kubectl: Command, task: str) -> None:
    tasks = ["train\tcompleted", f"{task}\ttrain, completed", ":4"]
    eventually(lambda: complete(kubectl, "logs", "") == tasks)  # a slow answer gives no words
    eventually(lambda: complete(kubectl, "status", "ta") == tasks[1:])
    assert "--backend\t" in complete(kubectl, "submit", "--bac")[0]
    assert complete(kubectl, "vali")[0].startswith("validate\tCheck task files ")
    config = complete(kubectl, "list", "--context=")
    assert config[-1] == ":4" and config[0].endswith("\tcurrent")
    eventually(lambda: "kube-system" in complete(kubectl, "list", "-n", "kube-s"))
    eventually(lambda: complete(kubectl, "list", "--user", "te") == ["tester\t1 task", ":4"])


@pytest.mark.usefixtures("task")
@pytest.mark.practice_only
def test_bash_completes_task_on_tab(sky: Command, environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        env=environment | {"PS1": "ready> ", "TERM": "dumb", "INPUTRC": os.devnull},
        cwd=sky.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as bash:
        os.close(theirs)
        os.write(ours, b"source <(kubectl-sky completion bash)\necho load''ed\n")
        assert "loaded" in until(ours, "loaded")
        os.write(ours, b"kubectl-sky stat\t")
        assert "status" in until(ours, "status ")
        os.write(ours, b"tr")
        screen = until(ours, "train ", press=b"\t")  # again, if the cluster did not answer in time
        os.write(ours, b"\n")
        screen += until(ours, "tabs0001")
        assert "tabs0001" in screen, screen
        bash.kill()

    os.close(ours)


def until(terminal: int, text: str, press: bytes = b"") -> str:
    """Read the screen until a text appears, for a minute at most; press a key every 5 seconds."""
    screen = b""
    deadline = time.monotonic() + 60
    next_press = 0.0
    while text.encode() not in screen and time.monotonic() < deadline:
        if press and time.monotonic() > next_press:
            os.write(terminal, press)
            next_press = time.monotonic() + 5
        if select.select([terminal], [], [], 0.2)[0]:
            screen += os.read(terminal, 65536)
    return screen.decode()
