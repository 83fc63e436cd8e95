"""Text of others on a terminal: it is seen as it is, in colours, and does nothing else."""

import codecs
import re

_PLAIN = re.compile(rb"[\t\n\x20-\x7e]*")
# Text directions, zero width, line separators, tags; letters that show nothing.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(
    r"\x1b\[(?P<style>[0-9;:]*)m"
    # title, clipboard, hyperlink, device strings: with what they hold, if they are closed
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, erasing, modes
    r"|\x1b[ -/]*[0-Z\\^-~]"  # charset, reset
    r"|(?P<other>[\x00-\x08\x0a-\x1f\x7f-\x9f])"
    r"|(?P<hidden>[" + _HIDDEN + "])"
)
# An escape sequence at the end of a text, which the next text may complete.
_OPEN = re.compile(r"\x1b(?:[ -/]*|\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?)\Z|\r\Z")
_LONGEST = 4096  # characters of an escape sequence that are waited for
_LONGEST_STYLE = 100
_CARET = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)}
_END = "\x1b[0m"
_ERASE = "\r\x1b[K"  # what was on the line would else show behind the new text

# Attributes and the six colours that are read on light and on dark. Concealed text, backgrounds,
# black, white, greys and palettes could hide what is written.
_STYLES = {0, 1, 2, 3, 4, 7, 9, 22, 23, 24, 27, 29, 39, *range(31, 37), *range(91, 97)}
_ARGUMENTS = {5: 1, 2: 3}  # of 38, 48 and 58: how many numbers follow their form


def harmless(line: bytes) -> bytes:
    """Return a line as a terminal may have it, in UTF-8.

    Of a progress bar that writes over itself its last state stays. Escape sequences that move the
    cursor, erase, or set titles go; other control characters are shown as `cat -v` shows them, and
    invisible ones as `<U+202E>`.
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


class Cleaner:
    """Makes a stream of bytes harmless as `harmless` does a line, without waiting for its end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def clean(self, data: bytes, final: bool = False) -> bytes:
        """Return what may be written; an unfinished character or sequence is kept for later."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        unfinished = None if final else _OPEN.search(text, max(0, len(text) - _LONGEST))
        if unfinished:
            text, self._held = text[: unfinished.start()], unfinished[0]
        text = text.rstrip("\r") if final else text
        lines = text.replace("\r\n", "\n").split("\n")
        return "\n".join(map(_redrawn, lines)).encode()


def _redrawn(line: str) -> str:
    parts = [_CONTROL.sub(_replaced, part) for part in line.split("\r")]
    text = _ERASE.join(parts)
    return text + _END if _COLOUR.search(text) else text


def _plain(line: str) -> str:
    return _COLOUR.sub("", harmless(line.encode(errors="replace")).decode())


def _replaced(match: re.Match[str]) -> str:
    if match["hidden"]:
        return f"<U+{ord(match['hidden']):04X}>"
    if match["style"] is not None:
        return _style(match["style"])
    return _CARET.get(ord(match["other"]), "�") if match["other"] else ""


def _style(codes: str) -> str:
    """Keep of a style what cannot hide text."""
    if len(codes) > _LONGEST_STYLE:
        return ""
    kept: list[str] = []
    numbers = iter([int(code) if code.isdecimal() else -1 for code in (codes or "0").split(";")])
    for number in numbers:
        if number in (38, 48, 58):
            for _ in range(_ARGUMENTS.get(next(numbers, 0), 0)):
                next(numbers, 0)
        elif number in _STYLES:
            kept.append(str(number))
    return f"\x1b[{';'.join(kept)}m" if kept else ""
