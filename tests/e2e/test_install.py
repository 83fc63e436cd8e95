"""The wheel in an empty environment of each supported Python does the main job."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_sky import __version__
from tests import wheel
from tests.cluster import cache

# pip installs all dependencies
pytestmark = [pytest.mark.practice, pytest.mark.tools, pytest.mark.timeout(600)]

HELLO = wheel.ROOT / "examples" / "01-hello.yaml"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """What pip installs: the wheels of core and practice cluster."""
    folder = tmp_path_factory.mktemp("wheels")
    built = wheel.build("wheel", folder / "dist")
    practice = wheel.build("wheel", folder / "practice", wheel.ROOT / "packages" / "practice")
    return str(practice), f"{built}[practice]"


@pytest.mark.parametrize("version", wheel.SUPPORTED)
def test_wheel_in_empty_environment_runs_task(
    version: str, wheels: tuple[str, ...], tmp_path: Path
) -> None:
    python = wheel.python(version)
    if not python:
        pytest.skip(f"Python {version} is not installed")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    program = install(python, tmp_path, wheels)

    def sky(*arguments: str) -> str:
        done = subprocess.run(
            [str(program), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert sky("version") == f"{__version__}\n"
    try:
        environment["KUBECONFIG"] = sky("local", "up").strip().partition("=")[2]
        assert "Hello from Python 3." in sky("submit", str(HELLO))
        assert "Hello from Python 3." in sky("logs", "hello")
        assert "completed" in sky("list")
        sky("stop", "hello")
        assert "hello" not in sky("list")
    finally:
        sky("local", "down", "--purge")


def install_lines(page: str) -> str:
    text = (wheel.ROOT / page).read_text()
    assert "PATH=" not in text
    start = text.index("python3 -m venv ~/.kubectl-sky")
    return text[start : text.index("```", start)]


def test_install_lines_put_only_the_plugin_on_path(tmp_path: Path) -> None:
    lines = install_lines("README.md")
    some = "./packages/practice ./packages/server"
    assert install_lines("docs/install.md") == lines.replace("./packages/*", some)
    of_pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment = {
        **of_pip,
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "PIP_CACHE_DIR": str(cache.HOME / ".cache" / "pip"),
        "PIP_NO_COMPILE": "1",
    }

    done = subprocess.run(
        ["sh", "-euc", lines], cwd=wheel.ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

    folder = tmp_path / ".local" / "bin"
    assert {path.name for path in folder.iterdir()} == {"kubectl-sky", "kubectl_complete-sky"}
    command = [str(folder / "kubectl-sky"), "version"]
    assert subprocess.check_output(command, env=environment, text=True) == f"{__version__}\n"


def install(python: Path, folder: Path, wheels: tuple[str, ...]) -> Path:
    """Install the wheels, and return the program."""
    environment = folder / "venv"
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(environment)], check=True)
    command = [sys.executable, "-m", "pip", f"--python={environment}", "install", "--quiet"]
    pip = {**os.environ, "HOME": str(cache.HOME), "PIP_NO_COMPILE": "1"}  # its cache; faster
    command += wheels
    done = subprocess.run(command, env=pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return environment / "bin" / "kubectl-sky"
