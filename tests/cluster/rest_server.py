"""`kubectl sky api` as a process, for tests that go through it."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from tests.cluster.target import Cluster

_SERVING = re.compile(r"Serving on (\S+);")


@dataclass(frozen=True)
class RestServer:
    """A server on loopback, and its address."""

    url: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """End it as a lost machine does."""
        self.process.kill()
        self.process.wait()

    @classmethod
    @contextmanager
    def start(cls, cluster: Cluster, flags: Sequence[str] = ()) -> Iterator[Self]:
        """Start a server on a free port and wait until it answers."""
        command = [sys.executable, "-m", "kubectl_sky", "api", "--port=0"]
        command += [f"--kubeconfig={cluster.kubeconfig}", *flags]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr
                yield cls(cls._address(process.stderr), process)
            finally:
                process.terminate()

    @staticmethod
    def _address(lines: Iterator[str]) -> str:
        printed = []
        for line in lines:
            printed.append(line)
            if match := _SERVING.search(line):
                return match[1]
        raise AssertionError(f"the server has ended: {''.join(printed)}")
