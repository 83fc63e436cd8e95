"""What commands import before they do anything: speed, as a fact that a test can hold."""

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
def test_the_kubernetes_client_is_not_imported(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & set(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("submit", "--help"), ("local", "up", "--help"), ("version",)],
    ids=" ".join,
)
def test_help_imports_neither_templates_nor_schemas(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & {"jinja2", "yaml", "dotenv", "jsonschema"}


@pytest.mark.parametrize("arguments", [("auth", "logout"), ("local", "down")], ids=" ".join)
def test_commands_without_a_file_do_not_load_jsonschema(arguments: tuple[str, ...]) -> None:
    assert "jsonschema" not in imported(*arguments)
