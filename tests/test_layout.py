"""Project rules that linters do not check: names and file locations."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kubectl_sky"
TESTS = ROOT / "tests"
CODE_FOLDERS = (
    PACKAGE,
    TESTS,
    ROOT / "programs",
    *ROOT.glob("packages/*/kubectl_sky_*"),
    *ROOT.glob("packages/*/*_tests"),
)
STANDINS = TESTS / "cluster" / "standins"  # other people's programs, as far as modules go
FILES = sorted(
    path
    for folder in CODE_FOLDERS
    for path in folder.rglob("*.py")
    if not path.is_relative_to(STANDINS) and not path.name.endswith("_pb2.py")
)
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "tools", "stuff"}
TOP_LEVEL = {
    ".ci",
    ".dockerignore",
    ".gitattributes",
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
    "conftest.py",
    "docs",
    "examples",
    "kubectl_sky",
    "mkdocs.yml",
    "packages",
    "plugin.yaml",
    "programs",
    "pyproject.toml",
    "runtime",
    "schemas",
    "templates",
    "tests",
}

MAP = ROOT / "docs" / "code-map.md"
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_layout_files_follow_rules() -> None:
    """All files in one test: it lists every violation."""
    assert not [f"{name_of(path)}: {violation}" for path in FILES for violation in violations(path)]


def violations(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if text and not ast.get_docstring(tree):
        yield "no docstring that says what the file is for"

    for node in ast.walk(tree):
        if isinstance(node, Function):
            if length(node) > 70:
                yield f"{node.name}() is longer than 70 lines"
            if parameters(node) > 6:
                yield f"{node.name}() has more than 6 parameters"

    inside = path.relative_to(next(filter(path.is_relative_to, CODE_FOLDERS)))
    if len(inside.parts) > 2:
        yield "deeper than one folder"
    if VAGUE & {part.strip("_") for part in inside.with_suffix("").parts}:
        yield "a vague name"


def test_only_parallel_starts_threads() -> None:
    """An event loop's threads are its own."""
    starts = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"Thread", "Timer", "ThreadPoolExecutor"}
    }
    assert starts == {"cluster/parallel.py"}


def test_layout_top_level_has_only_known_entries() -> None:
    assert set(git("ls-tree", "--name-only", "HEAD").split()) <= TOP_LEVEL


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    parts = re.split(r"^## (.*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_code_map_names_every_module_and_no_other() -> None:
    text = sections(MAP)
    rows = [line.split("|") for line in text["Folders"].splitlines() if line.startswith("| `")]
    folders = {name for row in rows for name in CODE.findall(row[1])} - {"kubectl_sky/"}
    table, _, words = text["Modules that all layers use"].partition("\nIn `words/`:\n")
    modules = {name for row in table.splitlines() for name in CODE.findall(row.split(" | ")[0])}
    paths = git("ls-files", "--cached", "--others", "--exclude-standard", "kubectl_sky")
    entries = [line.split("/")[1:] for line in paths.splitlines() if (ROOT / line).exists()]
    assert folders == {parts[0] for parts in entries if len(parts) > 1}
    assert modules - {"kubectl_sky/"} == {parts[0] for parts in entries if len(parts) == 1}
    listed = {name for row in words.splitlines() for name in CODE.findall(row.split(" | ")[0])}
    assert listed | {"__init__.py"} == {parts[1] for parts in entries if parts[0] == "words"}


def test_code_map_first_files_exist() -> None:
    for line in sections(MAP)["Folders"].splitlines():
        if line.startswith("| `") and "`kubectl_sky/`" not in line:
            _, folder, _, first, _ = line.split("|")
            for name in CODE.findall(first):
                assert (PACKAGE / folder.strip(" `") / name).is_file(), (folder, name)


def test_code_map_picture_has_layers_of_import_linter() -> None:
    (picture,) = FENCE.findall(sections(MAP)["Layers"])
    rows = [re.split(r" {3,}(?=\S)", line.strip())[:-1] for line in picture.splitlines()]
    drawn = [set(re.findall(r"\w+", " ".join(row))) for row in rows]
    project = (ROOT / "pyproject.toml").read_text()
    (layers,) = re.findall(r"^layers = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    linted = [set(re.findall(r"\w+", line)) for line in layers.splitlines()]
    assert drawn == linted


def test_layout_readme_fits_a_page() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert (len(lines) <= 110, [line for line in lines if len(line) > 110]) == (True, [])


def length(function: Function) -> int:
    """Return the number of lines from `def` to the end."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Return the number of parameters without `self` and `cls`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    counted = [argument for argument in named if argument.arg not in {"self", "cls"}]
    return len(counted) + bool(arguments.vararg) + bool(arguments.kwarg)
