"""Complete command lines, for shells (by click) and for kubectl (`kubectl_complete-sky`)."""

import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from kubectl_sky.cli import output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_KUBECTL_SKY_COMPLETE"  # set by click's shell scripts
COMMAND = "__complete"  # cobra's name for it
_DEADLINE_SECONDS = 1.0  # per <Tab>: a connection to a distant cluster takes three round trips
_THREAD = "completion"  # that asks the cluster
# Shells expand what they are given, and anyone with access to the cluster can name a task. A word
# that begins with a dash would be a flag.
_SAFE = re.compile(r"\w[\w.:@%+/=-]*")
_NO_SPACE = 2
_NO_FILES = 4
_FOLDERS = 16  # cobra's ShellCompDirective

# What completes a parameter of these names: words of the cluster, or files.
_KINDS = {
    "file": "file",
    "files": "file",
    "kubeconfig": "file",
    "source": "paths",
    "target": "paths",
    "field": "fields",
    "task": "tasks",
    "references": "tasks",
    "after": "tasks",
    "volume": "volumes",
    "volumes": "volumes",
    "queue": "queues",
    "gpus": "gpus",
    "context": "contexts",
    "namespace": "namespaces",
    "user": "owners",
    "backend": "settings.backend",
    "gang": "settings.gang",
    "expose": "settings.ports.expose",
    "example": "examples",
}

# Functions of slices and other packages that return words of their own for a session.
_GROUP = "kubectl_sky.completions"


class Text(click.types.StringParamType):
    """Text that the cluster or the file system completes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Return the candidates for a word; none if the cluster does not answer."""
        from click.shell_completion import CompletionItem

        if self.kind == "fields":
            return _fields(incomplete, "")
        if self.kind == "settings":
            return _fields(incomplete, "settings.")
        if self.kind in ("file", "dir"):
            return [CompletionItem(incomplete, type=self.kind)]
        paths = self.kind == "paths"  # of cp: TASK:PATH, or a local path
        source = "tasks" if paths else self.kind
        if source == "values":
            source = f"settings.{ctx.params['setting']}"
        given = ctx.params.get(param.name or "")
        used = given if isinstance(given, tuple) else ()
        suffix = ":" if paths else ""
        items = [
            CompletionItem(f"{word}{suffix}", help=output.cell(text))
            for word, text in _candidates(source, ctx.params)
            if word.startswith(incomplete) and word not in used and _SAFE.fullmatch(word)
        ]
        # The script of bash drops what comes before a file.
        return [CompletionItem(incomplete, type="file"), *items] if paths else items


def _fields(incomplete: str, root: str) -> "list[CompletionItem]":
    """Return the fields at the level of an incomplete one; `root` is left out of them."""
    from click.shell_completion import CompletionItem

    from kubectl_sky.spec import explain

    parent = explain.explain(root + incomplete.rpartition(".")[0])
    words = [(field.name.removeprefix(root), field.summary) for field in parent.fields()]
    words += [(name, "") for name in explain.ROOTS[1:] if not parent.path and not root]
    return [CompletionItem(word, help=text) for word, text in words if word.startswith(incomplete)]


def add_types(params: Iterable[click.Parameter]) -> None:
    """Replace the type of text parameters whose values can be completed."""
    for param in params:
        kind = {"FILE": "file", "DIR": "dir"}.get(param.metavar or "", _KINDS.get(param.name or ""))
        if kind and param.type is click.STRING:
            param.type = Text(kind)


def _candidates(source: str, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    if source == "examples":
        from kubectl_sky.actions import gallery

        return [(name, text) for name, (_, text) in gallery.list_examples().items()]
    if not source.startswith("settings."):
        return _fetch(source, params)
    from kubectl_sky.spec import explain

    return [(value, "") for value in explain.explain(source).values]


def _fetch(source: str, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Ask the cluster, for a second at most; an error gives no words."""
    from importlib import metadata

    from kubectl_sky.actions import completion
    from kubectl_sky.cli import options
    from kubectl_sky.cluster import parallel

    words: list[tuple[str, str]] = []

    def fetch() -> None:
        with suppress(Exception):  # nothing may be printed into the line that is completed
            flags = options.flags_of({**params, "request_timeout": _DEADLINE_SECONDS})
            request = completion.Request(
                flags.flags(note=str),
                flags.user,
                bool(params.get("all_users")),
                flags.all_namespaces,
            )
            if source in completion.SOURCES:
                words.extend(completion.candidates(source, request))
            for entry in metadata.entry_points(group=_GROUP, name=source):
                words.extend(entry.load()(request.session()))

    parallel.run_daemon(fetch, name=_THREAD).join(_DEADLINE_SECONDS)
    return list(words)


def answer(command: click.Command, words: Sequence[str]) -> bool:
    """Answer kubectl's request for completions; return whether this is one.

    Click answers those of shells.
    """
    if words[:1] == [COMMAND]:
        _silence()
        _respond(command, words[1:])
        if any(thread.name == _THREAD for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(0)  # an exit waits for the requests of other threads
        return True
    if shell := os.environ.get(VARIABLE, "").partition("_")[0]:
        _silence()
        if shell != "bash":
            _keep_option_names(shell)
    return False


def _keep_option_names(shell: str) -> None:
    """Complete `--for=` to `--for=completed`: bash replaces the value, other shells the word."""
    from click.shell_completion import ShellComplete, add_completion_class, get_completion_class

    base: Any = get_completion_class(shell) or ShellComplete

    class Complete(base):  # type: ignore[misc]
        def get_completions(self, args: list[str], incomplete: str) -> "list[CompletionItem]":
            items: list[CompletionItem] = super().get_completions(args, incomplete)
            option, equals, _ = incomplete.partition("=")
            for item in items if equals and option.startswith("--") else ():
                if item.type == "plain":
                    item.value = f"{option}={item.value}"
            return items

    add_completion_class(Complete, shell)


def _silence() -> None:
    """Drop what credential plugins and errors print: the user is typing a command line."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 2)


def _respond(command: click.Command, words: Sequence[str]) -> None:
    """Print the candidates for the last word in cobra's format, which kubectl reads."""
    from click.shell_completion import ShellComplete

    *args, incomplete = words or [""]
    items: list[CompletionItem] = []
    with suppress(Exception):
        items = ShellComplete(command, {}, "kubectl sky", VARIABLE).get_completions(
            args, incomplete
        )
    lines = [
        f"{item.value}\t{' '.join((item.help or '').split())}".rstrip("\t")
        for item in items
        if item.type == "plain"
    ]
    directive = _NO_FILES
    types = {item.type for item in items}
    if "dir" in types:
        directive = _FOLDERS
    elif "file" in types:
        directive = _NO_SPACE if len(items) > 1 else 0
    output.out("\n".join([*lines, f":{directive}"]))
