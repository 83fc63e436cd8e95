"""The example of README.md: an operator and a client that are none of ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.mark.tools
@pytest.mark.practice
def test_readme_operator_passes_its_test(tmp_path: Path) -> None:
    for package in ("kopf", "lightkube"):
        pytest.importorskip(package, reason="only `make test` of this package installs it")
    for name, text in FILE.findall(README.read_text()):
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
