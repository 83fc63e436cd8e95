"""Write the man pages of all commands into a folder, with every option."""

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click_man.man import ManPage

from kubectl_sky import __version__
from kubectl_sky.cli.commands import Command
from kubectl_sky.cli.main import sky


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page: kubectl-sky and kubectl-sky-submit."""
    yield from _pages(sky, click.Context(sky, info_name="kubectl-sky"))


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    page = ManPage(context.command_path.replace(" ", "-"))
    page.version = __version__
    page.short_help = _escaped(command.get_short_help_str(limit=1000))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = _description(command)
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in options))
    page.options = [(names, _escaped(text)) for names, text in records]

    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            page.commands.append((name, _escaped(child.get_short_help_str(limit=1000))))
            yield from _pages(child, click.Context(child, info_name=name, parent=context))

    yield page.command, str(page)


def _description(command: click.Command) -> str:
    """Return the whole help text, then the examples."""
    paragraphs = cleandoc(command.help or "").replace("\f", "").split("\n\n")
    parts = [
        f".nf\n{text.removeprefix(mark)}\n.fi" if text.startswith(mark := "\b\n") else text
        for text in map(_escaped, paragraphs)
    ]
    if isinstance(command, Command) and command.examples:
        lines = (_escaped(f"kubectl sky {example}") for example in command.examples)
        parts.append("\n".join([".SH EXAMPLES", ".nf", *lines, ".fi"]))
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Escape what groff would read as a request."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", r"\e"), flags=re.MULTILINE)


if __name__ == "__main__":
    folder = Path(sys.argv[1], "man1")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")
