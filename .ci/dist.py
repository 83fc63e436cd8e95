"""Build the plugin's archive for this platform, and the krew manifest of all archives beside it.

Usage: dist.py FOLDER
"""

import gzip
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from kubectl_sky import __version__  # noqa: E402 - of this checkout, whatever is installed
from kubectl_sky.actions import completion_script  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "315532800"  # 1980: what is built twice is the same


def main(target: Path) -> None:
    """Build into a folder, and name the files that are now there."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        folder = build(Path(work))
        shutil.copy(ROOT / "LICENSE", folder)
        script = folder / completion_script.NAME
        script.write_text(completion_script.SCRIPT, encoding="utf-8", newline="\n")
        script.chmod(0o755)
        archive = target / archive_name()
        pack(folder, archive)
    manifest = target / "sky.yaml"
    manifest.write_text(yaml.safe_dump(filled(target), sort_keys=False))
    sys.stdout.write(f"{archive}\n{manifest}\n")


def archive_name() -> str:
    """Return the name of this platform's archive, as the manifest has it."""
    machine = platform.machine().lower()  # AMD64 on Windows
    architecture = ARCHITECTURES.get(machine, machine)
    return f"kubectl-sky-{__version__}-{platform.system().lower()}-{architecture}.tar.gz"


def build(work: Path) -> Path:
    """Run PyInstaller and return the folder that it made."""
    (work / "plugin").mkdir()
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR"]
    unpack_paths = [f"--workpath={work}", f"--distpath={work / 'dist'}"]
    same = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": EPOCH}
    recipe = str(ROOT / ".ci" / "plugin.spec")
    subprocess.run(
        [*command, *unpack_paths, recipe], cwd=ROOT, env={**os.environ, **same}, check=True
    )
    return work / "dist" / "kubectl-sky"


def pack(folder: Path, archive: Path) -> None:
    """Write an archive that depends on the files' names and contents alone."""
    new = archive.with_suffix(".new")
    with (
        new.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in files(folder):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = path.stat().st_size
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    new.rename(archive)


def files(folder: Path) -> Iterator[Path]:
    """Yield all files in one order; a link as what it points to, for krew refuses links."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path


def filled(folder: Path) -> dict[str, Any]:
    """Return the manifest for the platforms whose archives are in a folder, with checksums."""
    manifest: dict[str, Any] = yaml.safe_load((ROOT / "plugin.yaml").read_text())
    there = []
    for entry in manifest["spec"]["platforms"]:
        archive = folder / entry["uri"].rpartition("/")[2]
        if archive.exists():
            there.append(entry | {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest()})
    manifest["spec"]["platforms"] = there
    return manifest


if __name__ == "__main__":
    main(Path(sys.argv[1]))
