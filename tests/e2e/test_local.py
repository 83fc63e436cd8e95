"""`kubectl sky local` with the practice cluster: up, down, and failures."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.command import PROGRAM, Command, Done
from tests.e2e.support import listening
from tests.polling import eventually
from tests.ports import free_port

HELLO = "name: hello\nrun: echo hello from $(hostname)\n"


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Command]:
    """The program with a temporary home; remove its cluster afterwards."""
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    command = Command(PROGRAM, environment, tmp_path)
    assert command("auth", "login", "tester").returncode == 0
    yield command
    assert command("local", "down", "--purge").returncode == 0


def folder(sky: Command) -> Path:
    return sky.folder / ".local" / "state" / "kubectl-sky" / "local"


def up(sky: Command, *flags: str) -> Done:
    done = sky("local", "up", *flags)
    assert done.returncode == 0, done.stderr
    return done


def status(sky: Command) -> dict[str, Any]:
    """Return the output of `local status`, and check its exit code."""
    done = sky("local", "status", "-o", "json")
    known: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if known["state"] == "running" else 3)
    return known


def inside(sky: Command, *arguments: str, stdin: str = "") -> Done:
    """Run a command against the cluster."""
    done = sky(*arguments, "--kubeconfig", str(folder(sky) / "kubeconfig"), stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done


def saved(sky: Command) -> bytes:
    """Return what the practice cluster has written to its database."""
    return b"".join(path.read_bytes() for path in folder(sky).rglob("state.db*"))


def is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_local_up_and_down_start_stop_and_purge_cluster(sky: Command) -> None:
    done = up(sky)
    kubeconfig = folder(sky) / "kubeconfig"
    assert done.stdout == f"export KUBECONFIG={kubeconfig}\n"
    assert re.match(
        r"The practice cluster is ready: https://127\.0\.0\.1:\d+, 1 node\n", done.stderr
    )
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(kubeconfig.read_text())["current-context"] == "sky-local"
    assert not (sky.folder / ".kube").exists()

    known = status(sky)
    assert (known["state"], known["driver"], known["nodes"]) == ("running", "practice", 1)
    assert not is_dead(known["pid"])

    done = sky("local", "down")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "The practice cluster was stopped; its data is kept\n"

    eventually(lambda: is_dead(known["pid"]))
    assert status(sky)["state"] == "stopped"
    assert "was not running" in sky("local", "down").stderr
    assert sky("local", "down", "--purge").stderr == "The practice cluster was removed\n"
    assert not folder(sky).exists()
    assert status(sky)["state"] == "absent"
    assert sky("local", "down").stderr == "No local cluster exists\n"


def test_local_up_after_down_keeps_tasks_volumes_and_settings(sky: Command) -> None:
    port = str(free_port())  # no other test takes it meanwhile
    up(sky, "--nodes", "2", "--gpus", "A100:8", "--port", port)
    before = status(sky)
    inside(sky, "volumes", "create", "notes", "1Gi")
    inside(sky, "submit", "-", "--id", "hello001", stdin=HELLO)
    assert sky("local", "down").returncode == 0

    up(sky)
    after = status(sky)
    for key in ("server", "nodes", "gpus"):
        assert after[key] == before[key]
    assert "notes" in inside(sky, "volumes", "list").stdout

    listed = json.loads(inside(sky, "list", "-o", "json").stdout)["tasks"]
    assert [(task["task_id"], task["status"]) for task in listed] == [("hello001", "completed")]
    assert inside(sky, "logs", "hello001").stdout.startswith("hello from ")
    assert sky("local", "down").returncode == 0

    up(sky, "--gpus", "none", "--nodes", "1")
    assert (status(sky)["gpus"], status(sky)["nodes"]) == ("", 1)


def test_local_up_after_killed_process_keeps_volumes(sky: Command) -> None:
    up(sky)
    inside(sky, "volumes", "create", "notes", "1Gi")
    eventually(lambda: b"notes" in saved(sky), message="changes are saved with a short delay")
    os.kill(status(sky)["pid"], signal.SIGKILL)
    eventually(lambda: status(sky)["state"] != "running")
    assert status(sky)["note"] == (
        "it stopped unexpectedly; run `kubectl sky local up` to start it again"
    )
    assert "is ready" in up(sky).stderr
    assert "notes" in inside(sky, "volumes", "list").stdout


def test_local_down_stale_lock_file_kills_no_other_process(sky: Command) -> None:
    """The PID now belongs to another process."""
    up(sky)
    os.kill(status(sky)["pid"], signal.SIGKILL)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        (folder(sky) / "practice" / "lock").write_text(f"{bystander.pid}\n")
        eventually(lambda: status(sky)["state"] == "stopped")
        assert "pid" not in status(sky)
        assert sky("local", "down").returncode == 0
        assert "is ready" in up(sky).stderr
        assert status(sky)["pid"] != bystander.pid
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_local_up_port_in_use_is_refused(sky: Command) -> None:
    with listening(free_port()) as other:
        port = other.getsockname()[1]
        done = sky("local", "up", "--port", str(port))
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: --port {port}: this port is not available")
        assert status(sky)["state"] == "absent"


def test_local_up_after_down_reuses_port_if_free(sky: Command) -> None:
    port = free_port()
    up(sky, "--port", str(port))
    assert sky("local", "down").returncode == 0
    up(sky)
    assert status(sky)["server"] == f"https://127.0.0.1:{port}"
    assert sky("local", "down").returncode == 0
    with listening(port):
        up(sky)
        assert status(sky)["server"] != f"https://127.0.0.1:{port}"
        inside(sky, "list")


def test_local_up_concurrent_runs_start_cluster_once(sky: Command) -> None:
    started = [sky.start("local", "up") for _ in range(4)]
    ended = [process.communicate(timeout=200) for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert len({stdout for stdout, _ in ended}) == 1
    ready = [stderr for _, stderr in ended if "is ready" in stderr]
    already = [stderr for _, stderr in ended if "runs already" in stderr]
    assert (len(ready), len(already)) == (1, 3)
    waited = [stderr for stderr in already if stderr.startswith("waiting for another")]
    assert waited
    inside(sky, "list")


def test_local_up_interrupted_leaves_no_process(sky: Command) -> None:
    process = sky.start("local", "up")
    pid_file = folder(sky) / "practice" / "lock"
    while not (pid_file.exists() and pid_file.read_text()):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "interrupted")
    eventually(lambda: is_dead(int(pid_file.read_text())))
    assert status(sky)["state"] != "running"
    up(sky)


def test_local_up_corrupt_database_fails_with_reason_and_log_path(sky: Command) -> None:
    """The message has the reason and the path of the log."""
    kept = folder(sky) / "practice"
    kept.mkdir(parents=True)
    (kept / "state.db").write_text("no database" * 1000)
    done = sky("local", "up")
    assert (done.returncode, done.stdout) == (3, "")
    line, hint = done.stderr.splitlines()
    assert line.startswith("error: the practice cluster did not start (")
    assert hint == f"hint: see {kept / 'log'}"
    assert "database" in line
    assert status(sky)["state"] == "absent"


def test_local_up_with_gpus_of_host_gives_each_task_its_own(sky: Command, tmp_path: Path) -> None:
    """A stand-in for nvidia-smi shows the GPUs, also to the tasks, whose files do not have them."""
    standin = Path(__file__).parent.parent / "standins" / "gpu"
    if standin.is_relative_to("/tmp"):
        pytest.skip("pods of the practice cluster have a /tmp of their own, without the checkout")
    gpus = "\n".join(f"GPU-{name}, NVIDIA GeForce RTX 4090" for name in ("aaaa-1", "bbbb-2"))
    environment = {"STANDIN_GPUS": gpus, "PATH": f"{standin}:{os.environ['PATH']}"}
    machine = Command(PROGRAM, {**sky.environment, **environment}, tmp_path)
    done = up(machine, "--gpus", "host")
    assert "1 node with NVIDIA-GeForce-RTX-4090:2 of this machine\n" in done.stderr

    (listed,) = json.loads(inside(sky, "gpus", "-o", "json").stdout)["machines"]
    assert (listed["accelerator"], listed["total"]) == ("RTX4090", 2)

    task = "resources: {accelerators: 'RTX4090:1'}\nrun: echo $CUDA_VISIBLE_DEVICES; sleep 100\n"
    flags = ("--env", f"STANDIN_GPUS={gpus}", "--env", f"PATH={standin}:/usr/bin:/bin")
    for name in ("first", "second", "third"):
        text = f"name: {name}\n{task}"
        inside(sky, "submit", "-", "-d", "--id", f"{name:0<8}", *flags, stdin=text)
    for name in ("first", "second"):
        inside(sky, "wait", f"{name:0<8}", "--for", "running")
    shown = [inside(sky, "logs", f"{name:0<8}").stdout.strip() for name in ("first", "second")]
    assert shown == ["GPU-aaaa-1", "GPU-bbbb-2"]

    (gpu,) = json.loads(inside(sky, "top", "second00", "--gpu", "-o", "json").stdout)["gpus"]
    assert (gpu["gpu"], gpu["name"]) == (1, "NVIDIA GeForce RTX 4090")

    finding = json.loads(inside(sky, "doctor", "third000", "-o", "json").stdout)["findings"][0]
    assert "Insufficient" not in finding["what"] and "which is in use" in finding["what"]

    inside(sky, "stop", "first000", "-y")
    inside(sky, "wait", "third000", "--for", "running")
    assert inside(sky, "logs", "third000").stdout.strip() == "GPU-aaaa-1"
