"""`make demo` runs to the end and leaves no files, even if interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
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


PIP = """\
Collecting kubernetes>=37 (from kubectl-sky==0.1.0)
  Downloading kubernetes-37.0.2-py2.py3-none-any.whl (7.5 MB)
  Downloading sh-2.4.0-py3-none-any.whl (48 kB)
  Using cached click-8.5.1-py3-none-any.whl (126 kB)
Installing collected packages: kubernetes, sh, click
"""


def install(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run what `make demo` runs to install, with a shell script instead of Python and pip."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    program = Path(__file__).parent.parent.parent / ".ci" / "install.py"
    return subprocess.run(
        [sys.executable, str(program), str(python), "25", "."],
        env={"DEMO_STARTED": str(int(time.time()) - 100)},
        capture_output=True,
        text=True,
    )


def test_demo_install_prints_downloads_with_time(tmp_path: Path) -> None:
    done = install(tmp_path, f"cat <<'EOF'\n{PIP}EOF")
    lines = [re.fullmatch(r"1\d\d s  (.*)", line) for line in done.stdout.splitlines()]
    assert [line and line[1] for line in lines] == [
        "download the packages with pip: about 25 MB, unless they are in its cache",
        "  kubernetes 37.0.2, 7.5 MB",
        "unpack 3 packages, 7.5 MB of which were downloaded",
        "installed into .venv",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_demo_install_failed_prints_output_of_pip(tmp_path: Path) -> None:
    done = install(tmp_path, "echo Looking in indexes; echo ERROR: no network >&2; exit 7")
    assert done.returncode == 7
    assert "ERROR: no network\n" in done.stderr and "Looking in indexes\n" in done.stderr
    assert "installed" not in done.stdout


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
