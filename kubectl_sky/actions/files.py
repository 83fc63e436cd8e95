"""Read task files that the command line names, or standard input."""

import errno
from typing import BinaryIO

from kubectl_sky import bounded
from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import MAX_BYTES, load

STDIN = "-"
_HINTS = {errno.EISDIR: "use a task file in this folder", errno.EFBIG: "is it a task file?"}


def documents(path: str, stdin: BinaryIO) -> tuple[Document, ...]:
    """Load the documents of a file, or stdin for `-`. Raises InvalidFiles."""
    name = "<stdin>" if path == STDIN else path
    try:
        text = stdin.read(MAX_BYTES + 1) if path == STDIN else bounded.read(path, MAX_BYTES)
    except OSError as error:
        reason = f"cannot be read: {bounded.reason(error)}"
        raise InvalidFiles(
            [Problem(name, 0, 0, "", reason, _HINTS.get(error.errno or 0, ""))]
        ) from error
    return load(text, name)
