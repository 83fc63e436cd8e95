"""The error for a folder or file that another user controls."""

import errno
from pathlib import Path

WRITABLE = "other users can write to it"


class Unsafe(PermissionError):
    """Another user controls a folder or file; `reason` describes how."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))
        self.path = path
        self.reason = reason
        self.writable = reason == WRITABLE
