"""A process of its own that has a cluster, and stops it when whoever asked for it has gone.

It notices by its standard input, which ends with the asking process, however that ends.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Self

from tests.cluster import cache, drivers
from tests.cluster.shell import Broken, Unavailable
from tests.cluster.target import Cluster

_COMMAND = [sys.executable, "-m", "tests.cluster", "hold"]
_ROOT = Path(__file__).parent.parent.parent
_RECORD = cache.ROOT / "by-hand.json"
_OWNER = cache.ROOT / "by-hand.owner"


class Holder:
    """The process, as seen by who asked for it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    def start(
        cls, environment: Mapping[str, str], log: IO[str] | None = None, driver: str = ""
    ) -> Self:
        """Start it, with a driver of NAMED; with a log it stays until `stop_by_hand`."""
        flags = ["--by-hand"] * bool(log) + [f"--{driver}"] * bool(driver)
        stdin = subprocess.DEVNULL if log else subprocess.PIPE
        return cls(
            subprocess.Popen(
                [*_COMMAND, *flags],
                cwd=_ROOT,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the tests; it is told when they end
            )
        )

    def cluster(self) -> Cluster:
        """Wait for the cluster. Raises Unavailable or Broken."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Broken(f"the process that holds the cluster ended ({self._process.wait()})")
        answer = json.loads(line)
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        if "broken" in answer:
            raise Broken(answer["broken"])
        return Cluster.load(line)

    def stop(self) -> None:
        """Let it stop the cluster, and wait for that."""
        for end in (self._process.stdin, self._process.stdout):
            if end:
                end.close()
        self._process.wait(180)  # folders of big images go slowly


def hold(by_hand: bool, driver_name: str = "") -> None:
    """Be that process."""
    signal.signal(signal.SIGTERM, _leave)
    for number in (signal.SIGINT, signal.SIGQUIT):  # the terminal's are for the tests
        signal.signal(number, _stay)

    try:
        driver = drivers.prepare(drivers.NAMED.get(driver_name))
        with start(driver) as cluster:
            if by_hand:
                cache.own(_OWNER)
                _RECORD.write_text(json.dumps({"pid": os.getpid(), "cluster": cluster.dump()}))
            _answer(cluster.dump())
            _wait(by_hand)
    except Unavailable as error:
        _answer(json.dumps({"unavailable": str(error)}))
    except (Broken, OSError) as error:
        _answer(json.dumps({"broken": str(error)}))
        raise


@contextmanager
def start(driver: drivers.Driver) -> Iterator[Cluster]:
    """Have a cluster, started once more if need be: one stumble would fail all tests of a part."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(driver.start())
        except (Broken, OSError) as error:
            _report(driver, error)
            cluster = stack.enter_context(driver.start())
        yield cluster


def _report(driver: drivers.Driver, error: Exception) -> None:
    """Tell it now, and at the end of all parts."""
    cache.say(f"{driver.name} did not start, and is started once more: {error}")
    if path := os.environ.get("PARTS"):
        with Path(path).open("a") as file:
            file.write(f"{driver.name} started only the second time: {error}\n")


def by_hand() -> tuple[int, Cluster] | None:
    """Return process and cluster of `up`, if it is there."""
    if not cache.owned(_OWNER) or not _RECORD.exists():
        return None
    record = json.loads(_RECORD.read_text())
    return record["pid"], Cluster.load(record["cluster"])


def stop_by_hand() -> bool:
    """Stop the cluster of `up` and wait for it; False if there is none."""
    running = by_hand()
    if not running:
        return False
    os.kill(running[0], signal.SIGTERM)
    while cache.owned(_OWNER):
        time.sleep(0.05)
    return True


def _answer(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _wait(by_hand: bool) -> None:
    """Wait for the end of standard input, or for the signal alone."""
    if by_hand:
        signal.pause()
    sys.stdin.read()


def _stay(_signal: int, _frame: FrameType | None) -> None:
    """Go on. To ignore the signal would make all pods ignore it too: that is inherited."""


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
