"""Make untrusted text safe for a terminal: only colours take effect."""

import codecs
import re

_PLAIN = re.compile(rb"[\t\n\x20-\x7e]*")
# Text directions, zero width, line separators, tags; letters without a glyph. All of Unicode's
# category Cf, and what its property Default_Ignorable_Code_Point has besides.
_HIDDEN = (
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufe00-\ufe0d\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001d159"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(
    r"\x1b\[(?P<style>[0-9;:]*)m"
    # title, clipboard, hyperlink, device strings: with their content if terminated
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, erasing, modes
    r"|\x1b[ -/]*[0-Z\\^-~]"  # charset, reset
    r"|(?P<other>[\x00-\x08\x0a-\x1f\x7f-\x9f])"
    r"|(?P<hidden>[" + _HIDDEN + "]"
    # choosing the colour of an emoji is harmless after one
    "|(?<![#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f])"
)
# An incomplete escape sequence at the end of a text, which the next text may complete.
_INCOMPLETE = re.compile(r"\x1b(?:[ -/]*|\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?)\Z|\r\Z")
_MAX_SEQUENCE = 4096  # most characters of an incomplete escape sequence that are kept
_MAX_STYLE = 100
_CARET = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)}
_END = "\x1b[0m"
_ERASE = "\r\x1b[K"  # otherwise the rest of the old line stays visible

# Attributes and the six colours that are readable on light and dark backgrounds. Concealed text,
# backgrounds, black, white, greys and palettes could hide text.
_STYLES = {0, 1, 2, 3, 4, 7, 9, 22, 23, 24, 27, 29, 39, *range(31, 37), *range(91, 97)}
_ARGUMENTS = {5: 1, 2: 3}  # for 38, 48 and 58: how many numbers follow the colour format


def harmless(line: bytes) -> bytes:
    """Return a line in UTF-8 that is safe to write to a terminal.

    Of a progress bar that overwrites itself, only the last state remains. Escape sequences that
    move the cursor, erase, or set titles are removed. Other control characters appear as in `cat
    -v`, invisible characters as `<U+202E>`.
    """
    if _PLAIN.fullmatch(line):
        return line
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    text = _CONTROL.sub(_replace, line.decode(errors="replace"))
    return (text + _END if _COLOUR.search(text) else text).encode()


def plain(text: str) -> str:
    """Return messages that quote untrusted text, made safe and without colours."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "\n".join(map(_plain, text.split("\n")))


class Cleaner:
    """Make a byte stream safe like `harmless`, without waiting for line ends."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def clean(self, data: bytes, final: bool = False) -> bytes:
        """Return the safe bytes; an incomplete character or sequence is kept for later."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        unfinished = None if final else _INCOMPLETE.search(text, max(0, len(text) - _MAX_SEQUENCE))
        if unfinished:
            text = text[: unfinished.start()]
            self._held = unfinished[0]
        text = text.rstrip("\r") if final else text
        lines = text.replace("\r\n", "\n").split("\n")
        return "\n".join(map(_redrawn, lines)).encode()


def _redrawn(line: str) -> str:
    parts = [_CONTROL.sub(_replace, part) for part in line.split("\r")]
    text = _ERASE.join(parts)
    return text + _END if _COLOUR.search(text) else text


def _plain(line: str) -> str:
    return _COLOUR.sub("", harmless(line.encode(errors="replace")).decode())


def _replace(match: re.Match[str]) -> str:
    if match["hidden"]:
        return f"<U+{ord(match['hidden']):04X}>"
    if match["style"] is not None:
        return _style(match["style"])
    return _CARET.get(ord(match["other"]), "�") if match["other"] else ""


def _style(codes: str) -> str:
    """Return the codes of a style that cannot hide text."""
    if len(codes) > _MAX_STYLE:
        return ""
    allowed: list[str] = []
    numbers = iter([int(code) if code.isdecimal() else -1 for code in (codes or "0").split(";")])
    for number in numbers:
        if number in (38, 48, 58):
            for _ in range(_ARGUMENTS.get(next(numbers, 0), 0)):
                next(numbers, 0)
        elif number in _STYLES:
            allowed.append(str(number))
    return f"\x1b[{';'.join(allowed)}m" if allowed else ""
