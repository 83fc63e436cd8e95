"""Read what the user names on the command line: task files, standard input."""

from typing import BinaryIO

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import MAX_BYTES, load

STDIN = "-"
_USUAL = 64 * 1024  # bytes; task files have some thousand


def documents(path: str, stdin: BinaryIO) -> tuple[Document, ...]:
    """Load the documents of a file, or of standard input for `-`. Raises InvalidFiles."""
    name = "<stdin>" if path == STDIN else path
    try:
        if path == STDIN:
            text = _read(stdin)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 -- half the time of a Path's
                text = _read(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "name the task file in it" if isinstance(error, IsADirectoryError) else ""
        raise InvalidFiles([Problem(name, 0, 0, "", f"cannot be read: {reason}", hint)]) from error
    return load(text, name)


def _read(file: BinaryIO) -> bytes:
    """Read one byte more than it takes to refuse a file; room for so many is made when needed."""
    text = file.read(_USUAL)
    return text if len(text) < _USUAL else text + file.read(MAX_BYTES + 1 - _USUAL)
