"""Rules of buckets: which settings go with which mode."""

from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries

_DEFAULT = "MOUNT"
# A field within a bucket's, and the mode in which alone it means something.
_NEEDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("type",), "MOUNT_CACHED"),
    (("config", "mount_cached"), "MOUNT_CACHED"),
    (("config", "mount"), "MOUNT"),
)


def _modes(document: Document) -> Iterator[Problem]:
    for target, bucket in entries(document.get("file_mounts")):
        if isinstance(bucket, dict):
            yield from _bucket(document, ("file_mounts", target), bucket.get("mode") or _DEFAULT)


def _bucket(document: Document, path: Path, mode: Data) -> Iterator[Problem]:
    for field, needed in _NEEDS:
        if document.get(*path, *field) is not None and str(mode).upper() != needed:
            message = f"means something in the mode {needed} only"
            yield document.problem((*path, *field), message, f"such as mode: {needed}", key=True)


RULES = (_modes,)
