"""Decode an answer of every type for the first time, in eight threads at once.

Run as a process of its own: a crash of the decoder would end the tests.
"""

import contextlib
import sys
import threading

from kubectl_sky.cluster import shapes
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind

THREADS = 8
ANSWER = b'{"metadata": {}, "spec": {}, "status": {}, "items": [], "type": "ADDED"}'
TYPES = [shape for shape in vars(shapes).values() if isinstance(shape, type)]
TYPES += [shapes.of(kind) for kind in vars(kinds).values() if isinstance(kind, Kind)]
TYPES += [shapes.list_of(shape) for shape in TYPES]


def decode_all(together: threading.Barrier) -> None:
    """Make and use the decoder of each type; that the answer misses fields is no matter."""
    for shape in TYPES:
        together.wait()
        with contextlib.suppress(ValueError):
            decode(ANSWER, shape)


def main() -> None:
    """Run the threads, which change places as often as possible."""
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(THREADS)
    threads = [threading.Thread(target=decode_all, args=(together,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
