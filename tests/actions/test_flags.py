"""kubectl's forms of flags, and the flags that every command has."""

import json
import re
from pathlib import Path

import pytest

from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.test_documents import check

OTHER = "bcdg6789"


@pytest.fixture(autouse=True)
def tasks(send: Submitter) -> None:
    send("resources: {labels: {team: vision}}\nname: hello\nrun: echo hello\n")
    send("name: train\nrun: echo train\n", task_id=OTHER)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "-n=team"),
        ("list", "-nteam"),
        ("list", "--namespace=team"),
        ("-n", "team", "list"),
        ("-n=team", "list"),
        ("--namespace=team", "list"),
        ("-n", "other", "list", "-n", "team"),
        ("list", "-n", "other", "-n=team"),
        ("--context=west", "-n=team", "list", "-Ao=json", "-A=false"),
    ],
    ids=" ".join,
)
def test_namespace_in_every_form_of_kubectl_is_used(
    run: Run, api: FakeCluster, arguments: tuple[str, ...]
) -> None:
    code, _, err = run(*arguments)
    assert code == 0, err
    assert api.connections[-1].namespace == "team"


def test_namespace_before_subcommand_is_used(run: Run, api: FakeCluster) -> None:
    for arguments in (("-n=team", "volumes", "list"), ("volumes", "-n=team", "list")):
        assert run(*arguments)[0] == 0
        assert api.connections[-1].namespace == "team"


def test_connection_flag_before_command_without_cluster_is_ignored(run: Run) -> None:
    assert run("-n", "team", "version")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-A", "version"), "no such option '--all-namespaces'"),
        (("-o", "json", "list"), "no such option '-o'"),
        (("list", "-w=maybe"), "-w=maybe: use -w=true or =false"),
        (("list", "-n"), 'option "-n" requires an argument'),
        (("list", "--namspace=x"), "no such option '--namspace'"),
        (("list", "--request-timeout=soon"), '"soon" is not a duration'),
        (("list", "-l", "team in vision"), "unable to parse requirement"),
        (("list", "-v=x"), "'x' is not a whole number"),
    ],
)
def test_wrong_flag_is_refused_with_its_name(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("timeout", ["5s", "5", "0.5", "1m30s", "0", "90d"])
def test_request_timeout_takes_durations_of_kubectl(run: Run, timeout: str) -> None:
    assert run("list", f"--request-timeout={timeout}")[0] == 0


def test_dry_run_without_value_is_client_dry_run(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("name: other\nrun: 'true'\n")
    writes = len(api.writes)
    for arguments in (("--dry-run", "other.yaml"), ("other.yaml", "--dry-run", "client")):
        code, out, err = run("submit", *arguments)
        assert code == 0, err
        assert re.search(r"^Job/other-\w+ created \(dry run\)$", out, re.MULTILINE)
    assert len(api.writes) == writes


def test_several_files_are_checked_before_anything_is_sent(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text("name: good\nrun: 'true'\n")
    (tmp_path / "bad.yaml").write_text("name: bad\nrunn: 'true'\n")
    (tmp_path / "worse.yaml").write_text("name: worse\nnum_nodes: 0\n")
    writes = len(api.writes)
    code, _, err = run("submit", "-d", "good.yaml", "bad.yaml", "worse.yaml")
    assert code == 2
    assert "bad.yaml:2:1: runn: unknown field" in err
    assert "worse.yaml:2:12: num_nodes" in err
    assert len(api.writes) == writes


def test_several_files_are_submitted_and_rendered(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nrun: 'true'\n")
    code, out, err = run("submit", "-d", "one.yaml", "two.yaml")
    assert code == 0, err
    assert re.findall(r"submitted: (\w+),", out) == ["one", "two"]
    document = json.loads(run("submit", "one.yaml", "two.yaml", "-o=json")[1])
    check(document)
    assert (document["apiVersion"], document["kind"]) == ("kubectl-sky/v1", "SubmissionList")
    assert [result["status"] for result in document["submitted"]] == ["submitted"] * 2
    assert {result["kind"] for result in document["submitted"]} == {"Submission"}
    out = run("render", "one.yaml", "two.yaml")[1]
    assert re.findall(r"^  name: (one|two)-\w+$", out, re.MULTILINE) == ["one", "two"] * 2
    assert run("submit", "one.yaml", "two.yaml", f"--id={ID}")[0] == 2


def test_several_files_results_have_warnings_of_their_file(run: Run, tmp_path: Path) -> None:
    resources = {"one": "{cloud: aws}", "two": "{image_id: x}"}
    host = "config: {kubernetes: {pod_config: {spec: {hostNetwork: true}}}}\n"
    for name, text in resources.items():
        suffix = host if name == "two" else ""
        content = f"name: {name}\nresources: {text}\nrun: 'true'\n{suffix}"
        (tmp_path / f"{name}.yaml").write_text(content)
    document = json.loads(run("submit", "one.yaml", "two.yaml", "-o=json")[1])
    check(document)
    assert [
        (item["file"], len(item["warnings"]), len(item["dangers"]), item["notes"])
        for item in document["submitted"]
    ] == [("one.yaml", 1, 0, []), ("two.yaml", 0, 1, [])]


def test_several_files_are_followed_together(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\nrun: 'true'\n")

    def finish() -> None:
        for name, code in (("one", 0), ("two", 3)):
            job = next(text.split()[1] for text in api.names() if f"jobs {name}-" in text)
            pod = api.start(job)
            api.log(pod, f"line of {name}\n".encode())
            api.finish(job, code)

    api.after("watch jobs", finish)
    code, out, err = run("submit", "one.yaml", "two.yaml")
    assert code == 4
    assert {"one | line of one", "two | line of two"} <= set(out.splitlines())
    assert re.search(r"error: task \w+ \(two\) failed: ", err)
    assert (api.count("watch jobs"), api.count("watch pods")) == (1, 1)


def test_pipeline_with_other_files_needs_detach(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("name: one\nrun: 'true'\n")
    (tmp_path / "both.yaml").write_text("name: b\n---\nname: x\nrun: a\n---\nname: y\nrun: a\n")
    writes = len(api.writes)
    code, _, err = run("submit", "one.yaml", "both.yaml")
    assert (code, len(api.writes)) == (2, writes)
    assert "both.yaml: several tasks cannot be followed with other files" in err
    assert run("submit", "one.yaml", "both.yaml", "--detach")[0] == 0


def test_list_without_headers_prints_rows_only(run: Run) -> None:
    out = run("list", "--no-headers")[1]
    assert {line.split()[0] for line in out.splitlines()} == {ID, OTHER}
    assert run("list")[1].startswith("ID ")  # the next command has headers again


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("team=vision", {ID}),
        ("team!=vision", {OTHER}),
        ("team in (vision,audio)", {ID}),
        ("!team", {OTHER}),
        ("task-name=train,!team", {OTHER}),
        ("team=audio", set()),
    ],
)
def test_list_selector_chooses_tasks_by_label(run: Run, selector: str, ids: set[str]) -> None:
    code, out, err = run("list", "-l", selector, "--no-headers")
    assert code == 0, err
    assert {line.split()[0] for line in out.splitlines()} == ids


def test_list_show_labels_adds_last_column(run: Run) -> None:
    header, *rows = run("list", "--show-labels", "-o", "wide")[1].splitlines()
    assert header.endswith(" LABELS")
    assert any("team=vision" in row.split()[-1] for row in rows)


def test_quiet_command_prints_errors_only(run: Run) -> None:
    assert run("list", "-q", "--status", "failed") == (0, "", "")
    assert run("-q", "list", "--status", "failed") == (0, "", "")
    assert "not found" in run("status", "nosuch", "-q")[2]
    assert "No tasks found" in run("list", "--status", "failed")[2]


def test_verbose_command_prints_requests_without_token(run: Run) -> None:
    for arguments in (("list", "-v=6"), ("list", "-v", "6"), ("--v=6", "list"), ("logs", "-v=6")):
        err = run(*arguments)[2]
        assert re.search(
            r"^GET https://fake\.example/apis/batch/v1/namespaces/default/jobs\?\S+ 200 in \d+ ms$",
            err,
            re.MULTILINE,
        )
        assert "labels" not in err.replace("labelSelector", "")
    assert not run("list")[2]


def test_verbose_9_prints_bodies_without_secrets(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    api.tokens["t0ken-value"] = "alice"
    (tmp_path / "secret.yaml").write_text("name: s\nsecrets: {KEY: hunter2}\nrun: 'true'\n")
    err = run("submit", "-d", "secret.yaml", "-v=9", "--token=t0ken-value")[2]
    assert "> Authorization: REDACTED" in err
    assert '"kind":"Secret"' in err
    assert not re.search("t0ken-value|hunter2|aHVudGVyMg", err)


@pytest.mark.parametrize("command", ["submit", "render", "validate"])
def test_standard_input_for_two_files_is_refused(run: Run, command: str) -> None:
    code, _, err = run(command, "-", "-")
    assert (code, err) == (2, "error: standard input cannot be used for multiple arguments\n")
