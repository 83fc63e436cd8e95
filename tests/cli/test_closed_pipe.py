"""Exit codes of commands whose output nobody reads any more, as below `| head`."""

import os
import sys
from pathlib import Path

import pytest

from kubectl_sky.cli.main import main, sky
from tests.e2e.command import PROGRAM
from tests.forked import Forked

STREAMS = {"stdout": 1, "stderr": 2}


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

    def close_readers() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        for name in closed.split():
            os.dup2(writer, STREAMS[name])

    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = Forked(PROGRAM, environment, tmp_path, prepare=close_readers)
    assert command(*arguments.split()).returncode == code
