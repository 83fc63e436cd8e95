"""The wheel contains every template and schema, and no files that git ignores."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ASSETS = ("templates/", "runtime/", "schemas/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def packed(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def git_files(*paths: str) -> set[str]:
    """Return the files that git has, or would take: not those that it ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(listed.stdout.split())


def test_wheel_contains_assets(wheel: Path) -> None:
    wanted = git_files(*ASSETS)
    assert wanted, "no assets in the checkout"
    names = {name.removeprefix("kubectl_sky/") for name in packed(wheel)}
    assert wanted == {name for name in names if name.startswith(ASSETS)}


def test_wheel_contains_only_package(wheel: Path) -> None:
    assets = tuple(f"kubectl_sky/{folder}" for folder in ASSETS)
    code = {name for name in packed(wheel) if not name.startswith(assets) and "-info/" not in name}
    assert code == git_files("kubectl_sky")
    folders = {name.split("/")[0] for name in packed(wheel)}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"kubectl_sky"}


def test_wheel_contains_license(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed(wheel))
