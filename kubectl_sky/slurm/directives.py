"""Read the #SBATCH lines of a batch script as sbatch does."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kubectl_sky.errors import Problem, did_you_mean
from kubectl_sky.slurm.options import BY_LETTER, BY_NAME, REFUSED, RENAMED, Option
from kubectl_sky.spec.document import printable

_DIRECTIVE = "#SBATCH"
_PART = re.compile(
    r"""(?P<word>(?:[^\s"'\\#]|(?<=\S)#|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)"""
    r"""|(?P<comment>#.*)|(?P<open>["']).*"""
)
_QUOTE = re.compile(r"""\\(.)|["']""")
_QUOTED = re.compile(r"""(["'])((?:(?!\1).)*)\1""")
_ITEM = re.compile(r"""(?:[^,"']|"[^"]*"|'[^']*'|["'])+""")
_SCRIPT = re.compile(rb"#!.*\n(?:[ \t\r]*(?:#.*)?\n)*?#SBATCH\s")
_LATE = re.compile(rb"^#SBATCH\s", re.MULTILINE)
_DIRECTIVES = re.compile(rb"(?:[ \t\r]*(?:#.*)?\n)*?[ \t]*#SBATCH\s")
_COMMENT = "such as --time=60; a comment begins with # alone"
_ONE_WORD = "write the value before it as one word, or in quotes"
MAX_HEAD = 100_000  # bytes in which a script is recognized


class Directive(Struct, frozen=True):
    """An option of a line, with the position of its value."""

    name: str
    value: str  # without quotes
    quoted: str  # the value with its quotes
    line: int
    column: int
    written: str  # the option as written

    @property
    def items(self) -> list[str]:
        """What stands between the commas of the value; commas in quotes within it are text."""
        whole = _QUOTED.fullmatch(self.quoted)
        text = whole[2] if whole else self.quoted
        return [_unquote(item) for item in _ITEM.findall(text)]


class Header(Struct, frozen=True):
    """The lines of a script that sbatch reads; `end` is the number of the last directive."""

    shell: str
    directives: tuple[Directive, ...]
    problems: tuple[Problem, ...]
    end: int


def is_script(text: bytes) -> bool:
    """Report whether a text is a batch script: #! and, before its commands, a line with #SBATCH."""
    return bool(_SCRIPT.match(text[:MAX_HEAD].removeprefix(b"\xef\xbb\xbf")))


def lacks_first_line(text: bytes) -> bool:
    """Report whether a text would be a batch script if it began with #!."""
    head = text[:MAX_HEAD].removeprefix(b"\xef\xbb\xbf")
    return not head.startswith(b"#!") and bool(_DIRECTIVES.match(head))


def find_late(text: bytes) -> int:
    """Return the number of the first line with #SBATCH of a script that is no batch script.

    0 if there is none. sbatch ignores such a line, as it stands after the first command.
    """
    late = _LATE.search(text[:MAX_HEAD]) if text.startswith(b"#!") and not is_script(text) else None
    return text.count(b"\n", 0, late.start()) + 1 if late else 0


def read_header(lines: Sequence[str], file: str) -> Header:
    """Read the directives up to the first command."""
    directives: list[Directive] = []
    problems: list[Problem] = []
    end = 1
    is_head = True
    for number, line in enumerate(lines, 1):
        if not line.startswith(_DIRECTIVE) or not line[len(_DIRECTIVE) :][:1].isspace():
            is_head = is_head and (not line.strip() or line.lstrip().startswith("#"))
            continue
        if not is_head:
            message = "ignored, as by sbatch: it stands after the first command"
            problems.append(Problem(file, number, 1, _DIRECTIVE, message, "", "warning"))
            continue
        end = number
        for item in _read_line(line, number, file):
            if isinstance(item, Problem):
                problems.append(item)
            else:
                directives.append(item)
    return Header(lines[0], tuple(directives), tuple(problems), end)


def _read_line(line: str, number: int, file: str) -> Iterator[Directive | Problem]:
    parts = list(_PART.finditer(line, len(_DIRECTIVE)))
    words = [part for part in parts if part["word"]]
    if parts and parts[-1]["open"]:
        column = parts[-1].start() + 1
        yield Problem(file, number, column, parts[-1]["open"], "the quote is not closed")
        return
    begin = words[0].start() if words else 0
    while words:
        word = words.pop(0)
        position = (number, word.start() + 1)
        name = word[0].partition("=")[0]
        if name in REFUSED:
            what, hint = REFUSED[name]
            yield Problem(file, *position, name, f"not supported: {what}", hint)
            return
        option, written, value = _split(word[0])
        if option is None:
            message, hint = _unknown(written, is_first=word.start() == begin)
            yield Problem(file, *position, printable(written), message, hint)
            return
        if value is None and option.value == "required":
            if not words or words[0][0].startswith("="):
                hint = "write it without spaces around =" if words else ""
                yield Problem(file, *position, written, "expected a value", hint)
                return
            word = words.pop(0)
            value = word[0]
        if not value and option.value == "required":
            hint = "write one, or remove the option"
            yield Problem(file, *position, written, "ignored: no value", hint, "warning")
            continue
        column = word.end() - len(value or written) + 1
        quoted = value or ""
        yield Directive(option.name, _unquote(quoted), quoted, number, column, written)


def _unknown(word: str, *, is_first: bool) -> tuple[str, str]:
    """Return what is wrong with a word that is no option, and what to do."""
    if not word.startswith("-"):
        hint = _COMMENT if is_first else _ONE_WORD
        return "expected an option", hint
    similar = did_you_mean(word.lstrip("-").partition("=")[0], [*BY_NAME, *RENAMED])
    return "unknown option of sbatch", similar.strip()


def _unquote(text: str) -> str:
    return _QUOTE.sub(lambda found: found[1] or "", text)


def _split(word: str) -> tuple[Option | None, str, str | None]:
    """Return the option of a word, the option as written, and its value in the word, if any."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        option = _find(name)
        given = value if equals else None
        return option, f"--{name}", given
    option = BY_LETTER.get(word[1:2]) if word.startswith("-") else None
    if option is None:
        return None, word, None
    value = word[2:].removeprefix("=")
    return option, word[:2], value or None


def _find(name: str) -> Option | None:
    """Return the option of a name, or of a part of it that only one starts with."""
    name = RENAMED.get(name, name)
    if name in BY_NAME:
        return BY_NAME[name]
    matches = [option for key, option in BY_NAME.items() if name and key.startswith(name)]
    return matches[0] if len(matches) == 1 else None
