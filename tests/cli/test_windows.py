"""The client without what Windows lacks: imports, and commands that need no cluster."""

import hashlib
import importlib.util
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from base64 import b64decode
from pathlib import Path

import pytest
import yaml

from kubectl_sky import private_windows
from kubectl_sky.actions import cp
from kubectl_sky.actions.cp import CopyPath
from kubectl_sky.sync import tree

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-X", "warn_default_encoding")
WINDOWS = (*PYTHON, "-m", "tests.windows")
LINUX = (*PYTHON, "-m", "kubectl_sky")
# Programs of Linux and macOS; `server` and `controllers` run in a cluster.
NOT_CLIENT = ("practice", "local", "server", "controllers")
CRLF = "name: train\r\nresources: {image_id: busybox}\r\nrun: |\r\n  echo one\r\n  echo größer\r\n"


def run(
    command: tuple[str, ...], folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    names = {
        f"KUBECTL_SKY_{kind}_HOME": str(folder / kind) for kind in ("CONFIG", "CACHE", "STATE")
    }
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"} | names
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment | {"USERNAME": "alice", "USER": "alice"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_modules_of_client_are_imported(tmp_path: Path) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "kubectl_sky").rglob("*.py")
        if path.relative_to(ROOT / "kubectl_sky").parts[0] not in NOT_CLIENT
        and path.stem not in ("__init__", "__main__", "private_posix")
    ]
    lazy = {"kubectl_sky.actions.local"}  # of `kubectl sky local`
    script = (
        "import sys; from importlib import import_module; from tests.windows import take_away;"
        "take_away(); [import_module(name) for name in sys.argv[1:]]"
    )
    done = run((*PYTHON, "-c", script), tmp_path, *sorted(set(modules) - lazy))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["01-hello", "05-multi-node", "11-pipeline", "22-bucket"])
def test_examples_render_as_on_linux(tmp_path: Path, name: str) -> None:
    arguments = ("render", str(ROOT / "examples" / f"{name}.yaml"), "--id", "bcdf2345")
    linux, windows = (run(command, tmp_path, *arguments) for command in (LINUX, WINDOWS))
    assert (linux.returncode, windows.returncode) == (0, 0), windows.stderr
    assert windows.stdout == linux.stdout


def test_task_file_with_crlf_has_unix_script(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_bytes(CRLF.encode())
    assert run(WINDOWS, tmp_path, "validate", "train.yaml").returncode == 0
    done = run(WINDOWS, tmp_path, "render", "train.yaml")
    assert "    echo one\n    echo größer\n" in done.stdout
    assert "\r" not in done.stdout


def test_local_files_are_packed_with_execute_bit(tmp_path: Path) -> None:
    """Windows has no such bit, so that all files get it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "run.sh").write_bytes(b"echo hello\n")
    (tmp_path / "code" / "run.sh").chmod(0o644)
    os.utime(tmp_path / "code" / "run.sh", (2**31, 2**31))  # not cached: both commands pack it
    arguments = ("render", str(ROOT / "examples" / "01-hello.yaml"), "--id", "bcdf2345")
    modes = set()
    for command in (LINUX, WINDOWS):
        done = run(command, tmp_path, *arguments, "--workdir", "code", "-o", "json")
        assert done.returncode == 0, done.stderr
        items = json.loads(done.stdout)["items"]
        (packed,) = [data for item in items for data in item.get("binaryData", {}).values()]
        with tarfile.open(fileobj=io.BytesIO(b64decode(packed))) as tar:
            modes.add((command == WINDOWS, tar.getmember("run.sh").mode))
    assert modes == {(False, 0o644), (True, 0o755)}


def test_login_is_kept(tmp_path: Path) -> None:
    assert run(WINDOWS, tmp_path, "auth", "login", "Ärztin").returncode == 0
    done = run(WINDOWS, tmp_path, "render", str(ROOT / "examples" / "01-hello.yaml"))
    assert 'kubectl-sky/user: "Ärztin"' in done.stdout


def test_local_cluster_is_refused(tmp_path: Path) -> None:
    done = run(WINDOWS, tmp_path, "local", "up")
    assert done.returncode == 2
    assert done.stderr.startswith("error: local clusters are not supported on Windows\nhint: ")


def test_private_folder_replaces_reads_and_prunes(tmp_path: Path) -> None:
    folder = private_windows.Folder(tmp_path / "cache", "files")
    assert folder.names() == []
    folder.check()
    for number in range(4):
        folder.write(str(number), b"a", b"b")
        os.utime(folder.path / str(number), (number, number))
    folder.write("0", b"new")
    folder.touch("0")
    assert (folder.read("0"), folder.read("1", 1)) == (b"new", b"a")
    folder.prune(2)
    assert folder.names() == ["0", "3"]
    private_windows.replace(tmp_path / "file", b"x")
    assert private_windows.read(tmp_path / "file") == b"x"
    with pytest.raises(FileNotFoundError):
        private_windows.replace(tmp_path / "none" / "file", b"x")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r"C:\data\x.csv", CopyPath("", r"C:\data\x.csv")),
        ("c:/data", CopyPath("", "c:/data")),
        ("train:/data", CopyPath("train", "/data")),
        ("t:data", CopyPath("t", "data")),
    ],
)
def test_drive_is_no_task(monkeypatch: pytest.MonkeyPatch, text: str, path: CopyPath) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert cp.parse_path(text) == path


def test_archive_names_have_slashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "SEPARATOR", b"\\")
    assert tree.with_slashes(rb"code\sub\x.py") == b"code/sub/x.py"


def test_release_has_archive_for_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its name in the krew manifest is the one that a build on Windows gives it."""
    spec = importlib.util.spec_from_file_location("dist", ROOT / ".ci" / "dist.py")
    assert spec and spec.loader
    dist = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dist)
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    (tmp_path / dist.archive_name()).write_bytes(b"x")
    manifest = dist.write_manifest(tmp_path, complete=False)
    (entry,) = yaml.safe_load(manifest.read_text())["spec"]["platforms"]
    assert entry["selector"]["matchLabels"] == {"os": "windows", "arch": "amd64"}
    assert entry["bin"] == "kubectl-sky.exe"
    assert entry["sha256"] == hashlib.sha256(b"x").hexdigest()
