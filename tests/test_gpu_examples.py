"""Without a GPU: the small forms are valid tasks, and `make test-gpu` says that it did not run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from programs.gpu.__main__ import SMALL, Machine, Small, shrink
from tests.e2e.command import PROGRAM, ROOT, Command


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.number)
def test_small_form_of_example_is_valid(tmp_path: Path, small: Small) -> None:
    text = shrink(small._replace(has_model=False), Machine(tmp_path, sys.executable), gpus=2)
    sky = Command(PROGRAM, {**os.environ, "HOME": str(tmp_path)}, ROOT)
    done = sky("validate", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert "accelerators: 1\n" in text and "setup:" not in text


def test_gpu_tests_without_gpu_fail_and_say_that_nothing_ran(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": "/nonexistent"}
    command = [sys.executable, "-m", "programs.gpu"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    assert "NO GPU: NOTHING WAS RUN: nvidia-smi finds none" in done.stdout
