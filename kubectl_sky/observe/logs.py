"""Format log lines: plain, coloured by node, or as JSON, with an optional filter."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubectl_sky.observe.escapes import harmless, plain
from kubectl_sky.regex import Regex

# SGR codes that are readable on dark and light backgrounds, in the usual order
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)


class Output(StrEnum):
    """The output format of a line; RAW has no node name prefix."""

    TEXT = "text"
    RAW = "raw"
    JSON = "json"


@dataclass(frozen=True)
class Origin:
    """The source of log lines.

    `prefix` distinguishes them from the lines of other sources; it is empty if there are none.
    """

    task: str
    rank: int
    title: str
    pod: str
    prefix: str = ""


@dataclass(frozen=True)
class Form:
    """How log lines are printed, and which ones.

    `terminal` means that the output is a terminal, where lines must not have side effects.
    `stamped` means that lines begin with a timestamp. `grep` must match a line, or with `invert`
    must not match it.
    """

    output: Output = Output.TEXT
    color: bool = False
    terminal: bool = False
    stamped: bool = False
    grep: Regex | None = None
    invert: bool = False

    def block(self, origin: Origin, lines: Sequence[bytes], complete: bool) -> bytes:
        """Return the output for these lines; `complete` as in `prefixed`."""
        if self.grep:
            last = lines[-1]
            lines = [line for line in lines if self._chosen(line)]
            if not lines:
                return b""
            complete = complete or lines[-1] is not last
        if self.output is Output.JSON:
            return self._json(origin, lines)
        if self.terminal:
            lines = [harmless(line) for line in lines]
        prefix = b"" if self.output is Output.RAW else self._prefix(origin)
        return prefixed(lines, prefix, complete)

    def _chosen(self, line: bytes) -> bool:
        assert self.grep
        text = line.partition(b" ")[2] if self.stamped else line
        return bool(self.grep.search(text)) is not self.invert

    def _split(self, line: str) -> Sequence[str]:
        """Return the timestamp and the text of a line."""
        return line.partition(" ")[::2] if self.stamped else ("", line)

    def _prefix(self, origin: Origin) -> bytes:
        if not origin.prefix:
            return b""
        prefix = " ".join(plain(origin.prefix).split())
        if not self.color:
            return f"{prefix} | ".encode()
        return f"\x1b[{_COLOURS[origin.rank % len(_COLOURS)]}m{prefix} |\x1b[0m ".encode()

    def _json(self, origin: Origin, lines: Sequence[bytes]) -> bytes:
        """Return one JSON object per line; a single encoder call for all lines is faster."""
        texts = b"\n".join(lines).decode(errors="replace").split("\n")
        values = [part for text in texts for part in self._split(text)]
        origin_fields = {"task": origin.task, "rank": origin.rank, "pod": origin.pod}
        head = json.dumps(origin_fields, ensure_ascii=self.terminal)[:-1]
        # Encoded strings contain no line breaks.
        encoded = json.dumps(values, ensure_ascii=self.terminal, separators=("\n", ":"))[1:-1]
        strings = iter(encoded.split("\n"))
        pairs = zip(strings, strings, strict=True)
        objects = [f'{head}, "time": {time}, "text": {text}}}\n' for time, text in pairs]
        return "".join(objects).encode()


def prefixed(lines: Sequence[bytes], prefix: bytes, complete: bool) -> bytes:
    """Join lines to a block of output.

    `complete` is False if the last line has no newline in the log. Without a prefix the newline
    stays missing. With a prefix one is added, to keep the next node's line separate.
    """
    if not prefix:
        return b"\n".join(lines) + (b"\n" if complete else b"")
    return prefix + (b"\n" + prefix).join(lines) + b"\n"
