"""Regular expressions of strangers and users: RE2 matches them in linear time, whatever they are.

It knows neither look-around nor backreferences, which no linear engine has.
"""

from typing import Protocol, cast


class Regex(Protocol):
    """A compiled expression. What is returned is true for a match."""

    def search(self, text: bytes) -> object:
        """Look for a match anywhere."""

    def fullmatch(self, text: bytes) -> object:
        """Match the whole text."""


def compiled(expression: bytes, single_bytes: bool = False) -> Regex:
    """Compile an expression of UTF-8, or of single bytes. Raises ValueError with the reason."""
    import re2  # noqa: PLC0415 -- 15 ms, for the few commands that have patterns

    options = re2.Options()
    options.log_errors = False
    options.dot_nl = single_bytes
    if single_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return cast(Regex, re2.compile(expression, options))
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None
