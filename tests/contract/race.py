"""Use every type for the first time in eight threads at once: decode answers, encode documents.

Run as a process of its own: a crash of the decoder would end the tests.
"""

import contextlib
import sys
import threading

import msgspec
from msgspec import Struct, structs

import kubectl_sky.observe.pipelines
import kubectl_sky.observe.volumes  # noqa: F401 -- they define documents
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.observe.evidence import Evidence
from kubectl_sky.words import kinds
from kubectl_sky.words.answers import page_of
from kubectl_sky.words.documents import Document, Part, as_json
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Fields

THREADS = 8
ANSWER = b'{"metadata": {}, "spec": {}, "status": {}, "items": [], "type": "ADDED"}'
TYPES: list[type] = [kind.shape for kind in vars(kinds).values() if isinstance(kind, ReadKind)]
TYPES += [*Fields.__subclasses__(), *(page_of(shape) for shape in TYPES)]
DOCUMENTS: list[type[Struct]] = [*Document.__subclasses__(), *Part.__subclasses__(), Evidence]


def decode_all(together: threading.Barrier) -> None:
    """Make and use the decoder of each type; that the answer misses fields is no matter."""
    for shape in TYPES:
        together.wait()
        with contextlib.suppress(ValueError):
            decode(ANSWER, shape)


def encode_all(together: threading.Barrier) -> None:
    """Make and encode a value of each kind, whatever its fields hold."""
    for kind in DOCUMENTS:
        together.wait()
        value = kind(**{field.name: _filler(field) for field in structs.fields(kind)})
        with contextlib.suppress(AttributeError):  # a value whose document is made of its fields
            as_json(value)
        msgspec.json.encode(value)


def _filler(field: structs.FieldInfo) -> object:
    """Return the default of a field, or a Struct of its own."""
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return _Inner(field.name, [_Inner("", [])])


class _Inner(Struct, omit_defaults=True):
    text: str
    items: list["_Inner"]


def main() -> None:
    """Run the threads, which change places as often as possible."""
    sys.setswitchinterval(1e-6)
    for work in (decode_all, encode_all):
        together = threading.Barrier(THREADS)
        threads = [threading.Thread(target=work, args=(together,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
