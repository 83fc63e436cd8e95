"""What kubectl prints, without what is never twice the same: times, addresses, made-up names."""

import re
from collections.abc import Iterable, Mapping

_AGE = r"(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s|\d+d(?:\d+h)?|\d+h(?:\d+m)?|\d+y(?:\d+d)?|<invalid>"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"  # of which the API server makes names

_ANYWHERE = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\b[a-z]+-[0-9a-f]{6}\b(?!-)", "NS"),  # a scene's
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[ +]\S+)?", "TIME"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4}", "TIME"),
        (r"\bsha256:[0-9a-f]{64}\b", "DIGEST"),
        (r"/tmp/(LIVE|MERGED|kubectl-edit)-\d+", r"/tmp/\1"),
        (r'Invalid value: ("?)[{\[].*[}\]]"?: ', r"Invalid value: {OBJECT}: "),
        (r"\b(containerd|practice)://[0-9a-f]{12,}", "CONTAINER"),
        (r"\b[0-9a-f]{64}\b", "HEX"),
        (r'start exec "(HEX)?"', 'start exec "HEX"'),
        (r"\bv1\.\d+\.\d+(\+\w+)?", "VERSION"),
        (r"\b\d{1,3}(\.\d{1,3}){3}\b", "IP"),
        (r"\bIP:\d+", "IP:PORT"),
        (r"([Rr]esource ?[Vv]ersion\"?:\s*\"?)\d+", r"\1RV"),
        (r"\.[0-9a-f]{16}\b", ".HEX"),
        (rf"-[{_SAFE}]{{5}}\b", "-XXXXX"),
        (rf"(?<=[\s(])({_AGE})(?= \((x\d+ over )?({_AGE})|\s|$|\))", "AGE"),
        (rf"AGE \(x\d+ over ({_AGE})\)", "AGE"),
    )
)
_KLOG = re.compile(r"^[IWE]\d{4} \d\d:.*\n", re.MULTILINE)  # kubectl's own, on how watches went
_MINUTES = re.compile(r"(?<=\s)\d+m(?=\s|$)")  # in a table an age, elsewhere a quantity
_WARNING = re.compile(r"\s*Warning  ")
_GAPS = re.compile(r"(?<=\S) {2,}|\t+ *")


def normal(text: str, names: Mapping[str, str]) -> list[str]:
    """Return the lines of a text with words in place of what is made up.

    `names` has further words, by what they stand for: those of the namespace and of the node.
    """
    text = _KLOG.sub("", text)
    for pattern, word in _ANYWHERE:
        text = pattern.sub(word, text)
    for name, word in names.items():
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w|[-.:]\w|://)", word, text)
    return _once([_line(line) for line in text.splitlines()])


def _once(lines: list[str]) -> list[str]:
    """Drop warnings said again: a scheduler that tries again makes another, equal event."""
    pairs = zip(lines, ["", *lines], strict=False)
    return [line for line, before in pairs if line != before or not _WARNING.match(line)]


def _line(line: str) -> str:
    if ":" not in line:
        line = _MINUTES.sub("AGE", line)
    return _GAPS.sub("  ", line.rstrip())


def unordered(lines: Iterable[str]) -> list[str]:
    """Return lines whose order and number mean nothing."""
    return sorted(set(lines))
