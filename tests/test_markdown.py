"""Pages are marked as `tests/markdown.py` says, and printed output is compared strictly."""

import re
import shlex
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.commands import parse
from tests.markdown import LANGUAGES, PAGES, ROOT, Command, blocks, steps

PICTURES = sorted((ROOT / "docs" / "images").glob("terminal*.svg"))


def commands(page: Path) -> list[Command]:
    text = page.read_text(encoding="utf-8")
    return [step for step in steps(text) if isinstance(step, Command)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_blocks_follow_convention(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"(?m)^ *(?:```|~~~)", text)
    assert len(fences) == 2 * len(blocks(text)), "a block is not closed, or not of three backticks"
    for block in blocks(text):
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, where
        assert block.language != "console" or block.text.startswith("$ "), f"{where}: use `text`"
        assert block.language != "sh" or not block.text.startswith("$ "), f"{where}: use `console`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_commands_not_run_are_accepted_by_parser(page: Path) -> None:
    for command in commands(page):
        for line in sky_lines(command.text) if command.not_run else ():
            parse(line)


def test_commands_not_run_are_few() -> None:
    """Apart from those of `make`, which run elsewhere in CI."""
    every = [command for page in PAGES for command in commands(page)]
    every = [command for command in every if command.not_run != "builds the project"]
    reasons = Counter(command.not_run for command in every if command.not_run)
    assert reasons.total() < len(every) / 3, reasons.most_common()


def sky_lines(text: str) -> list[list[str]]:
    """Return the words of each `kubectl sky` in a shell command."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lines: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;()<>"):
            lines.append([])
        else:
            lines[-1].append(word)
    return [line[2:] for line in lines if line[:2] == ["kubectl", "sky"]]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_picture_of_terminal_shows_existing_commands(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    lines = "".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ")
    shown = re.findall(r"\$\s*(kubectl sky [^\n]*)", lines)
    assert shown
    for line in shown:
        (words,) = sky_lines(line)
        parse(words)
    assert text.count("<clipPath") <= 43, "more than 42 rows"
    assert any(f"images/{picture.name})" in page.read_text(encoding="utf-8") for page in PAGES)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
