"""Debian's packages for a root that is not this machine's: fetched by its own apt, and unpacked."""

import shutil
from pathlib import Path

from tests.cluster.shell import run

# What the tests' programs load only where there is a GPU, or an init system.
HEAVY = ("libllvm", "libz3", "libamd", "libhsa", "libx11", "systemd", "libsystemd-shared")


def unpack(
    root: Path, folder: Path, packages: tuple[str, ...], without: tuple[str, ...] = HEAVY
) -> None:
    """Unpack packages into a folder, with what they need beyond what a root has; none whose name
    begins as those of `without`.

    Nothing is set up by them: no user is made, and no link of several alternatives.
    """
    state = folder.with_suffix(".apt")
    for name in ("cache/archives/partial", "lists/partial"):
        (state / name).mkdir(parents=True)
    options = [f"-o={option}" for option in _options(root, state)]
    run(["apt-get", *options, "update"])
    run(["apt-get", *options, "install", "--no-install-recommends", "--download-only", *packages])
    for package in sorted((state / "cache/archives").glob("*.deb")):
        if not package.name.startswith(without):
            run(["dpkg-deb", "--extract", package, folder])
    shutil.rmtree(state)


def _options(root: Path, state: Path) -> list[str]:
    return [
        f"Dir={root}",
        "Dir::Bin::methods=/usr/lib/apt/methods",
        f"Dir::Cache={state}/cache",
        f"Dir::State={state}",
        f"Dir::State::status={root}/var/lib/dpkg/status",
        f"Dir::Log={state}",
        "APT::Get::Assume-Yes=1",
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
    ]
