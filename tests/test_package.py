"""Wheels and sdist contain what they should, and their extras install what they need."""

import importlib
import subprocess
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kubectl_sky import __version__
from tests.wheel import PACKAGES, ROOT, build

ASSETS = ("templates/", "runtime/", "schemas/", "examples/")
each_package = pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


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


def requirements(wheel: Path) -> dict[str, set[str]]:
    """Return the names of the required packages, by extra; "" is the core."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    listed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    extras = ["", *metadata.get_all("Provides-Extra", [])]
    return {extra: {item.name for item in listed if applies(item, extra)} for extra in extras}


def applies(requirement: Requirement, extra: str) -> bool:
    if not requirement.marker:
        return extra == ""
    return bool(extra) and requirement.marker.evaluate({"extra": extra})


def test_wheel_extra_all_contains_every_extra(wheel: Path) -> None:
    extras = requirements(wheel)
    del extras[""]
    assert extras.pop("all") == set().union(*extras.values())


def test_wheel_core_requires_no_package_of_an_extra(wheel: Path) -> None:
    extras = requirements(wheel)
    core = extras.pop("")
    assert core and not core & set().union(*extras.values())


def test_wheel_from_sdist_equals_wheel_from_checkout(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    sdist = build("sdist", tmp_path / "sdist")
    subprocess.run(["tar", "-xf", sdist, "-C", tmp_path / "source"], check=True)
    (source,) = (tmp_path / "source").iterdir()
    assert contents(build("wheel", tmp_path / "wheel", source)) == contents(wheel)


def contents(wheel: Path) -> dict[str, int]:
    """Return name and checksum of each file."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


@each_package
def test_package_has_version_and_license_of_core(folder: Path) -> None:
    module = importlib.import_module(f"kubectl_sky_{folder.name}")
    assert module.__version__ == __version__
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@each_package
def test_extra_of_core_names_package_of_same_version(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = f"kubectl-sky-{folder.name}=={__version__}"
    assert project["optional-dependencies"][folder.name] == [wanted]


@each_package
def test_wheel_of_package_contains_only_its_module(folder: Path, tmp_path: Path) -> None:
    names = packed(build("wheel", tmp_path, folder))
    module = f"kubectl_sky_{folder.name}"
    code = {f"{folder.relative_to(ROOT)}/{name}" for name in names if "-info/" not in name}
    assert code == git_files(f"{folder.relative_to(ROOT)}/{module}")
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
