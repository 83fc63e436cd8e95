"""Commands and files in the fenced blocks of Markdown pages, and their output compared.

In `sh` blocks every command has to succeed; in `console` blocks the lines after `$ COMMAND` are its
output. A block with `title="task.yaml"` is a file. Comments that readers do not see say the rest:
`<!-- not run: REASON -->` before a block, `<!-- not run: REASON: WORDS -->` for its commands that
contain WORDS, and `<!-- setup … -->` and `<!-- file NAME … -->` with what a page takes for granted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"sh", "console", "text", "yaml", "python", "json"}
REASONS = {
    "downloads packages",
    "builds the project",
    "needs Docker",
    "needs GPUs",
    "needs KubeRay",
    "needs Kueue",
    "needs Volcano",
    "needs sshd in the image",
    "needs the MPI operator",
    "installs into the whole cluster",
    "needs a server on the network",
    "needs a real cluster",  # runs there
    "needs a terminal",
    "runs until Ctrl-C",
    "shows another cluster",
}

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|^<!-- file (?P<file>\S+)\n(?P<content>.*?)^-->$"
    r"|^ *<!-- not run: (?P<reason>[^:>]+?)(?:: (?P<words>[^>]+?))? -->$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_ID = re.compile(r"\b(?:task|pipeline|group|volume)/([a-z0-9]{8})\b")


@dataclass(frozen=True)
class File:
    """A file that a page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page, its line there, and its output where the page shows it."""

    line: int
    text: str
    output: str | None = None
    not_run: str = ""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    line: int
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [
        Block(_line(page, match), match["language"], match["text"])
        for match in _BLOCK.finditer(page)
        if match["text"] is not None
    ]


def steps(page: str) -> list[File | Command]:
    """Return the files and commands of a page, in order. Raises ValueError for unused markers."""
    result: list[File | Command] = []
    skipped: list[tuple[str, str]] = []

    for match in _BLOCK.finditer(page):
        if match["reason"]:
            if match["reason"] not in REASONS:
                raise ValueError(f"{match['reason']!r} is not in REASONS")
            skipped.append((match["reason"], match["words"] or ""))
            continue
        result += [_marked(step, skipped) for step in _steps(match, _line(page, match) + 1)]
        for reason, words in skipped:
            if not any(
                words in step.text and step.not_run == reason
                for step in result
                if isinstance(step, Command)
            ):
                raise ValueError(f"no command for <!-- not run: {reason}: {words} -->")
        skipped = []

    return result


def _line(page: str, match: re.Match[str]) -> int:
    return page.count("\n", 0, match.start()) + 1


def _marked(step: File | Command, skipped: list[tuple[str, str]]) -> File | Command:
    if isinstance(step, Command):
        for reason, words in skipped:
            if words in step.text:
                return Command(step.line, step.text, step.output, reason)
    return step


def _steps(match: re.Match[str], line: int) -> Iterator[File | Command]:
    if match["setup"]:
        yield from _commands(match["setup"], line)
    elif match["file"]:
        yield File(match["file"], match["content"])
    elif title := _TITLE.search(match["rest"]):
        yield File(title[1], match["text"])
    elif match["language"] == "sh":
        indent = len(match["indent"])
        yield from _commands(re.sub(f"(?m)^ {{{indent}}}", "", match["text"]), line)
    elif match["language"] == "console":
        yield from _transcript(match["text"], line)


def _commands(text: str, line: int) -> Iterator[Command]:
    """Yield the commands of a script; indented lines continue a command."""
    for match in re.finditer(r"^\S.*(?:\n[ \t].*)*", text, re.MULTILINE):
        if not match[0].startswith("#"):
            yield Command(line + text.count("\n", 0, match.start()), match[0])


def _transcript(text: str, line: int) -> Iterator[Command]:
    """Yield the commands of a terminal session, with their output."""
    for match in re.finditer(r"^\$ (.*(?:\n> .*)*)\n?((?:(?!\$ ).*\n?)*)", text, re.MULTILINE):
        command = match[1].replace("\n> ", "\n")
        yield Command(line + text.count("\n", 0, match.start()), command, match[2])


# What differs from run to run. Widths of columns follow from it.
_VARIABLE = re.compile(
    r"(?P<gap>[ \t]+)"
    r"|(?P<any>…)"
    r"|(?P<time>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?)"
    r"|(?P<short>\b\d\d-\d\d \d\d:\d\d:\d\d)"
    r"|(?P<ip>\b\d+\.\d+\.\d+\.\d+\b(?::\d+)?)"
    r"|(?P<duration>\b\d+(?:\.\d+)?(?:ms|s|m|h|d)(?:\d+[smh])?(?![\w-]))"
)
_PATTERNS = {
    "gap": r"[ \t]+",
    "any": r".*?",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    "short": r"\d\d-\d\d \d\d:\d\d:\d\d",
    "ip": r"\d+\.\d+\.\d+\.\d+(?::\d+)?",
    "duration": r"\d+(?:\.\d+)?(?:ms|s|m|h|d)(?:\d+[smh])?",
}
_PREFIX = re.compile(r"^[^|]+ \| ")


class Transcript:
    """Compares printed with expected output; remembers which ids stand for those of a page."""

    def __init__(self, page: str) -> None:
        self._names = {f"id_{name}": name for name in sorted(set(_ID.findall(page)))}
        self.ids: dict[str, str] = {}

    def actual(self, command: str) -> str:
        """Return a command of the page with the ids of this run."""
        for name, value in self.ids.items():
            command = command.replace(name, value)
        return command

    def matches(self, expected: str, printed: str) -> bool:
        """Compare line by line; a line `…` is any number of lines.

        Lines of several nodes (`node-1 | text`) come in any order.
        """
        pattern = self._with_ids("".join(map(_pattern, _ordered(expected))))
        match = re.fullmatch(pattern, "".join(f"{line}\n" for line in _ordered(printed)))
        if match:
            self.ids |= {self._names[name]: value for name, value in match.groupdict().items()}
        return match is not None

    def _with_ids(self, pattern: str) -> str:
        for group, name in self._names.items():
            if name in self.ids:
                pattern = pattern.replace(name, re.escape(self.ids[name]))
            else:
                first, *others = re.split(rf"(?<!_){name}", pattern)
                later = f"(?P={group})".join(others)
                pattern = f"{first}(?P<{group}>[a-z0-9]{{8}}){later}" if others else first
        return pattern


def _pattern(line: str) -> str:
    """Return a pattern for a line, without the values that differ from run to run."""
    if line == "…":
        return r"(?:.*\n)*?"
    pattern = ""
    position = 0
    for match in _VARIABLE.finditer(line):
        pattern += re.escape(line[position : match.start()]) + _PATTERNS[match.lastgroup or ""]
        position = match.end()
    return pattern + re.escape(line[position:]) + r"\n"


def _ordered(text: str) -> list[str]:
    """Return the lines without space at their ends; neighbouring lines of nodes are sorted."""
    result: list[str] = []
    nodes: list[str] = []
    for line in [line.rstrip() for line in text.rstrip().splitlines()]:
        if _PREFIX.match(line):
            nodes.append(line)
        else:
            result += [*sorted(nodes, key=_stable), line]
            nodes = []
    return result + sorted(nodes, key=_stable)


def _stable(line: str) -> str:
    """Return a line without the values that differ from run to run."""
    return _VARIABLE.sub("?", line)
