"""Decide how a task's local files are uploaded: ConfigMap, Secret or streaming."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kubectl_sky.spec import files
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.words import names
from kubectl_sky.words.facts import Archive, Facts
from kubectl_sky.words.names import standard_labels
from kubectl_sky.words.secret import Secret

MAX_BYTES = 900_000  # bytes; a ConfigMap is limited to 1 MiB, including metadata
MAX_TOTAL_BYTES: int = 4 * MAX_BYTES  # bytes in all ConfigMaps of a task, to keep etcd small


class FilesConfigMap(Struct, frozen=True):
    """A ConfigMap with local files: `parts` maps keys to pieces of gzipped tars."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    parts: Mapping[str, bytes]


class FileTransfer(Struct, frozen=True):
    """The local files of a task."""

    annotations: dict[str, str]  # which describe the files
    config_maps: tuple[FilesConfigMap, ...]  # named by their content, and shared by tasks of a user
    secret_name: str
    secret: Mapping[str, Secret]  # the pieces that only a Secret may contain
    unpack_paths: str  # a line per archive: its number and the folder to unpack it in
    large_files: Mapping[str, LocalFiles]  # archives too large for ConfigMaps, by number


def plan_transfer(files: Sequence[LocalFiles], name: str, facts: Facts) -> FileTransfer:
    """Decide how to upload each of a task's local files.

    Raises FieldError if secret files are too large.
    """
    small: dict[str, bytes] = {}
    secret: dict[str, Secret] = {}
    large: dict[str, LocalFiles] = {}
    remaining = MAX_TOTAL_BYTES

    entries = [
        (archive_number(index), entry, facts.archives[entry.path])
        for index, entry in enumerate(files)
    ]

    for number, entry, archive in sorted(entries, key=lambda item: len(item[2].data)):
        if may_hold_credentials(entry):
            size = len(archive.data) + sum(map(len, secret.values()))
            if not archive.data or size > MAX_BYTES:
                raise FieldError(
                    entry.field,
                    f'"{entry.source}" holds credentials, and a Secret can hold only'
                    f" {MAX_BYTES:,} bytes",
                    "exclude the files that the task does not need in .skyignore",
                )
            secret |= {key: Secret(part) for key, part in _parts(number, archive.data).items()}
        elif archive.data and len(archive.data) <= remaining:
            remaining -= len(archive.data)
            small |= _parts(number, archive.data)
        else:
            large[number] = entry

    return FileTransfer(
        annotations=_annotations(files, facts),
        config_maps=tuple(
            _config_map(parts, facts) for parts in _batches(dict(sorted(small.items())))
        ),
        secret_name=f"{name}-files",
        secret=dict(sorted(secret.items())),
        unpack_paths="".join(
            f"{archive_number(index)} {_folder(entry.path, facts.archives[entry.path])}\n"
            for index, entry in enumerate(files)
        ),
        large_files=large,
    )


def archive_number(index: int) -> str:
    return f"{index:03}"


def _annotations(files: Sequence[LocalFiles], facts: Facts) -> dict[str, str]:
    """Return annotations with a line per file: one changes with its content, one has its commit.

    Files with credentials are listed without a hash.
    """
    lines = [
        f"{entry.path}: "
        + ("hidden" if may_hold_credentials(entry) else _summary(facts.archives[entry.path]))
        for entry in files
    ]
    revisions = {
        entry.path: revision for entry in files if (revision := facts.archives[entry.path].revision)
    }
    listed = {names.LOCAL_FILES: "\n".join(lines)} if lines else {}
    text = "\n".join(f"{path}: {revision}" for path, revision in revisions.items())
    return listed | ({names.REVISION: text} if text else {})


def _summary(archive: Archive) -> str:
    count = "1 file" if archive.files == 1 else f"{archive.files:,} files"
    return f"{count}, {archive.size:,} bytes, sha256 {archive.digest}"


def may_hold_credentials(file: LocalFiles) -> bool:
    """Return whether the source or the target path may hold credentials."""
    return files.has_credentials(file.path) or files.has_credentials(file.source)


def _folder(path: str, archive: Archive) -> str:
    """Return the folder to unpack an archive in; for a single file, its parent."""
    return path if archive.folder else (path.rpartition("/")[0] or "/")


def _parts(number: str, data: bytes) -> dict[str, bytes]:
    """Split an archive into pieces with keys in order."""
    starts = range(0, len(data), MAX_BYTES)
    return {
        f"files-{number}-{offset // MAX_BYTES:03}": data[offset : offset + MAX_BYTES]
        for offset in starts
    }


def _batches(parts: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Group pieces into objects, as many as fit into each."""
    batch: dict[str, bytes] = {}
    for key, data in parts.items():
        if batch and sum(map(len, batch.values())) + len(data) > MAX_BYTES:
            yield batch
            batch = {}
        batch[key] = data
    if batch:
        yield batch


def _config_map(parts: Mapping[str, bytes], facts: Facts) -> FilesConfigMap:
    digest = hashlib.sha256(facts.user.name.encode())
    for key, data in parts.items():
        digest.update(f"\0{key} {len(data)}\0".encode() + data)
    name = f"files-{digest.hexdigest()[:20]}"
    labels = {names.TASK: "true", names.FILES: "true", names.USERNAME: facts.user.label}
    return FilesConfigMap(
        name=name,
        namespace=facts.namespace,
        labels=standard_labels(names.MANAGER, name) | labels,
        annotations={names.ORIGINAL_USER: facts.user.name},
        parts=parts,
    )
