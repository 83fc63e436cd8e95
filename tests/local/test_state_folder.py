"""The state folder of the local cluster."""

from pathlib import Path

import pytest

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.local.driver import Gpus
from kubectl_sky.local.state_dir import Record, StateDir
from kubectl_sky.words import settings


def test_state_dir_record_is_read_back(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path / "local")
    assert state_dir.read() is None
    state_dir.change(up=True)  # no record exists
    assert state_dir.read() is None
    state_dir.write(Record("practice", 2, "A100:8"))
    state_dir.change(up=True)
    assert state_dir.read() == Record("practice", 2, "A100:8", up=True)
    assert state_dir.folder.stat().st_mode & 0o777 == 0o700
    state_dir.forget()
    assert state_dir.read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"driver": "kind"}', '{"of": "tomorrow"}'])
def test_state_dir_damaged_record_is_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(SkyError, match=r"cluster.json is damaged; .* remove "):
        StateDir(tmp_path).read()


def test_state_dir_purge_deletes_read_only_files(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path / "local")
    state_dir.purge()  # the folder does not exist
    state_dir.write(Record("practice", 1))
    deep = state_dir.folder / "practice" / "volumes" / "deep"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (deep / "link").symlink_to(outside)
    deep.chmod(0o500)
    deep.parent.chmod(0)

    state_dir.purge()
    assert not state_dir.folder.exists()
    assert (outside / "kept").exists()


def test_state_dir_lock_reports_waiting(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path / "local")
    with state_dir.lock(pytest.fail), pytest.raises(_WaitedError), state_dir.lock(_waited):
        pytest.fail("two have the lock")


class _WaitedError(Exception):
    pass


def _waited() -> None:
    raise _WaitedError


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"KUBECTL_SKY_STATE_HOME": "/own", "XDG_STATE_HOME": "/x"}, "/own"),
        ({"XDG_STATE_HOME": "/x"}, "/x/kubectl-sky"),
        ({}, "~/.local/state/kubectl-sky"),
    ],
)
def test_state_folder_follows_environment(environ: dict[str, str], folder: str) -> None:
    assert settings.state_folder(environ) == Path(folder).expanduser()


@pytest.mark.parametrize(("text", "read"), [("A100:8", ("A100", 8)), ("T4", ("T4", 1))])
def test_gpus_text_is_parsed(text: str, read: tuple[str, int]) -> None:
    assert Gpus.read(text) == Gpus(*read)


@pytest.mark.parametrize("text", ["", ":8", "A100:", "A100:0", "A100:x", "A 100", "A:1:2", "-x"])
def test_gpus_invalid_text_is_user_error(text: str) -> None:
    with pytest.raises(UserError, match="write A100:8"):
        Gpus.read(text)
