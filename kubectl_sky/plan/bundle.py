"""Decide how a task's local files are uploaded: ConfigMap, Secret or streaming."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.facts import Archive, Facts
from kubectl_sky.secret import Secret
from kubectl_sky.spec import credentials
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.files import LocalFiles

PART = 900_000  # bytes; a ConfigMap is limited to 1 MiB, including metadata
_OTHERS = 256 << 20  # bytes for tar headers of folders and links; few archives have many
KEEP = 4 * PART  # bytes in all ConfigMaps of a task, to keep etcd small


@dataclass(frozen=True)
class Bundle:
    """A ConfigMap with local files: `parts` maps keys to pieces of gzipped tars."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    parts: Mapping[str, bytes]


@dataclass(frozen=True)
class Cargo:
    """The local files of a task.

    `annotations` describe the files. `bundles` are named by their content; tasks of a user with the
    same files share them. `secret` holds the pieces that only a Secret may contain; `secret_name`
    is its name. `places` has one line per archive: its number and the folder to unpack it in.
    `streamed` are the archives, by number, that are too large for ConfigMaps. A code volume keeps
    them if there is a `shelf`, which has one line per archive: its number, its hash, and the
    maximum size of its tar in bytes. `digests` has one line per archive in the bundles: its number
    and the SHA-256 of its bytes there.
    """

    annotations: dict[str, str]
    bundles: tuple[Bundle, ...]
    secret_name: str
    secret: Mapping[str, Secret]
    places: str
    streamed: Mapping[str, LocalFiles]
    shelf: str = ""
    digests: str = ""

    @property
    def lists(self) -> dict[str, str]:
        """The lists that a node reads, by file name."""
        lists = {"files.txt": self.places, "digests.txt": self.digests, "shelf.txt": self.shelf}
        return {name: text for name, text in lists.items() if text}


def cargo(files: Sequence[LocalFiles], name: str, facts: Facts, kept: bool = False) -> Cargo:
    """Decide how to upload each of a task's local files.

    `kept` is whether a code volume keeps the large ones. Raises FieldError if secret files are too
    large.
    """
    small: dict[str, bytes] = {}
    digests: list[str] = []
    secret: dict[str, Secret] = {}
    large = streamed(files, facts.archives)
    for number, entry, archive in _by_size(files, facts.archives):
        if is_secret(entry):
            data = _fitting(entry, archive, sum(map(len, secret.values())))
            secret |= {key: Secret(part) for key, part in _parts(number, data).items()}
        elif number not in large:
            small |= _parts(number, archive.data)
            digests.append(f"{number} {hashlib.sha256(archive.data).hexdigest()}\n")
    return Cargo(
        annotations=_annotations(files, facts),
        bundles=tuple(_bundle(parts, facts) for parts in _filled(dict(sorted(small.items())))),
        secret_name=f"{name}-files",
        secret=dict(sorted(secret.items())),
        places="".join(
            f"{_number(index)} {_folder(entry.path, facts.archives[entry.path])}\n"
            for index, entry in enumerate(files)
        ),
        streamed=large,
        shelf="".join(
            f"{number} {facts.archives[entry.path].digest} {_limit(facts.archives[entry.path])}\n"
            for number, entry in large.items()
            if kept
        ),
        digests="".join(sorted(digests)),
    )


def streamed(files: Sequence[LocalFiles], archives: Mapping[str, Archive]) -> dict[str, LocalFiles]:
    """Return the local files, by number, that do not fit into the task's ConfigMaps."""
    large: dict[str, LocalFiles] = {}
    remaining = KEEP
    for number, entry, archive in _by_size(files, archives):
        if is_secret(entry):
            continue
        if archive.data and len(archive.data) <= remaining:
            remaining -= len(archive.data)
        else:
            large[number] = entry
    return large


def _by_size(
    files: Sequence[LocalFiles], archives: Mapping[str, Archive]
) -> list[tuple[str, LocalFiles, Archive]]:
    """Return the files with their numbers and archives, smallest first."""
    entries = [(_number(index), entry, archives[entry.path]) for index, entry in enumerate(files)]
    return sorted(entries, key=lambda item: len(item[2].data))


def _limit(archive: Archive) -> int:
    """Return the maximum size of a tar in bytes: files, headers, folders and links."""
    return archive.size + 2048 * archive.files + _OTHERS


def _number(at: int) -> str:
    return f"{at:03}"


def _annotations(files: Sequence[LocalFiles], facts: Facts) -> dict[str, str]:
    """Return an annotation with one line per file that changes with its content.

    Files with credentials are listed without a hash.
    """
    lines = [
        f"{entry.path}: {'hidden' if is_secret(entry) else _described(facts.archives[entry.path])}"
        for entry in files
    ]
    return {names.LOCAL_FILES: "\n".join(lines)} if lines else {}


def _described(archive: Archive) -> str:
    count = f"{archive.files:,} file{'s' * (archive.files != 1)}"
    return f"{count}, {archive.size:,} bytes, sha256 {archive.digest}"


def is_secret(one: LocalFiles) -> bool:
    """Return whether the source or the target path may hold credentials."""
    return credentials.are_in(one.path) or credentials.are_in(one.source)


def _fitting(one: LocalFiles, archive: Archive, taken: int) -> bytes:
    if not archive.data or len(archive.data) + taken > PART:
        raise FieldError(
            one.field,
            f'"{one.source}" holds credentials, and a Secret can hold only {PART:,} bytes',
            "exclude the files that the task does not need in .skyignore",
        )
    return archive.data


def _folder(path: str, archive: Archive) -> str:
    """Return the folder to unpack an archive in; for a single file, its parent."""
    return path if archive.folder else (path.rpartition("/")[0] or "/")


def _parts(number: str, data: bytes) -> dict[str, bytes]:
    """Split an archive into pieces with keys in order."""
    starts = range(0, len(data), PART)
    return {
        f"files-{number}-{offset // PART:03}": data[offset : offset + PART] for offset in starts
    }


def _filled(parts: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Group pieces into objects, as many as fit into each."""
    batch: dict[str, bytes] = {}
    for key, data in parts.items():
        if batch and sum(map(len, batch.values())) + len(data) > PART:
            yield batch
            batch = {}
        batch[key] = data
    if batch:
        yield batch


def _bundle(parts: Mapping[str, bytes], facts: Facts) -> Bundle:
    digest = hashlib.sha256(facts.user.name.encode())
    for key, data in parts.items():
        digest.update(f"\0{key} {len(data)}\0".encode() + data)
    return Bundle(
        name=f"files-{digest.hexdigest()[:20]}",
        namespace=facts.namespace,
        labels={names.TASK: "true", names.FILES: "true", names.USERNAME: facts.user.label},
        annotations={names.ORIGINAL_USER: facts.user.name},
        parts=parts,
    )
