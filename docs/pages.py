"""Hooks of mkdocs: pages that are generated, and links to files that are not pages."""

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import reference  # noqa: E402 - beside this file
import tables  # noqa: E402

from kubectl_sky.cli.main import COMMANDS, sky  # noqa: E402 - of this checkout

# Files beside docs/ that are pages of the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "packages/practice/README.md": "practice-cluster.md",
}
# Sources of pages that are generated: links to them are links to the pages.
GENERATED = {
    "schemas/task.json": "reference/task-fields.md",
    "schemas/settings.json": "reference/settings.md",
    "packages/server/web/src/models.ts": "reference/documents.md",
    "kubectl_sky/words/skypilot_verbs.py": "reference/skypilot-commands.md",
    "kubectl_sky/spec/danger_fields.py": "reference/dangers.md",
    "kubectl_sky/errors.py": "reference/exit-codes.md",
    "kubectl_sky/submitting/overrides.py": "reference/task-flags.md",
    "kubectl_sky/spec/variables.py": "reference/environment.md",
    "kubectl_sky/observe/rules.py": "reference/findings.md",
}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
_HELP_WIDTH = 80  # columns


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        files.append(File.generated(config, page, content=_LINK.sub(_to_page, text)))
    pages = {
        "reference/index.md": "\n".join(_index(config)),
        "reference/commands.md": "\n".join(_commands()),
        **reference.pages(),
        **tables.pages(),
    }
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: Any) -> str:
    """Make links to files outside docs/ links to other pages, or to the repository."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replace(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        if target := PAGES.get(path) or GENERATED.get(path):
            return posixpath.relpath(target, folder.removeprefix("docs").lstrip("/") or ".")
        if path.startswith("docs/") or not (ROOT / path).exists():
            return match[1]
        return f"{config.repo_url}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"

    return _LINK.sub(replace, markdown)


def _to_page(match: re.Match[str]) -> str:
    """Return a link of a page beside docs/ as one of a page in docs/."""
    path = match[1]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"


def _index(config: MkDocsConfig) -> Iterator[str]:
    """Yield the lines of the page that leads to those of the reference."""
    yield "# Reference\n"
    sections = {title: pages for section in config.nav or () for title, pages in section.items()}
    for entry in sections["Reference"]:
        if isinstance(entry, dict):
            ((title, page),) = entry.items()
            yield f"- [{title}]({posixpath.relpath(page, 'reference')})"


def _commands() -> Iterator[str]:
    """Yield the lines of the page of commands: their help."""
    yield "# Commands\n"
    yield "Each section is what `kubectl sky COMMAND --help` prints.\n"
    parent = click.Context(sky, info_name="kubectl sky")
    for name in COMMANDS:
        command = sky.get_command(parent, name)
        assert command is not None
        yield from _help(command, name, parent, level=2)


def _help(command: click.Command, name: str, parent: click.Context, level: int) -> Iterator[str]:
    context = click.Context(command, parent, info_name=name, terminal_width=_HELP_WIDTH)
    title = context.command_path.removeprefix("kubectl sky ")
    yield f"{'#' * level} {title}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            assert below is not None
            yield from _help(below, child, context, level + 1)
