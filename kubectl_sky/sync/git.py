"""Read which files git tracks, and where the user's own ignore file is.

Git is never started in a folder of files: the configuration of a checkout may name programs. The
index of a repository is read as data instead; gitformat-index(5) describes it.
"""

import hashlib
import io
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.words import bounded

_MAX_INDEX = 32 << 20  # bytes; Linux with 90,000 files has 10 MB
_MAX_PATHS = 64 << 20  # bytes of all paths, each with an object of Python
_OBJECT = 100  # bytes
_MAX_PATH = 4096  # bytes; version 4 could make 300,000 names of 300 kB
_MAX_LINK = 8192  # bytes of a .git that is a file
_STAT = 40  # bytes of an entry before its hash
_MTIME = 8  # where the time is in an entry
_FIELDS = struct.Struct(">II8xI8xI")  # time, mode and size from there on
_CHUNK = 1 << 20
_SHORT = 12  # characters of a commit
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE = "ref: "
_HASHES = {32: "sha256", 20: "sha1"}  # by size in bytes
_LINK = b"gitdir: "
_EXTENDED = 0x40  # two more bytes of flags follow, such as skip-worktree
_REASONS = {b"link": "is split", b"sdir": "is sparse"}  # by the extension that says so
_QUERY_SECONDS = 10


class Index(Struct, frozen=True):
    """The tracked files of a folder and their folders; `note` is why they are not known."""

    paths: frozenset[bytes] = frozenset()
    note: str = ""


class _Unknown(Exception):
    """Raised for an index that does not show which files git tracks; the argument says why."""


def read_index(repository: Path, root: Path) -> Index:
    """Return the tracked files below a folder of a repository, relative to the folder."""
    prefix = b"" if root == repository else os.fsencode(root.relative_to(repository)) + b"/"
    try:
        return Index(_tracked(_read(repository / ".git"), prefix))
    except _Unknown as error:
        problem = str(error)
    except (IndexError, ValueError):
        problem = "is malformed"
    effect = "ignored files are not uploaded, even if git tracks them; choose with .skyignore"
    return Index(note=f"{repository}: git's index {problem}: {effect}")


def read_revision(folder: Path) -> str:
    """Return the commit of a folder's repository, and how many tracked files below it have changed.

    `1a2b3c4d5e6f`, `1a2b3c4d5e6f, 2 changed files`; empty if the commit is not known. What is
    staged counts as unchanged: only the index is compared.
    """
    folder = folder.absolute()
    parents = (folder, *folder.parents)
    repository = next((parent for parent in parents if (parent / ".git").exists()), None)
    if repository is None:
        return ""
    try:
        commit = _read_commit(_find_folder(repository / ".git"))
        changed = _count_changed(repository, folder, _read(repository / ".git"))
    except (_Unknown, OSError, IndexError, ValueError):
        return ""
    if not commit or not changed:
        return commit[:_SHORT]
    return f"{commit[:_SHORT]}, {changed} changed file{'' if changed == 1 else 's'}"


def _read_commit(git: Path) -> str:
    """Return the commit of HEAD; empty if there is none yet."""
    head = bounded.read(git / "HEAD", _MAX_LINK).decode(errors="replace").strip()
    if not head.startswith(_REFERENCE):
        return head if _COMMIT.fullmatch(head) else ""

    name = head.removeprefix(_REFERENCE)
    common = git
    if (link := git / "commondir").is_file():  # of a worktree
        common = git / os.fsdecode(bounded.read(link, _MAX_LINK)).strip()
    if ".." not in name and (file := common / name).is_file():
        commit = bounded.read(file, _MAX_LINK).decode(errors="replace").strip()
        return commit if _COMMIT.fullmatch(commit) else ""
    if not (packed := common / "packed-refs").is_file():
        return ""
    lines = bounded.read(packed, _MAX_INDEX).decode(errors="replace").splitlines()
    pairs = (line.partition(" ") for line in lines)
    found = next((commit for commit, _, reference in pairs if reference == name), "")
    return found if _COMMIT.fullmatch(found) else ""


def _count_changed(repository: Path, folder: Path, index: bytes) -> int:
    """Return how many tracked files below a folder are not those of the index."""
    prefix = os.fsencode(folder.relative_to(repository))
    below = b"" if prefix == b"." else prefix + b"/"  # the folder may also be a single file
    root = os.fsencode(repository)
    return sum(
        _has_changed(os.path.join(root, entry.name), entry)
        for entry in _entries(index)
        if (entry.name == prefix or entry.name.startswith(below))
        and stat.S_ISREG(entry.mode)
        and not entry.is_sparse
    )


def _has_changed(path: bytes, entry: "_Entry") -> bool:
    """Compare a file with its entry: by its times, or else by its content."""
    try:
        status = os.lstat(path)
    except OSError:
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_size & 0xFFFFFFFF != entry.size:
        return True
    if status.st_mtime_ns == entry.mtime_ns:
        return False
    kind = _HASHES[len(entry.hash)]
    digest = hashlib.new(kind, b"blob %d\0" % status.st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.digest() != entry.hash


def _find_folder(git: Path) -> Path:
    """Return the folder of a repository, which .git may name. Raises _Unknown."""
    if git.is_dir():
        return git
    link = bounded.read(git, _MAX_LINK)  # of a worktree or a submodule
    folder = git.parent / os.fsdecode(link.removeprefix(_LINK).rstrip(b"\r\n"))
    if not (link.startswith(_LINK) and folder.is_dir()):
        raise _Unknown("is not found: .git does not name a folder")
    return folder


def _read(git: Path) -> bytes:
    """Return the index of a repository; empty if there is none yet. Raises _Unknown."""
    try:
        return bounded.read(_find_folder(git) / "index", _MAX_INDEX)
    except FileNotFoundError:
        return b""
    except OSError as error:
        reason = bounded.reason(error)
        problem = reason if reason.startswith("is ") else f"cannot be read: {reason}"
        raise _Unknown(problem) from error


def _tracked(data: bytes, prefix: bytes) -> frozenset[bytes]:
    """Return the paths in an index that begin with a prefix, without it, and their folders."""
    paths = set[bytes]()
    size = 0
    for name in (entry.name for entry in _entries(data)):
        path = name.removeprefix(prefix) if name.startswith(prefix) else b""
        while path and path not in paths:
            paths.add(path)
            size += len(path) + _OBJECT
            path = path.rpartition(b"/")[0]
        if size > _MAX_PATHS:
            raise _Unknown(f"has more than {_MAX_PATHS >> 20} MiB of paths")
    return frozenset(paths)


class _Entry(Struct, frozen=True):
    """A file in an index, as it was when git looked last."""

    name: bytes
    mode: int
    mtime_ns: int
    size: int  # modulo 2^32
    hash: bytes
    is_sparse: bool


def _entries(data: bytes) -> Iterator[_Entry]:
    """Yield the entries of an index. Raises _Unknown, IndexError or ValueError."""
    if not data:
        return
    hash_size = _find_hash_size(data)
    version = int.from_bytes(data[4:8])
    if not data.startswith(b"DIRC") or version not in (2, 3, 4):
        raise _Unknown("has an unknown version")

    at = 12
    name = b""
    for _ in range(int.from_bytes(data[8:12])):
        flags = at + _STAT + hash_size
        is_extended = version > 2 and bool(data[flags] & _EXTENDED)
        start = flags + (4 if is_extended else 2)
        kept = 0
        if version == 4:
            cut, start = _varint(data, start, len(name))
            kept = len(name) - cut
        end = data.index(b"\0", start)
        name = name[:kept] + data[start:end]
        if not 0 < len(name) <= _MAX_PATH:
            raise ValueError
        seconds, nanoseconds, mode, size = _FIELDS.unpack_from(data, at + _MTIME)
        yield _Entry(
            name,
            mode,
            seconds * 1_000_000_000 + nanoseconds,
            size,
            data[at + _STAT : flags],
            is_extended and bool(data[flags + 2] & _EXTENDED),
        )
        at = end + 1 if version == 4 else end + 8 - (end - at) % 8
    _check_extensions(data, at, len(data) - hash_size)


def _check_extensions(data: bytes, at: int, end: int) -> None:
    """Raise _Unknown for an extension that changes what the entries mean, ValueError for others."""
    while at < end:
        extension = data[at : at + 4]
        if not extension[:1].isupper():
            raise _Unknown(_REASONS.get(extension, "has an unknown extension"))
        at += 8 + int.from_bytes(data[at + 4 : at + 8])
    if at != end:
        raise ValueError


def _find_hash_size(data: bytes) -> int:
    """Return the size of the repository's hashes, from the one of the index at its end."""
    for size, name in _HASHES.items():
        expected = hashlib.new(name, memoryview(data)[:-size], usedforsecurity=False).digest()
        if data[-size:] in (expected, bytes(size)):  # zeros: by the setting index.skipHash
            return size
    raise ValueError


def _varint(data: bytes, at: int, maximum: int) -> tuple[int, int]:
    """Return a number as git encodes it, and the next index. Raises IndexError or ValueError."""
    value = data[at] & 127
    while data[at] & 128 and value <= maximum:
        at += 1
        value = ((value + 1) << 7) + (data[at] & 127)
    if value > maximum:
        raise ValueError
    return value, at + 1


def user_ignore_file() -> Path:
    """Return the ignore file of the user's own configuration, or its default.

    Raises UserError if git does not answer.
    """
    import sh  # noqa: PLC0415 -- only repositories need it

    # The others, such as GIT_DIR in a hook, name a repository; and / may be one.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    environ["GIT_DIR"] = os.devnull
    query = ("config", "--type=path", "--get", "core.excludesFile")
    output = io.BytesIO()
    try:
        sh.Command("git")(
            *query, _cwd="/", _env=environ, _out=output, _tty_out=False, _timeout=_QUERY_SECONDS
        )
    except (sh.CommandNotFound, sh.ErrorReturnCode):
        pass
    except sh.TimeoutException:
        what = f"`git {' '.join(query)}` did not respond within {_QUERY_SECONDS} s"
        raise UserError(what, "look for what your own git configuration includes") from None
    if path := output.getvalue().removesuffix(b"\n"):
        return Path(os.fsdecode(path))
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(configuration, "git", "ignore")
