"""Volumes: create, mount by name, list, and delete."""

import re

from tests.e2e.command import Command
from tests.polling import eventually

KEEPER = """
resources: {image_id: "busybox:1.36"}
volumes: {/data: notes}
run: echo again >> /data/log; wc -l < /data/log
"""


def create(sky: Command, *arguments: str) -> str:
    done = sky("volumes", "create", *arguments)
    assert done.returncode == 0, done.stderr
    match = re.match(r"volume/([a-z0-9]{8}) ", done.stdout)
    assert match, done.stdout
    return match[1]


def test_volumes_data_is_kept_between_tasks(sky: Command) -> None:
    create(sky, "notes", "1Gi")
    for count in ("1", "2"):
        done = sky("submit", "-", stdin=KEEPER)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[1:] == [count]


def test_task_runs_once_a_missing_volume_is_created_as_advised(sky: Command) -> None:
    flags = ("--detach", "--id", "keeper01")
    done = sky("submit", "-", *flags, stdin=KEEPER)
    assert (done.returncode, "--wait-for-volumes" in done.stderr) == (2, True), done.stderr
    done = sky("submit", "-", *flags, "--wait-for-volumes", stdin=KEEPER)
    advice = re.search(
        r'run "kubectl sky (volumes create notes) SIZE (--pvc-name notes)"', done.stderr
    )
    assert advice, done.stderr
    command = "kubectl sky volumes create notes SIZE --pvc-name notes"
    eventually(lambda: command in " ".join(sky("doctor", "keeper01").stdout.split()))
    created = sky(*advice[1].split(), "1Gi", *advice[2].split())
    assert created.returncode == 0, created.stderr
    assert sky("wait", "keeper01", "--timeout", "60s").returncode == 0
    assert sky("logs", "keeper01").stdout.splitlines()[-1] == "1"
