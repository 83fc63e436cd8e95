"""A cluster stops with the process that started it and leaves no files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.fixtures import ENVIRONMENT
from tests.cluster.mounts import below
from tests.cluster.place import Place
from tests.cluster.target import Cluster
from tests.polling import eventually

ROOT = Path(__file__).parent.parent.parent
ASK = """
import os, time
from tests.cluster.hold import Holder
print(Holder.start(os.environ).cluster().kubeconfig, flush=True)
time.sleep(120)
"""


@pytest.fixture
def holder(real_cluster: Cluster) -> tuple[subprocess.Popen[str], Place]:
    """Start a process with a separate cluster."""
    if real_cluster.driver != "machine":
        pytest.skip("only the cluster that is built here can leave something behind")
    command = [sys.executable, "-c", ASK]
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    with process.stdout as answers:
        return process, Place(int(Path(answers.readline().strip()).parent.name))


def remains(place: Place) -> list[str]:
    """List the remaining files and devices of a cluster."""
    links = Path("/sys/class/net") / place.bridge
    # os.walk passes over folders that vanish meanwhile; glob raises before Python 3.13
    groups = [
        Path(parent) / place.cgroup.name
        for parent, folders, _ in os.walk("/sys/fs/cgroup")
        if place.cgroup.name in folders
    ]
    paths = [place.folder, links, *groups]
    return [str(path) for path in paths if path.exists()] + below(place.folder)


def test_hold_killed_process_leaves_no_cluster(holder: tuple[subprocess.Popen[str], Place]) -> None:
    process, place = holder
    assert len(remains(place)) > 3
    process.kill()
    process.wait()
    eventually(lambda: not remains(place), 20)
