"""Folders of files, and what the nodes of a task see of them."""

import random
import subprocess
import sys
from pathlib import Path

from tests.e2e.command import Command

# Compared per file: name, mode, link target and content.
_LISTING = """
import hashlib, os, sys
for path, folders, files in sorted(os.walk(".")):
    for name in sorted(folders + files):
        own = os.path.join(path, name)
        link = os.readlink(own) if os.path.islink(own) else ""
        data = b"" if link or name in folders else open(own, "rb").read()
        print(own, oct(os.lstat(own).st_mode), link, hashlib.sha256(data).hexdigest()[:16])
"""


def fill_folder(root: Path, files: int = 30, size: int = 2000) -> None:
    """Create files of random bytes, links, and special modes."""
    source = random.Random(1)
    for number in range(files):
        folder = root / f"pkg{number % 7}" / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file {number}.bin").write_bytes(source.randbytes(size))
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / "private").write_text("x")
    (root / "private").chmod(0o600)
    (root / "empty").mkdir()
    (root / "link").symlink_to("pkg0/deep")
    (root / ".skyignore").write_text("*.log\n")
    (root / "big.log").write_text("stays here")
    (root / "seen.py").write_text(_LISTING)


def expected_listing(root: Path) -> list[str]:
    """Return the expected listing on the nodes."""
    (root / "big.log").unlink()
    done = subprocess.run([sys.executable, "seen.py"], cwd=root, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def file_config_maps(kubectl: Command) -> list[str]:
    config_maps = kubectl.json("get", "configmaps", "-l", "kubectl-sky/files=true")
    return [item["metadata"]["name"] for item in config_maps["items"]]
