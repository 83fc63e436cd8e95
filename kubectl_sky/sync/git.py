"""Read which files git tracks, and where the user's own ignore file is.

Git is never started in a folder of files: the configuration of a checkout may name programs. The
index of a repository is read as data instead; gitformat-index(5) describes it.
"""

import hashlib
import io
import os
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


def _read(git: Path) -> bytes:
    """Return the index of a repository; empty if there is none yet. Raises _Unknown."""
    try:
        if not git.is_dir():  # of a worktree or a submodule
            link = bounded.read(git, _MAX_LINK)
            git = git.parent / os.fsdecode(link.removeprefix(_LINK).rstrip(b"\r\n"))
            if not (link.startswith(_LINK) and git.is_dir()):
                raise _Unknown("is not found: .git does not name a folder")
        return bounded.read(git / "index", _MAX_INDEX)
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
    for name in _names(data):
        path = name.removeprefix(prefix) if name.startswith(prefix) else b""
        while path and path not in paths:
            paths.add(path)
            size += len(path) + _OBJECT
            path = path.rpartition(b"/")[0]
        if size > _MAX_PATHS:
            raise _Unknown(f"has more than {_MAX_PATHS >> 20} MiB of paths")
    return frozenset(paths)


def _names(data: bytes) -> Iterator[bytes]:
    """Yield the names in an index. Raises _Unknown, IndexError or ValueError."""
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
        start = flags + (4 if version > 2 and data[flags] & _EXTENDED else 2)
        kept = 0
        if version == 4:
            cut, start = _varint(data, start, len(name))
            kept = len(name) - cut
        end = data.index(b"\0", start)
        name = name[:kept] + data[start:end]
        if not 0 < len(name) <= _MAX_PATH:
            raise ValueError
        yield name
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
