"""Folders that stand for pods: unpack.sh runs in them, with few programs."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from kubectl_sky.words import assets

BASIC = ("mkdir", "rmdir", "mv", "cat", "rm", "head", "sleep")


class Pod:
    """A folder that simulates a pod with some programs."""

    def __init__(self, root: Path, *tools: str) -> None:
        self.room = root / "room"
        self.place = root / "a place"
        self.bin = root / "bin"
        for folder in (self.room, self.place, self.bin):
            folder.mkdir()
        for tool in (*BASIC, *tools):
            path = sys.executable if tool == "python3" else shutil.which(tool)
            assert path
            (self.bin / tool).symlink_to(os.path.realpath(path))
        self.variables: dict[str, str] = {}
        self.script = root / "unpack.sh"
        self.script.write_text(assets.read("runtime", "unpack.sh"))

    def want(self) -> None:
        (self.room / "requested-000").write_text(f"{self.place}\n")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", str(self.script), "000"],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def environment(self) -> dict[str, str]:
        path = str(self.bin)
        room = str(self.room)
        return {"PATH": path, "KUBECTL_SKY_FILES": room, "POD_IP": "10.0.0.1"} | self.variables

    def unpack(self, data: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["/bin/sh", str(self.script), "000"],
            env=self.environment,
            input=data,
            capture_output=True,
            check=False,
        )


def packed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        info = tarfile.TarInfo("x y")
        info.size = 5
        info.mode = 0o751
        made.addfile(info, io.BytesIO(b"hello"))
    return out.getvalue()
