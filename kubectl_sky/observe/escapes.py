"""Text of others on a terminal: colours are kept, all else that would act on it is not."""

import re

_PLAIN = re.compile(rb"[\t\n\x20-\x7e]*")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(
    r"(?P<keep>\x1b\[[0-9;:]*m)"
    # title, clipboard, hyperlink, device strings: with what they hold, if they are closed
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, erasing, modes
    r"|\x1b[ -/]*[0-Z\\^-~]"  # charset, reset
    r"|(?P<other>[\x00-\x08\x0a-\x1f\x7f-\x9f])"
)
_CARET = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)}
_END = "\x1b[0m"


def harmless(line: bytes) -> bytes:
    """Return a line as a terminal may have it, in UTF-8.

    Of a progress bar that writes over itself its last state stays. Escape sequences that move the
    cursor, erase, or set titles go; other control characters are shown as `cat -v` shows them.
    """
    if _PLAIN.fullmatch(line):
        return line
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    text = _CONTROL.sub(_replaced, line.decode(errors="replace"))
    return (text + _END if _COLOUR.search(text) else text).encode()


def plain(text: str) -> str:
    """Return lines of ours that quote others as a terminal may have them: without colours too."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "\n".join(map(_plain, text.split("\n")))


def _plain(line: str) -> str:
    return _COLOUR.sub("", harmless(line.encode(errors="replace")).decode())


def _replaced(match: re.Match[str]) -> str:
    if match["keep"]:
        return match["keep"]
    return _CARET.get(ord(match["other"]), "�") if match["other"] else ""
