"""A development pod: dev returns when it is ready, and exec, ssh and scp reach it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e.command import Command, Done, submitted
from tests.polling import eventually

# The image of the real cluster has sshd. The practice cluster runs the programs of this machine.
SCRIPT = (
    "name: mine\nresources: {image_id: 'mpioperator/openmpi:v0.8.0'}\n"
    "envs: {COLOUR: dark green}\nsetup: echo x > $HOME/made-by-dev\nrun: exit 3\n"
)


def ssh(sky: Command, program: str, *arguments: str, stdin: str = "") -> Done:
    """Run ssh or scp with the configuration in the folder, and no other."""
    return Command((program, "-F", "config"), sky.environment, sky.folder)(*arguments, stdin=stdin)


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The name of a new public key."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is not installed")
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(command, check=True)
    return "key.pub"


@pytest.mark.practice_only
def test_dev_runs_setup_and_stays_until_stop(
    sky: Command, cluster: Cluster, key: str, tmp_path: Path
) -> None:
    done = sky("dev", "-", "--for", "2h", "--idle", "1h", stdin=SCRIPT)
    assert done.returncode == 0, done.stderr
    task_id = submitted(done)
    assert f"kubectl sky dev ssh-config {task_id} --install" in done.stderr
    program = sky("exec", task_id, "--", "sh", "-c", "cat $HOME/made-by-dev")
    assert (program.returncode, program.stdout) == (0, "x\n"), program.stderr

    entry = sky("dev", "ssh-config", "mine-dev", "--public-key", key)
    if entry.returncode and cluster.driver == "practice":  # this machine may have no sshd
        assert entry.stderr.startswith(f"error: ssh cannot reach task {task_id}: the image has no")
    else:
        assert entry.returncode == 0, entry.stderr
        sky.write("config", entry.stdout)
        check_ssh(sky, tmp_path)
    assert sky("stop", task_id).returncode == 0
    assert "not found" in sky("exec", task_id, "--", "true").stderr


def check_ssh(sky: Command, folder: Path) -> None:
    done = ssh(sky, "ssh", "mine-dev", "echo $COLOUR $SKYPILOT_NODE_RANK; cat; exit 7", stdin="in")
    assert (done.returncode, done.stdout) == (7, "dark green 0\nin"), done.stderr
    data = bytes(range(256)) * 4096
    (folder / "data").write_bytes(data)
    for source, target in (("data", "mine-dev:copy"), ("mine-dev:copy", "back")):
        done = ssh(sky, "scp", "-q", source, target)
        assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "back").read_bytes() == data

    known_hosts = folder / ".ssh" / "kubectl-sky" / "mine-dev.known_hosts"
    pinned = known_hosts.read_text()
    known_hosts.write_text(pinned.replace(pinned[-20:], "A" * 19 + "\n"))
    done = ssh(sky, "ssh", "mine-dev", "true")
    assert done.returncode == 255 and "Host key verification failed" in done.stderr


@ON_REAL
def test_dev_pod_ends_when_idle_unless_session_runs(sky: Command) -> None:
    flags = ("--image", "busybox:1.36", "--idle", "1m")
    idle, used = (submitted(sky("dev", "--name", name, *flags)) for name in ("idle", "used"))
    sky.start("exec", used, "--", "sleep", "600")
    eventually(lambda: sky.json("status", idle)["status"] == "completed", seconds=120)
    assert "no exec session and no CPU use for 60 seconds" in sky("logs", idle).stdout
    assert sky.json("status", used)["status"] == "running"
