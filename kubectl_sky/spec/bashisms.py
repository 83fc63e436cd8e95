"""Find what a script needs bash for. Pods of images without bash run it with sh."""

import re

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import image
from kubectl_sky.spec.document import Document

_MAX_SCRIPT = 1 << 16  # characters that are read
# Escaped characters, texts in quotes, comments, and the start of a here-document.
_TEXT = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|(])\#[^\n]*|\n|<<<"""
    r"""|<<-?[ \t]*(['"]?)(?P<ending>\w+)\1""",
    re.S,
)
_START = r"(?:^|[;&|({!]|\b(?:if|then|elif|else|while|until|do)\b)[ \t]*"  # of a command
_COMMANDS = ("declare", "mapfile", "popd", "pushd", "readarray", "shopt", "typeset")
# By the words of a message. busybox's sh knows the second ones, and no other sh of small images.
_OF_BASH = {
    "an array": r"(?:^|[;&|\s])[A-Za-z_]\w*\+?=\(|\$\{[#!]?\w+\[",
    "<<<": r"<<<",
    "<( )": r"(?<![<$\w(])[<>]\(",
    "=~": r"\[\[ [^\n]{0,200} =~ ",
    "${x^^}": r"\$\{\w+(?:\^\^?|,,?)\}",
    "{1..9}": r"\{\w+\.\.\w+\}",
    "((": rf"(?:{_START}|\bfor[ \t]*)(?<![$(])\(\(",
    **{name: rf"{_START}{name}[ \t]" for name in _COMMANDS},
}
_OF_BUSYBOX = {
    "[[": rf"{_START}\[\[[ \t]",
    "==": rf"{_START}\[[ \t][^\n]{{0,200}}[ \t]==[ \t]",
    "source": rf"{_START}source[ \t]",
    "pipefail": r"\bset[ \t][^\n]{0,40}o[ \t]+pipefail\b",
    "function": rf"{_START}function[ \t]+\w",
    "&>": r"&>",
    "$''": r"\$'",
}


_WITHOUT_BASH = re.compile(r"(?:[^:]*/)?(?:alpine|busybox)(?:[:@].*)?|.*:.*(?:alpine|busybox).*")


class Need(Struct, frozen=True):
    """The first thing that sh lacks, its line from 1, and whether busybox's sh lacks it, too."""

    name: str
    line: int
    only_bash: bool


def find_need(script: str) -> Need | None:
    """Return what a script needs bash for; first what only bash has."""
    code = _code_of(script[:_MAX_SCRIPT])
    for patterns, only_bash in ((_OF_BASH, True), (_OF_BUSYBOX, False)):
        matches = {name: re.search(pattern, code, re.M) for name, pattern in patterns.items()}
        ends = [(match.end(), name) for name, match in matches.items() if match]
        if ends:
            end, name = min(ends)
            return Need(name, code.count("\n", 0, end) + 1, only_bash)
    return None


def find_missing(document: Document) -> Problem | None:
    images = sorted(filter(_WITHOUT_BASH.fullmatch, image.images(document)))
    scripts = {field: document.get(field) for field in ("setup", "run")}
    for field, script in scripts.items() if images else ():
        if not isinstance(script, str) or not (need := find_need(script)):
            continue
        message = f"the image {images[0]} has no bash, and {field} uses {need.name}"
        if not need.only_bash:
            message += ", which the sh of busybox knows, and no other sh"
        offset = sum(len(line) + 1 for line in script.split("\n")[: need.line - 1])
        hint = "use an image that has bash"
        return document.warning_in_text(field, offset, message, hint)
    return None


def _code_of(script: str) -> str:
    """Return a script without its texts and comments; lines and quotes stay."""
    parts = []
    at = 0
    endings = []

    while match := _TEXT.search(script, at):
        parts.append(script[at : match.start()])
        text = match[0]
        at = match.end()

        if match["ending"]:
            endings.append(match["ending"])
        elif text == "\n":
            parts.append(text)
            for ending in endings:
                last = re.compile(rf"^\t*{ending}$", re.M).search(script, at)
                end = last.end() if last else len(script)
                parts.append("\n" * script.count("\n", at, end))
                at = end
            endings = []
        elif text == "<<<":
            parts.append(text)
        else:
            quote = text[0] if text[0] in "'\"" else " "
            parts.append(quote + "\n" * text.count("\n") + quote)

    return "".join([*parts, script[at:]])
