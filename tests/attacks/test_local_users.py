"""Another local user plants files among caches, state and settings."""

import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kubectl_sky.words import private
from kubectl_sky.words.private import Folder, Unsafe
from tests.e2e.command import ROOT, Command

PRACTICE = (sys.executable, "-m", "kubectl_sky_practice")

STRANGER = 54_321
# A folder unchanged for some seconds; otherwise its archive is not cached.
LOCAL = f"name: local\nworkdir: {ROOT / 'schemas'}\nrun: 'true'\n"
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def give(path: Path) -> None:
    """Give a folder or file to another user."""
    os.chown(path, STRANGER, STRANGER)


def modes(folder: Path) -> dict[str, int]:
    paths = folder.rglob("*")
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp, where every user can create files."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def victim(offline: Command, shared: Path) -> Command:
    """The program with its cache in the shared folder."""
    environment = {**offline.environment, "XDG_CACHE_HOME": str(shared)}
    return replace(offline, environment=environment)


def link(path: Path) -> None:
    """Put a link of another user in place of a folder."""
    path.rmdir()
    path.symlink_to(path.parent.parent / "elsewhere")
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    (path.parent.parent / "elsewhere").mkdir()


@root
@pytest.mark.parametrize("plant", [give, link])
def test_cache_folder_of_other_user_is_not_used(
    victim: Command, shared: Path, plant: Callable[[Path], None]
) -> None:
    path = shared / "kubectl-sky"
    path.mkdir()
    plant(path)
    done = victim("render", "-", stdin=LOCAL)
    assert done.returncode == 0, done.stderr
    reason = "belongs to another user (uid 54321)"
    assert f"warning: nothing is cached: {path}: {reason}; remove it" in done.stderr
    assert list(path.resolve().iterdir()) == []


@root
@pytest.mark.parametrize("below", ["files", "evidence"])
def test_cache_subfolder_owned_by_other_user_is_not_used(
    victim: Command, shared: Path, below: str
) -> None:
    assert victim("render", "-", stdin=LOCAL).returncode == 0
    planted = shared / "kubectl-sky" / below
    planted.mkdir(exist_ok=True)
    for path in planted.iterdir():
        path.unlink()
    give(planted)
    assert victim("render", "-", stdin=LOCAL).returncode == 0
    assert list(planted.iterdir()) == []


def test_render_writes_no_compiled_templates(victim: Command, shared: Path) -> None:
    assert victim("render", "-", stdin=LOCAL).returncode == 0
    assert [path.name for path in (shared / "kubectl-sky").iterdir()] == ["files"]


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_commands_with_any_umask_write_private_files(
    victim: Command, shared: Path, umask: int
) -> None:
    home = victim.folder / "home"
    home.mkdir()
    environment = {**victim.environment, "HOME": str(home), "XDG_CACHE_HOME": str(home / "a/b")}
    careless = replace(victim, environment=environment)
    before = os.umask(umask)
    try:
        assert careless("auth", "login", "mallory").returncode == 0
        assert careless("render", "-", stdin=LOCAL).returncode == 0
    finally:
        os.umask(before)
    written = modes(home)

    files = {name for name in written if (home / name).is_file()}
    assert {written[name] for name in files} == {0o600}
    assert {written[name] for name in written.keys() - files} == {0o700}
    assert ".config/kubectl-sky/login" in files
    assert any(name.startswith("a/b/kubectl-sky/files/") for name in files)


def test_xdg_folder_with_relative_path_is_ignored(offline: Command) -> None:
    offline.write("task.yaml", "run: x")
    (offline.folder / "prepared/kubectl-sky").mkdir(parents=True)
    offline.write("prepared/kubectl-sky/settings.yaml", "image: hostile\n")
    environment = {**offline.environment, "XDG_CONFIG_HOME": "prepared"}
    done = replace(offline, environment=environment)("render", "task.yaml")
    assert done.returncode == 0, done.stderr
    assert "hostile" not in done.stdout + done.stderr


@root
@pytest.mark.parametrize(
    ("name", "text"), [("settings.yaml", "image: evil:1\n"), ("login", "mallory\n")]
)
def test_settings_or_login_of_other_user_is_refused(offline: Command, name: str, text: str) -> None:
    path = offline.folder / ".config/kubectl-sky" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert offline("render", "-", stdin="run: x\n").returncode == 0
    give(path)
    done = offline("render", "-", stdin="run: x\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: belongs to another user (uid 54321)" in done.stderr


def test_login_replaces_symlink_not_its_target(offline: Command) -> None:
    precious = offline.folder / "precious"
    precious.write_text("keep me")
    path = offline.folder / ".config/kubectl-sky/login"
    path.parent.mkdir(parents=True)
    path.symlink_to(precious)
    assert offline("auth", "login", "alice").returncode == 0
    assert (precious.read_text(), path.read_text()) == ("keep me", "alice\n")
    assert not path.is_symlink()


@root
def test_practice_cluster_folder_of_other_user_is_refused(offline: Command, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    give(planted)
    practice = Command(PRACTICE, offline.environment, offline.folder)
    done = practice("--dir", str(planted))
    assert done.returncode == 3
    assert "has to be a folder that only you can write to" in done.stderr
    assert list(planted.iterdir()) == []


def test_practice_cluster_in_a_readable_folder_writes_private_files(
    offline: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "practice"
    folder.mkdir()
    folder.chmod(0o755)
    practice = Command(PRACTICE, offline.environment, offline.folder)
    before = os.umask(0o022)
    try:
        process = practice.start("--dir", str(folder))
    finally:
        os.umask(before)
    with process:
        assert process.stdout
        assert process.stdout.readline().startswith("ready ")
        process.terminate()

    written = modes(folder)
    assert len(written) > 4
    assert {name: mode for name, mode in written.items() if mode & 0o077} == {}


@root
@pytest.mark.parametrize("name", ["kubectl-sky", "kubectl-sky/local"])
def test_local_state_folder_of_other_user_is_refused(
    offline: Command, shared: Path, name: str
) -> None:
    planted = shared / name
    planted.mkdir(parents=True)
    give(planted)
    environment = {**offline.environment, "XDG_STATE_HOME": str(shared)}
    for words in (("up",), ("status",), ("down", "--purge")):
        done = replace(offline, environment=environment)("local", *words)
        if words != ("status",):  # read-only
            assert done.returncode == 2, done.stdout + done.stderr
            assert "belongs to another user (uid 54321)" in done.stderr
    assert not [path for path in planted.rglob("*") if path.name != "local"]


# Folder and private.read.


def test_folder_write_creates_private_parents(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a" / "b" / "home", "below", "deeper")
    folder.write("x", b"1", b"2")
    assert folder.read("x") == b"12"
    assert folder.read("x", 1) == b"1"
    assert folder.names() == ["x"]
    assert set(modes(tmp_path).values()) == {0o700, 0o600}


def test_folder_missing_is_safe_and_empty(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "home")
    folder.check()
    assert folder.names() == []
    with pytest.raises(FileNotFoundError):
        folder.read("x")
    assert list(tmp_path.iterdir()) == []


def test_folder_with_linked_parent_is_safe(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    Folder(tmp_path / "cache" / "kubectl-sky").write("x", b"1")
    assert (tmp_path / "disk" / "kubectl-sky" / "x").read_bytes() == b"1"


@root
def test_folder_file_of_other_user_is_not_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "home")
    folder.write("x", b"1")
    give(folder.path / "x")
    with pytest.raises(Unsafe, match="another user"):
        folder.read("x")
    with pytest.raises(Unsafe, match="another user"):
        private.read(folder.path / "x")


def test_folder_failed_write_keeps_old_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "home")
    folder.write("x", b"old")
    with pytest.raises(TypeError):
        folder.write("x", "no bytes")  # type: ignore[arg-type]
    assert folder.names() == ["x"]
    assert folder.read("x") == b"old"


def test_folder_prune_keeps_newest_files_and_all_folders(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "home")
    for number, name in enumerate("abcd"):
        folder.write(name, b"1234")
        os.utime(folder.path / name, (number, number))
    (folder.path / "e").mkdir()
    folder.prune(3)
    assert folder.names() == ["b", "c", "d", "e"]
    folder.prune(3, size=8)
    assert folder.names() == ["c", "d", "e"]
    folder.touch("c")
    folder.prune(3, seconds=60)
    assert folder.names() == ["c", "e"]
