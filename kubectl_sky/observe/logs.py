"""Log lines as they are printed."""

from collections.abc import Sequence


def prefixed(lines: Sequence[bytes], prefix: bytes, whole: bool) -> bytes:
    """Join lines to a block of output.

    `whole` is False where the last line has no newline in the log: alone it is left so, behind a
    prefix it gets one, so that another node's line cannot stand on the same line.
    """
    if not prefix:
        return b"\n".join(lines) + (b"\n" if whole else b"")
    return prefix + (b"\n" + prefix).join(lines) + b"\n"
