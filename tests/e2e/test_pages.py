"""The commands of README.md and docs/ run as printed, and print what the pages say.

Each page runs in a shell and in a home of its own, on a practice cluster that it starts with
`kubectl sky local up` as its readers do. `tests/markdown.py` says how pages are marked.
"""

import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import home
from tests.markdown import PAGES, ROOT, Command, File, Transcript, steps
from tests.ports import free_port

_START = 'eval "$(kubectl sky local up)"'
_END = "\x1e"
_SECONDS = 60  # for a command
_REAL = "needs a real cluster"


class Shell:
    """A bash that runs commands one by one; what they set stays set."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            ["bash", "--norc", "-o", "pipefail"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit status and what was printed, stdout and stderr together."""
        assert self._process.stdin
        script = f"{{ {command}\n}} </dev/null\nprintf '{_END}%d{_END}' $?\n"
        self._process.stdin.write(script.encode())
        self._process.stdin.flush()
        printed, status, _ = self._read(command).split(_END)
        return int(status), printed

    def _read(self, command: str) -> str:
        assert self._process.stdout
        printed = b""
        deadline = time.monotonic() + _SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while printed.count(_END.encode()) < 2:
                if not selector.select(deadline - time.monotonic()):
                    pytest.fail(f"{command}: still running after {_SECONDS} s: {printed!r}")
                chunk = os.read(self._process.stdout.fileno(), 65536)
                assert chunk, f"{command}: the shell exited: {printed!r}"
                printed += chunk
        return printed.decode()

    def close(self) -> None:
        """Kill the shell and what it left in the background."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def page_steps(page: Path) -> list[File | Command]:
    return steps(page.read_text(encoding="utf-8"))


def pages(*reasons: str) -> list[Path]:
    """Return the pages with commands that run, or do not run for one of the reasons."""
    return [
        page
        for page in PAGES
        if any(isinstance(step, Command) and step.not_run in reasons for step in page_steps(page))
    ]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in an empty folder of a new home, whose practice cluster is deleted."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = home(tmp_path) | {"PATH": path, "COLUMNS": "100", "EDITOR": "cat"}
    shell = Shell(folder, environment)
    yield shell
    shell.close()  # also where a command hangs
    subprocess.run(
        ["kubectl-sky", "local", "down", "--purge"],
        env=environment,
        check=True,
        capture_output=True,
    )


@pytest.mark.tools  # kubectl
@pytest.mark.practice
@pytest.mark.parametrize("page", pages(""), ids=lambda page: page.stem)
def test_page_commands_run_and_print_what_page_says(page: Path, shell: Shell) -> None:
    if not any(isinstance(step, Command) and "local up" in step.text for step in page_steps(page)):
        assert shell.run(_START)[0] == 0
    run_page(page, shell, "")


@pytest.mark.cluster
@pytest.mark.parametrize("cluster", ["real"], indirect=True)
@pytest.mark.parametrize("page", pages(_REAL), ids=lambda page: page.stem)
def test_page_commands_that_need_real_cluster_run_there(
    page: Path, environment: dict[str, str], shell: Shell
) -> None:
    shell.run(f"export KUBECONFIG={environment['KUBECONFIG']}")
    run_page(page, shell, "", _REAL)


def run_page(page: Path, shell: Shell, *reasons: str) -> None:
    """Write the files and run the commands of a page, with those not run for the reasons."""
    transcript = Transcript(page.read_text(encoding="utf-8"))
    transcript.ids["8000"] = str(free_port())  # of `kubectl sky api`
    todo = page_steps(page)
    if any(isinstance(step, Command) and "examples/" in step.text for step in todo):
        shutil.copytree(ROOT / "examples", shell.folder / "examples")
    for step in todo:
        if isinstance(step, File):
            (shell.folder / step.name).write_text(step.text)
        elif step.not_run in reasons:
            check(step, shell, transcript, page)


def check(step: Command, shell: Shell, transcript: Transcript, page: Path) -> None:
    """Run a command and compare what it printed; without output to compare, it has to succeed."""
    status, printed = shell.run(transcript.actual(step.text))
    where = f"{page.name}:{step.line}: {step.text}"
    if step.output is None:
        assert status == 0, f"{where}\nexited with {status}:\n{printed}"
    else:
        assert transcript.matches(step.output, printed), (
            f"{where}\nexpected:\n{step.output}\nprinted:\n{printed}"
        )
