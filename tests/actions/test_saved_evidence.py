"""Evidence of failed nodes, saved locally for when the cluster has deleted them."""

import json
import os
import stat
from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

JOB = f"dying-{ID}"
FIRST = "first failed node-0: exit code 9"


@pytest.fixture(autouse=True)
def dying(api: FakeCluster, send: Submitter) -> None:
    """A task with a secret that runs, and has written more lines than are kept."""
    send("name: dying\nsecrets: {TOKEN: hidden-value}\nrun: x\n")
    lines = b"".join(b"%d\n" % number for number in range(60))
    api.log(api.start(JOB), lines + b"the cause \033[2J\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "evidence"


@pytest.mark.parametrize("before", [True, False])
def test_wait_failed_task_saves_evidence_and_deletes_old_files(
    run: Run, api: FakeCluster, folder: Path, before: bool
) -> None:
    folder.mkdir(parents=True)
    for number in range(120):
        old = folder / f"older{number:03}-0123456789ab.json"
        old.write_text("[" * 9999)
        times = (number, number) if number < 10 else None
        os.utime(old, times)
    if before:
        api.finish(JOB, 9)
    else:
        api.after("watch jobs", lambda: api.finish(JOB, 9))
    assert run("wait", ID)[0] == 4
    assert len(list(folder.iterdir())) == 100
    assert not list(folder.glob("older00*"))

    (file,) = folder.glob(f"{ID}-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hidden-value" not in file.read_text()

    (death,) = json.loads(file.read_text())["deaths"]
    assert (death["rank"], death["exit_code"], len(death["lines"])) == (0, 9, 50)
    assert run("status", "older100")[0] == 2


def test_commands_on_deleted_pod_or_task_show_saved_evidence(
    run: Run, api: FakeCluster, folder: Path
) -> None:
    api.finish(JOB, 9)
    assert run("wait", ID)[0] == 4
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "evidence" not in json.loads(run("status", ID, "-o", "json")[1])["metadata"]

    api.remove(kinds.POD, f"{JOB}-0")
    status = run("status", ID)[1]
    assert FIRST in status
    assert "\n  the cause \n" in status
    assert "\x1b" not in status

    (death,) = json.loads(run("status", ID, "-o", "json")[1])["metadata"]["evidence"]
    assert death["lines"][-2:] == ["59", "the cause \x1b[2J"]
    (task,) = json.loads(run("status", "dy*", "-o", "json")[1])["tasks"]
    assert task["metadata"]["evidence"] == [death]

    logs = run("logs", ID)[2]
    assert "last lines of its deleted pod" in logs
    assert "\n  the cause " in logs
    assert run("stop", ID)[0] == 0

    for command in (("status", ID), ("status", "dying"), ("logs", ID[:6]), ("doctor", ID[:6])):
        code, _, err = run(*command)
        assert (code, FIRST in err) == (2, True), err
        assert "not found" in err


def test_failed_task_with_unwritable_cache_exits_with_4(
    run: Run, api: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("a file in the way")
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path / "file"))
    api.finish(JOB, 9)
    code, out, err = run("wait", ID)
    assert (code, out) == (4, f"task/{ID} (dying) failed: node-0: exit code 9\n")
    assert "Traceback" not in err


def test_task_of_another_owner_is_not_reported_as_deleted(run: Run, api: FakeCluster) -> None:
    api.finish(JOB, 9)
    assert run("wait", ID)[0] == 4
    owner = api.user
    api.user = "carol"
    for command in (("status", "dying"), ("logs", "dying"), ("doctor", ID), ("stop", ID[:6])):
        code, _, err = run(*command)
        assert code == 2
        assert f"belongs to {owner}" in err
        assert "hint: add --all-users" in err
        assert FIRST not in err and "deleted" not in err

    api.user = owner
    assert run("stop", ID)[0] == 0
    api.user = "carol"
    assert FIRST not in run("status", "dying")[2], "the evidence is the owner's"


def test_submit_from_task_of_another_owner_makes_it_ones_own(run: Run, api: FakeCluster) -> None:
    api.user = "carol"
    code, out, err = run("submit", "--from", "dying", "--secret", "TOKEN=x", "-d")
    assert code == 0, err
    task_id = out.split("/")[1].split()[0]
    assert run("status", task_id, "-o", "name")[1] == f"task/{task_id}\n", "carol owns it"


@pytest.mark.parametrize("form", [("-o", "task"), ("-o", "yaml"), ()])
def test_dry_run_of_the_file_of_a_task_needs_no_secret_that_it_does_not_show(
    run: Run, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    code, out, err = run("submit", "--from", "dying", "--dry-run=client", *form)
    assert (code, "hidden-value" in out, "TOKEN:" in err) == (0, False, False), err
    assert run("submit", "--from", "dying", "--dry-run=client", "--show-secrets")[0] != 0, "it asks"
