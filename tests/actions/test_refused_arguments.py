"""Arguments and files that commands refuse, with exit code 2 and nothing sent."""

from pathlib import Path

import pytest

from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
TASK = "run: 'true'\n"
GROUP = (
    "name: solo\nexecution: parallel\n"
    "---\nname: main\nrun: 'true'\n---\nname: helper\nrun: sleep 300\n"
)
SECRETS = "secrets: {TOKEN: null, OTHER: null}\nrun: 'true'\n"
VOLUME = "name: v\ntype: k8s-pvc\n"


def check(run: Run, api: FakeCluster, words: str, message: str) -> None:
    """Check that a command is refused with the message and changes nothing."""
    code, out, err = run(*words.split())
    assert (code, out) == (2, ""), err
    assert message in err
    assert api.writes == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("submit --array 0-3 --num-nodes 2", "each task of an array runs on one node"),
        ("submit --array 0-3 --backend jobset", "arrays run as one Indexed Job"),
        ("submit --array 3-0", "write 0-3"),
        ("submit --array all", "write it as 0-99, 0,3,7 or 0-99%10"),
        ("render --backend slurm", "expected one of auto, jobs, indexed, jobset"),
        ("render --backend jobs --backend indexed", "given more than once (jobs, indexed)"),
        ("render --explain -o json", "--explain writes comments, which JSON does not support"),
    ],
)
def test_flags_of_task_are_refused(run: Run, api: FakeCluster, words: str, message: str) -> None:
    Path("task.yaml").write_text(TASK)
    check(run, api, f"{words} task.yaml", message)


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (GROUP, "render --backend indexed", "host names"),
        (SECRETS, "submit --secret s3cr3t", "--secret: no value, and no environment variable of"),
        (SECRETS, "submit --secret-file open.env", "open.env:3: expected NAME=VALUE"),
        (SECRETS, "submit --secret-file yaml.env", "yaml.env:1: expected NAME=VALUE"),
        (SECRETS, "submit --env-file quotes.env", "quotes.env:4: expected NAME=VALUE"),
        (SECRETS, "submit --secret-file none.env", "none.env: no such file or directory"),
        (SECRETS, "submit --secret-file nul.env", "secrets.TOKEN: contains a NUL character"),
        (VOLUME, "volumes apply", ':1:1: missing field "size"; such as size: 10Gi'),
        (
            "name: v\ntype: k8s-hostpath\nsize: 1Gi\n",
            "volumes apply",
            ":2:7: type: volumes of the type",
        ),
        (
            f"{VOLUME}size: 1Gi\ninfra: aws\n",
            "volumes apply",
            "only Kubernetes volumes are supported",
        ),
        (
            "name: '! v'\ntype: k8s-pvc\nsize: 1Gi\n",
            "volumes apply",
            ':1:7: name: "! v" is not a valid volume name',
        ),
        (
            f"{VOLUME}size: 1Gi\nconfig: {{namespace: A}}\n",
            "volumes apply",
            '"A" is not a valid namespace',
        ),
        (f"{VOLUME}size: 1Gi\nlabels: {{a b: c}}\n", "volumes apply", "is not a valid label"),
        (f"{VOLUME}size: '0'\n", "volumes apply", "size: must be more than 0"),
        ("run: x\n", "volumes apply", "unknown field"),
    ],
)
def test_files_are_refused_with_position(
    run: Run, api: FakeCluster, text: str, words: str, message: str
) -> None:
    Path("task.yaml").write_text(text)
    Path("open.env").write_text("TOKEN=s3cr3t\n\nOTHER\n")
    Path("yaml.env").write_text("TOKEN: s3cr3t\n")
    Path("quotes.env").write_text("A='s3cr3t\n1'\n\nN='s3cr3t'\"'\"'s'\n")
    Path("nul.env").write_text("TOKEN=s3cr3t\0x\nOTHER=y\nmy-name=z\n")
    check(run, api, f"{words} task.yaml", message)
    assert "s3cr3t" not in run(*words.split(), "task.yaml")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("v 0", 'size "0"'),
        ("v -1Gi", "no such option"),
        ("v lots", 'size "lots"'),
        ("v 1Gi --access-modes RWX,Sometimes", "access mode Sometimes: unknown access mode"),
        ("v 1Gi --access-modes=", "access mode (none)"),
        ("v 1Gi --access-modes RWOP,RWO", "ReadWriteOncePod cannot be combined"),
        ("… 1Gi", 'volume name "…" has no letter or digit'),
    ],
)
def test_volumes_create_arguments_are_refused(
    run: Run, api: FakeCluster, words: str, message: str
) -> None:
    metadata = {"name": "fast", "annotations": {DEFAULT_CLASS: "true"}}
    api.put({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})
    check(run, api, f"volumes create {words}", message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rank 2-1", '"2-1": ranks are numbers and ranges'),
        ("--rank 0-99999999", "ranks are numbers and ranges"),
        ("--rank a", '"a": ranks are numbers and ranges'),
        ("--grep (", "invalid regular expression"),
        ("--grep [[:alpha:]]", "invalid regular expression: Possible nested set"),
        ("-o yaml", '"yaml" is not one of text, raw, json'),
        ("--max-log-requests 0", "--max-log-requests"),
    ],
)
def test_flags_of_logs_are_refused(run: Run, api: FakeCluster, flags: str, message: str) -> None:
    check(run, api, f"logs x {flags}", message)


@pytest.mark.parametrize("words", ["stop", f"stop {ID} --all", "exec"])
def test_command_without_its_task_is_refused(run: Run, words: str) -> None:
    assert run(*words.split())[0] == 2


@pytest.mark.parametrize("port", ["x", "80:", "0", "70000", "1:2:3", "-1"])
def test_ports_of_port_forward_are_refused(run: Run, send: Submitter, port: str) -> None:
    send(TASK)
    code, out, err = run("port-forward", ID, "--", port)
    assert (code, out) == (2, "")
    assert "port" in err


def test_nodes_and_containers_that_a_task_lacks_are_refused(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    send(TASK)
    api.start(f"task-{ID}")
    for command in (("exec", ID, "--rank", "4", "--", "true"), ("logs", ID, "--rank", "4")):
        code, _, err = run(*command)
        assert code == 2
        assert "has no rank 4\nhint: it has one node, of rank 0" in err
    code, _, err = run("exec", ID, "--all-ranks", "-i", "--", "true")
    assert (code, "--all-ranks cannot be combined with" in err) == (2, True)
    assert run("exec", "absent01", "--", "true")[0] == 2

    api.finish(f"task-{ID}")
    for arguments, message in (
        (("exec", ID, "--", "true"), f"node-0 of task {ID} has ended"),
        (("port-forward", ID, "80"), "has finished"),
    ):
        code, _, err = run(*arguments)
        assert (code, message in err) == (2, True), err


def test_backend_flag_overrides_file_and_file_overrides_settings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("backend: indexed\n")
    Path("plain.yaml").write_text(TASK)
    Path("jobs.yaml").write_text(f"config: {{kubectl_sky: {{backend: jobs}}}}\n{TASK}")
    for words, indexed in (
        ("plain.yaml", True),
        ("jobs.yaml", False),
        ("jobs.yaml --backend indexed", True),
    ):
        assert ("completionMode: Indexed" in run("render", *words.split())[1]) is indexed


def test_explain_of_pod_config_is_noted(run: Run) -> None:
    Path("task.yaml").write_text(
        f"config: {{kubernetes: {{pod_config: {{spec: {{dnsPolicy: Default}}}}}}}}\n{TASK}"
    )
    code, _, err = run("render", "task.yaml", "--explain")
    assert (code, "pod_config: objects that it changes are not annotated" in err) == (0, True)


def test_backend_auto_of_render_contacts_no_cluster(run: Run, api: FakeCluster) -> None:
    Path("task.yaml").write_text(f"num_nodes: 2\n{TASK}")
    assert run("render", "task.yaml", "--backend", "auto")[2].startswith(
        "backend indexed: one Job for all nodes"
    )
    assert api.requests == []
