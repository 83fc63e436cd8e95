"""What users of SkyPilot type from habit, and is valid here but means something else."""

from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

MISSING = 'error: namespace "dev" not found'
HINT = "hint: -n sets the namespace; the name is "


@pytest.fixture(autouse=True)
def _task(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    (tmp_path / "task.yaml").write_text("name: dev\nrun: x\n")
    (tmp_path / "bad.yaml").write_text("nam: dev\nrun: x\n")
    assert run("submit", "task.yaml", "--detach", "--id", "habits01")[0] == 0


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("submit -n dev task.yaml", "--name"),
        ("submit -n dev bad.yaml", "--name"),
        ("serve up -n dev bad.yaml", "--name"),
        ("dev up -n dev", "--name"),
        ("logs -n dev", "an argument here"),
        ("logs dev -n dev", "an argument here"),
        ("stop dev -n dev", "an argument here"),
        ("exec dev -n dev -- ls", "an argument here"),
        ("serve status dev -n dev", "an argument here"),
        ("list -n dev", "an argument of `status`"),
    ],
)
def test_name_given_as_namespace_is_said_before_anything_else(
    run: Run, api: FakeCluster, line: str, name: str
) -> None:
    before = len(api.names())
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    hint = f"{HINT}{name}; to create the namespace, run `kubectl create namespace dev`"
    assert err.splitlines() == [MISSING, hint]
    assert len(api.names()) == before


def test_similar_namespace_is_suggested(run: Run, api: FakeCluster) -> None:
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    assert 'hint: did you mean "default"? -n sets' in run("list", "-n", "defualt")[2]
    api.forbidden.add("list namespaces")
    assert "hint: -n sets" in run("list", "-n", "defualt")[2]


def test_number_given_as_namespace_may_be_one_of_lines(run: Run) -> None:
    assert "for the last lines of logs, use --tail 100" in run("logs", "dev", "-n", "100")[2]
    assert "--tail" not in run("submit", "-n", "100", "task.yaml")[2]


@pytest.mark.parametrize("line", ["logs nothing -n default", "list -n default --status failed"])
def test_namespace_that_exists_is_not_blamed(run: Run, line: str) -> None:
    assert "-n sets the namespace" not in run(*line.split())[2]


def test_namespace_that_may_not_be_read_is_not_checked(run: Run, api: FakeCluster) -> None:
    api.forbidden.add("get namespaces")
    assert run("logs", "nothing", "-n", "dev")[2].startswith('error: task "nothing" not found')


def test_name_that_no_namespace_can_have_is_refused(run: Run) -> None:
    code, _, err = run("list", "-n", "NOPE!")
    assert code == 2
    assert err.startswith('error: "NOPE!" cannot be the name of a namespace\nhint: it has lower')


def test_file_of_docker_compose_is_no_task(run: Run) -> None:
    Path("compose.yaml").write_text("services: {web: {image: x}}\n")
    code, _, err = run("submit", "compose.yaml")
    assert (code, "compose.yaml: a file of Docker Compose, no task" in err) == (2, True)


def test_missing_file_of_a_volume_is_no_command(run: Run) -> None:
    assert "kubectl sky run" in run("submit", "missing")[2]
    assert "kubectl sky run" not in run("volumes", "apply", "missing")[2]


def test_stop_says_that_it_deletes(run: Run) -> None:
    _, out, err = run("stop", "dev")
    assert out == "task/habits01 (dev) stopped\n"
    assert err == "Stopped 1 task; pods and logs are deleted\n"


@pytest.mark.parametrize("command", ["stop", "logs", "status"])
def test_file_given_as_task_is_said(run: Run, command: str) -> None:
    code, _, err = run(command, "task.yaml")
    assert (code, err.splitlines()[0]) == (2, 'error: "task.yaml" is a file, not a task')
