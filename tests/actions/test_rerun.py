"""`rerun`: the last file and flags again, after its task is stopped."""

import re
from pathlib import Path

import pytest

from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

TEXT = "name: train\nenvs: {EPOCHS: 1}\nsecrets: {TOKEN: null}\nrun: echo $EPOCHS\n"


@pytest.fixture(autouse=True)
def submitted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Submit a file with flags, and return the name of its Job."""
    (tmp_path / "task.yaml").write_text(TEXT)
    flags = ("--env=EPOCHS=2", "--secret", "TOKEN=abcd", "--id", "train001", "-d")
    assert run("submit", "task.yaml", *flags)[0] == 0
    monkeypatch.setenv("TOKEN", "efgh")
    return "jobs train-train001"


def jobs(api: FakeCluster) -> list[str]:
    return [name for name in api.names() if name.startswith("jobs ")]


def test_rerun_stops_running_task_and_submits_it_again(
    run: Run, api: FakeCluster, submitted: str
) -> None:
    code, out, err = run("rerun")
    assert code == 0, err
    assert "task train001 (train) is stopped first" in err
    assert re.search("^task/[a-z0-9]{8} submitted", out)
    assert submitted not in jobs(api)
    assert len(jobs(api)) == 1


def test_rerun_new_flags_win_and_become_the_last_ones(run: Run) -> None:
    assert "EPOCHS=2" in run("rerun", "--dry-run", "-o", "yaml")[1].replace(': "', "=")
    assert run("rerun", "--env", "EPOCHS=3")[0] == 0
    out = run("rerun", "--dry-run", "-o", "yaml")[1]
    assert "EPOCHS=3" in out.replace(': "', "=")


def test_rerun_keeps_a_repeated_switch_once(run: Run) -> None:
    assert run("rerun", "-d")[0] == 0
    assert "submit --env EPOCHS=2 --secret TOKEN -d task.yaml" in run("rerun", "-d")[2]


def test_rerun_finished_task_is_kept(run: Run, api: FakeCluster, submitted: str) -> None:
    api.start("train-train001")
    api.finish("train-train001")
    assert "is stopped" not in run("rerun")[2]
    assert submitted in jobs(api)


@pytest.mark.parametrize("change", ["rnu: echo\n", "volumes: {/data: missing}\n"])
def test_rerun_refused_file_stops_nothing(
    run: Run, api: FakeCluster, tmp_path: Path, submitted: str, change: str
) -> None:
    (tmp_path / "task.yaml").write_text(TEXT + change)
    assert run("rerun")[0] == 2
    assert jobs(api) == [submitted]


def test_rerun_keeps_no_value_of_a_secret(tmp_path: Path) -> None:
    assert b"TOKEN" in (kept := (tmp_path / "state" / "last-submit").read_bytes())
    assert b"abcd" not in kept


def test_rerun_in_another_folder_runs_where_the_submit_ran(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    code, _, err = run("rerun")
    assert code == 0, err
    assert f"in {tmp_path}: kubectl sky submit --env EPOCHS=2 --secret TOKEN -d task.yaml" in err


def test_rerun_of_command_runs_it_again(run: Run, api: FakeCluster) -> None:
    assert run("run", "-d", "--", "python", "-c", "print(1)")[0] == 0
    code, _, err = run("rerun")
    assert code == 0, err
    assert "kubectl sky run -d -- python -c 'print(1)'" in err
    assert len([name for name in jobs(api) if "jobs python-" in name]) == 1
