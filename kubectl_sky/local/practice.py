"""Driver for the practice cluster, which is a package of its own."""

import socket
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

_PACKAGE = "kubectl_sky_practice"
_PROGRAM = (sys.executable, "-m", _PACKAGE)
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
        if not find_spec(_PACKAGE):
            what = "the packages of the practice cluster are not installed"
            raise UserError(what, "run: pip install 'kubectl-sky[practice]'")

        flags = ["--dir", str(self._process.folder), "--nodes", str(spec.nodes)]
        if spec.gpus:
            flags += ["--gpus", f"{spec.gpus.name}:{spec.gpus.count}"]
            flags += [f"--gpu-uuid={uuid}" for uuid in spec.gpus.uuids]

        for port in self._ports(spec.port):
            if self._run([*flags, "--port", str(port)]):
                return

        what = f"no port of {_PORT} to {_PORT + _MAX_PORTS - 1} is free"
        if spec.port:
            what = f"--port {spec.port}: this port is not available; another program may use it"
            raise UserError(what, "choose another port, or leave out --port")
        raise ClusterError(what, "choose one with --port")

    def stop(self) -> None:
        self._process.end()

    def delete(self) -> None:
        """Stop the process; the folder is deleted with the state folder."""
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
        if port:
            candidates = [port]
        else:
            try:
                last = urlsplit(kubeconfig.server(self.kubeconfig()))
                candidates = [last.port or _PORT, *_PORTS]
            except SkyError:
                candidates = [*_PORTS]
        yield from filter(_is_free, candidates)

    def _run(self, flags: list[str]) -> bool:
        """Start the process; False if another program has the port. Raises ClusterError."""
        before = self._process.log.stat().st_size if self._process.log.exists() else 0
        with ExitStack() as failure:
            process = self._process.start([*_PROGRAM, *flags], failure)
            try:
                self._wait(process, before)
            except ClusterError:
                process.kill()
                if process.wait() == _PORT_IN_USE_EXIT_CODE:
                    return False
                raise
            failure.pop_all()
        return True

    def _wait(self, process: subprocess.Popen[bytes], before: int) -> None:
        """Wait until the program has written its kubeconfig and `ready URL`."""
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        hint = f"see {self._process.log}"
        while True:
            code = process.poll()
            lines = self._process.read_log(before)
            if any(line.startswith("ready ") for line in lines):
                return
            if code is not None:
                output = lines[-1] if lines else "no output"
                raise ClusterError(f"the practice cluster did not start ({code}): {output}", hint)
            if time.monotonic() > deadline:
                what = f"the practice cluster is not ready after {_START_TIMEOUT_SECONDS:.0f} s"
                raise ClusterError(what, hint)
            time.sleep(_POLL_SECONDS)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
