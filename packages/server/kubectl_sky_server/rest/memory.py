"""What the process may use of memory, and what it uses."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from kubectl_sky_server.rest.problems import Rejected

_CGROUPS = Path("/sys/fs/cgroup")
_FILES = ("memory.max", "memory.limit_in_bytes")  # of cgroup v2 and v1
_SHARE = 0.8  # of the limit, for all that the server does
_RETRY_SECONDS = 30


class Memory:
    """The limit of the process in bytes, and what it uses."""

    def __init__(self, limit: int, used: Callable[[], int]) -> None:
        self._limit = limit
        self._used = used

    @classmethod
    def of_process(cls) -> "Memory":
        limits = [_machine(), *_limits(Path("/proc/self/cgroup"), _CGROUPS)]
        return cls(min(limits), _resident)

    def check(self) -> None:
        """Raise Rejected if there is no room for another list."""
        used = self._used()
        if used > _SHARE * self._limit:
            raise Rejected(
                503,
                f"the server uses {used >> 20} of its {self._limit >> 20} MiB of memory:"
                " no room for another list",
                "look at a list that others have open, try again later, or raise the memory limit",
                _RETRY_SECONDS,
            )


def _limits(membership: Path, root: Path) -> Iterator[int]:
    """Yield the limits of the control groups that a process is in, as far as they can be read."""
    lines: list[str] = []
    with suppress(OSError):
        lines = membership.read_text().splitlines()

    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "memory" if controllers else root
        own = top / group.lstrip("/")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(top):
                break
            for name in _FILES:
                with suppress(OSError, ValueError):  # "max" is no limit
                    yield int((folder / name).read_text())


def _machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _resident() -> int:
    """Return the bytes of the process that are in memory; 0 if the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
