"""Find flags that a hint names and no command has: a user would type them."""

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from tests.cli.commands import commands

_HINT = re.compile(r"^(?:hint: |\S+:\d+:\d+: .*?; )(.*)", re.MULTILINE)
_COMMAND = re.compile(r"`?kubectl sky ((?:(?!`|; | && |, then ).)*)`?")
_OTHER = re.compile(r"`(?!-).*?`|ssh-keygen -t|kubectl (?!sky)[^;,`]*")  # of other programs
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*[a-z]|-[a-zA-Z])(?![\w-])")


def find_unknown_flags(arguments: Sequence[str], stderr: str) -> Iterator[str]:
    """Yield the flags of hints that the command they are for does not have."""
    for hint in _HINT.findall(stderr):
        for words in _COMMAND.findall(hint):
            yield from _unknown(words.split(), words)
        rest = _OTHER.sub("", _COMMAND.sub("", hint))
        yield from _unknown(arguments, rest)


def find_unknown_flags_of_text(text: str) -> Iterator[str]:
    """Yield the flags of commands in a text that these commands do not have."""
    for words in _COMMAND.findall(text):
        yield from _unknown(words.split(), words)


def _unknown(words: Sequence[str], text: str) -> Iterator[str]:
    name, command = _command(words)
    if command is None:
        return
    flags = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    before = text.partition(" -- ")[0]
    for flag in _FLAG.findall(before):
        if flag not in flags and flag != "--help":
            yield f"{flag} of {name}: {shlex.join(words)!r}, {text!r}"


def _command(words: Sequence[str]) -> tuple[str, click.Command | None]:
    """Return the command that words run; None if there is none, such as a placeholder."""
    names = [word for word in words if re.fullmatch("[a-z-]+", word) and word[0] != "-"]
    by_name = commands()
    for name in (" ".join(names[:2]), *names[:1]):
        if name in by_name:
            return name, by_name[name]
    return "", None
