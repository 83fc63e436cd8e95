"""Hints and texts of the program name only flags that exist."""

import ast
from collections.abc import Iterator
from pathlib import Path

import kubectl_sky
from tests.hints import find_unknown_flags, find_unknown_flags_of_text

FOLDER = Path(kubectl_sky.__file__).parent


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the string constants, and f-strings with X for each value."""
    inside = set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            values = (getattr(part, "value", None) for part in node.values)
            yield "".join(value if isinstance(value, str) else "X" for value in values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value


def test_commands_in_texts_of_the_program_have_their_flags() -> None:
    unknown = [
        f"{path.relative_to(FOLDER)}: {flag}"
        for path in sorted(FOLDER.rglob("*.py"))
        for text in texts(ast.parse(path.read_text()))
        for flag in find_unknown_flags_of_text(text)
    ]
    assert unknown == []


def test_hint_with_flag_that_the_command_lacks_is_found() -> None:
    err = "error: no\nhint: add --all-users, or run `kubectl sky list --al` or `git add --all`"
    assert [flag.split()[0] for flag in find_unknown_flags(["submit"], err)] == [
        "--al",
        "--all-users",
    ]
    assert list(find_unknown_flags(["logs", "x"], "hint: add --all-users\n")) == []
