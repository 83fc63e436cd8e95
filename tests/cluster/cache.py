"""What is built once and kept outside the checkout, keyed by what it is built from."""

import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import mounts

# Read when imported: the tests give themselves another home later.
HOME = Path.home()
ROOT = Path(os.environ.get("XDG_CACHE_HOME") or HOME / ".cache") / "kubectl-sky"

_UNUSED_SECONDS = 30 * 24 * 3600.0


def say(line: str) -> None:
    """Tell a person what takes long."""
    print(f"cluster: {line}", file=sys.stderr, flush=True)  # noqa: T201 - a tool's progress


def digest(*parts: str | Path) -> str:
    """Return a short key of texts and of files' contents."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        total.update(b"\0")
    return total.hexdigest()[:12]


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the only lock of this name on this machine, at most until the process ends."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that is busy with {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def own(file: Path) -> None:
    """Mark a file as this process's, until the process ends, however that ends."""
    fcntl.flock(os.open(file, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)  # open to the end


def owned(file: Path) -> bool:
    """Say whether a process that lives has marked the file."""
    if not file.exists():
        return False
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def keep(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder NAME-KEY of the cache; `make` fills it when it is not there.

    It is made under another name and then renamed: a folder that is there is whole.
    """
    final = ROOT / f"{name}-{key}"
    with lock(name):
        if not final.is_dir():
            _sweep(name)
            work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=ROOT))
            work.chmod(0o755)
            make(work)
            work.rename(final)
    os.utime(final)
    return final


def _sweep(name: str) -> None:
    """Remove what interrupted builds left, and versions that nobody has used for a month."""
    unused = time.time() - _UNUSED_SECONDS
    for folder in ROOT.glob(f".{name}-*"):
        mounts.remove(folder)
    for folder in ROOT.glob(f"{name}-*"):
        if folder.is_dir() and folder.stat().st_mtime < unused:
            mounts.remove(folder)
