"""Wheel and sdist contain what they should, and their extras install what they need."""

import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.wheel import ROOT, build

ASSETS = ("templates/", "runtime/", "schemas/", "examples/")


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
