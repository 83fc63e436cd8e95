"""A development pod: dev returns when it is ready, and exec and ssh-config reach it."""

from pathlib import Path

from tests.e2e.conftest import Command, submitted

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def test_dev_runs_setup_and_stays_until_stop(sky: Command, tmp_path: Path) -> None:
    script = "name: mine\nsetup: echo x > /tmp/made-by-dev\nrun: exit 3\n"
    done = sky("dev", "-", "--for", "2h", "--idle", "1h", stdin=script)
    assert done.returncode == 0, done.stderr
    task_id = submitted(done)
    assert f"kubectl sky dev ssh-config {task_id}" in done.stderr

    program = sky("exec", task_id, "--", "cat", "/tmp/made-by-dev")
    assert (program.returncode, program.stdout) == (0, "x\n"), program.stderr

    (tmp_path / "key.pub").write_text(f"{KEY}\n")
    entry = sky("dev", "ssh-config", task_id, "--public-key", str(tmp_path / "key.pub"))
    if entry.returncode:  # the image has no openssh-server
        assert entry.stderr.startswith(f"error: ssh cannot reach task {task_id}: the image has no")
    else:
        assert entry.stdout.startswith(f"Host {task_id}\n")
    assert sky("stop", task_id).returncode == 0
    assert "not found" in sky("exec", task_id, "--", "true").stderr
