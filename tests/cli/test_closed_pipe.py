"""Exit codes of commands whose output nobody reads any more, as below `| head`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_sky.cli.main import main, sky


def exit_code(folder: Path, *arguments: str, closed: str) -> int:
    """Run a command with a stream that is a pipe without reader, and return its exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    streams |= dict.fromkeys(closed.split(), writer)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "kubectl_sky", *arguments],
        cwd=folder,
        env=environment,
        stdout=streams["stdout"],
        stderr=streams["stderr"],
        check=False,
    )
    os.close(writer)
    return done.returncode


def test_exit_of_a_library_keeps_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sky, "invoke", lambda context: sys.exit(5))
    with pytest.raises(SystemExit) as caught:
        main(["version"])
    assert caught.value.code == 5


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        ("render good.yaml", "stdout", 0),
        ("--help", "stdout", 0),
        ("render good.yaml", "stderr", 0),
        ("validate wrong.yaml", "stderr", 2),
        ("validate wrong.yaml", "stdout stderr", 2),
        ("validate none.yaml", "stderr", 2),
        ("validate --nonsense", "stderr", 2),
        ("list", "stderr", 3),
        ("version -o json", "stderr", 3),
    ],
)
def test_exit_code_of_command_whose_stream_has_no_reader(
    tmp_path: Path, arguments: str, closed: str, code: int
) -> None:
    (tmp_path / "good.yaml").write_text("run: a\n")
    (tmp_path / "wrong.yaml").write_text("runn: a\n")
    assert exit_code(tmp_path, *arguments.split(), closed=closed) == code
