"""A control group that holds every process of one cluster, so that all of them can be ended.

What is in it was started by us: no process id is written down that might come to mean another.
"""

import os
import signal
import time
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_TRACKERS = ("pids", "freezer", "systemd")  # with version 1, each controller has a tree of its own


class Cgroup:
    """A group below the root of each hierarchy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._unified = (_MOUNT / "cgroup.controllers").exists()

    @property
    def members(self) -> Path:
        """The file to write a process id to: everything that it starts stays in the group."""
        return self._tracker / "system" / "cgroup.procs"

    def create(self) -> None:
        """Make the group where the kubelet looks for it."""
        for tree in self._trees():
            (tree / self.name).mkdir(exist_ok=True)
        self.members.parent.mkdir(exist_ok=True)

    def kill(self, seconds: float = 10) -> None:
        """Kill all members and wait until they are gone."""
        deadline = time.monotonic() + seconds
        while pids := self.pids():
            if time.monotonic() > deadline:
                raise OSError(f"these processes do not end: {pids}")
            for pid in pids:
                _kill(pid)
            time.sleep(0.02)

    def remove(self) -> None:
        """Remove the group, which must be empty."""
        for tree in self._trees():
            for folder, _, _ in os.walk(tree / self.name, topdown=False):
                _remove(Path(folder))

    @property
    def _tracker(self) -> Path:
        if self._unified:
            return _MOUNT / self.name
        tracker = next((name for name in _TRACKERS if (_MOUNT / name).is_dir()), None)
        if not tracker:
            raise OSError(f"{_MOUNT} has none of {', '.join(_TRACKERS)}")
        return _MOUNT / tracker / self.name

    def _trees(self) -> list[Path]:
        if self._unified:
            return [_MOUNT]
        return [tree for tree in _MOUNT.iterdir() if tree.is_dir() and not tree.is_symlink()]

    def pids(self) -> list[int]:
        """Return the members."""
        members: list[int] = []
        for folder, _, _ in os.walk(self._tracker):
            try:
                members += map(int, (Path(folder) / "cgroup.procs").read_text().split())
            except FileNotFoundError:  # a pod's group that goes away by itself
                continue
        return members


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _remove(folder: Path) -> None:
    for _ in range(100):  # a killed process leaves its group a little later
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
