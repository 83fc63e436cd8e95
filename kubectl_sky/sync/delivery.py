"""Pack files into one stream of bytes once, and send it to many pods."""

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from threading import Condition, Event

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.tree import Refusal, Source

_BLOCK = 256 * 1024
_CHECK_INTERVAL = 0.2  # seconds between two checks that the program still runs
_IDLE = 600.0  # seconds without data: a large archive may take long to unpack at its end
_SEND_REQUEST = b"send"  # printed by unpack.sh to request the files


class Outcome(Struct, frozen=True):
    """The result of a program: exit code and first stderr line, or a lost connection."""

    code: int = 0
    message: str = ""
    error: SkyError | None = None


def pack(source: Source, digest: str, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
    """Yield a gzipped tar of the files. Raises Unsendable if they have changed."""
    gzip = archive.compressor()
    sha256 = hashlib.sha256()
    buffer = bytearray()
    for chunk in archive.chunks(source):
        sha256.update(chunk)
        on_bytes(len(chunk))
        buffer += gzip.compress(chunk)
        if len(buffer) >= _BLOCK:
            yield bytes(buffer)
            buffer.clear()
    if sha256.hexdigest() != digest:
        raise Unsendable(Refusal("", "changed since the task was submitted", "submit it again"))
    yield bytes(buffer) + gzip.flush()


class Copy:
    """A gzipped tar of the current files, in an unnamed temporary file.

    One thread writes it while other threads already read it, each at its own speed.
    """

    def __init__(self, source: Source, digest: str) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._changed = Condition()
        self._parts: list[tuple[int, int, int]] = []  # offset, length, bytes of tar
        self._done = False
        self._error: OSError | Unsendable | None = None
        parallel.run_daemon(self._write, source, digest, name="packing")

    def blocks(self, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
        """Yield all blocks; call `on_bytes` with the uncompressed bytes of each.

        Raises Unsendable if the files have changed, OSError if the disk is full.
        """
        number = 0
        while part := self._part(number):
            offset, length, size = part
            yield os.pread(self._file, length, offset)
            on_bytes(size)
            number += 1

    def _part(self, number: int) -> tuple[int, int, int] | None:
        """Wait for a part and return its position; None after the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or number < len(self._parts))
            if self._error:
                raise self._error
            return self._parts[number] if number < len(self._parts) else None

    def _write(self, source: Source, digest: str) -> None:
        offset = 0
        sizes = list[int]()
        try:
            for block in pack(source, digest, sizes.append):
                data = block
                while data:
                    data = data[os.write(self._file, data) :]
                self._append((offset, len(block), sum(sizes)))
                offset += len(block)
                sizes.clear()
        except (OSError, Unsendable) as error:
            self._error = error
        finally:
            self._append(None)

    def _append(self, part: tuple[int, int, int] | None) -> None:
        with self._changed:
            if part:
                self._parts.append(part)
            self._done = part is None
            self._changed.notify_all()


def send(session: Session, program: Program, blocks: Iterator[bytes], stop: Event) -> Outcome:
    """Run unpack.sh and send the blocks when it requests them; `stop` cancels it."""
    stderr = FirstBytes()
    stdout = FirstBytes()
    first_output = Event()
    finished = Event()

    def on_stdout(text: bytes) -> None:
        stdout(text)
        first_output.set()

    def feed() -> Iterator[bytes]:
        while not first_output.wait(_CHECK_INTERVAL):
            if finished.is_set():
                return
        if stdout.data.startswith(_SEND_REQUEST):
            yield from blocks

    pipes = Pipes(stdin=feed(), stdout=on_stdout, stderr=stderr, idle=_IDLE, stop=stop)
    try:
        code = executing.run(session, program, pipes)
    except SkyError as error:
        return Outcome(error=error)
    finally:
        finished.set()
    return Outcome(code, stderr.line)
