"""`make demo` runs to the end and leaves no files, even if interrupted."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import default_signals


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `make demo` in this environment with an empty TMPDIR."""
    root = Path(__file__).parent.parent.parent
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [str(root / ".ci" / "demo.sh"), str(Path(sys.executable).parent)],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=default_signals,
    )

    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)

    assert list(temporary.iterdir()) == []
    assert list(tmp_path.iterdir()) == [temporary]


def test_demo_prints_output_of_all_commands(demo: subprocess.Popen[str]) -> None:
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, output
    assert re.search(r"^node-2 \| rank 2 of 3; turns so far: 0 1 2$", output, re.MULTILINE)
    commands = {
        line.split()[3] for line in output.splitlines() if line.startswith("$ kubectl sky ")
    }
    assert commands >= {"validate", "render", "submit", "logs", "status", "list", "volumes", "stop"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_interrupted_leaves_no_temporary_files(
    demo: subprocess.Popen[str], number: signal.Signals
) -> None:
    """The fixture checks that no files are left."""
    assert demo.stdout
    while not demo.stdout.readline().startswith("$ kubectl sky volumes create"):
        assert demo.poll() is None
    os.killpg(demo.pid, number)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode != 0
    assert "That took" not in output
