"""Local clusters of kind, k3d and minikube, with stand-ins for these programs."""

import json
from pathlib import Path

import pytest
import yaml

from tests.local import programs
from tests.local.conftest import Local

DRIVERS = ("kind", "k3d", "minikube")


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest, local: Local) -> str:
    name: str = request.param
    programs.install(local.programs, name, "docker")
    return name


def nodes(local: Local) -> dict[str, str]:
    known: dict[str, str] = programs.change(local.programs)["nodes"]
    return known


def create_commands(local: Local) -> list[str]:
    """Return the commands that created a cluster."""
    words = ("kind create", "cluster create", "minikube start")
    return [call for call in programs.calls(local.programs) if any(word in call for word in words)]


def test_local_up_creates_cluster_without_changing_user_files(local: Local, driver: str) -> None:
    done = local("up", "--driver", driver)
    assert done.returncode == 0, done.stderr
    own = local.state / "kubeconfig"
    assert done.stdout == f"export KUBECONFIG={own}\n"
    assert f"The {driver} cluster is ready: https://127.0.0.1:40000, 1 node\n" in done.stderr
    assert own.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(own.read_text())
    assert config["current-context"] == "sky-local"
    assert config["contexts"] == [
        {"name": "sky-local", "context": {"cluster": "sky-local", "user": "sky-local"}}
    ]
    assert [user["user"] for user in config["users"]] == [{"client-key-data": "Yg=="}]
    assert not local.users.exists()
    assert list(nodes(local).values()) == ["running"]


def test_local_up_running_cluster_is_unchanged(local: Local, driver: str) -> None:
    assert local("up", "--driver", driver, "--nodes", "2").returncode == 0
    again = local("up")  # with the same driver
    assert (again.returncode, len(create_commands(local))) == (0, 1)
    assert f"The {driver} cluster runs already: " in again.stderr
    assert again.stderr.splitlines()[0].endswith(", 2 nodes")


def test_local_up_running_cluster_with_other_flags_is_refused(local: Local, driver: str) -> None:
    assert local("up", "--driver", driver, "--nodes", "3").returncode == 0
    for flags, message in (
        ("--nodes 2", "the cluster runs with 3\nhint: take it down first"),
        ("--gpus T4", "the cluster runs with none\nhint: take it down first"),
        ("--port 7", "the cluster runs at https://127.0.0.1:40000\nhint: take"),
        ("--driver practice", "the local cluster uses driver "),
    ):
        done = local("up", *flags.split())
        assert (done.returncode, done.stdout) == (2, "")
        assert f"error: {flags}: {message}" in done.stderr
        assert list(nodes(local).values()) == ["running"] * 3


def test_local_down_stops_cluster_and_up_restarts_it(local: Local, driver: str) -> None:
    assert local("up", "--driver", driver, "--nodes", "2").returncode == 0
    assert local("status").returncode == 0
    assert f"The {driver} cluster was stopped" in local("down").stderr
    assert list(nodes(local).values()) == ["exited"] * 2
    status = local("status", "-o", "json")
    assert status.returncode == 3
    known = json.loads(status.stdout)
    assert (known["state"], known["driver"], known["nodes"]) == ("stopped", driver, 2)
    before = set(nodes(local))
    assert local("up").returncode == 0
    assert nodes(local) == dict.fromkeys(before, "running")
    assert local("down").returncode == 0
    assert "was not running" in local("down").stderr
    done = local("up", "--nodes", "5")
    assert done.returncode == 2
    assert "error: --nodes 5: the cluster was created with 2\nhint: remove it with" in done.stderr


def test_local_down_purge_deletes_cluster(local: Local, driver: str) -> None:
    assert local("up", "--driver", driver, "--use").returncode == 0
    done = local("down", "--purge")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        0,
        f"The {driver} cluster was removed",
    )
    assert nodes(local) == {}
    assert not local.state.exists()
    assert yaml.safe_load(local.users.read_text())["contexts"] == []
    assert local("status").returncode == 3
    assert local("down").stderr == "No local cluster exists\n"


def test_local_up_gpus_are_added_to_every_node(local: Local, driver: str) -> None:
    done = local("up", "--driver", driver, "--nodes", "2", "--gpus", "A100:8")
    assert done.returncode == 0, done.stderr
    assert "2 nodes with A100:8 each" in done.stderr
    labels = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.count": "8"}
    status = {"status": {"capacity": {"nvidia.com/gpu": "8"}}}
    expected = {f"node/{name}": [status, {"metadata": {"labels": labels}}] for name in nodes(local)}
    assert programs.change(local.programs)["patched"] == expected
    programs.change(local.programs, patched={})
    assert local("down").returncode == 0
    assert local("up").returncode == 0  # the nodes lose their labels when stopped
    assert programs.change(local.programs)["patched"] == expected


def test_local_up_failure_leaves_no_cluster(local: Local, driver: str) -> None:
    programs.change(local.programs, images=False)
    done = local("up", "--driver", driver)
    assert (done.returncode, done.stdout) == (3, "")
    *output, error, hint = done.stderr.splitlines()
    assert "ERROR: failed to pull image" in output
    assert error.startswith("error: `") and error.endswith("failed (1)")
    assert hint == "hint: see its output above"
    assert nodes(local) == {}
    assert json.loads(local("status", "-o", "json").stdout)["state"] == "absent"


def test_local_cluster_of_other_user_with_same_name_is_kept(local: Local, driver: str) -> None:
    theirs = {"kind": "x-control-plane", "k3d": "k3d-x-server-0", "minikube": "x"}[driver]
    programs.change(local.programs, nodes={theirs: "running"})
    for flags in (("up", "--driver", driver), ("down", "--purge"), ("down",)):
        local(*flags)
        assert nodes(local) == {theirs: "running"}
    done = local("up", "--driver", driver)
    assert done.returncode == 2
    assert 'a cluster "sky-local" already exists' in done.stderr


def test_local_commands_do_not_change_kubeconfig_of_user(local: Local, driver: str) -> None:
    local.users.parent.mkdir()
    local.users.write_text("current-context: work\n")
    for flags in (("up", "--driver", driver), ("down",), ("up",), ("down", "--purge")):
        assert local(*flags, KUBECONFIG=str(local.users)).returncode == 0
        assert local.users.read_text() == "current-context: work\n"
    assert list(local.users.parent.iterdir()) == [local.users]


@pytest.mark.parametrize("driver", DRIVERS)
def test_local_up_driver_not_installed_is_refused(local: Local, driver: str) -> None:
    done = local("up", "--driver", driver)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {driver} is not installed\nhint: see https://")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("driver", ["kind", "k3d"])
def test_local_up_docker_not_installed_is_refused(local: Local, driver: str) -> None:
    programs.install(local.programs, driver)
    done = local("up", "--driver", driver)
    assert done.returncode == 2
    assert done.stderr.startswith("error: docker is not installed\nhint: ")


@pytest.mark.parametrize("driver", ["kind", "k3d"])
def test_local_commands_docker_not_running_is_cluster_error(local: Local, driver: str) -> None:
    programs.install(local.programs, driver, "docker")
    assert local("up", "--driver", driver).returncode == 0
    programs.change(local.programs, engine=False)
    for command in ("up", "down"):
        done = local(command)
        assert done.returncode == 3
        assert done.stderr.startswith("error: Docker is not running: Cannot connect to the Docker")
    status = local("status", "-o", "json")
    assert status.returncode == 3
    known = json.loads(status.stdout)
    assert known["state"] == "unknown"
    assert known["note"].startswith("Docker is not running")


@pytest.mark.parametrize(("driver", "port"), [("kind", 7000), ("k3d", "127.0.0.1:7000")])
def test_local_up_port_is_set_only_on_creation(local: Local, driver: str, port: object) -> None:
    programs.install(local.programs, driver, "docker")
    assert local("up", "--driver", driver, "--port", "7000").returncode == 0
    assert programs.change(local.programs)["port"] == port
    assert local("down").returncode == 0
    done = local("up", "--port", "7001")
    assert done.returncode == 2
    assert "the cluster already has a port" in done.stderr


def test_local_up_minikube_with_port_is_refused(local: Local) -> None:
    programs.install(local.programs, "minikube")
    done = local("up", "--driver", "minikube", "--port", "7000")
    assert done.returncode == 2
    assert "minikube chooses its port itself" in done.stderr
    assert nodes(local) == {}


def test_local_up_state_folder_with_quote_is_escaped(local: Local, tmp_path: Path) -> None:
    programs.install(local.programs, "kind", "docker")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "it's here")}
    done = local("up", "--driver", "kind", **elsewhere)
    own = tmp_path / "it's here" / "kubectl-sky" / "local" / "kubeconfig"
    assert own.is_file()
    quoted = str(own).replace("'", "'\"'\"'")
    assert done.stdout == f"export KUBECONFIG='{quoted}'\n"
