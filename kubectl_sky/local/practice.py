"""Driver for the practice cluster, which needs only this package."""

import base64
import http.client
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from kubectl_sky.errors import ClusterError, SkyError, UserError
from kubectl_sky.local import kubeconfig
from kubectl_sky.local.driver import State, Wanted
from kubectl_sky.local.process import Background

_PROGRAM = (sys.executable, "-m", "kubectl_sky.practice")
_HOST = "127.0.0.1"
_PORT = 6445  # usually free, and close to the usual API server ports
_TRIES = 100
_PORTS = range(_PORT, _PORT + _TRIES)
_TAKEN = 4  # the program's exit code when the port is in use
_SECONDS = 30.0
_STEP = 0.02


class Practice:
    """A background process whose folder holds the cluster."""

    def __init__(self, process: Background) -> None:
        self._process = process
        self._file = process.folder / "kubeconfig"

    def state(self) -> State:
        """Return RUNNING if the process is alive, STOPPED if only its files exist."""
        if self._process.alive():
            return State.RUNNING
        return State.STOPPED if self._file.exists() else State.ABSENT

    def start(self, wanted: Wanted) -> None:
        """Start the process on the requested port, else on the last or any free one."""
        if not find_spec("uvicorn"):
            what = "the packages of the practice cluster are not installed"
            raise UserError(what, "run: pip install 'kubectl-sky[practice]'")
        flags = ["--dir", str(self._process.folder), "--nodes", str(wanted.nodes)]
        flags += ["--gpus", str(wanted.gpus)] if wanted.gpus else []
        for port in self._ports(wanted.port):
            if self._started(port, [*flags, "--port", str(port)]):
                return
        what = f"no port of {_PORT} to {_PORT + _TRIES - 1} is free"
        if wanted.port:
            what = f"--port {wanted.port}: this port is not available; another program may use it"
            raise UserError(what, "choose another port, or leave out --port")
        raise ClusterError(what, "choose one with --port")

    def stop(self) -> None:
        """Stop the process and keep the folder."""
        self._process.end()

    def delete(self) -> None:
        """Stop the process; the folder is deleted with the state folder."""
        self._process.end()

    def kubeconfig(self) -> dict[str, Any]:
        """Read the kubeconfig that the process wrote."""
        return kubeconfig.read(self._file)

    def details(self) -> dict[str, str | int]:
        """Return the pid, log and folder, for troubleshooting."""
        pid = self._process.pid()
        pid_entry: dict[str, str | int] = {"pid": pid} if pid else {}
        return {**pid_entry, "log": str(self._process.log), "folder": str(self._process.folder)}

    def _ports(self, wanted: int | None) -> Iterator[int]:
        """Yield ports that seem free; another program may still take one first."""
        last_port = self._last_port()
        candidates = [wanted] if wanted else [*([last_port] if last_port else []), *_PORTS]
        yield from filter(_free, candidates)

    def _started(self, port: int, flags: list[str]) -> bool:
        """Start the process; False if another program has the port. Raises ClusterError."""
        before = self._process.log.stat().st_size if self._process.log.exists() else 0
        process = self._process.start([*_PROGRAM, *flags])
        try:
            self._wait(process, port, before)
        except BaseException as error:  # includes Ctrl-C
            process.kill()
            if process.wait() == _TAKEN and isinstance(error, ClusterError):
                return False
            raise
        return True

    def _last_port(self) -> int | None:
        try:
            return urlsplit(kubeconfig.server(kubeconfig.own(self.kubeconfig()))).port
        except SkyError:
            return None

    def _wait(self, process: subprocess.Popen[bytes], port: int, before: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while not self._ready(port):
            code = process.poll()
            if code is not None:
                output = self._process.last_words(before) or "no output"
                raise ClusterError(
                    f"the practice cluster did not start ({code}): {output}",
                    f"see {self._process.log}",
                )
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the practice cluster is not ready after {_SECONDS:.0f} s",
                    f"see {self._process.log}",
                )
            time.sleep(_STEP)

    def _ready(self, port: int) -> bool:
        """Check readiness, once the kubeconfig has been rewritten for this port."""
        if self._last_port() != port or not self._process.alive():
            return False
        return _answers(kubeconfig.own(self.kubeconfig()))


def _free(port: int) -> bool:
    """Check whether a server can bind the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _answers(config: dict[str, Any]) -> bool:
    (cluster,), (user,) = config["clusters"], config["users"]
    address = urlsplit(cluster["cluster"]["server"])
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    headers = {"Authorization": f"Bearer {user['user']['token']}"}
    connection = http.client.HTTPSConnection(
        address.hostname or _HOST,
        address.port,
        timeout=5,
        context=ssl.create_default_context(cadata=authority),
    )
    try:
        connection.request("GET", "/readyz", headers=headers)
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
