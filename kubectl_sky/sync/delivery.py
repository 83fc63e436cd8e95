"""Send one stream of bytes into programs of many pods at once, no faster than the slowest reads."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import SkyError
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.tree import Refusal, Source

_BLOCK = 256 * 1024
_AHEAD = 4  # blocks that a reader may be behind the others
_TICK = 0.2  # seconds between two looks at whether a reader is still there
_FAST = 1  # gzip's level: a network is faster than better compression


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code and what it wrote to stderr, or the error of the line."""

    code: int = 0
    said: str = ""
    error: SkyError | None = None


def packed(source: Source, digest: str, on_bytes: Callable[[int], object]) -> Iterator[bytes]:
    """Yield the gzip'ed tar of files. Raises Unsendable when it is not what it was before."""
    squeezer, seen, held = archive.compressor(_FAST), hashlib.sha256(), bytearray()
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
    """The gzip'ed tar of files as they were, in a file without a name that goes with it.

    Raises Unsendable when they are not what they were before, OSError when there is no room.
    """

    def __init__(self, source: Source, digest: str, on_bytes: Callable[[int], object]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as this does
        for block in packed(source, digest, on_bytes):
            self._file.write(block)
        self._file.flush()

    def blocks(self) -> Iterator[bytes]:
        """Yield all of it."""
        place = 0
        while block := os.pread(self._file.fileno(), _BLOCK, place):
            place += len(block)
            yield block


def run(session: Session, program: Program) -> Outcome:
    """Run a program that reads nothing."""
    return _run(session, program, None)


def send(session: Session, programs: Sequence[Program], blocks: Iterable[bytes]) -> list[Outcome]:
    """Run the programs with the same input, and return how each of them ended.

    Raises what the input raises; the programs see then that it ends too early.
    """
    readers = [_Reader() for _ in programs]
    with ThreadPoolExecutor(len(programs), thread_name_prefix="send") as pool:
        running = [
            pool.submit(_read, session, program, reader)
            for program, reader in zip(programs, readers, strict=True)
        ]
        try:
            for block in blocks:
                for reader in readers:
                    reader.put(block)
            for reader in readers:
                reader.put(None)
        except BaseException as error:
            for reader in readers:
                reader.fail(error)
            raise
        return [future.result() for future in running]


class _Reader:
    """The input of one program, as another thread hands it out."""

    def __init__(self) -> None:
        self._blocks: Queue[bytes | None] = Queue(_AHEAD)
        self._problem: SkyError | None = None
        self.gone = False

    def put(self, block: bytes | None) -> None:
        """Add a block, or the end; wait for room in it, unless nobody reads any more."""
        while not self.gone:
            with suppress(Full):
                self._blocks.put(block, timeout=_TICK)
                break

    def fail(self, error: BaseException) -> None:
        """Let the input break off."""
        self._problem = SkyError(str(error))

    def __iter__(self) -> Iterator[bytes]:
        while not self.gone:
            if self._problem:
                raise self._problem
            try:
                block = self._blocks.get(timeout=_TICK)
            except Empty:
                continue
            if block is None:
                return
            yield block


def _read(session: Session, program: Program, reader: _Reader) -> Outcome:
    try:
        return _run(session, program, reader)
    finally:
        reader.gone = True


def _run(session: Session, program: Program, stdin: Iterable[bytes] | None) -> Outcome:
    said = bytearray()
    try:
        code = executing.run(session, program, Pipes(stdin=stdin, stderr=said.extend))
    except SkyError as error:
        return Outcome(error=error)
    return Outcome(code, said.decode(errors="replace").strip())
