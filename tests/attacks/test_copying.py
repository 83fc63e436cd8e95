"""`cp` from a pod: for any bytes, nothing outside the target is read or written."""

import errno
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.sync.extract import extract
from kubectl_sky.tasks.cp import local_target
from tests.attacks.tars import (
    FILE_HEADER,
    FOLDER,
    LONG_HEADER,
    PAX_HEADER,
    Entry,
    entry,
    folder,
    hard_link,
    headers,
    stream,
    symlink,
    tar,
    with_size,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with files that an attacker wants to read or change."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "authorized_keys").write_text("mine")
    (home / "secret").write_text("secret")
    monkeypatch.chdir(home)
    return home


def copied(home: Path, *entries: Entry) -> tuple[dict[str, object], list[str]]:
    """Extract to `out`; return its content and the notes. No other file may change."""
    notes: list[str] = []
    extract(stream(*entries), Path("out"), notes.append)
    assert_unharmed(home)
    return content(home / "out"), notes


def assert_unharmed(home: Path) -> None:
    outside = {name: what for name, what in content(home).items() if not name.startswith("out")}
    assert outside == {".ssh": "folder", ".ssh/authorized_keys": b"mine", "secret": b"secret"}
    assert [path.name for path in home.parent.iterdir()] == ["home"]
    assert (home / "secret").stat().st_nlink == 1


def content(root: Path) -> dict[str, object]:
    contents: dict[str, object] = {}
    for base, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(base, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                contents[key] = path.readlink()
            else:
                contents[key] = "folder" if path.is_dir() else path.read_bytes()
    return contents


OUTSIDE = {
    "parent": entry("../evil", b"x"),
    "absolute": entry("/tmp/kubectl-sky-evil", b"x"),
    "parent within": entry("./a/../../evil", b"x"),
    "neighbour": entry("../out2/evil", b"x"),
    "long": entry("a/" * 101 + "x", b"x"),
    "symlink to parent": symlink("l", "../.ssh"),
    "absolute symlink": symlink("l", "/etc/passwd"),
    "symlink through a name": symlink("l", "good/../../.ssh"),
    "deep symlink": symlink("d/l", "../../.ssh"),
    "empty symlink": symlink("l", ""),
    "hard link to a neighbour": hard_link("l", "../secret"),
    "absolute hard link": hard_link("l", "/etc/passwd"),
    "hard link to nothing": hard_link("l", "nothing"),
    "hard link to a folder": hard_link("l", "."),
    "device": entry("d", type=tarfile.CHRTYPE),
    "block device": entry("d", type=tarfile.BLKTYPE),
    "pipe": entry("d", type=tarfile.FIFOTYPE),
    "unknown type": entry("d", b"x" * 700, type=b"Y"),
    "root again": entry(".", b"x"),
    "twice": entry("good", b"y"),
    "below a file": entry("good/x", b"y"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_extract_member_outside_target_is_skipped(home: Path, case: str) -> None:
    files, notes = copied(home, folder(), entry("good", b"x"), OUTSIDE[case], entry("after", b"z"))
    assert {name: what for name, what in files.items() if what != "folder"} == {
        "good": b"x",
        "after": b"z",
    }
    assert len(notes) == 1 and notes[0].startswith('skipped "')
    assert len(notes[0]) < 400


def test_extract_write_through_symlink_is_skipped(home: Path) -> None:
    """CVE-2025-4517 and similar: links are created last."""
    files, notes = copied(
        home,
        folder(),
        folder("d"),
        symlink("d/up", ".."),
        symlink("out", "d/up/.."),
        symlink("self", "."),
        entry("d/up/evil", b"x"),
        entry("self/evil", b"x"),
        hard_link("stolen", "d/up/secret"),
    )

    assert files == {
        "d": "folder",
        "d/up": "folder",
        "d/up/evil": b"x",
        "self": "folder",
        "self/evil": b"x",
    }
    assert len(notes) == 4


def test_extract_chained_symlinks_stay_inside(home: Path) -> None:
    """The chain of CVE-2025-4517: each link alone looks harmless, and the last one is not."""
    links = [symlink("a/b/up", ".."), symlink("s", "a/b/up/.."), symlink("t", "s/..")]
    files, notes = copied(home, folder(), folder("a"), folder("a/b"), *links)
    assert [name for name, what in files.items() if what != "folder"] == ["a/b/up"]
    assert len(notes) == 2
    for name in files:
        assert os.path.realpath(home / "out" / name).startswith(str(home / "out"))


def test_extract_links_inside_target_are_kept(home: Path) -> None:
    files, notes = copied(
        home,
        folder(),
        entry("a/file", b"x"),
        symlink("a/here", "file"),
        symlink("there", "./a//file"),
        symlink("b/up", "../a/file"),
        hard_link("same", "./a/file"),
    )
    assert notes == []
    assert files["there"] == Path("a/file") and files["b/up"] == Path("../a/file")
    assert (home / "out/same").stat().st_ino == (home / "out/a/file").stat().st_ino


@pytest.mark.parametrize(
    "first",
    [
        entry(".ssh/authorized_keys", b"evil"),
        entry("/x/.ssh", b"evil"),
        folder(".ssh"),
        symlink("l", "secret"),
        hard_link("l", "secret"),
        entry("d", type=tarfile.CHRTYPE),
    ],
)
def test_extract_unexpected_first_member_is_refused(home: Path, first: Entry) -> None:
    with pytest.raises(UserError):
        extract(stream(first, entry("x", b"x")), Path("out"), print)
    assert_unharmed(home)
    assert not (home / "out").exists()


def test_extract_single_file_gets_name_of_target(home: Path) -> None:
    notes: list[str] = []
    extract(
        stream(entry("./.bashrc", b"x", mode=0o6777), entry("more", b"y"), symlink("l", "more")),
        Path("out"),
        notes.append,
    )
    assert_unharmed(home)
    assert (home / "out").read_bytes() == b"x"
    assert stat.S_IMODE((home / "out").stat().st_mode) == 0o755
    assert len(notes) == 2


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o1755, 0o7777])
def test_extract_special_mode_bits_are_dropped(home: Path, bits: int) -> None:
    copied(home, folder(), entry("tool", b"x", mode=bits), entry("key", b"x", mode=0o600))
    assert stat.S_IMODE((home / "out/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((home / "out/key").stat().st_mode) == 0o600


class Endless(io.RawIOBase):
    """An endless stream that counts the bytes read."""

    def __init__(self, head: bytes, more: bytes) -> None:
        self.count = 0
        self._data = head
        self._more = more

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._data) < size:
            self._data += self._more
        data = self._data[:size]
        self._data = self._data[size:]
        self.count += size
        return data


LINKS = b"".join(headers(symlink(f"l{number}", "x" * 90)) for number in range(100))

BOMBS: dict[str, tuple[bytes, bytes]] = {
    "pax header of 2 GB": (FOLDER + with_size(PAX_HEADER, 2 << 30), b"x" * 512),
    "name of 2 GB": (FOLDER + with_size(LONG_HEADER, 2 << 30), b"x" * 512),
    "file of 4 EiB": (FOLDER + with_size(FILE_HEADER, 1 << 61), b"x" * 512),
    "file of more than can be": (FOLDER + with_size(FILE_HEADER, 1 << 80), b"x" * 512),
    "pax headers only": (FOLDER, with_size(PAX_HEADER, 0)),
    "folders": (FOLDER, FOLDER),
    "data behind the end": (FOLDER + b"\0" * 1024, b"x" * 512),
    "zeros behind the end": (FOLDER, b"\0" * 512),
}


@pytest.mark.parametrize("case", BOMBS)
def test_extract_bomb_is_refused_early(home: Path, case: str) -> None:
    source = Endless(*BOMBS[case])
    with pytest.raises(UserError):
        extract(cast(BinaryIO, source), Path("out"), lambda _: None, max_members=1000)
    assert source.count < 3 << 20
    assert_unharmed(home)
    assert not (home / "out").exists()


def test_extract_endless_symlinks_are_refused(home: Path) -> None:
    source = Endless(FOLDER, LINKS)
    with pytest.raises(UserError, match="too many symbolic links"):
        extract(cast(BinaryIO, source), Path("out"), print)
    assert_unharmed(home)


def test_extract_endless_notes_are_counted(home: Path) -> None:
    files, notes = copied(home, folder(), *[entry(f"../{n}", b"x") for n in range(500)])
    assert files == {} and len(notes) == 11
    assert notes[-1] == "skipped 490 more"


def test_extract_pax_and_gnu_names_are_checked(home: Path) -> None:
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        notes: list[str] = []
        data = tar(folder(), entry("../" + "x" * 200, b"x"), symlink("l", "../" * 50), form=form)
        extract(io.BytesIO(data), Path("out"), notes.append)
        assert len(notes) == 2
        assert_unharmed(home)


def test_extract_local_symlink_is_replaced_not_followed(home: Path) -> None:
    out = home / "out"
    (out / "real").mkdir(parents=True)
    (out / "kept").write_text("kept")
    (out / "keys").symlink_to("../.ssh")
    (out / "file").symlink_to("../secret")

    files, notes = copied(
        home,
        folder(),
        entry("keys/authorized_keys", b"evil"),
        entry("file", b"evil"),
        entry("real/new", b"x"),
        entry("kept/x", b"x"),
    )
    assert [note.partition(":")[0] for note in notes] == ['skipped "keys"', 'skipped "kept"']
    assert files == {
        "real": "folder",
        "real/new": b"x",
        "kept": b"kept",
        "keys": Path("../.ssh"),
        "file": b"evil",
    }


def test_extract_existing_file_or_symlink_is_replaced(home: Path) -> None:
    (home / "out").symlink_to("secret")
    extract(stream(entry("x", b"new")), Path("out"), print)
    assert not (home / "out").is_symlink() and (home / "out").read_bytes() == b"new"
    assert_unharmed(home)


def test_extract_file_over_existing_folder_is_refused(home: Path) -> None:
    (home / "out").mkdir()
    with pytest.raises(UserError, match="out exists and is a folder"):
        extract(stream(entry("x", b"new")), Path("out"), print)
    assert content(home / "out") == {}


def test_extract_truncated_stream_changes_nothing(home: Path) -> None:
    (home / "out").mkdir()
    (home / "out/a").write_bytes(b"old")
    whole = tar(folder(), entry("a", b"x" * 5000), entry("b", b"x"))
    for size in (0, 100, 512, 1024, 3000, len(whole) - 1024):
        with pytest.raises(UserError, match="not a complete tar stream"):
            extract(io.BytesIO(whole[:size]), Path("out"), print)
        assert content(home / "out") == {"a": b"old"}


def test_extract_full_disk_is_user_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="cannot write out: no space left on device"):
        extract(stream(folder(), entry("a", b"x")), Path("out"), print)
    assert_unharmed(home)


@pytest.mark.parametrize("source", ["~", ".", "", "..", "/x/..", "./", "~/", "a/.."])
def test_local_target_source_without_name_requires_target_name(home: Path, source: str) -> None:
    with pytest.raises(UserError, match="does not end with a name"):
        local_target(source, ".")
    assert local_target(source, "new") == Path("new")


@pytest.mark.parametrize("source", ["/", "//", "/."])
def test_local_target_root_folder_is_refused(home: Path, source: str) -> None:
    with pytest.raises(UserError, match="root folder"):
        local_target(source, "new")


@pytest.mark.parametrize("source", ["results", "/a/results/", "~/results", "results/."])
def test_local_target_source_name_is_appended_to_folder(home: Path, source: str) -> None:
    assert local_target(source, ".ssh") == Path(".ssh/results")


NAMES = st.sampled_from(
    [
        ".",
        "..",
        "a",
        "b",
        "a/b",
        "a/..",
        "../secret",
        "l",
        "l/x",
        "/etc/passwd",
        "a//b/",
        "",
        "l/..",
    ]
) | st.text(max_size=8)
KINDS = st.sampled_from(
    [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        b"7",
        b"K",
    ]
)


def member(name: str, kind: bytes, link: str, data: bytes, mode: int) -> Entry:
    content = data if kind == tarfile.REGTYPE else b""
    return entry(name, content, type=kind, linkname=link, mode=mode)


ENTRIES = st.builds(member, NAMES, KINDS, NAMES, st.binary(max_size=5), st.integers(0, 0o7777))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.lists(ENTRIES, max_size=8), st.booleans())
def test_extract_random_members_stay_inside(home: Path, entries: list[Entry], rooted: bool) -> None:
    root = [folder()] if rooted else []
    attack(home, lambda: tar(*root, *entries))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.lists(ENTRIES, min_size=1, max_size=4), st.data())
def test_extract_random_bytes_stay_inside(
    home: Path, entries: list[Entry], data: st.DataObject
) -> None:
    whole = bytearray(tar(folder(), *entries))
    for _ in range(data.draw(st.integers(0, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    attack(home, lambda: bytes(whole[: data.draw(st.integers(0, len(whole)))]))


def attack(home: Path, make: Callable[[], bytes]) -> None:
    """Extract random data; files outside the target must not change."""
    try:
        data = make()
    except ValueError:  # tarfile cannot write it
        return
    with suppress(UserError):
        extract(io.BytesIO(data), Path("out"), lambda _: None)
    try:
        assert_unharmed(home)
        for path in (home / "out").rglob("*"):
            assert is_loop(path) or os.path.realpath(path).startswith(str(home / "out"))
            assert not path.lstat().st_mode & 0o7000
    finally:
        clear(home / "out")


def is_loop(path: Path) -> bool:
    """Return whether a link leads to itself; realpath may return any path for it."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
