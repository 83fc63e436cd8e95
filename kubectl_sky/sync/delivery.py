"""Files as one stream of bytes that is made once, and sent into programs of many pods."""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Condition, Event, Thread

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Head, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.tree import Refusal, Source

_BLOCK = 256 * 1024
_TICK = 0.2  # seconds between two looks at whether a program is still there
_IDLE = 600.0  # seconds without a byte: a large archive may take long to unpack at its end
_SEND = b"send"  # what unpack.sh says when it wants them


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code and the first line of its stderr, or a lost connection."""

    code: int = 0
    said: str = ""
    error: SkyError | None = None


def packed(source: Source, digest: str, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
    """Yield the gzip'ed tar of files. Raises Unsendable when it is not what it was before."""
    squeezer, seen, held = archive.compressor(), hashlib.sha256(), bytearray()
    for chunk in archive.chunks(source):
        seen.update(chunk)
        on_bytes(len(chunk))
        held += squeezer.compress(chunk)
        if len(held) >= _BLOCK:
            yield bytes(held)
            held.clear()
    if seen.hexdigest() != digest:
        raise Unsendable(Refusal("", "changed since the task was submitted", "submit it again"))
    yield bytes(held) + squeezer.flush()


class Copy:
    """The gzip'ed tar of files as they are now, in a file that has no name and goes with it.

    It is made in a thread of its own, while others read it already, each at its own speed.
    """

    def __init__(self, source: Source, digest: str) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._grown = Condition()
        self._parts: list[tuple[int, int, int]] = []  # where each is, its length, bytes of the tar
        self._done = False
        self._error: OSError | Unsendable | None = None
        Thread(target=self._make, args=(source, digest), name="packing", daemon=True).start()

    def blocks(self, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
        """Yield all of it; `on_bytes` hears how many of the tar these were.

        Raises Unsendable when the files were not what they were before, OSError without room.
        """
        number = 0
        while part := self._part(number):
            place, length, size = part
            yield os.pread(self._file, length, place)
            on_bytes(size)
            number += 1

    def _part(self, number: int) -> tuple[int, int, int] | None:
        """Return where a part is, as soon as it is there; None after the last."""
        with self._grown:
            self._grown.wait_for(lambda: self._done or number < len(self._parts))
            if self._error:
                raise self._error
            return self._parts[number] if number < len(self._parts) else None

    def _make(self, source: Source, digest: str) -> None:
        place, sizes = 0, list[int]()
        try:
            for block in packed(source, digest, sizes.append):
                os.pwrite(self._file, block, place)
                self._add((place, len(block), sum(sizes)))
                place += len(block)
                sizes.clear()
        except (OSError, Unsendable) as error:
            self._error = error
        finally:
            self._add(None)

    def _add(self, part: tuple[int, int, int] | None) -> None:
        with self._grown:
            if part:
                self._parts.append(part)
            self._done = part is None
            self._grown.notify_all()


def send(session: Session, program: Program, blocks: Iterator[bytes], stop: Event) -> Outcome:
    """Run unpack.sh, and let it read as soon as it says so. `stop` breaks it off."""
    err, answer = Head(), Head()
    asked, over = Event(), Event()

    def heard(text: bytes) -> None:
        answer(text)
        asked.set()

    def feed() -> Iterator[bytes]:
        while not asked.wait(_TICK):
            if over.is_set():
                return
        if answer.data.startswith(_SEND):
            yield from blocks

    pipes = Pipes(stdin=feed(), stdout=heard, stderr=err, idle=_IDLE, stop=stop)
    try:
        code = executing.run(session, program, pipes)
    except SkyError as error:
        return Outcome(error=error)
    finally:
        over.set()
    return Outcome(code, err.line)
