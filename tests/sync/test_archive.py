"""Archives of local files: content, determinism, and refused files."""

import gzip
import io
import os
import socket
import stat
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.sync import delivery
from kubectl_sky.sync.archive import Limits, Unsendable, chunks, measure, pack
from kubectl_sky.sync.tree import Source

KEEP = 1 << 20


def fill(root: Path) -> Path:
    (root / "a" / "empty").mkdir(parents=True)
    (root / "a" / "x.py").write_text("x = 1\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o600)
    (root / "link").symlink_to("a/x.py")
    (root / "gone").symlink_to("a/later")
    return root


def listed(root: Path, with_parents: bool = False) -> list[str]:
    data = b"".join(chunks(Source(root, with_parents=with_parents)))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_archive_keeps_modes_links_and_empty_folders(tmp_path: Path) -> None:
    data = pack(Source(fill(tmp_path)), KEEP).data
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        members = {
            member.name: (oct(member.mode), member.linkname, member.mtime) for member in archive
        }
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in archive}
    assert list(members) == ["a", "a/empty", "a/x.py", "gone", "link", "run.sh", "secret"]
    assert owners == {(0, 0, "", "")}
    assert members["run.sh"] == ("0o755", "", 946684800)
    assert members["secret"][0] == "0o600"
    assert members["link"][1] == "a/x.py"
    assert members["gone"][1] == "a/later"


def test_archive_of_same_files_is_identical(tmp_path: Path) -> None:
    first = fill(tmp_path / "one")
    second = fill(tmp_path / "other")
    for path in second.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    assert pack(Source(first), KEEP) == pack(Source(second), KEEP)
    (second / "run.sh").chmod(0o644)
    assert pack(Source(first), KEEP).digest != pack(Source(second), KEEP).digest


NAMES = st.binary(min_size=1, max_size=120).filter(
    lambda name: not set(name) & {0, ord("/")} and name not in (b".", b"..", b".git", b".gitignore")
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(files=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6))
def test_archive_random_names_and_content_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, files: dict[bytes, bytes]
) -> None:
    root = tmp_path_factory.mktemp("there")
    back = tmp_path_factory.mktemp("back")
    for name, content in files.items():
        (root / os.fsdecode(name)).write_bytes(content)
    data = b"".join(chunks(Source(root)))
    subprocess.run(["tar", "-xf", "-", "-C", str(back)], input=data, check=True)
    assert {
        entry.name: Path(os.fsdecode(entry.path)).read_bytes()
        for entry in os.scandir(os.fsencode(back))
    } == files


def test_archive_single_file_has_name_of_destination(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    packed = pack(Source(tmp_path / "a.txt", "b.txt"), KEEP)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed.data))) as opened:
        assert opened.getnames() == ["b.txt"]
    assert (packed.folder, packed.files, packed.size) == (False, 1, 1)


def test_archive_respects_ignore_files(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    inner = repository / "inner"
    (inner / "deep").mkdir(parents=True)
    (repository / ".git" / "info").mkdir(parents=True)
    (repository / ".git" / "info" / "exclude").write_text("private\n")
    (repository / ".gitignore").write_text("*.log\n/inner/out\n!keep.log\n")
    (inner / "deep" / ".gitignore").write_text("x\n!a.log\n")
    for name in ("a.log", "keep.log", "out", "private", "x", "deep/a.log", "deep/x", "deep/y"):
        (inner / name).write_text("")
    assert listed(inner, with_parents=True) == [
        "deep",
        "deep/.gitignore",
        "deep/a.log",
        "deep/y",
        "keep.log",
        "x",
    ]

    alone = [
        "a.log",
        "deep",
        "deep/.gitignore",
        "deep/a.log",
        "deep/y",
        "keep.log",
        "out",
        "private",
        "x",
    ]
    assert listed(inner) == alone

    (inner / ".skyignore").write_text("deep\n*.log\n")
    assert listed(inner, with_parents=True) == [".skyignore", "out", "private", "x"]
    assert not [name for name in listed(repository) if name.startswith(".git/")]

    (repository / ".gitignore").write_text("inner\n")
    (inner / ".skyignore").unlink()
    assert listed(inner, with_parents=True) == alone, "an ignored folder can be uploaded explicitly"

    (repository / ".skyignore").write_text("!.git\n")
    assert ".git/info/exclude" in listed(repository)


def test_archive_has_tracked_files_that_patterns_match(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "lib").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("lib/\n*.bin\n")
    for name in ("pkg/lib/core.py", "pkg/model.bin", "a.py"):
        (tmp_path / name).write_text("")
    run_git(tmp_path, "init", "-q")
    run_git(tmp_path, "add", "-f", ".")
    for name in ("pkg/lib/new.py", "pkg/new.bin"):
        (tmp_path / name).write_text("")
    files = [".gitignore", "a.py", "pkg", "pkg/lib", "pkg/lib/core.py", "pkg/model.bin"]
    assert listed(tmp_path, with_parents=True) == files
    assert listed(tmp_path / "pkg", with_parents=True) == ["lib", "lib/core.py", "model.bin"]


def test_archive_skyignore_with_dot_is_anchored(tmp_path: Path) -> None:
    (tmp_path / "data" / "data").mkdir(parents=True)
    (tmp_path / "sub" / "data").mkdir(parents=True)
    (tmp_path / ".skyignore").write_text("./data/\n")
    assert listed(tmp_path) == [".skyignore", "sub", "sub/data"]


def test_archive_respects_ignore_file_of_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    run_git(checkout, "init", "-q")
    for name in ("a.secret", "a.py", "a.log"):
        (checkout / name).write_text("")
    configuration = tmp_path / "config" / "git"
    configuration.mkdir(parents=True)
    (configuration / "ignore").write_text("*.secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert listed(checkout, with_parents=True) == ["a.log", "a.py"]

    (tmp_path / "mine").write_text("*.log\n")
    run_git(checkout, "config", "core.excludesFile", "/of/a/stranger")
    run_git(checkout, "config", "--global", "core.excludesFile", str(tmp_path / "mine"))
    assert listed(checkout, with_parents=True) == ["a.py", "a.secret"]


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def fifo(root: Path) -> None:
    os.mkfifo(root / "x")


def sock(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(root / "x"))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "socket": (sock, "x is a socket, which cannot be uploaded"),
    "pipe": (fifo, "x is a pipe, which cannot be uploaded"),
    "out": (
        lambda root: (root / "x").symlink_to("../y"),
        "x is a link to ../y, which is not uploaded",
    ),
    "root": (
        lambda root: (root / "x").symlink_to("/etc"),
        "x is a link to /etc, which is not uploaded with it; copy its target,"
        " or exclude it with .skyignore and create it in setup",
    ),
    "elsewhere": (
        lambda root: (root / "x").symlink_to(root / "y"),
        "which the nodes have elsewhere",
    ),
    "newline": (lambda root: os.mkfifo(root / "a\nb"), r"a\nb is a pipe"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_archive_unsupported_file_is_refused_or_ignored(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, message = REFUSED[case]
    make(tmp_path)
    with pytest.raises(Unsendable) as refused:
        measure(Source(tmp_path))
    assert message in f"{refused.value}; {refused.value.refusals[0].hint}"
    (tmp_path / ".skyignore").write_text("x\na*\n")
    assert measure(Source(tmp_path)).files == 1


def test_archive_refusals_are_reported_together(tmp_path: Path) -> None:
    for number in range(20):
        os.mkfifo(tmp_path / f"pipe{number:02}")
    with pytest.raises(Unsendable) as refused:
        measure(Source(tmp_path))
    assert len(refused.value.refusals) == 10


def test_archive_link_to_root_folder_is_followed(tmp_path: Path) -> None:
    fill(tmp_path / "there")
    (tmp_path / "here").symlink_to("there")
    assert listed(tmp_path / "here") == listed(tmp_path / "there")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_archive_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir(mode=0)
    with pytest.raises(Unsendable, match="x cannot be read: permission denied"):
        measure(Source(tmp_path))


@pytest.mark.parametrize("change", ["shorter", "longer", "touched", "replaced", "gone"])
def test_archive_file_changed_while_read_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(3 << 20))
    reading = chunks(Source(tmp_path))
    next(reading)

    if change == "gone":
        path.unlink()
    elif change == "replaced":
        path.rename(tmp_path / "y")
        path.write_bytes(bytes(3 << 20))
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    else:
        os.truncate(path, (1 if change == "shorter" else 5) << 20)
    with pytest.raises(Unsendable, match=r"x (changed while it was being read|cannot be read)"):
        list(reading)


def test_archive_limits_of_files_and_size_are_enforced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(8):
        (tmp_path / "data" / str(number)).write_bytes(bytes(100))
    (tmp_path / "code").write_bytes(bytes(10))
    with pytest.raises(Unsendable, match="holds more than 5 files, too much to upload") as refused:
        measure(Source(tmp_path), Limits(files=5))
    assert refused.value.refusals[0].hint == (
        "exclude what the task does not need with .skyignore, such as data,"
        " use a volume for data, or raise max_files in settings.yaml"
    )
    assert measure(Source(tmp_path), Limits(files=10)).files == 9

    os.truncate(tmp_path / "code", 5 << 30)
    with pytest.raises(Unsendable, match="holds more than 4 GiB") as refused:
        measure(Source(tmp_path))
    assert "such as code, use a volume for data, or raise max_gib" in refused.value.refusals[0].hint
    assert measure(Source(tmp_path), Limits(gib=6)).size == (5 << 30) + 800


def test_archive_large_file_uses_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(1 << 20) * 64)
    tracemalloc.start()
    try:
        packed = pack(Source(tmp_path), KEEP)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (packed.data, packed.size) == (b"", 64 << 20)
    assert peak < 10 << 20


def test_copy_blocks_equal_packed_archive(tmp_path: Path) -> None:
    source = Source(fill(tmp_path))
    packed = pack(source, KEEP)
    sizes = list[int]()
    copy = delivery.Copy(source, packed.digest)
    data = b"".join(copy.blocks(sizes.append))
    (tmp_path / "late").write_text("x")
    assert data == b"".join(copy.blocks(list[int]().append)), "later changes have no effect"
    assert gzip.decompress(data) == gzip.decompress(packed.data)
    assert sum(sizes) == len(gzip.decompress(data))
    for _ in range(2):
        with pytest.raises(Unsendable, match="changed since the task was submitted"):
            list(delivery.Copy(source, packed.digest).blocks(sizes.append))


def test_copy_blocks_concurrent_readers_get_all_data(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(1 << 20) * 16)
    source = Source(tmp_path)
    copy = delivery.Copy(source, pack(source, KEEP).digest)
    with ThreadPoolExecutor(4) as pool:
        contents = set(pool.map(lambda _: b"".join(copy.blocks(list[int]().append)), range(4)))
    (data,) = contents
    assert gzip.decompress(data) == b"".join(chunks(source))


def test_archive_modes_are_normalized(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    (tmp_path / "x").chmod(0o4711)
    (tmp_path / "d").mkdir()
    (tmp_path / "d").chmod(0o555)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks(Source(tmp_path))))) as archive:
        assert {member.name: stat.S_IMODE(member.mode) for member in archive} == {
            "x": 0o711,
            "d": 0o755,
        }
