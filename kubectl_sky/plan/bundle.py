"""How a task's local files travel: in ConfigMaps while small, in a Secret where they are secret."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.errors import UserError
from kubectl_sky.facts import Archive, Facts
from kubectl_sky.secret import Secret
from kubectl_sky.spec import credentials
from kubectl_sky.spec.files import LocalFiles

PART = 900_000  # bytes; a ConfigMap holds 1 MiB with everything around them
_OTHERS = 256 << 20  # bytes for the headers of folders and links, of which few have many
KEEP = 4 * PART  # bytes of all ConfigMaps of a task: etcd is no place for data


@dataclass(frozen=True)
class Bundle:
    """An object that carries files: `parts` are pieces of gzip'ed tars, by key."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    parts: Mapping[str, bytes]


@dataclass(frozen=True)
class Cargo:
    """All that a task brings along.

    `annotations` say what it is. `bundles` are shared by the tasks of a user that bring the same,
    and named by what is in them. `secret` are the pieces that only a Secret may hold, of the name
    `secret_name`. `places` is a line for each archive: its number, and the folder that it is
    unpacked in. `streamed` are the archives, by number, that are too large for all this; a volume
    keeps them where there is a `shelf`, which is a line for each: its number, its hash, and the
    bytes that its tar has at most. `digests` is such a line for each archive in the bundles: its
    number, and the SHA-256 of its bytes there.
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
        """What a node reads of it, as files."""
        lists = {"files.txt": self.places, "digests.txt": self.digests, "shelf.txt": self.shelf}
        return {name: text for name, text in lists.items() if text}


def cargo(files: Sequence[LocalFiles], name: str, facts: Facts, kept: bool = False) -> Cargo:
    """Decide how each of a task's local files travels; `kept` is whether a volume keeps the large.

    Raises UserError for too large secrets.
    """
    small: dict[str, bytes] = {}
    digests: list[str] = []
    secret: dict[str, Secret] = {}
    large = streamed(files, facts.archives)
    for number, one, archive in _by_size(files, facts.archives):
        if is_secret(one):
            data = _fitting(one, archive, sum(map(len, secret.values())))
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
            f"{_number(at)} {_folder(one.path, facts.archives[one.path])}\n"
            for at, one in enumerate(files)
        ),
        streamed=large,
        shelf="".join(
            f"{number} {facts.archives[one.path].digest} {_limit(facts.archives[one.path])}\n"
            for number, one in large.items()
            if kept
        ),
        digests="".join(sorted(digests)),
    )


def streamed(files: Sequence[LocalFiles], archives: Mapping[str, Archive]) -> dict[str, LocalFiles]:
    """Return those of a task's local files, by number, that its ConfigMaps have no room for."""
    found: dict[str, LocalFiles] = {}
    left = KEEP
    for number, one, archive in _by_size(files, archives):
        if is_secret(one):
            continue
        if archive.data and len(archive.data) <= left:
            left -= len(archive.data)
        else:
            found[number] = one
    return found


def _by_size(
    files: Sequence[LocalFiles], archives: Mapping[str, Archive]
) -> list[tuple[str, LocalFiles, Archive]]:
    """Return the files with their numbers and archives, the smallest first."""
    found = [(_number(at), one, archives[one.path]) for at, one in enumerate(files)]
    return sorted(found, key=lambda each: len(each[2].data))


def _limit(archive: Archive) -> int:
    """Return the bytes that a tar has at most: files, their headers, and folders and links."""
    return archive.size + 2048 * archive.files + _OTHERS


def _number(at: int) -> str:
    return f"{at:03}"


def _annotations(files: Sequence[LocalFiles], facts: Facts) -> dict[str, str]:
    """Return in a line for each what the files are: another content is another line.

    Of files with credentials not even a hash is told.
    """
    lines = [
        f"{one.path}: {'hidden' if is_secret(one) else _described(facts.archives[one.path])}"
        for one in files
    ]
    return {names.LOCAL_FILES: "\n".join(lines)} if lines else {}


def _described(archive: Archive) -> str:
    count = f"{archive.files:,} file{'s' * (archive.files != 1)}"
    return f"{count}, {archive.size:,} bytes, sha256 {archive.digest}"


def is_secret(one: LocalFiles) -> bool:
    """Say whether there are credentials where the files are from, or where they go."""
    return credentials.are_in(one.path) or credentials.are_in(one.source)


def _fitting(one: LocalFiles, archive: Archive, taken: int) -> bytes:
    if not archive.data or len(archive.data) + taken > PART:
        raise UserError(
            f"{one.source}: holds credentials, which travel in a Secret, and that has room for"
            f" {PART:,} bytes",
            "leave out what the task does not need by .skyignore",
        )
    return archive.data


def _folder(path: str, archive: Archive) -> str:
    """Return the folder that an archive is unpacked in: a file's is the one around it."""
    return path if archive.folder else (path.rpartition("/")[0] or "/")


def _parts(number: str, data: bytes) -> dict[str, bytes]:
    """Cut an archive into pieces whose keys are in order."""
    starts = range(0, len(data), PART)
    return {f"files-{number}-{at // PART:03}": data[at : at + PART] for at in starts}


def _filled(parts: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Put as many pieces together as one object has room for."""
    held: dict[str, bytes] = {}
    for key, data in parts.items():
        if held and sum(map(len, held.values())) + len(data) > PART:
            yield held
            held = {}
        held[key] = data
    if held:
        yield held


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
