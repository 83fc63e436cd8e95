"""`rerun`: the last file and flags again, after its task is stopped."""

import re
from pathlib import Path

import pytest

from kubectl_sky.words import kinds, names
from tests.actions.conftest import Run
from tests.actions.test_quota import put_quota
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


def test_rerun_prints_no_value_of_a_secret(run: Run) -> None:
    err = run("rerun", "-d", "--secret", "TOKEN=ijkl")[2]
    assert "--secret TOKEN -d --secret TOKEN task.yaml" in err
    assert "ijkl" not in err


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


def test_rerun_that_the_api_server_refuses_stops_nothing(
    run: Run, api: FakeCluster, submitted: str
) -> None:
    api.before("create jobs", lambda: 422)
    code, _, err = run("rerun")
    assert code == 3
    assert "Unprocessable Entity" in err
    assert "task train001 was not stopped" in err
    assert jobs(api) == [submitted]


def test_rerun_over_quota_counts_without_the_task_that_it_replaces(
    run: Run, api: FakeCluster, submitted: str
) -> None:
    api.start("train-train001")
    used = {"count/jobs.batch": "1", "pods": "1"}
    put_quota(api, used, used)
    assert run("rerun")[0] == 0
    assert submitted not in jobs(api)


def test_rerun_over_quota_with_what_other_tasks_use_stops_nothing(
    run: Run, api: FakeCluster, submitted: str
) -> None:
    put_quota(api, {"count/jobs.batch": "1"}, {"count/jobs.batch": "2"})
    code, _, err = run("rerun")
    assert code == 3
    assert "quota few is full: count/jobs.batch: requested 1, used 1 of 1" in err
    assert jobs(api) == [submitted]


@pytest.mark.parametrize("flags", [(), ("--env", "EPOCHS=3")])
def test_rerun_with_another_current_namespace_is_refused_without_a_terminal(
    run: Run,
    api: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    submitted: str,
    flags: tuple[str, ...],
) -> None:
    api.namespace = "team"
    code, _, err = run("rerun", *flags)
    assert code == 2
    assert 'The last submit ran in namespace "default" of context "fake".' in err
    assert 'Submit to namespace "team" of context "fake"?' in err
    assert "hint: confirm with --context fake -n team" in err
    assert jobs(api) == [submitted]


def test_rerun_with_a_namespace_of_its_own_submits_there_and_stops_nothing(
    run: Run, api: FakeCluster, submitted: str
) -> None:
    api.namespace = "team"
    code, _, err = run("rerun", "-n", "team", "-d")
    assert code == 0, err
    assert 'task train001 in namespace "default" of context "fake" is not stopped' in err
    assert submitted in jobs(api)
    assert len(jobs(api)) == 2


def test_rerun_by_another_context_of_the_place_stops_the_task_as_it_says(
    run: Run, api: FakeCluster, tmp_path: Path, submitted: str
) -> None:
    file = tmp_path / "state" / "last-submit"
    file.write_bytes(file.read_bytes().replace(b'"context":"fake"', b'"context":"old"'))
    code, _, err = run("rerun", "--context", "fake", "-d")
    assert code == 0, err
    assert "task train001 (train) is stopped first" in err
    assert "is not stopped" not in err
    assert submitted not in jobs(api)


def test_rerun_file_that_names_other_local_files_since_is_refused_without_a_terminal(
    run: Run, api: FakeCluster, tmp_path: Path, submitted: str
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "task.yaml").write_text(f"{TEXT}workdir: {outside}\n")
    code, _, err = run("rerun")
    assert code == 2
    assert f"The task file sends {outside}, outside the task's folder. Submit it?" in err
    assert jobs(api) == [submitted]

    assert run("submit", "task.yaml", "--secret", "TOKEN", "-d")[0] == 0
    assert run("rerun", "-d")[0] == 0  # what was sent before is known


def test_submit_from_in_another_folder_is_refused_without_a_terminal(
    run: Run, api: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task.yaml").write_text("name: code\nworkdir: .\nrun: echo\n")
    assert run("submit", "task.yaml", "--id", "coded001", "-d")[0] == 0
    count = len(jobs(api))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    code, _, err = run("submit", "--from", "coded001", "-d")
    assert code == 2
    question = f"The submit of task coded001 ran in {tmp_path}. Send {tmp_path / 'other'}?"
    assert question in err
    assert f"hint: confirm with --workdir DIR, or run it in {tmp_path}" in err
    assert len(jobs(api)) == count

    assert run("submit", "--from", "coded001", "-d", "--workdir", ".")[0] == 0
    monkeypatch.chdir(tmp_path)
    assert run("submit", "--from", "coded001", "-d")[0] == 0


def test_submit_from_with_a_changed_file_does_not_send_credentials(
    run: Run, api: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("key")
    assert run("submit", "task.yaml", "--secret", "TOKEN", "--id", "train002", "-d")[0] == 0
    kept = api.get(kinds.CONFIG_MAP, "train-train002")
    kept["data"][names.TASK_FILE] = "name: train\nfile_mounts: {~/in: ~/.ssh}\nrun: echo\n"
    api.put(kept)
    count = len(jobs(api))
    code, _, err = run("submit", "--from", "train002", "-d")
    assert code == 2
    assert "sends credentials" in err and "Submit it?" in err
    assert len(jobs(api)) == count


def test_rerun_of_a_task_repeats_its_own_submit(
    run: Run, api: FakeCluster, tmp_path: Path, submitted: str
) -> None:
    (tmp_path / "other.yaml").write_text("name: other\nrun: x\n")
    assert run("submit", "other.yaml", "--id", "other001", "-d")[0] == 0
    code, _, err = run("rerun", "train", "-d", "--env", "EPOCHS=4")
    assert code == 0, err
    assert "submit --env EPOCHS=2 --secret TOKEN -d --env EPOCHS=4 task.yaml" in err
    assert submitted not in jobs(api)
    assert "jobs other-other001" in jobs(api)


def test_rerun_of_several_tasks_follows_none(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: trial\nrun: x\n")
    assert run("submit", "other.yaml", "--id", "other001", "-d")[0] == 0
    for words in (("tr*",), ("--all",), ("train", "--from", "trial")):
        code, out, err = run("rerun", *words)
        assert code == 0, err
        assert len(out.splitlines()) == len(jobs(api)) == 2
    assert run("rerun", "tr*", "--detach")[2].count("--detach") == 2, "once for each"


def test_rerun_of_another_users_task_submits_its_file_and_stops_nothing(
    run: Run, api: FakeCluster, tmp_path: Path, submitted: str
) -> None:
    (tmp_path / "state" / "submits" / "train001").unlink()  # of another machine
    code, _, err = run("rerun", "train001", "-d", "--user", "bob", "--secret", "TOKEN")
    assert code == 0, err
    assert "submit --from train001" in err
    assert submitted in jobs(api)
    (new,) = [name.split()[1] for name in jobs(api) if name != submitted]
    assert api.get(kinds.JOB, new)["metadata"]["labels"][names.USERNAME] == "bob"


def test_rerun_of_a_glob_and_of_another_users_task_takes_no_more_tasks_of_that_user(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("name: trial\nrun: x\n")
    for task_id in ("other001", "other002"):
        assert run("submit", "other.yaml", "--id", task_id, "--user", "bob", "-d")[0] == 0
    code, out, err = run("rerun", "tr*", "other001", "--secret", "TOKEN")
    assert code == 0, err
    assert len(out.splitlines()) == 2  # train and other001


def test_deleted_task_of_this_machine_has_the_command_that_submits_it_again(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    api.remove(kinds.JOB, "train-train001")
    command = "kubectl sky submit --env EPOCHS=2 --secret TOKEN -d task.yaml"
    for words in (("logs", "train001"), ("status", "train001")):
        code, _, err = run(*words)
        assert code == 2
        assert (
            f"task train001 was submitted from this machine and deleted since; in {tmp_path}:"
            in err
        )
        assert command in err
