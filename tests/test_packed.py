"""`.ci/packed.py` finds statements that pack several steps into one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / ".ci" / "packed.py"


def check(folder: Path, source: str) -> tuple[int, str]:
    (folder / "it.py").write_text(source)
    command = [sys.executable, str(PROGRAM), "it.py"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("a, b = 1, 2", "1: two assignments in one statement"),
        ("x = (\n    1,\n    2 if y else 3,\n)", "3: conditional expression in a tuple"),
        ("x = (1, *(y if z else ()))", "1: conditional expression in a tuple"),
        ("f(1, 2 if y else 3)", "1: conditional expression in a call of several arguments"),
        ("f(1, a=2 if y else 3)", "1: conditional expression in a call of several arguments"),
        ("f(*(a if y else b), c)", "1: conditional expression in a call of several arguments"),
        (
            "x = 1 if y else 2 if z else 3",
            "1: conditional expression in another conditional expression",
        ),
    ],
)
def test_packed_statement_is_reported_with_its_line(
    tmp_path: Path, source: str, problem: str
) -> None:
    assert check(tmp_path, source) == (1, f"it.py:{problem}\n")


@pytest.mark.parametrize(
    "source", ["a, b = b, a", "a, b = f()", "x = 1 if y else 2", "f(1 if y else 2)", ""]
)
def test_statement_of_one_step_passes(tmp_path: Path, source: str) -> None:
    assert check(tmp_path, source) == (0, "")
