"""The practice cluster as a process of its own, in a folder that goes with it."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

_SECONDS = 60  # to end in
_DEATH_SIGNAL = 1  # of prctl
_LIBC = ctypes.CDLL(None)
# The system's programs, which a plain user's PATH may lack.
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Server:
    """The process, its folder, and where it listens."""

    process: subprocess.Popen[str]
    folder: Path
    url: str

    @classmethod
    def start(cls, folder: Path, *flags: str) -> Self:
        """Start it and wait until it is ready. Raises ChildProcessError."""
        command = [sys.executable, "-m", "kubectl_sky_practice", "--dir", str(folder)]
        with (folder / "test.log").open("w") as log:
            process = _spawn([*command, "--port", "0", *flags], folder, log)
        assert process.stdout
        line = process.stdout.readline()
        if not line.startswith("ready "):
            code = process.wait(_SECONDS)
            end = "\n  ".join((folder / "test.log").read_text().splitlines()[-8:])
            what = f"the practice cluster did not start ({code}); it said:\n  {end}"
            raise ChildProcessError(what)
        return cls(process, folder, line.split()[1])

    @property
    def token(self) -> str:
        """The administrator's."""
        config = json.loads((self.folder / "kubeconfig").read_text())
        users = {user["name"]: user["user"] for user in config["users"]}
        contexts = {context["name"]: context["context"] for context in config["contexts"]}
        return str(users[contexts[config["current-context"]]["user"]]["token"])

    def stop(self) -> int:
        """End it as a user does; return its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        return code


@contextmanager
def server(*flags: str) -> Iterator[Server]:
    """Have a practice cluster in a new folder."""
    folder = Path(tempfile.mkdtemp(prefix="kubectl-sky-practice-"))
    try:
        started = Server.start(folder, *flags)
        try:
            yield started
        finally:
            started.stop()
    finally:
        shutil.rmtree(folder)


def _spawn(command: list[str], folder: Path, log: IO[str]) -> subprocess.Popen[str]:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM))
    prepare = _end_with_parent if sys.platform == "linux" else None
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
    )


def _end_with_parent() -> None:
    """Have the kernel end the process when the one that started it was killed."""
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGTERM)
