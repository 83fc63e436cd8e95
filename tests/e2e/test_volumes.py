"""Volumes: create, mount by name, list, and delete."""

import re

import pytest

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


@pytest.mark.practice_only
def test_volumes_create_sets_name_labels_and_size(sky: Command, kubectl: Command) -> None:
    volume = create(
        sky, "Data Vol", "2", "--access-modes", "RWO,ROX", "--storage-class", "standard"
    )
    (claim,) = kubectl.json("get", "pvc")["items"]
    assert claim["metadata"]["name"] == f"data-vol-{volume}"
    labels = {
        "skypilot-volume": "true",
        "volume-id": volume,
        "volume-name": "Data-Vol",
        "username": "tester",
    }
    assert labels.items() <= claim["metadata"]["labels"].items()
    assert claim["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]
    (listed,) = sky.json("volumes", "list")["volumes"]
    created_at = listed.pop("created_at")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created_at)
    assert listed == {
        "apiVersion": "kubectl-sky/v1",
        "kind": "Volume",
        "volume_id": volume,
        "name": "Data Vol",
        "size": "2Gi",
        "storage_class": "standard",
        "access_modes": ["ReadWriteOnce", "ReadOnlyMany"],
        "status": "Bound",
        "username": "tester",
        "metadata": {
            "pvc_name": f"data-vol-{volume}",
            "namespace": claim["metadata"]["namespace"],
        },
    }
    assert sky("volumes", "list").stdout.split()[:5] == ["ID", "NAME", "SIZE", "STATUS", "AGE"]
    assert "CLAIM" in sky("volumes", "list", "--details").stdout.splitlines()[0]
    answer = sky.json("volumes", "create", "other", "1Gi")
    assert answer["status"] == "created"
    assert answer["message"] == f"Volume created successfully with ID: {answer['volume_id']}"


def test_volumes_data_is_kept_between_tasks(sky: Command) -> None:
    create(sky, "notes", "1Gi")
    for count in ("1", "2"):
        done = sky("submit", "-", stdin=KEEPER)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[1:] == [count]


@pytest.mark.practice_only
def test_volumes_name_of_other_user_is_treated_as_pvc_name(sky: Command, kubectl: Command) -> None:
    claim = create(sky, "notes", "1Gi")
    someone = ("--user", "someone")
    literal = KEEPER.replace("notes", f"notes-{claim}")
    assert sky("submit", "-", "--id", "literal1", *someone, stdin=literal).returncode == 0
    other = sky("submit", "-", "--id", "other001", *someone, "--detach", stdin=KEEPER)
    assert other.returncode == 0
    job = kubectl.json("get", "job", "task-other001-other001")
    (mounted,) = (
        volume["persistentVolumeClaim"]["claimName"]
        for volume in job["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    )
    assert mounted == "notes", "a volume of another user is not matched by name"


@pytest.mark.practice_only
def test_volumes_delete_volume_in_use_names_task(sky: Command, kubectl: Command) -> None:
    volume = create(sky, "notes", "1Gi")
    script = KEEPER.replace("run: ", "name: keeper\nrun: sleep 300; ")
    assert sky("submit", "-", "--id", "keeper01", "--detach", stdin=script).returncode == 0
    refused = sky("volumes", "delete", "notes", "--yes")
    assert refused.returncode == 2
    assert f"volume {volume} (notes) is used by task/keeper01 (keeper)" in refused.stderr
    assert "Used by:    task/keeper01 (keeper)" in sky("volumes", "status", volume).stdout
    forced = sky("volumes", "delete", volume, "--force")
    assert forced.returncode == 0
    waits = "waits for task/keeper01 (keeper) to be stopped"
    assert forced.stdout == f"volume/{volume} (notes) is being deleted: {waits}\n"
    assert sky("stop", "keeper01").returncode == 0
    kubectl("wait", "--for=delete", "pvc", "--all", "--timeout=90s", timeout=100)
    assert sky.json("volumes", "list")["volumes"] == []


def test_volume_deletion_that_waits_for_finished_task_is_explained(
    sky: Command, kubectl: Command
) -> None:
    volume = create(sky, "notes", "1Gi")
    script = KEEPER.replace("run: ", "name: keeper\nrun: ")
    assert sky("submit", "-", "--id", "keeper01", stdin=script).returncode == 0
    literal = KEEPER.replace("notes", f"notes-{volume}")  # render reads no PVCs
    later = sky("render", "-", "--id", "later001", stdin=literal).stdout
    in_use = sky("volumes", "delete", "notes", "--yes")
    assert in_use.returncode == 2
    assert "is used by task/keeper01 (keeper, finished)\nhint: stop these first" in in_use.stderr
    waits = "waits for task/keeper01 (keeper, finished) to be stopped"
    forced = sky("volumes", "delete", volume, "--force")
    assert forced.stdout == f"volume/{volume} (notes) is being deleted: {waits}\n"
    (listed,) = sky.json("volumes", "list")["volumes"]
    assert (listed["status"], listed["reason"]) == ("Terminating", waits)
    assert waits in sky("volumes", "list").stdout
    assert f"Status:     Terminating: {waits}" in sky("volumes", "status", volume).stdout
    again = sky("volumes", "create", "notes", "1Gi")
    assert (again.returncode, waits in again.stderr) == (2, True), again.stderr
    refused = sky("submit", "-", stdin=KEEPER)
    assert refused.returncode == 2
    assert f'volume "notes" is being deleted: {waits}' in refused.stderr
    assert kubectl("apply", "-f", "-", stdin=later).returncode == 0

    def explained() -> bool:
        words = " ".join(sky("doctor", "later001").stdout.split())
        return f"is being deleted: {waits}" in words

    assert eventually(explained, 30)
    assert sky("stop", "keeper01").returncode == 0
    kubectl("wait", "--for=delete", "pvc", "--all", "--timeout=90s", timeout=100)
    assert sky.json("volumes", "list")["volumes"] == []


@pytest.mark.practice_only
def test_volumes_delete_requires_confirmation_and_owner(sky: Command) -> None:
    volume = create(sky, "notes", "1Gi")
    alone = sky("volumes", "delete", volume)
    assert alone.returncode == 2
    assert "stdin is not a terminal" in alone.stderr
    assert "confirm with --yes" in alone.stderr
    again = sky("volumes", "create", "notes", "1Gi")
    assert again.returncode == 2
    assert f'volume "notes" already exists: {volume}, 1Gi' in again.stderr
    missing = sky("volumes", "delete", "nothing", "--force")
    assert missing.returncode == 2
    assert 'volume "nothing" not found (owner: tester)' in missing.stderr
    foreign = sky("volumes", "delete", volume, "--force", "--user", "someone")
    assert foreign.returncode == 2
    assert sky("volumes", "delete", volume[:4], "--yes").returncode == 0
