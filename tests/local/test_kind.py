"""Local clusters of kind, with stand-ins for kind and docker."""

import json
import os
from pathlib import Path

import pytest
import yaml

from kubectl_sky.errors import ClusterError
from kubectl_sky.local import kind as driver
from kubectl_sky.local.driver import ClusterSpec
from tests.local import programs
from tests.local.conftest import Local


@pytest.fixture
def kind(local: Local) -> Local:
    programs.install(local.programs, "kind", "docker")
    return local


def nodes(local: Local) -> dict[str, str]:
    known: dict[str, str] = programs.change(local.programs)["nodes"]
    return known


def test_local_up_creates_cluster_without_changing_user_files(kind: Local) -> None:
    done = kind("up", "--driver", "kind")
    assert done.returncode == 0, done.stderr
    own = kind.state / "kubeconfig"
    assert done.stdout == f"export KUBECONFIG={own}\n"
    assert "The kind cluster is ready: https://127.0.0.1:40000, 1 node\n" in done.stderr
    assert own.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(own.read_text())
    assert config["current-context"] == "sky-local"
    assert config["contexts"] == [
        {"name": "sky-local", "context": {"cluster": "sky-local", "user": "sky-local"}}
    ]
    assert [user["user"] for user in config["users"]] == [{"client-key-data": "Yg=="}]
    assert not kind.users.exists()
    assert list(nodes(kind).values()) == ["running"]


def test_local_up_running_cluster_is_unchanged(kind: Local) -> None:
    assert kind("up", "--driver", "kind", "--nodes", "2").returncode == 0
    again = kind("up")  # with the same driver
    assert again.returncode == 0
    created = [call for call in programs.calls(kind.programs) if "kind create" in call]
    assert len(created) == 1
    assert "The kind cluster runs already: " in again.stderr
    assert again.stderr.splitlines()[0].endswith(", 2 nodes")


def test_local_up_running_cluster_with_other_flags_is_refused(kind: Local) -> None:
    assert kind("up", "--driver", "kind", "--nodes", "3").returncode == 0
    for flags, message in (
        ("--nodes 2", "the cluster runs with 3\nhint: take it down first"),
        ("--gpus T4", "the cluster runs with none\nhint: take it down first"),
        ("--port 7", "the cluster runs at https://127.0.0.1:40000\nhint: take"),
        ("--driver practice", "the local cluster uses driver "),
    ):
        done = kind("up", *flags.split())
        assert (done.returncode, done.stdout) == (2, "")
        assert f"error: {flags}: {message}" in done.stderr
        assert list(nodes(kind).values()) == ["running"] * 3


def test_local_down_stops_cluster_and_up_restarts_it(kind: Local) -> None:
    assert kind("up", "--driver", "kind", "--nodes", "2").returncode == 0
    assert kind("status").returncode == 0
    assert "The kind cluster was stopped" in kind("down").stderr
    assert list(nodes(kind).values()) == ["exited"] * 2

    status = kind("status", "-o", "json")
    assert status.returncode == 3

    known = json.loads(status.stdout)
    assert (known["state"], known["driver"], known["nodes"]) == ("stopped", "kind", 2)

    before = set(nodes(kind))
    assert kind("up").returncode == 0
    assert nodes(kind) == dict.fromkeys(before, "running")
    assert kind("down").returncode == 0
    assert "was not running" in kind("down").stderr

    done = kind("up", "--nodes", "5")
    assert done.returncode == 2
    assert "error: --nodes 5: the cluster was created with 2\nhint: remove it with" in done.stderr


def test_local_down_purge_deletes_cluster(kind: Local) -> None:
    assert kind("up", "--driver", "kind", "--use").returncode == 0
    done = kind("down", "--purge")
    assert done.returncode == 0 and done.stderr.endswith("The kind cluster was removed\n")
    assert nodes(kind) == {}
    assert not kind.state.exists()
    assert yaml.safe_load(kind.users.read_text())["contexts"] == []
    assert kind("status").returncode == 3
    assert kind("down").stderr == "No local cluster exists\n"


def test_local_up_gpus_are_added_to_every_node(kind: Local) -> None:
    done = kind("up", "--driver", "kind", "--nodes", "2", "--gpus", "A100:8")
    assert done.returncode == 0, done.stderr
    assert "2 nodes with A100:8 each" in done.stderr
    labels = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.count": "8"}
    status = {"status": {"capacity": {"nvidia.com/gpu": "8"}}}
    expected = {f"node/{name}": [status, {"metadata": {"labels": labels}}] for name in nodes(kind)}
    assert programs.change(kind.programs)["patched"] == expected
    programs.change(kind.programs, patched={})
    assert kind("down").returncode == 0
    assert kind("up").returncode == 0  # the nodes lose their labels when stopped
    assert programs.change(kind.programs)["patched"] == expected


def test_local_up_failure_leaves_no_cluster(kind: Local) -> None:
    programs.change(kind.programs, images=False)
    done = kind("up", "--driver", "kind")
    assert (done.returncode, done.stdout) == (3, "")
    *output, error, hint = done.stderr.splitlines()
    assert "ERROR: failed to pull image" in output
    assert error.startswith("error: `") and error.endswith("failed (1)")
    assert hint == "hint: see its output above"
    assert nodes(kind) == {}
    assert json.loads(kind("status", "-o", "json").stdout)["state"] == "absent"


def test_local_cluster_of_other_user_with_same_name_is_kept(kind: Local) -> None:
    theirs = "x-control-plane"
    programs.change(kind.programs, nodes={theirs: "running"})
    for flags in (("up", "--driver", "kind"), ("down", "--purge"), ("down",)):
        kind(*flags)
        assert nodes(kind) == {theirs: "running"}
    done = kind("up", "--driver", "kind")
    assert done.returncode == 2
    assert 'a cluster "sky-local" already exists' in done.stderr


def test_local_commands_do_not_change_kubeconfig_of_user(kind: Local) -> None:
    kind.users.parent.mkdir()
    kind.users.write_text("current-context: work\n")
    for flags in (("up", "--driver", "kind"), ("down",), ("up",), ("down", "--purge")):
        assert kind(*flags, KUBECONFIG=str(kind.users)).returncode == 0
        assert kind.users.read_text() == "current-context: work\n"
    assert list(kind.users.parent.iterdir()) == [kind.users]


@pytest.mark.parametrize(("installed", "missing"), [((), "kind"), (("kind",), "docker")])
def test_local_up_program_not_installed_is_refused(
    local: Local, installed: tuple[str, ...], missing: str
) -> None:
    programs.install(local.programs, *installed)
    done = local("up", "--driver", "kind")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {missing} is not installed\nhint: see https://")
    assert len(done.stderr.splitlines()) == 2


def test_local_commands_docker_not_running_is_cluster_error(kind: Local) -> None:
    assert kind("up", "--driver", "kind").returncode == 0
    programs.change(kind.programs, engine=False)
    for command in ("up", "down"):
        done = kind(command)
        assert done.returncode == 3
        assert done.stderr.startswith("error: Docker is not running: Cannot connect to the Docker")
    status = kind("status", "-o", "json")
    assert status.returncode == 3
    known = json.loads(status.stdout)
    assert known["state"] == "unknown"
    assert known["note"].startswith("Docker is not running")


def test_local_up_port_is_set_only_on_creation(kind: Local) -> None:
    assert kind("up", "--driver", "kind", "--port", "7000").returncode == 0
    assert programs.change(kind.programs)["port"] == 7000
    assert kind("down").returncode == 0
    done = kind("up", "--port", "7001")
    assert done.returncode == 2
    assert "the cluster already has a port" in done.stderr


def test_local_up_state_folder_with_quote_is_escaped(local: Local, tmp_path: Path) -> None:
    programs.install(local.programs, "kind", "docker")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "it's here")}
    done = local("up", "--driver", "kind", **elsewhere)
    own = tmp_path / "it's here" / "kubectl-sky" / "local" / "kubeconfig"
    assert own.is_file()
    quoted = str(own).replace("'", "'\"'\"'")
    assert done.stdout == f"export KUBECONFIG='{quoted}'\n"


def test_kind_that_hangs_is_an_error_with_its_limit(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.install(local.programs, "docker")
    (local.programs / "kind").write_text(
        '#!/bin/sh\n[ "$1 $2" = "create cluster" ] && exec sleep 600\necho "$@" >> $0.calls\n'
    )
    (local.programs / "kind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{local.programs}:{os.environ['PATH']}")
    monkeypatch.setattr(driver, "_LONG_SECONDS", 3)
    message = "`kind create cluster --name …` did not end within 3 s"
    with pytest.raises(ClusterError, match=message):
        driver.Kind(tmp_path / "kubeconfig").start(ClusterSpec())
    assert "delete cluster" in (local.programs / "kind.calls").read_text()
