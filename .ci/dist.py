"""Build the plugin's archive for this platform, and the krew manifest of all archives beside it.

It runs in an environment that has the project and PyInstaller, such as `make dist` prepares.
"""

import argparse
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

import yaml

from kubectl_sky import __version__
from kubectl_sky.actions import completion

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "315532800"  # 1980: what is built twice is the same


def main(target: Path) -> None:
    """Build into a folder, and name the files that are now there."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        folder = build(Path(work))
        shutil.copy(ROOT / "LICENSE", folder)
        script = folder / completion.NAME
        script.write_text(completion.SCRIPT, encoding="utf-8", newline="\n")
        script.chmod(0o755)
        archive = target / archive_name()
        pack(folder, archive)
    sys.stdout.write(f"{archive}\n{write_manifest(target, complete=False)}\n")


def archive_name() -> str:
    """Return the name of this platform's archive, as the manifest has it."""
    machine = platform.machine().lower()
    architecture = ARCHITECTURES.get(machine, machine)
    return f"kubectl-sky-{__version__}-{platform.system().lower()}-{architecture}.tar.gz"


def build(work: Path) -> Path:
    """Run PyInstaller and return the folder that it made."""
    (work / "plugin").mkdir()
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR"]
    folders = [f"--workpath={work}", f"--distpath={work / 'dist'}"]
    same = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": EPOCH}
    recipe = str(ROOT / ".ci" / "plugin.spec")
    subprocess.run([*command, *folders, recipe], cwd=work, env={**os.environ, **same}, check=True)
    folder = work / "dist" / "kubectl-sky"
    subprocess.run([folder / "kubectl-sky", "version"], check=True, stdout=subprocess.DEVNULL)
    return folder


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


def write_manifest(folder: Path, *, complete: bool) -> Path:
    """Write the krew manifest of the archives in a folder, with their checksums."""
    manifest = yaml.safe_load((ROOT / "plugin.yaml").read_text())
    platforms = {e["uri"].rpartition("/")[2]: e for e in manifest["spec"]["platforms"]}
    missing = [name for name in platforms if not (folder / name).exists()]
    if complete and missing:
        raise SystemExit(f"error: archives not found in {folder}: {', '.join(missing)}")
    manifest["spec"]["platforms"] = [
        entry | {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
        for name, entry in platforms.items()
        if name not in missing
    ]
    path = folder / "sky.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False))
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    manifest = "only write the manifest, for the archives of all platforms"
    parser.add_argument("--manifest", action="store_true", help=manifest)
    flags = parser.parse_args()
    if flags.manifest:
        write_manifest(flags.folder, complete=True)
    else:
        main(flags.folder)
