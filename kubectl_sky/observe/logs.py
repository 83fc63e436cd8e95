"""Log lines as they are printed: plain, coloured by node, or as JSON; some of them or all."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubectl_sky.observe.escapes import harmless, plain
from kubectl_sky.regex import Regex

# SGR codes that are read well on dark and on light, the usual order of such programs
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)


class Output(StrEnum):
    """What a line is printed as; RAW is without the node's name before it."""

    TEXT = "text"
    RAW = "raw"
    JSON = "json"


@dataclass(frozen=True)
class Origin:
    """Whose lines they are; `prefix` tells them from others', and is empty where none are."""

    task: str
    rank: int
    title: str
    pod: str
    prefix: str = ""


@dataclass(frozen=True)
class Form:
    """How lines are printed, and which.

    `terminal` says that a terminal shows them, where they must not act; `stamped` that they come
    with timestamps; `grep` is what lines must match, or with `invert` must not.
    """

    output: Output = Output.TEXT
    color: bool = False
    terminal: bool = False
    stamped: bool = False
    grep: Regex | None = None
    invert: bool = False

    def block(self, origin: Origin, lines: Sequence[bytes], whole: bool) -> bytes:
        """Return what is printed of these lines; `whole` as for `prefixed`."""
        if self.grep:
            last = lines[-1]
            lines = [line for line in lines if self._chosen(line)]
            if not lines:
                return b""
            whole = whole or lines[-1] is not last
        if self.output is Output.JSON:
            return self._json(origin, lines)
        if self.terminal:
            lines = [harmless(line) for line in lines]
        prefix = b"" if self.output is Output.RAW else self._prefix(origin)
        return prefixed(lines, prefix, whole)

    def _chosen(self, line: bytes) -> bool:
        assert self.grep
        text = line.partition(b" ")[2] if self.stamped else line
        return bool(self.grep.search(text)) is not self.invert

    def _split(self, line: str) -> Sequence[str]:
        """Return the time and the text of a line."""
        return line.partition(" ")[::2] if self.stamped else ("", line)

    def _prefix(self, origin: Origin) -> bytes:
        if not origin.prefix:
            return b""
        prefix = " ".join(plain(origin.prefix).split())
        if not self.color:
            return f"{prefix} | ".encode()
        return f"\x1b[{_COLOURS[origin.rank % len(_COLOURS)]}m{prefix} |\x1b[0m ".encode()

    def _json(self, origin: Origin, lines: Sequence[bytes]) -> bytes:
        """Return an object a line; the encoder is called once for all, as calls are what costs."""
        texts = b"\n".join(lines).decode(errors="replace").split("\n")
        values = [part for text in texts for part in self._split(text)]
        whose = {"task": origin.task, "rank": origin.rank, "pod": origin.pod}
        head = json.dumps(whose, ensure_ascii=self.terminal)[:-1]
        # No string has a line break once it is encoded.
        encoded = json.dumps(values, ensure_ascii=self.terminal, separators=("\n", ":"))[1:-1]
        each = iter(encoded.split("\n"))
        pairs = zip(each, each, strict=True)
        objects = [f'{head}, "time": {time}, "text": {text}}}\n' for time, text in pairs]
        return "".join(objects).encode()


def prefixed(lines: Sequence[bytes], prefix: bytes, whole: bool) -> bytes:
    """Join lines to a block of output.

    `whole` is False where the last line has no newline in the log: alone it is left so, behind a
    prefix it gets one, so that another node's line cannot stand on the same line.
    """
    if not prefix:
        return b"\n".join(lines) + (b"\n" if whole else b"")
    return prefix + (b"\n" + prefix).join(lines) + b"\n"
