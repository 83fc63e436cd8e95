"""Follow logs while control plane processes are killed, on a separate real cluster."""

import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from tests.cluster.faults import Faults
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import kill_api_server_during_submit
from tests.polling import eventually

RANKS = 8
LINES = 16_000
PIECE = 250
FLOOD = f"""
name: flood
num_nodes: {RANKS}
resources: {{image_id: "busybox:1.36", cpus: 0.01, memory: 0.0625}}
run: |
  awk -v rank="$SKYPILOT_NODE_RANK" 'BEGIN {{
    for (i = 1; i <= {LINES}; i++) {{
      print "line", rank, i
      if (i % {PIECE} == 0) {{ fflush(); system("sleep {PIECE / 1000}") }}
    }}
  }}'
"""  # 1,000 lines a second


@pytest.fixture(scope="session")
def cluster(breakable: Cluster) -> Cluster:
    """The cluster whose processes may be killed."""
    return breakable


@pytest.fixture
def faults(cluster: Cluster) -> Iterator[Faults]:
    """Inject faults; restart everything afterwards."""
    control = Faults(cluster)
    yield control
    control.mend()


class Reader:
    """Read the output of a process, and count the lines of each rank in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.seen = [0] * RANKS
        self.wrong: list[str] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            title, _, text = line.partition(" | ")
            rank, number = map(int, text.split()[1:])
            if title == f"node-{rank}" and number == self.seen[rank] + 1:
                self.seen[rank] = number
            else:
                self.wrong.append(line)

    def more(self, lines: int) -> None:
        """Wait until each rank has printed this many more lines, or all of its lines."""
        wanted = [min(number + lines, LINES) for number in self.seen]
        eventually(
            lambda: not (any(map(int.__lt__, self.seen, wanted)) and self._process.poll() is None),
            90,
        )

    def end(self) -> str:
        """Wait for the process to exit; return its stderr."""
        self._thread.join(120)
        assert self._process.stderr
        return self._process.stderr.read()


@pytest.mark.timeout(400)
def test_logs_follow_killed_control_plane_and_kubelet_prints_every_line_once(
    sky: Command, kubectl: Command, cluster: Cluster, faults: Faults
) -> None:
    """The API server with its store, then the kubelet: of 8 ranks each line once and in order.

    The user gets rights by RBAC, which a restarted API server loads last.
    """
    grant = ("create", "rolebinding", "alice", "--clusterrole=admin")
    assert kubectl(*grant, f"--user={cluster.users['alice']}").returncode == 0

    done = sky("submit", sky.write("t.yaml", FLOOD), "--id", "flood001", "--detach")
    assert done.returncode == 0, done.stderr

    process = sky.start("logs", "flood001", "-f", "--context", "alice")
    reader = Reader(process)
    reader.more(200)
    assert max(reader.seen) < LINES

    faults.kill("kube-apiserver", "etcd")
    time.sleep(1)
    faults.start("etcd", "kube-apiserver")
    reader.more(200)
    faults.kill("kubelet")
    time.sleep(1)
    faults.start("kubelet")
    err = reader.end()
    assert process.wait(60) == 0, err
    assert (reader.wrong, reader.seen) == ([], [LINES] * RANKS), err


MANY = """
name: many
num_nodes: 20
resources: {image_id: "busybox:1.36", cpus: 0.01, memory: 0.0625}
run: echo done
"""


@pytest.mark.timeout(400)
def test_submit_with_killed_api_server_sends_every_job_once(
    sky: Command, kubectl: Command, faults: Faults
) -> None:
    process = sky.start("submit", sky.write("t.yaml", MANY), "--id", "manyjob1", "--detach")
    kill_api_server_during_submit(kubectl, faults, process, "manyjob1", nodes=20, seconds=5)
    waited = sky("wait", "manyjob1", "--timeout", "200s", timeout=220)
    assert waited.returncode == 0, waited.stderr
