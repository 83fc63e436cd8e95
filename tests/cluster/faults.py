"""Kill programs of a cluster of this machine, as accidents do, and start them again."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.cluster import components, machine
from tests.cluster.api import request
from tests.cluster.nodes import Daemon
from tests.cluster.place import Place
from tests.cluster.shell import Broken, path
from tests.cluster.target import Cluster

# A shell that enters the control group and has gone when the program runs, so that nobody is left
# with a child to wait for.
_ENTER = 'echo $$ > "$0"; "$@" &'


class Faults:
    """What may happen to the programs of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._place = Place(int(cluster.kubeconfig.parent.name))
        self._daemons = self._list_daemons()

    def kill(self, *names: str) -> None:
        """Kill programs as the kernel does when memory runs out, and wait until they are gone."""
        self.send(signal.SIGKILL, *names)
        self._wait(lambda: not any(map(self._pids, names)))

    def send(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to programs."""
        for name in names:
            for pid in self._pids(name):
                with suppress(ProcessLookupError):  # a child of it that has ended meanwhile
                    os.kill(pid, number)

    def start(self, *names: str) -> None:
        """Start what is not there, and wait until the API server is ready again."""
        for name in names:
            if not self._pids(name):
                self._start(name)
        self._wait(lambda: request(self._place, "GET", "/readyz") == {})

    def mend(self) -> None:
        """Start all that is not there."""
        self.start(*self._daemons)

    def _list_daemons(self) -> Mapping[str, Daemon]:
        """Return the programs that may be killed, by name."""
        kube = str(machine.kube())
        return {
            "etcd": Daemon([kube, *components.etcd(self._place)]),
            "kube-apiserver": Daemon([kube, *components.api_server(self._place)]),
            "kubelet": Daemon([kube, *components.kubelet(self._place)]),
        }

    def _start(self, name: str) -> None:
        folder = self._place.folder
        command = self._daemons[name].entering
        with (folder / f"{name}-again.log").open("ab") as log:
            subprocess.run(
                ["sh", "-c", _ENTER, str(self._place.cgroup.members), *command],
                cwd=folder,
                env={**os.environ, "PATH": path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=True,
            )

    def _pids(self, name: str) -> list[int]:
        """The processes of a program of this cluster, and of no other."""
        command = self._daemons[name].command
        arguments = b"\0".join(part.encode() for part in command) + b"\0"
        return [pid for pid in self._place.cgroup.pids() if _command(pid) == arguments]

    def _wait(self, met: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not _met(met):
            if time.monotonic() > deadline:
                raise Broken(f"the cluster in {self._place.folder} does not come back")
            time.sleep(0.1)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def _met(met: Callable[[], bool]) -> bool:
    try:
        return met()
    except (OSError, Broken):
        return False
