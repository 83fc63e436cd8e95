"""Pages are marked as `tests/markdown.py` says, and printed output is compared strictly."""

import re
import shlex
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from tests.cli.commands import parse
from tests.markdown import LANGUAGES, PAGES, ROOT, Command, File, Transcript, blocks, steps

PAGE = """\
<!-- setup
kubectl sky submit train.yaml
-->
<!-- not run: needs GPUs: nvidia-smi -->
```sh
kubectl sky logs \\
  train
kubectl sky exec train -- nvidia-smi
```
```yaml title="task.yaml"
name: a
```
```console
$ kubectl sky submit task.yaml
task/kqf7x2wm submitted
$ kubectl sky list
```
"""


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


def test_picture_of_terminal_shows_existing_commands() -> None:
    text = (ROOT / "docs" / "images" / "terminal.svg").read_text(encoding="utf-8")
    lines = "".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ")
    shown = re.findall(r"\$\s*(kubectl sky [^\n]*)", lines)
    assert len(shown) > 1
    for line in shown:
        parse(line.split()[2:])
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_steps_of_page_have_lines_output_and_reasons() -> None:
    assert steps(PAGE) == [
        Command(2, "kubectl sky submit train.yaml"),
        Command(6, "kubectl sky logs \\\n  train"),
        Command(8, "kubectl sky exec train -- nvidia-smi", not_run="needs GPUs"),
        File("task.yaml", "name: a\n"),
        Command(14, "kubectl sky submit task.yaml", "task/kqf7x2wm submitted\n"),
        Command(16, "kubectl sky list", ""),
    ]


@pytest.mark.parametrize(
    "marker", ["<!-- not run: too slow -->", "<!-- not run: needs GPUs: rocm-smi -->"]
)
def test_marker_without_known_reason_or_command_is_refused(marker: str) -> None:
    with pytest.raises(ValueError, match=r"too slow|rocm-smi"):
        steps(f"{marker}\n```sh\nls\n```\n")


@pytest.mark.parametrize("line", ["kubectl sky lost", "kubectl sky list --no-such-flag"])
def test_unknown_command_or_flag_is_refused(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(sky_lines(f"true && {line} | cat")[0])


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("ID   AGE\nkqf7x2wm   2s\n", "ID       AGE\nabcd2345   1m5s\n", True),
        ("kqf7x2wm kqf7x2wm", "abcd2345 abcd2345", True),
        ("kqf7x2wm kqf7x2wm", "abcd2345 wxyz2345", False),
        ("rank 0 is 10.0.0.1", "rank 0 is 127.65.0.3", True),
        ("rank 0 is 10.0.0.1", "rank 1 is 10.0.0.1", False),
        ("node-0 | a\nnode-1 | b\n", "node-1 | b\nnode-0 | a\n", True),
        ("node-0 | a\nnode-1 | b\n", "node-1 | b\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n…\n", "b\nc\n", False),
        ("a\n", "a\nwarning: b\n", False),
        ("a\n", "", False),
        ("", "a\n", False),
        ("cpus: 4", "cpus: 5", False),
        ("in /home/…/settings.yaml", "in /home/me/.config/settings.yaml", True),
    ],
)
def test_output_is_compared_without_what_varies(expected: str, printed: str, same: bool) -> None:
    assert Transcript(PAGE).matches(expected, printed) is same


def test_ids_of_page_stand_for_printed_ids() -> None:
    transcript = Transcript(PAGE)
    assert transcript.matches("task/kqf7x2wm submitted", "task/abcd2345 submitted")
    assert transcript.actual("kubectl sky stop kqf7x2wm") == "kubectl sky stop abcd2345"
    assert not transcript.matches("kqf7x2wm", "wxyz2345")
