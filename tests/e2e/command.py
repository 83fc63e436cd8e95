"""Run this program and kubectl as a user does, each with an environment of its own."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from unittest.mock import patch

from kubectl_sky.cli import main

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "kubectl_sky")
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Command:
    """A program with an environment of its own; calling it runs it to its end."""

    program: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list, compare=False)

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Done:
        """Run the program; stdout and stderr are apart."""
        return subprocess.run(
            [*self.program, *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str, terminal: int | None = None) -> subprocess.Popen[str]:
        """Start a process and return at once; it has pipes, or a terminal for all streams."""
        pipe = subprocess.PIPE if terminal is None else terminal
        stdin = subprocess.DEVNULL if terminal is None else terminal
        prepare = default_signals if terminal is None else partial(_control, terminal)

        process = subprocess.Popen(
            [*self.program, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=terminal is not None,
            preexec_fn=prepare,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Kill the started processes: one that a failed test leaves would fail another test."""
        for process in self.started:
            process.kill()
            with process:  # closes its pipes
                pass

    def json(self, *arguments: str) -> Any:
        """Run with `-o json`, which has to succeed, and return the document."""
        done = self(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, text: str) -> str:
        """Write a file into the folder where the program runs; return its name."""
        (self.folder / name).write_text(text)
        return name


class InProcess(Command):
    """This program, run to its end in this process; `start` runs a process of its own.

    Environment, current folder and file descriptors 0 to 2 are the program's while it runs: only
    one command runs at a time, and no thread of a test may depend on them.
    """

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 0) -> Done:
        """Run the program; stdout and stderr are apart. The time limit is that of the test."""
        assert self.program == PROGRAM
        with ExitStack() as stack:
            stack.enter_context(_surroundings(self.environment, self.folder))
            streams = [stack.enter_context(_stream(number)) for number in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            code = main.main(list(arguments))
            sys.stdout.flush()
            sys.stderr.flush()
            texts = []
            for stream in streams[1:]:
                stream.seek(0)
                texts.append(stream.read())
        return Done(list(arguments), code, *texts)


@contextmanager
def _surroundings(environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    previous = Path.cwd()
    program = str(Path(main.__file__).parents[1] / "__main__.py")
    with patch.dict(os.environ, environment, clear=True), patch.object(sys, "argv", [program]):
        os.chdir(folder)
        time.tzset()
        try:
            yield
        finally:
            os.chdir(previous)
    time.tzset()


@contextmanager
def _stream(number: int) -> Iterator[IO[str]]:
    """Let a file be stdin, stdout or stderr, also of the programs that are started meanwhile."""
    name = ("stdin", "stdout", "stderr")[number]
    mode = "w" if number else "r"
    errors = "backslashreplace" if name == "stderr" else "strict"
    saved = os.dup(number)
    try:
        with TemporaryFile("w+", encoding="utf-8", newline="") as file:
            os.dup2(file.fileno(), number)
            opened = os.fdopen(number, mode, errors=errors, closefd=False)
            with patch.object(sys, name, opened):
                yield file
    finally:
        os.dup2(saved, number)
        os.close(saved)


def default_signals() -> None:
    """Restore the signals that a program would ignore from its start where the tests do."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _control(terminal: int) -> None:
    """Make the terminal the one whose Ctrl-C interrupts the program."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    default_signals()


def submitted(done: Done) -> str:
    """Return the id that submit printed first."""
    reference = done.stdout.split(maxsplit=1)[0] if done.stdout else ""
    kind, _, task_id = reference.partition("/")
    assert kind in ("task", "pipeline", "group"), f"{done.stdout}\n{done.stderr}"
    return task_id


def home(folder: Path) -> dict[str, str]:
    """An environment that knows a home, and this checkout, whichever one is installed."""
    return {"HOME": str(folder), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
