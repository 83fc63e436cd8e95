"""Project rules that linters do not check: names and file locations."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kubectl_sky"
TESTS = ROOT / "tests"
STANDINS = TESTS / "cluster" / "standins"  # other people's programs, as far as modules go
FILES = sorted(
    path
    for path in (*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py"))
    if not path.is_relative_to(STANDINS) and not path.name.endswith("_pb2.py")
)
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "tools", "stuff"}
TOP_LEVEL = {
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-hooks.yaml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "action.yml",
    "docs",
    "examples",
    "kubectl_sky",
    "mkdocs.yml",
    "plugin.yaml",
    "pyproject.toml",
    "runtime",
    "schemas",
    "templates",
    "tests",
    "web",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_layout_files_follow_rules() -> None:
    """All files in one test: it lists every violation."""
    assert not [f"{name_of(path)}: {said}" for path in FILES for said in violations(path)]


def violations(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if text and not ast.get_docstring(tree):
        yield "no docstring that says what the file is for"
    for node in ast.walk(tree):
        if isinstance(node, Function):
            if length(node) > 50:
                yield f"{node.name}() is longer than 50 lines"
            if parameters(node) > 6:
                yield f"{node.name}() has more than 6 parameters"
    inside = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else TESTS)
    if len(inside.parts) > (3 if inside.parts[0] == "controllers" else 2):
        yield "deeper than one folder"
    if VAGUE & {part.strip("_") for part in inside.with_suffix("").parts}:
        yield "a vague name"


def test_layout_top_level_has_only_known_entries() -> None:
    listed = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(listed.stdout.split()) <= TOP_LEVEL


def test_layout_length_and_parameters_are_counted() -> None:
    """Check the measuring functions at their limits."""
    tree = ast.parse("def f(self, a, /, b, *c, d, **e):\n" + "    pass\n" * 49)
    (function,) = tree.body
    assert isinstance(function, Function)
    assert (length(function), parameters(function)) == (50, 5)


def length(function: Function) -> int:
    """Return the number of lines from `def` to the end."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Return the number of parameters without `self` and `cls`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    counted = [argument for argument in named if argument.arg not in {"self", "cls"}]
    return len(counted) + bool(arguments.vararg) + bool(arguments.kwarg)
