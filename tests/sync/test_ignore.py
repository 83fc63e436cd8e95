"""Ignore files match as in git: compared with git."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.sync import ignore

NAMES = ["a", "b", "ab", "a.c", "-", "]", "[", "!", "#a", " ", "a ", "\\", "é", "a*", "é?"]
SPECIAL = [
    "*",
    "**",
    "?",
    "/",
    "!",
    "[a-c]",
    "[!a]",
    "[]a]",
    "[^b-",
    "[[:alpha:]]",
    "[[:x:]]",
    "\\",
]
PATTERN = st.lists(st.sampled_from([*NAMES, *SPECIAL, "[", ":", "^", "\\*"]), max_size=6)
FOLDERS = ["", "a/", "ab/", "é/", "b/", "a/b/", "ab/b/", "é/a /"]
PATHS = [folder + name for folder in FOLDERS for name in NAMES]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def by_git(root: Path, lines: list[str], paths: list[str]) -> set[str]:
    """Return the paths that git ignores."""
    (root / ".gitignore").write_text("\n".join(lines))
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        env=environment,
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(filter(None, done.stdout.split("\0")))


def by_us(lines: list[str], paths: list[str]) -> set[str]:
    known = ignore.read("\n".join(lines).encode())

    def out(path: str, folder: bool) -> bool:
        matching = (rule for rule in reversed(known) if rule.matches(path.encode(), folder))
        last = next(matching, None)
        return bool(last and not last.negated)

    def ignored(path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:end]) for end in range(1, len(parts))]
        return any(out(folder, True) for folder in above) or out(path, False)

    return {path for path in paths if ignored(path)}


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(PATTERN.map("".join), min_size=1, max_size=4))
def test_patterns_random_match_like_git(repository: Path, lines: list[str]) -> None:
    assert by_us(lines, PATHS) == by_git(repository, lines, PATHS)


@pytest.mark.parametrize(
    "line",
    [
        *("*", "**", "/", "//", "a/**", "**/a", "a/**/a.c", "a**/b", "x/a**", "a/", "!a", "\\!"),
        *("[a-", "[", "[]", "[]]", "[!]]", "[b-a]", "[a-c-e]", "[[:digit:]-z]", "\\", "a\\"),
        *("a ", "a  ", " ", "?", "é", "é?", "[\\]]", "***", "a/*", "/*/b", "a\r", "\t", "a\\ "),
        *("[[:alpha:", "\\#a"),
    ],
)
def test_patterns_every_form_matches_like_git(repository: Path, line: str) -> None:
    assert by_us([line], PATHS) == by_git(repository, [line], PATHS)
    both = ["*", f"!{line}"]
    assert by_us(both, PATHS) == by_git(repository, both, PATHS)


def test_patterns_are_combined_into_few_expressions() -> None:
    lines = [f"name{number}*" for number in range(10_000)]
    assert len(ignore.read("\n".join(lines).encode())) < 10
    assert len(ignore.read(b"a\n!b\nc\nd/\n!e\n")) == 4


@given(line=st.binary(max_size=40), path=st.binary(max_size=40))
def test_patterns_random_bytes_are_parsed(line: bytes, path: bytes) -> None:
    for rule in ignore.read(line):
        assert rule.matches(path, folder=True) in (True, False)


def test_patterns_too_long_line_is_refused() -> None:
    with pytest.raises(ignore.LineTooLong, match="2"):
        ignore.read(b"a\n" + b"x" * (ignore.MAX_LINE + 1))


HOSTILE = {
    "stars": ["*a" * 1000 + "b"],
    "folders": ["**/x" * 500 + "z"],
    "question marks": ["?" * 4000 + "b"],
    "brackets": ["[!a-c]*" * 500],
    "lines of stars": ["*a" * 20 + "b"] * 1000,
    "lines": [f"name{number}*" for number in range(10_000)],
    "negated lines": ["!" * (number % 2) + f"*{number}" for number in range(500)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_patterns_hostile_lines_take_no_exponential_time(name: str) -> None:
    rules = ignore.read("\n".join(HOSTILE[name]).encode())
    paths = [b"a" * 240, b"x/" * 2000 + b"y", b"a" * 4096]
    paths += [b"dir%d/file%d.py" % (number % 10, number) for number in range(200)]
    start = time.process_time()
    for path in paths:
        for rule in rules:
            rule.matches(path, folder=False)
    assert time.process_time() - start < 20, "CPU seconds"


def test_patterns_invalid_utf8_names_match_by_byte() -> None:
    (rule,) = ignore.read(b"?.log\n\xff\xfe*\n[\x80-\x8f]")
    for name in (b"\xff.log", b"\xff\xfe", b"a/\xff\xfe\n", b"\x85"):
        assert rule.matches(name, folder=False)
    for name in ("é.log".encode(), b"\xfe\xff", b"\x90"):
        assert not rule.matches(name, folder=False)
