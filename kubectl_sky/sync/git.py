"""Ask git which files it tracks, and where the user's own ignore file is."""

import io
import os
from pathlib import Path

_NO_HOOKS = ("-c", "core.fsmonitor=false")  # a checkout's configuration may name a program


def list_tracked(root: Path) -> frozenset[bytes]:
    """Return the tracked files below a folder and their folders, relative to it; {} without git."""
    files = _run(root, "ls-files", "-z").split(b"\0")[:-1]
    parts = (file.split(b"/") for file in files)
    return frozenset(b"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1))


def user_ignore_file(root: Path) -> Path:
    path = _run(root, "config", "--type=path", "--get", "core.excludesFile").removesuffix(b"\n")
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(os.fsdecode(path) if path else os.path.join(configuration, "git", "ignore"))


def _run(root: Path, *arguments: str) -> bytes:
    """Return the output of git; empty if git is missing or refuses."""
    import sh  # noqa: PLC0415 -- only repositories need it

    output = io.BytesIO()
    try:
        sh.Command("git")(*_NO_HOOKS, *arguments, _cwd=str(root), _out=output, _tty_out=False)
    except (sh.CommandNotFound, sh.ErrorReturnCode):
        return b""
    return output.getvalue()
