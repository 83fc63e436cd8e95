"""Help texts: groups, examples, and the options of each command."""

import re

import pytest
from click.testing import CliRunner

from kubectl_sky.cli.main import COMMANDS, main, sky
from tests.cli.commands import commands, parse


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(sky, [*arguments, "--help"], prog_name="kubectl sky").output


@pytest.mark.parametrize("name", commands())
def test_help_examples_are_accepted_by_parser(name: str) -> None:
    command = commands()[name]
    words = name.split()
    assert len(command.examples) >= 2
    for example in command.examples:
        line = re.split(r" \| | && ", example)[0].split()
        assert line[: len(words)] == words
        parse(line)


@pytest.mark.parametrize("name", commands())
def test_help_of_each_command_fits_the_terminal_and_has_no_shared_options(name: str) -> None:
    text = help_of(*name.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "--context" not in text and "--quiet" not in text
    assert text.index("Examples:") < text.index("\nOptions:") < text.rindex("kubectl sky options")
    assert not re.search(r"^  -.* (TEXT|INTEGER|INTEGER RANGE)( |$)", text, re.MULTILINE)


def test_help_lists_options_of_command_before_common_ones() -> None:
    for name in ("wait", "list", "doctor", "exec"):
        text = help_of(*name.split()).partition("Options:")[2]
        options = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)
        assert options[-5:] == ["namespace", "all-namespaces", "user", "all-users", "help"]


def test_options_lists_connection_and_general_options() -> None:
    text = CliRunner().invoke(sky, ["options"]).output
    assert all(f" {name} " in text for name in ("--context CONTEXT", "--quiet", "--as-group GROUP"))


def test_help_of_groups_shows_whole_summaries() -> None:
    text = " ".join(help_of("config").split())
    assert "where each value comes from: file and line, default, environment" in text
    assert "..." not in text.partition("Commands:")[2]


def test_help_of_all_users_speaks_of_no_tasks_where_there_are_none() -> None:
    for words in (["volumes", "list"], ["serve", "status"]):
        (line,) = [line for line in help_of(*words).splitlines() if "  --all-users" in line]
        assert "tasks" not in line


def test_help_lists_every_command_in_group() -> None:
    text = help_of()
    assert all(name in text for name in COMMANDS)
    assert text.index("Write and review:") < text.index("Watch:") < text.index("Exit codes:")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("statu", "; did you mean `kubectl sky status`?"),
        ("help statu", "; did you mean `kubectl sky status`?"),
    ],
)
def test_unknown_command_suggests_similar_command(words: str, advice: str) -> None:
    done = CliRunner().invoke(sky, words.split(), prog_name="kubectl sky")
    assert done.exit_code == 2
    assert f'unknown command "{words.split()[-1]}"{advice}' in done.output


@pytest.mark.parametrize(
    ("words", "usage"),
    [("help", "[OPTIONS]"), ("help submit", "submit"), ("help volumes list", "volumes list")],
)
def test_help_command_prints_help_as_kubectl(words: str, usage: str) -> None:
    done = CliRunner().invoke(sky, words.split(), prog_name="kubectl sky")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: kubectl sky {usage}")


def test_unknown_command_of_group_is_named_with_group() -> None:
    done = CliRunner().invoke(sky, ["volumes", "lst"], prog_name="kubectl sky")
    assert done.exit_code == 2
    advice = "did you mean `kubectl sky volumes list`?"
    assert f'unknown command "volumes lst"; {advice}' in done.output


@pytest.mark.parametrize("words", ["", "volumes", "serve -n team"])
def test_group_without_command_prints_help_on_stdout(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    code = main(words.split())
    out, err = capsys.readouterr()
    assert (code, out.startswith("Usage: "), err) == (0, True, "")


def test_unknown_command_with_escape_codes_is_shown_without_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *given: False)  # a terminal
    for words in (["no\x1b[2J\x9b2Jsense"], ["logs", "x", "--rank", "\x1b[2J"]):
        assert main(words) == 2
    assert {"\x1b", "\x9b"}.isdisjoint(capsys.readouterr().err)
