"""Untrusted regular expressions: RE2 matches any expression in linear time.

RE2 does not support look-around or backreferences; no engine with linear time does.
"""

from typing import Protocol, cast

# Memory limit of an expression of ignore patterns. With RE2's default of 8 MiB, 10,000 patterns do
# not fit into its automaton, and matching a path takes 19 ms instead of 0.1.
_MAX_MEMORY = 32 << 20  # bytes


class Regex(Protocol):
    """A compiled expression. Methods return a true value for a match."""

    def search(self, text: bytes) -> object:
        """Search for a match anywhere in the text."""

    def fullmatch(self, text: bytes) -> object:
        """Match the whole text."""


def compiled(expression: bytes, single_bytes: bool = False) -> Regex:
    """Compile an expression for UTF-8 or for single bytes.

    Raises ValueError with the reason.
    """
    import re2  # noqa: PLC0415 -- takes 15 ms, and few commands have patterns

    options = re2.Options()
    options.log_errors = False
    options.dot_nl = single_bytes
    if single_bytes:
        options.max_mem = _MAX_MEMORY
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return cast(Regex, re2.compile(expression, options))
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None
