"""The practice cluster, as a process of its own in a folder that goes with it."""

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

import yaml

from tests.cluster import machine
from tests.cluster.components import USERS
from tests.cluster.shell import Broken, Unavailable, find, path
from tests.cluster.target import ADMIN, OTHERS, Cluster

_ROOT = Path(__file__).parent.parent.parent
_CONTEXT = "sky-local"  # its administrator's
_GPUS = "A100:8"  # as many as the other clusters of the tests pretend to have
_SECONDS = 60  # to end in
_DEATH_SIGNAL = 1  # of prctl
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Server:
    """The process, its folder, and where it listens."""

    process: subprocess.Popen[str]
    folder: Path
    url: str

    @classmethod
    def start(cls, folder: Path, *flags: str) -> Self:
        """Start it and wait until it is ready. Raises Broken."""
        command = [sys.executable, "-m", "kubectl_sky.practice", "--dir", str(folder)]
        with (folder / "test.log").open("w") as log:
            process = _spawn([*command, "--port", "0", *flags], log)
        assert process.stdout
        line = process.stdout.readline()
        if not line.startswith("ready "):
            code = process.wait(_SECONDS)
            end = "\n  ".join((folder / "test.log").read_text().splitlines()[-8:])
            raise Broken(f"the practice cluster did not start ({code}); it said:\n  {end}")
        return cls(process, folder, line.split()[1])

    @property
    def token(self) -> str:
        """The administrator's."""
        config = yaml.safe_load((self.folder / "kubeconfig").read_text())
        users = {user["name"]: user["user"] for user in config["users"]}
        contexts = {context["name"]: context["context"] for context in config["contexts"]}
        return str(users[contexts[_CONTEXT]["user"]]["token"])

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


def kubectl() -> Path:
    """Return a kubectl, the installed one or one built now. Raises Unavailable."""
    program = find("kubectl")
    try:
        return Path(program) if program else machine.kubectl()
    except (Broken, OSError) as error:
        raise Unavailable(str(error)) from error


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


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Have one with the users that the tests expect."""
    people = {name: USERS[name][0] for name in OTHERS}
    flags = [flag for person in people.values() for flag in ("--user", person)]
    with server("--gpus", _GPUS, *flags) as started:
        yield Cluster(_kubeconfig(started.folder), None, "practice", people)


def _kubeconfig(folder: Path) -> Path:
    """Write its kubeconfig anew, with the contexts that the tests expect."""
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    for context in config["contexts"]:
        if context["name"] == _CONTEXT:
            context["name"] = ADMIN
    config["current-context"] = ADMIN
    written = folder / "kubeconfig-of-the-tests"
    written.touch(mode=0o600)
    written.write_text(json.dumps(config))
    return written


def _spawn(command: list[str], log: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**os.environ, "PATH": path()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )


def _end_with_parent() -> None:
    """Have the kernel end the process when the one that started it was killed."""
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGTERM)
