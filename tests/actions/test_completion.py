"""Words for the command line from a cluster in memory, and the script for kubectl."""

import errno
from pathlib import Path

import pytest

from kubectl_sky.actions import completion
from kubectl_sky.actions.completion import Request
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"


@pytest.fixture
def request_(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Request:
    monkeypatch.setattr(Session, "connect", lambda connection: api.session())
    return Request(Connection(), user="alice")


def test_candidates_of_tasks_are_names_then_ids_with_state(
    request_: Request, send: Submitter
) -> None:
    send(HELLO)
    send(HELLO, task_id="bcdg6789")
    send(HELLO.replace("hello", "train"), task_id="bcdg6788")
    words = dict(completion.candidates("tasks", request_))
    assert words.pop("hello").endswith(", newest of 2")
    assert words.pop("train") == "pending"
    assert words == {
        ID: "hello, pending",
        "bcdg6789": "hello, pending",
        "bcdg6788": "train, pending",
    }


def test_candidates_of_other_owner_need_all_users(request_: Request, send: Submitter) -> None:
    send(HELLO)
    bob = Request(Connection(), user="bob")
    assert completion.candidates("tasks", bob) == []
    assert len(completion.candidates("tasks", Request(Connection(), "bob", all_users=True))) == 2
    assert completion.candidates("owners", bob) == [("alice", "1 task")]


def folder_of_path(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl-sky"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return folder, {"PATH": f"relative:{folder}:/usr/bin", "HOME": str(tmp_path)}


def test_install_writes_script_beside_plugin_once(tmp_path: Path) -> None:
    folder, environ = folder_of_path(tmp_path)
    path, written = completion.install(None, environ)
    assert (path, written) == (folder / "kubectl_complete-sky", True)
    assert path.stat().st_mode & 0o111
    assert path.read_text() == completion.SCRIPT
    assert completion.install(None, environ) == (path, False)
    assert completion.uninstall(environ) == path
    assert not path.exists()
    with pytest.raises(UserError, match="not found on PATH"):
        completion.uninstall(environ)


def test_uninstall_without_right_is_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, environ = folder_of_path(tmp_path)
    completion.install(None, environ)

    def unlink(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(UserError, match="complete-sky: cannot be deleted: permission denied"):
        completion.uninstall(environ)
    assert (folder / "kubectl_complete-sky").exists()


def test_install_existing_script_of_package_is_kept(tmp_path: Path) -> None:
    folder, environ = folder_of_path(tmp_path)
    script = folder / "kubectl_complete-sky"
    script.write_text("#!/usr/bin/python\n")
    script.chmod(0o755)
    assert completion.install(None, environ) == (script, False)
    with pytest.raises(UserError, match="already exists"):
        completion.install(str(folder), environ)
    with pytest.raises(UserError, match="belongs to the Python package"):
        completion.uninstall(environ)
    assert script.read_text() == "#!/usr/bin/python\n"


def test_install_without_writable_folder_is_refused(tmp_path: Path) -> None:
    environ = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    with pytest.raises(UserError, match="no folder of PATH is writable; choose one with --dir"):
        completion.install(None, environ)
    with pytest.raises(UserError, match="cannot be written: no such file"):
        completion.install(str(tmp_path / "none"), environ)
