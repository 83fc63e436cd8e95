"""Find the simple commands of a shell script, with their words and positions.

It reads what batch scripts have: quotes, comments, here-documents, blocks, and commands in $(…).
What it does not understand is text.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

_COMMENT = re.compile(r"(?<![^\s;(])#[^\n]*")
_OPERATORS = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
# Reserved words, and by how much they change the number of open blocks.
_RESERVED = {
    "!": 0, "then": 0, "else": 0, "elif": 0, "do": 0,
    "if": 1, "while": 1, "until": 1, "{": 1,
    "fi": -1, "done": -1, "esac": -1, "}": -1,
}  # fmt: skip
_WRAPPERS = frozenset({"time", "exec", "nohup", "command", "eval", "sudo"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_HERE = re.compile(r"<<(?!<)-?\s*(['\"]?)(\w+)\1")
_REDIRECTION = re.compile(r"\d*(?:>>?|<)&?|&>>?|<<<?-?")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_MAX_DEPTH = 8
_MAX_ENDLESS = 20  # here-documents without an end: the text is searched for that of each


class Word(Struct, frozen=True):
    """A word with its place in the script."""

    text: str
    start: int
    end: int

    @property
    def plain(self) -> str:
        """The word without quotes."""
        return re.sub(r"""["']|\\(?=.)""", "", self.text)


class Command(Struct, frozen=True):
    """A simple command: its words after assignments and `time`; `operator` is what ends it.

    `depth` counts the blocks around it, and the $(…).
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    operator: str
    depth: int
    piped: bool  # it reads another command's output

    @property
    def name(self) -> str:
        return self.words[0].plain.rpartition("/")[2] if self.words else ""

    @property
    def start(self) -> int:
        return (self.words or self.assignments)[0].start

    @property
    def redirects_output(self) -> bool:
        """Whether it has a > outside of quotes."""
        words = (*self.words, *self.assignments)
        return any(">" in _QUOTED.sub("", word.text) for word in words)


def commands(text: str) -> list[Command]:
    """Return the commands of a script in order."""
    return sorted(_read(text, 0, len(text), 0), key=lambda command: command.start)


class _Line(Struct):
    """The words since the last operator, and the state around them."""

    words: list[Word]
    blocks: int = 0
    piped: bool = False
    endless: set[str] = field(default_factory=set)  # here-documents without an end


def _read(text: str, start: int, end: int, depth: int) -> Iterator[Command]:
    position = start
    line = _Line([])
    while position <= end:
        blank = _BLANK.match(text, position, end) or _COMMENT.match(text, position, end)
        if blank and blank.end() > position:
            position = blank.end()
            continue
        found = _OPERATORS.match(text, position, end)
        end_operator = "" if position < end else "\n"
        operator = found[0] if found else end_operator
        if not operator:
            stop = _word_end(text, position, end)
            line.words.append(Word(text[position:stop], position, stop))
            position = stop
            continue
        yield from _finish(text, line, operator, depth)
        if operator == "\n":
            position = _after_here_documents(text, line, position, end)
        line.words = []
        line.piped = operator in ("|", "|&")
        position += len(operator)


def _finish(text: str, line: _Line, operator: str, depth: int) -> Iterator[Command]:
    """Yield the command of a line up to an operator, and those in its words."""
    command, change = _command(line.words, operator, depth + line.blocks, line.piped)
    line.blocks = max(0, line.blocks + change)
    if command:
        yield command
    for word in line.words:
        yield from _nested(text, word, depth + 1)


def _command(
    words: Sequence[Word], operator: str, depth: int, piped: bool
) -> tuple[Command | None, int]:
    """Return the command of some words, and how many blocks it opens or closes."""
    rest = list(words)
    change = 0
    while rest and (rest[0].text in _RESERVED or rest[0].text in _WRAPPERS):
        word = rest.pop(0).text
        change += _RESERVED.get(word, 0)
    if rest and rest[0].text in ("for", "case", "select", "function"):
        return None, change + (rest[0].text != "function")
    assignments = []
    while rest and _ASSIGNMENT.match(rest[0].text):
        assignments.append(rest.pop(0))
    while rest and rest[0].text in _WRAPPERS:
        rest.pop(0)
    if not (rest or assignments):
        return None, change
    opens = max(change, 0)
    return Command(tuple(rest), tuple(assignments), operator, depth + opens, piped), change


def _word_end(text: str, start: int, end: int) -> int:
    """Return where a word ends: at a blank or an operator outside of quotes."""
    position = start
    while position < end:
        after = _after_quote(text, position, end)
        if after == position:
            char = text[position]
            if char in " \t\n;|()" or (char == "&" and not _is_redirection(text, position)):
                break
            after += 1
        position = after
    return min(max(position, start + 1), end)


def _after_quote(text: str, position: int, end: int) -> int:
    """Return the position after a quote, an escape or a $(…) that starts there."""
    char = text[position]
    if char == "\\":
        return position + 2
    if char == '"':
        return _close(text, position + 1, end, '"')
    if text.startswith(("$(", "<(", ">(", "=("), position):
        return _close(text, position + 2, end, ")")
    closing = {"'": "'", "`": "`"}.get(char) or ("}" if text.startswith("${", position) else "")
    if not closing:
        return position
    stop = text.find(closing, position + 1, end)
    return end if stop < 0 else stop + 1


def _is_redirection(text: str, position: int) -> bool:
    return text[position + 1 : position + 2] == ">" or text[position - 1 : position] in (">", "<")


def _close(text: str, position: int, end: int, closing: str) -> int:
    """Return the position after the `)` or `"` that closes what was opened before the position."""
    stack = [closing]
    while position < end and stack:
        char = text[position]
        is_quoted = stack[-1] == '"'
        size = 1
        if char == "\\":
            size = 2
        elif text.startswith("$(", position):
            stack.append(")")
            size = 2
        elif char == stack[-1]:
            stack.pop()
        elif char == '"':
            stack.append(char)
        elif char == "(" and not is_quoted:
            stack.append(")")
        elif char == "'" and not is_quoted:
            stop = text.find("'", position + 1, end)
            size = (end if stop < 0 else stop + 1) - position
        position += size
    return min(position, end)


_SUBSTITUTION = re.compile(r"\$\((?!\()|`|[<>=]\((?!\()")


def _nested(text: str, word: Word, depth: int) -> Iterator[Command]:
    """Yield the commands in $(…) and `…` of a word."""
    position = word.start
    if word.text.startswith("'") or depth > _MAX_DEPTH:
        return
    while found := _SUBSTITUTION.search(text, position, word.end):
        if found[0] == "`":
            stop = text.find("`", found.end(), word.end)
            stop = word.end if stop < 0 else stop
            position = stop + 1
        else:
            position = _close(text, found.end(), word.end, ")")
            stop = position - 1
        if found[0] != "=(":
            yield from _read(text, found.end(), stop, depth)
        else:
            inner = Word(text[found.end() : stop], found.end(), stop)
            yield from _nested(text, inner, depth + 1)


def _after_here_documents(text: str, line: _Line, position: int, end: int) -> int:
    """Return the position of the line break at the end of the here-documents of a line."""
    if not line.words:
        return position
    for here in _HERE.finditer(text, line.words[0].start, position):
        is_endless = here[2] in line.endless or len(line.endless) == _MAX_ENDLESS
        if text[here.start() - 1] == "<" or is_endless:
            continue
        stop = re.compile(rf"^[ \t]*{here[2]}[ \t]*$", re.MULTILINE).search(text, position, end)
        if stop:
            position = stop.end()
        else:
            line.endless.add(here[2])
    return min(position, end - 1) if position < end else position


def without_redirections(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return words up to the first redirection."""
    kept = []
    for word in words:
        if _REDIRECTION.match(word.text):
            break
        kept.append(word)
    return tuple(kept)
