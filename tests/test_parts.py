"""`.ci/part.py` runs tests that fail once more, alone, and says how long each part took."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / ".ci" / "part.py"
TESTS = """
from pathlib import Path
import pytest

def test_good(): pass
def test_flaky(tmp_path_factory):
    flag = Path(__file__).with_name("flag")
    ran = flag.exists()
    flag.touch()
    assert ran
"""
BROKEN = "@pytest.mark.parametrize('n', range({count}))\ndef test_broken(n): assert n is None\n"


def run(folder: Path, *command: str) -> tuple[int, str]:
    plugins = {"PYTEST_ADDOPTS": "-p xdist", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**os.environ, **plugins, "PARTS": str(folder / "parts.txt")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "unit tests", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def run_tests(folder: Path, text: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").touch()
    return run(folder, str(Path(sys.executable).with_name("pytest")), "-n2", "-m", "not slow")


def test_part_with_test_that_passes_alone_passes_and_names_it(tmp_path: Path) -> None:
    code, output = run_tests(tmp_path, TESTS)
    assert code == 0, output
    assert "running again, alone: 1 of the tests" in output
    first, *rest = (tmp_path / "parts.txt").read_text().splitlines()
    assert first.startswith("unit tests: passed after 0 min ")
    assert rest[:2] == ["passed only alone:", "  test_it.py::test_flaky"]
    assert rest[2:4] == ["why tests failed:", "  assert False"]


@pytest.mark.parametrize(("count", "again"), [(1, True), (5, False)])
def test_part_with_test_that_fails_again_or_many_fails(
    tmp_path: Path, count: int, again: bool
) -> None:
    code, output = run_tests(tmp_path, TESTS + BROKEN.format(count=count))
    assert code == 1
    assert ("running again, alone: 2 of the tests" in output) is again
    assert ("more than 5 tests failed: they are not run again" in output) is not again
    report = (tmp_path / "parts.txt").read_text()
    assert "unit tests: failed with exit code 1 after" in report
    assert "  assert 0 is None" in report


def test_part_whose_tests_cannot_be_collected_fails(tmp_path: Path) -> None:
    code, output = run_tests(tmp_path, "import nothing_of_this_name")
    assert code not in (0, 5), output


def test_part_of_another_program_keeps_its_exit_code(tmp_path: Path) -> None:
    code, output = run(tmp_path, "sh", "-c", "echo text; exit 3")
    assert code == 3
    assert output.startswith("text\nunit tests: failed with exit code 3 after 0 min ")
