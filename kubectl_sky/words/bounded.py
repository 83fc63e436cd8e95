"""Read untrusted files and numbers within limits.

Files are read without blocking. Named pipes and devices that could block are refused.
"""

import errno
import os
import re
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}
NODES = 100_000  # of one task: Kubernetes' limit for the pods of an Indexed Job
_DIGITS = 12  # longer numbers exceed every bound
# O_NONBLOCK: otherwise, opening a named pipe waits for a writer.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_DESCRIPTOR = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+")  # of the shell
_BLOCK = 64 * 1024  # bytes; task files have a few thousand


def read(path: str | bytes | os.PathLike[str], limit: int) -> bytes:
    """Return the bytes of a regular file, or of a pipe of the shell: `<(command)`.

    Raises OSError, also if the file is larger than the limit in bytes. `reason` describes it.
    """
    file = os.open(path, _READ)
    try:
        status = os.fstat(file)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        if kind == stat.S_IFIFO and _DESCRIPTOR.fullmatch(os.fsdecode(path)):
            os.set_blocking(file, True)
        elif kind != stat.S_IFREG and not os.path.samestat(status, Path(os.devnull).stat()):
            raise OSError(errno.EINVAL, f"is {_KINDS.get(kind, 'not a file')}")

        data = bytearray()
        while block := os.read(file, _BLOCK):
            data += block
            if len(data) > limit:
                size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
                raise OSError(errno.EFBIG, f"is larger than {size}")
        return bytes(data)
    finally:
        os.close(file)


def read_head(path: str | bytes | os.PathLike[str], size: int) -> bytes:
    """Return at most the first bytes of a file, without blocking. Raises OSError."""
    file = os.open(path, _READ)
    try:
        return os.read(file, size)
    finally:
        os.close(file)


def reason(error: OSError) -> str:
    """Return why a file or a port cannot be used, as part of a sentence."""
    text = (error.strerror or str(error)).partition(" (while ")[0]  # Python repeats the address
    return text[:1].lower() + text[1:]


def is_utf8(text: str) -> bool:
    """Report whether text from the environment or an argument was UTF-8."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def integer(value: object, maximum: int = NODES + 1) -> int:
    """Return a number, or a string of digits, limited to the range 0 to `maximum`.

    Anything else gives 0.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value.lstrip("0")) <= _DIGITS else maximum
    return max(0, min(value, maximum)) if type(value) is int else 0
