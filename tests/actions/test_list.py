"""`list` and `clean`: filters, order and columns, over a cluster in memory."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_sky import __version__
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.words import kinds
from kubectl_sky.words.names import HISTORY
from tests import fake_cluster
from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster

GOOD = "bcdf2345"
BAD = "bcdg6789"
SLOW = "qwrt2345"


@pytest.fixture(autouse=True)
def tasks(send: Submitter, api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A completed task of last hour, then a failed one of two nodes, and one that runs."""
    now = datetime.now(UTC)
    for name, task_id, minutes, nodes in (
        ("good", GOOD, 60, 1),
        ("bad", BAD, 30, 2),
        ("slow", SLOW, 0, 1),
    ):
        stamp = (now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        monkeypatch.setattr(fake_cluster, "_now", lambda stamp=stamp: stamp)
        send(f"name: {name}\nnum_nodes: {nodes}\nrun: 'true'\n", task_id=task_id)
        for job in [name for name in api.names() if task_id in name and name.startswith("jobs ")]:
            api.start(job.split()[1])
            if name != "slow":
                exit_code = 3 if name == "bad" else 0
                api.finish(job.split()[1], exit_code)


def names(run: Run, *flags: str) -> list[str]:
    code, out, err = run("list", "-o", "name", *flags)
    assert code == 0, err
    return [line.removeprefix("task/") for line in out.splitlines()]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", [SLOW, BAD, GOOD]),  # the newest first
        ("--status failed", [BAD]),
        ("--status SUCCEEDED", [GOOD]),
        ("--status running", [SLOW]),
        ("--since 45m", [SLOW, BAD]),
        ("--sort-by name", [BAD, GOOD, SLOW]),
        ("--sort-by nodes --limit 1", [BAD]),
        ("--user bob", []),
        ("--all-users", [SLOW, BAD, GOOD]),
    ],
)
def test_list_filters_sorts_and_limits_tasks(run: Run, flags: str, expected: list[str]) -> None:
    assert names(run, *flags.split()) == expected


@pytest.mark.parametrize(
    ("hours", "expected"), [(2, ["nnww2345"]), (-2, [SLOW, BAD, GOOD, "nnww2345"])]
)
def test_list_since_counts_by_the_clock_of_the_server(
    run: Run, send: Submitter, api: FakeCluster, hours: int, expected: list[str]
) -> None:
    api.ahead = timedelta(hours=hours)
    send("name: new\nrun: 'true'\n", task_id="nnww2345")
    assert names(run, "--since", "5m") == expected


def test_list_of_unknown_status_is_refused(run: Run) -> None:
    code, _, err = run("list", "--status", "odd")
    assert code == 2
    assert "succeeded" in err


def test_list_of_some_tasks_of_a_pipeline_has_the_state_of_the_whole(
    run: Run, send: Submitter
) -> None:
    send("name: chain\n---\nname: a\nrun: x\n---\nname: b\nrun: x\n", task_id="chain001")
    rows = [line.split()[:4] for line in run("list", "--limit", "1")[1].splitlines()[1:]]
    whole = [line.split()[:4] for line in run("list")[1].splitlines()[1:]]
    assert rows == [whole[0], *(row for row in whole[1:3] if row in rows)]
    assert (len(rows), rows[0]) == (2, ["chain001", "chain", "pending", "0/2"])


def test_list_columns_of_each_format(run: Run) -> None:
    header, *rows = run("list")[1].splitlines()
    assert header.split() == ["ID", "NAME", "STATUS", "NODES", "AGE", "REASON"]
    assert [row.split()[:4] for row in rows] == [
        [SLOW, "slow", "running", "1/1"],
        [BAD, "bad", "failed", "0/2"],
        [GOOD, "good", "completed", "1/1"],
    ]
    assert run("list", "-o", "wide")[1].splitlines()[0].split()[-2:] == ["UPDATED", "REASON"]
    header, row = run("list", "--details", "--status", "succeeded")[1].splitlines()
    assert (header.split()[0], *header.split()[-2:]) == ("NAMESPACE", "USER", "JOBS")
    assert (row.split()[0], *row.split()[-2:]) == ("default", "alice", f"good-{GOOD}")


def test_status_of_failed_task_shows_exit_codes(run: Run) -> None:
    template = 'jsonpath={.metadata.detailed_status}{" "}{.metadata.nodes[*].exit_code}'
    assert run("status", BAD, "-o", template)[1] == "failed 3 3"
    lines = run("status", BAD)[1].splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("NODE"))
    assert lines[header].split()[:6] == ["NODE", "STATUS", "EXIT", "RESTARTS", "FOR", "REASON"]
    assert lines[header + 1].split()[:3] == ["0", "failed", "3"]


def test_list_of_all_contexts_reports_forbidden_context(
    run: Run, api: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    contexts = [{"name": name, "context": dict[str, str]()} for name in ("bob", "test")]
    config = {"apiVersion": "v1", "kind": "Config", "contexts": contexts}
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    api.tokens = {"of-bob": "bob"}
    api.forbidden = {"bob: list jobs"}

    def connect(connection: Connection) -> Session:
        token = "of-bob" if connection.context == "bob" else ""
        return api.session(replace(connection, token=token))

    monkeypatch.setattr(Session, "connect", connect)
    code, out, err = run("list", "--all-contexts", "-o", "json")
    assert code == 3
    assert "error: context bob: forbidden" in err
    listed = json.loads(out)["tasks"]
    assert {(task["task_id"], task["context"]) for task in listed} == {
        (task_id, "test") for task_id in (GOOD, BAD, SLOW)
    }
    assert run("list", "--all-contexts")[1].startswith("test:\nID")


def test_clean_older_than_deletes_finished_tasks_only(run: Run) -> None:
    assert run("clean", "-y")[2] == "0 orphans found\n"
    code, out, err = run("clean", "--older-than", "45m", "--dry-run")
    assert (code, err) == (0, "0 orphans and 1 task found\n")
    assert f"task/{GOOD} (good) completed" in out
    assert run("clean", "--older-than", "1s", "-y")[2] == "Removed 0 orphans and 2 tasks\n"
    assert names(run) == [SLOW]


def test_status_counts_nodes_of_every_state(run: Run, send: Submitter, api: FakeCluster) -> None:
    send("name: mixed\nnum_nodes: 3\nrun: 'true'\n", task_id="mxdm2345")
    for rank, exit_code in enumerate((0, 5, None)):
        job = f"mixed-mxdm2345-node-{rank}"
        api.start(job)
        if exit_code is not None:
            api.finish(job, exit_code)
    task = json.loads(run("status", "mxdm2345", "-o", "json")[1])
    states = ("succeeded", "failed", "running", "pending")
    assert [task["metadata"][f"{state}_nodes"] for state in states] == [1, 1, 1, 0]
    assert task["status"] == "failed"
    out = run("status", "mxdm2345")[1]
    assert "failed — node-1: exit code 5" in out
    assert "3 (1 running, 1 failed, 1 completed)" in out


def test_wait_several_tasks_reports_each_and_its_timeout(run: Run) -> None:
    code, out, _ = run("wait", GOOD, BAD)
    assert (code, out.splitlines()[0]) == (4, f"task/{GOOD} (good) completed")
    assert f"task/{BAD} (bad) failed: node-0: exit code 3" in out
    code, _, err = run("wait", SLOW, "--timeout", "1s")
    assert code == 1
    assert f"gave up waiting for task {SLOW} (slow), which is running" in err


@pytest.mark.parametrize(
    ("words", "code", "last"),
    [
        (f"{GOOD} --for=completed", 0, f"task/{GOOD} (good) completed"),
        (f"{BAD} --for=condition=Complete", 4, f"task/{BAD} (bad) failed: node-0: exit code 3"),
        (f"{BAD} --for=failed", 0, f"task/{BAD} (bad) failed: node-0: exit code 3"),
        (f"{GOOD} --for=condition=failed=true", 1, f"task/{GOOD} (good) completed"),
        (f"{GOOD} {SLOW} --for=running", 0, f"task/{SLOW} (slow) running"),
        (f"{BAD} --for=condition=Ready", 4, f"task/{BAD} (bad) failed: node-0: exit code 3"),
        (f"{GOOD} --for=jsonpath={{.status}}=Completed", 0, f"task/{GOOD} (good) completed"),
        ("nosuch --for=delete", 0, ""),
    ],
)
def test_wait_for_state_that_is_reached_returns_at_once(
    run: Run, words: str, code: int, last: str
) -> None:
    assert (result := run("wait", *words.split()))[0] == code, result
    assert result[1].splitlines()[-1:] == ([last] if last else [])


def test_wait_for_delete_returns_when_the_objects_are_deleted(run: Run, api: FakeCluster) -> None:
    api.after("watch jobs", lambda: api.remove(kinds.JOB, f"good-{GOOD}"))
    assert run("wait", GOOD, "--for", "delete")[:2] == (0, f"task/{GOOD} (good) deleted\n")
    code, _, err = run("wait", SLOW, "--for=delete", "--timeout=1s")
    assert (code, "gave up waiting for task" in err) == (1, True)


def test_wait_for_running_pipeline_returns_when_its_first_stage_runs(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: both\n---\nname: one\nrun: a\n---\nname: two\nrun: b\n", task_id="pppp2345")
    (job,) = (name.split()[1] for name in api.names() if name.startswith("jobs one-"))
    api.after("watch jobs", lambda: api.start(job))
    code, out, err = run("wait", "pppp2345", "--for=running")
    assert (code, out.split()[2]) == (0, "running"), err


def test_wait_for_unknown_state_lists_those_possible(run: Run) -> None:
    code, _, err = run("wait", GOOD, "--for=jsonpath={.kind}=Running")
    assert code == 2
    assert "use running, completed, failed, delete, or as in kubectl condition=Ready" in err
    code, _, err = run("wait", GOOD, "--for=delete", "--continue")
    assert (code, "--continue cannot be combined with --for=delete" in err) == (2, True)


def test_output_in_forms_of_kubectl_is_accepted_or_names_the_alternative(run: Run) -> None:
    assert run("status", GOOD, "-o", "wide")[:2] == run("status", GOOD)[:2]
    code, _, err = run("list", "-o", "go-template={{.items}}")
    assert code == 2
    assert "Go templates are not supported; use -o json | jq, or -o jsonpath=…" in err


def test_list_deleted_notes_record_that_cannot_be_read(run: Run, api: FakeCluster) -> None:
    record = {"id": "aaaaaaa1", "name": "x", "nodes": [], "num_nodes": 1}
    metadata = {"name": HISTORY}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    api.put(config_map | {"data": {"aaaaaaa1": json.dumps(record)}})
    code, out, err = run("list", "--deleted", "-A", "--all-users", "-o", "json")
    assert (code, json.loads(out)["tasks"]) == (0, [])
    assert "namespace default: 1 record of a deleted task cannot be read\n" in err


def test_list_shows_the_variables_in_which_tasks_of_one_name_differ(
    run: Run, send: Submitter
) -> None:
    for task_id, rate in (("exp00001", "0.1"), ("exp00002", "0.01")):
        envs = f"envs: {{LR: {rate}, EPOCHS: 9, API_TOKEN: {task_id}, DB_PASS: {task_id}}}\n"
        send(f"name: exp\n{envs}run: x\n", task_id=task_id)
    header, *rows = run("list")[1].splitlines()
    assert header.split() == ["ID", "NAME", "STATUS", "NODES", "AGE", "LR", "REASON"]
    assert [row.split()[5] for row in rows[:2]] in (["0.1", "0.01"], ["0.01", "0.1"])
    header, *rows = run("list", "--env-columns", "EPOCHS,LR")[1].splitlines()
    assert header.split()[5:7] == ["EPOCHS", "LR"]
    assert run("list", "--env-columns", "")[1].splitlines()[0].split()[4:] == ["AGE", "REASON"]


def test_narrow_list_leaves_out_variables_before_owners_and_reasons(
    run: Run, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task_id, rate in (("exp00001", "0.1"), ("exp00002", "0.0123456789")):
        send(f"name: exp\nenvs: {{LR: {rate}}}\nrun: x\n", task_id=task_id)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    header = run("list", "--all-users")[1].splitlines()[0]
    assert header.split() == ["ID", "NAME", "STATUS", "USER", "REASON"]
    monkeypatch.setenv("COLUMNS", "45")
    assert "USER" in run("list", "--all-users")[1].splitlines()[0]
    monkeypatch.setenv("COLUMNS", "66")
    header = run("list")[1].splitlines()[0]
    assert header.split() == ["ID", "NAME", "STATUS", "LR", "REASON"]


def test_list_of_all_users_has_the_tasks_of_each_owner_together(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    for task_id, user in (("aaaa2345", "bob"), ("bbbb2345", "adam")):
        send("name: one\nrun: x\n", task_id=task_id)
        job = api.get(kinds.JOB, f"one-{task_id}")
        job["metadata"]["labels"]["username"] = user
        api.put(job)
    rows = [line.split()[0] for line in run("list", "--all-users")[1].splitlines()[1:]]
    assert rows == ["bbbb2345", SLOW, BAD, GOOD, "aaaa2345"]
    by_age = run("list", "--all-users", "--sort-by", "age")[1].splitlines()[1:]
    assert {row.split()[0] for row in by_age[:2]} <= {"aaaa2345", "bbbb2345", SLOW}


def test_templates_are_read_from_files_as_in_kubectl(run: Run, tmp_path: Path) -> None:
    (tmp_path / "path").write_text("{.version}\n")
    assert run("version", "-o", "jsonpath-file=path")[1] == f"{__version__}\n"
    (tmp_path / "columns").write_text("KIND   IS\n.kind  .version\n")
    out = run("version", "-o", "custom-columns-file=columns")[1]
    assert out == f"KIND      IS\nVersion   {__version__}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "none: no such file or directory"), ("A B\n.a\n", "a line of names, and one with")],
)
def test_template_file_that_cannot_be_used_is_refused(
    run: Run, tmp_path: Path, text: str | None, message: str
) -> None:
    if text:
        (tmp_path / "none").write_text(text)
    code, _, err = run("version", "-o", "custom-columns-file=none")
    assert (code, message in err) == (2, True), err


def test_template_file_that_is_a_device_is_refused(run: Run) -> None:
    code, _, err = run("version", "-o", "jsonpath-file=/dev/zero")
    assert (code, "/dev/zero: is a device" in err) == (2, True), err


def test_template_file_in_the_home_folder_of_an_unknown_user_is_refused(run: Run) -> None:
    code, _, err = run("version", "-o", "jsonpath-file=~no-such-user/path")
    assert (code, "~no-such-user/path: home folder not found" in err) == (2, True), err
