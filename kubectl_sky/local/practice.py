"""Driver for the practice cluster, which needs only this package."""

import base64
import http.client
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from kubectl_sky.errors import ClusterError, SkyError, UserError
from kubectl_sky.local import kubeconfig
from kubectl_sky.local.driver import ClusterSpec, ClusterState
from kubectl_sky.local.process import Background

_PROGRAM = (sys.executable, "-m", "kubectl_sky.practice")
_HOST = "127.0.0.1"
_PORT = 6445  # usually free, and close to the usual API server ports
_MAX_PORTS = 100
_PORTS = range(_PORT, _PORT + _MAX_PORTS)
_PORT_IN_USE_EXIT_CODE = 4  # the program's exit code when the port is in use
_START_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.02


class Practice:
    """A background process whose folder holds the cluster."""

    def __init__(self, process: Background) -> None:
        self._process = process
        self._file = process.folder / "kubeconfig"

    def state(self) -> ClusterState:
        """Return RUNNING if the process is alive, STOPPED if only its files exist."""
        if self._process.alive():
            return ClusterState.RUNNING
        return ClusterState.STOPPED if self._file.exists() else ClusterState.ABSENT

    def start(self, spec: ClusterSpec) -> None:
        """Start the process on the requested port, else on the last or any free one."""
        if not find_spec("uvicorn"):
            what = "the packages of the practice cluster are not installed"
            raise UserError(what, "run: pip install 'kubectl-sky[practice]'")
        flags = ["--dir", str(self._process.folder), "--nodes", str(spec.nodes)]
        flags += ["--gpus", str(spec.gpus)] if spec.gpus else []
        for port in self._ports(spec.port):
            if self._started(port, [*flags, "--port", str(port)]):
                return
        what = f"no port of {_PORT} to {_PORT + _MAX_PORTS - 1} is free"
        if spec.port:
            what = f"--port {spec.port}: this port is not available; another program may use it"
            raise UserError(what, "choose another port, or leave out --port")
        raise ClusterError(what, "choose one with --port")

    def stop(self) -> None:
        self._process.end()

    def delete(self) -> None:
        self._process.end()

    def kubeconfig(self) -> dict[str, Any]:
        return kubeconfig.read(self._file)

    def details(self) -> dict[str, str | int]:
        """Return the pid, log and folder, for troubleshooting."""
        pid = self._process.pid()
        pid_entry: dict[str, str | int] = {"pid": pid} if pid else {}
        return {**pid_entry, "log": str(self._process.log), "folder": str(self._process.folder)}

    def _ports(self, port: int | None) -> Iterator[int]:
        """Yield ports that seem free; another program may still take one first."""
        last_port = self._last_port()
        candidates = [port] if port else [*([last_port] if last_port else []), *_PORTS]
        yield from filter(_free, candidates)

    def _started(self, port: int, flags: list[str]) -> bool:
        """Start the process; False if another program has the port. Raises ClusterError."""
        before = self._process.log.stat().st_size if self._process.log.exists() else 0
        with ExitStack() as failure:
            process = self._process.start([*_PROGRAM, *flags], failure)
            try:
                self._wait(process, port, before)
            except ClusterError:
                process.kill()
                if process.wait() == _PORT_IN_USE_EXIT_CODE:
                    return False
                raise
            failure.pop_all()
        return True

    def _last_port(self) -> int | None:
        try:
            return urlsplit(kubeconfig.server(kubeconfig.sky_local_only(self.kubeconfig()))).port
        except SkyError:
            return None

    def _wait(self, process: subprocess.Popen[bytes], port: int, before: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._ready(port):
            code = process.poll()
            if code is not None:
                output = self._process.last_log_line(before) or "no output"
                raise ClusterError(
                    f"the practice cluster did not start ({code}): {output}",
                    f"see {self._process.log}",
                )
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the practice cluster is not ready after {_START_TIMEOUT_SECONDS:.0f} s",
                    f"see {self._process.log}",
                )
            time.sleep(_POLL_SECONDS)

    def _ready(self, port: int) -> bool:
        """Check readiness, once the kubeconfig has been rewritten for this port."""
        if self._last_port() != port or not self._process.alive():
            return False
        return _answers(kubeconfig.sky_local_only(self.kubeconfig()))


def _free(port: int) -> bool:
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
