"""Format log lines: plain, coloured by node, by a template or as JSON; with a filter."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property, lru_cache

from msgspec import Struct

from kubectl_sky.observe.escapes import harmless, plain
from kubectl_sky.words import names

# SGR codes that are readable on dark and light backgrounds, in the usual order
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
_SECOND = len("2026-11-21T04:47:04")  # a timestamp without its fraction and zone
FIELDS = ("task", "rank", "pod", "container", "time", "text")  # of JSON lines and of templates


# A doubled brace, a field in braces, or a brace without its counterpart.
_BRACES = re.compile(r"(?P<escaped>\{\{|\}\})|\{(?P<name>[^{}]*)\}|[{}]")


class LogFormat(StrEnum):
    """The output format of a line; RAW has no node name prefix."""

    TEXT = "text"
    RAW = "raw"
    JSON = "json"


class Origin(Struct, frozen=True, dict=True):
    """The source of log lines.

    `prefix` distinguishes them from the lines of other sources; it is empty if there are none.
    """

    task: str
    rank: int
    title: str
    pod: str
    prefix: str = ""
    container: str = names.CONTAINER

    @cached_property
    def stream(self) -> str:
        return names.log_stream(self.pod, self.container)


Lines = Sequence[tuple[Origin, bytes]]


def differing(lines: Lines, stamped: bool) -> Lines:
    """Return the lines that not every rank of their task has equally often, in order.

    Of a line that one rank has more often, the last ones are returned. Timestamps do not count.
    """
    texts = [line.partition(b" ")[2] if stamped else line for _, line in lines]
    ranks: dict[str, set[int]] = defaultdict(set)
    counts: dict[tuple[str, int], Counter[bytes]] = defaultdict(Counter)
    for (origin, _), text in zip(lines, texts, strict=True):
        ranks[origin.task].add(origin.rank)
        counts[origin.task, origin.rank][text] += 1
    seen: dict[tuple[str, int], Counter[bytes]] = defaultdict(Counter)
    result = []
    for (origin, line), text in zip(lines, texts, strict=True):
        number = seen[origin.task, origin.rank]
        number[text] += 1
        if any(counts[origin.task, rank][text] < number[text] for rank in ranks[origin.task]):
            result.append((origin, line))
    return result


class Template:
    """A template of log lines with fields in braces: `{time} {rank} {text}`.

    Only the names of fields are accepted, without attributes, indexes, formats and conversions.
    """

    def __init__(self, text: str) -> None:
        """Parse a template. Raises ValueError with what is wrong."""
        self._parts: list[tuple[bytes, str]] = []  # text, and the field that follows it
        end = 0
        for match in _BRACES.finditer(text):
            if text.startswith("{{.", match.start()):
                raise ValueError(_invalid(match.start() + 1, "{{.", "{{."))
            literal = text[end : match.start()]
            name = match["name"]
            end = match.end()
            if match["escaped"]:
                literal += match["escaped"][0]
            elif name not in FIELDS:
                raise ValueError(_invalid(match.start() + 1, match[0], name))
            self._parts.append((literal.encode(errors="replace"), name or ""))
        self._parts.append((text[end:].encode(errors="replace"), ""))

    @property
    def has_time(self) -> bool:
        return any(name == "time" for _, name in self._parts)

    def line(self, values: dict[str, bytes]) -> bytes:
        """Return a line; `values` has every field."""
        return b"".join(literal + (values[name] if name else b"") for literal, name in self._parts)


def _invalid(column: int, text: str, name: str | None) -> str:
    if name is None:
        return f'column {column}: single "{text}"; write "{text * 2}" for a brace'
    similar = get_close_matches(name.lower(), FIELDS, 1)
    fields = ", ".join(f"{{{field}}}" for field in FIELDS)
    hint = f"did you mean {{{similar[0]}}}?" if similar else f"the fields are {fields}"
    return f"column {column}: unknown field {text}; {hint}"


class Form(Struct, frozen=True):
    """How log lines are printed, and which ones."""

    output: LogFormat = LogFormat.TEXT
    color: bool = False
    terminal: bool = False  # whether the output is one: lines must not have side effects there
    stamped: bool = False  # whether lines begin with a timestamp
    local: bool = False  # whether it is printed in local time, without the year
    zone: tzinfo | None = None  # the time zone for that; None is that of the computer
    template: Template | None = None  # replaces prefix and line
    grep: re.Pattern[str] | None = None  # matches the lines to print
    exclude: tuple[re.Pattern[str], ...] = ()  # any of them matches the lines to leave out
    highlight: tuple[re.Pattern[str], ...] = ()  # they match what is coloured in lines

    @property
    def filters(self) -> bool:
        return bool(self.grep or self.exclude)

    def block(self, lines: Lines, complete: bool) -> bytes:
        """Return the output for these lines; `complete` as in `prefixed`."""
        if self.filters:
            last = lines[-1]
            lines = [pair for pair in lines if self._chosen(pair[1])]
            if not lines:
                return b""
            complete = complete or lines[-1] is not last

        if self.output is LogFormat.JSON:
            return self._json(lines)
        if self.template:
            return b"".join(self._from_template(self.template, *pair) for pair in lines)

        lines = [(origin, self._shown(text)) for origin, text in lines]
        prefixes = self._prefixes(lines)
        if len(set(prefixes.values())) == 1:
            return prefixed([text for _, text in lines], prefixes[lines[0][0].stream], complete)
        return b"".join([prefixes[origin.stream] + text + b"\n" for origin, text in lines])

    def _chosen(self, line: bytes) -> bool:
        line = line.partition(b" ")[2] if self.stamped else line
        text = line.decode(errors="surrogateescape")
        is_left_out = any(pattern.search(text) for pattern in self.exclude)
        return not is_left_out and (self.grep is None or bool(self.grep.search(text)))

    def _shown(self, line: bytes) -> bytes:
        """Return a line as a terminal or a file gets it."""
        if self.local:
            line = b" ".join(self._time_and_text(line))
        elif self.terminal:
            line = harmless(line)
        if self.highlight and self.color:
            text = line.decode(errors="surrogateescape")
            line = _mark(text, self.highlight).encode(errors="surrogateescape")
        return line

    def _time_and_text(self, line: bytes) -> tuple[bytes, bytes]:
        """Return the timestamp and the text of a line, as they are printed.

        They are made harmless separately: of a progress bar, only the last state remains.
        """
        stamp, _, text = line.partition(b" ") if self.stamped else (b"", b"", line)
        if self.local:
            stamp = _local_time(stamp[:_SECOND], stamp[-6:], self.zone) or stamp
        return (harmless(stamp), harmless(text)) if self.terminal else (stamp, text)

    def _from_template(self, template: Template, origin: Origin, line: bytes) -> bytes:
        time, text = self._time_and_text(line)
        values = {
            "task": plain(origin.task).encode(),
            "rank": str(origin.rank).encode(),
            "pod": plain(origin.pod).encode(),
            "container": plain(origin.container).encode(),
            "time": time,
            "text": text,
        }
        return template.line(values) + b"\n"

    def _prefixes(self, lines: Lines) -> dict[str, bytes]:
        origins = _by_stream(lines)
        if self.output is LogFormat.RAW:
            return dict.fromkeys(origins, b"")
        return {stream: self._prefix(origin) for stream, origin in origins.items()}

    def _prefix(self, origin: Origin) -> bytes:
        if not origin.prefix:
            return b""
        prefix = " ".join(plain(origin.prefix).split())
        if not self.color:
            return f"{prefix} | ".encode()
        return f"\x1b[{_COLOURS[origin.rank % len(_COLOURS)]}m{prefix} |\x1b[0m ".encode()

    def _json(self, lines: Lines) -> bytes:
        """Return one JSON object per line; a single encoder call for all lines is faster."""
        texts = b"\n".join([text for _, text in lines]).decode(errors="replace").split("\n")
        stamped = [text.partition(" ")[::2] if self.stamped else ("", text) for text in texts]
        values = [part for pair in stamped for part in pair]
        heads = {}
        for stream, origin in _by_stream(lines).items():
            fields = {"task": origin.task, "rank": origin.rank, "pod": origin.pod}
            fields["container"] = origin.container
            heads[stream] = json.dumps(fields, ensure_ascii=self.terminal)[:-1]
        # Encoded strings contain no line breaks.
        encoded = json.dumps(values, ensure_ascii=self.terminal, separators=("\n", ":"))[1:-1]
        strings = iter(encoded.split("\n"))
        objects = [
            f'{heads[origin.stream]}, "time": {time}, "text": {text}}}\n'
            for (origin, _), time, text in zip(lines, strings, strings, strict=True)
        ]
        return "".join(objects).encode()


def _mark(text: str, patterns: Iterable[re.Pattern[str]]) -> str:
    """Return a text with what any of the patterns matches in colour."""
    marked = ""
    end = 0
    for first, last in sorted(match.span() for it in patterns for match in it.finditer(text)):
        start = max(first, end)
        if start < last:
            marked += f"{text[end:start]}\x1b[1;31m{text[start:last]}\x1b[0m"
            end = last
    return marked + text[end:]


def _by_stream(lines: Lines) -> dict[str, Origin]:
    return {origin.stream: origin for origin, _ in lines}


@lru_cache(maxsize=1024)  # many lines have the same second
def _local_time(second: bytes, end: bytes, zone: tzinfo | None) -> bytes:
    """Return a time as stern's short timestamps: `11-21 04:47:04`; empty if invalid."""
    offset = end if end[:1] in b"+-" else b"Z"
    try:
        moment = datetime.fromisoformat((second + offset).decode()).astimezone(zone)
    except (ValueError, OverflowError):
        return b""
    return f"{moment:%m-%d %H:%M:%S}".encode()


def prefixed(lines: Sequence[bytes], prefix: bytes, complete: bool) -> bytes:
    """Join lines to a block of output.

    `complete` is False if the last line has no newline in the log. Without a prefix the newline
    stays missing. With a prefix one is added, to keep the next node's line separate.
    """
    if not prefix:
        return b"\n".join(lines) + (b"\n" if complete else b"")
    return prefix + (b"\n" + prefix).join(lines) + b"\n"
