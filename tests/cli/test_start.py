"""Modules that commands import at startup, because imports cost time."""

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kubectl_sky import __main__ as start

HEAVY = {"kubernetes", "fastapi", "urllib3", "requests", "pydantic", "rich", "starlette", "uvicorn"}
TEMPLATES = {"jinja2", "yaml", "dotenv", "jsonschema"}
EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "05-multi-node.yaml")
SCRIPT = """
import sys
from kubectl_sky.cli.main import main

for line in sys.argv[1:]:
    assert main(line.split()) == 0
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("lines", "unneeded"),
    [
        (("--help", "submit --help", "local up --help", "version"), HEAVY | TEMPLATES),
        (("--version", "list --help", "volumes --help"), HEAVY),
        (("auth logout", "local down"), HEAVY | {"jsonschema"}),
        ((f"validate {EXAMPLE}", f"render {EXAMPLE}"), HEAVY),
    ],
)
def test_offline_commands_import_only_what_they_need(
    lines: tuple[str, ...], unneeded: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *lines], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not unneeded.intersection(done.stderr.split())


def test_interrupted_import_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str, *rest: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "__import__", interrupt)
    with pytest.raises(SystemExit) as ended:
        start.run()
    monkeypatch.undo()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")
