"""Modules that commands import at startup, because imports cost time."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("kubernetes", "fastapi", "urllib3", "requests", "pydantic", "rich", "starlette", "uvicorn")
EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "05-multi-node.yaml")


def imported(*arguments: str) -> set[str]:
    """Run a command and return the top-level modules that it imported."""
    script = (
        "import sys; from kubectl_sky.cli.main import main; code = main(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("version",),
        ("submit", "--help"),
        ("list", "--help"),
        ("volumes", "--help"),
        ("validate", EXAMPLE),
        ("render", EXAMPLE),
        ("auth", "logout"),
        ("local", "down"),
    ],
    ids=" ".join,
)
def test_offline_commands_do_not_import_kubernetes_client(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("submit", "--help"), ("local", "up", "--help"), ("version",)],
    ids=" ".join,
)
def test_help_imports_no_templates_or_schemas(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & {"jinja2", "yaml", "dotenv", "jsonschema"}


@pytest.mark.parametrize("arguments", [("auth", "logout"), ("local", "down")], ids=" ".join)
def test_commands_without_file_do_not_import_jsonschema(arguments: tuple[str, ...]) -> None:
    assert "jsonschema" not in imported(*arguments)
