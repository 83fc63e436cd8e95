"""The buckets and URLs of file_mounts: what they are, and which settings go with which mode."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.spec import hub
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.files import is_url, whole
from kubectl_sky.spec.mounts import wrong_path

HUB = "hf"
WEB = "https"  # the store of a URL that is no bucket's: one file
_DEFAULT = "MOUNT"
_AZURE = re.compile(r"https://([a-z0-9]{3,24})\.blob\.core\.windows\.net/(.+)")
# A field within a bucket's, and the mode in which alone it means something.
_NEEDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("type",), "MOUNT_CACHED"),
    (("config", "mount_cached"), "MOUNT_CACHED"),
    (("config", "mount"), "MOUNT"),
)
STORES = {
    "s3": "s3",
    "gs": "gcs",
    "r2": "r2",
    "cos": "ibm",
    "oci": "oci",
    "nebius": "nebius",
    "cw": "coreweave",
    "vastdata": "vastdata",
    "hf": HUB,
    "https": WEB,
    "http": WEB,
}
_LOCAL = "a bucket is neither made nor filled by a task"
_FILL = "fill it once with the store's own tool and write its URL as the source"


@dataclass(frozen=True)
class Bucket:
    """A bucket, a part of one, or a file on the web, at a path: absolute, or below `~/`.

    `store` is as settings name it, empty where the task leaves it to them. `place` is what follows
    the scheme: `bucket/prefix`, with Azure's account or IBM's region apart in `account`; for the
    web it is the whole URL, and for Hugging Face a place on its Hub.
    """

    path: str
    store: str
    place: str
    mode: str = "COPY"
    read_only: bool = False
    account: str = ""

    @property
    def name(self) -> str:
        """The bucket's."""
        return self._hub.name if self._hub else self.place.split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """What of the bucket is meant; empty for all of it."""
        return self._hub.path if self._hub else self.place.partition("/")[2].strip("/")

    @property
    def _hub(self) -> hub.Place | None:
        return hub.place(self.place) if self.store == HUB else None

    @property
    def url(self) -> str:
        """As people write it."""
        scheme = next((one for one, store in STORES.items() if store == self.store), self.store)
        if self.store == "azure":
            return f"https://{self.account}.blob.core.windows.net/{self.place}"
        if self.store == WEB:
            return self.place
        region = f"{self.account}/" if self.account else ""
        return f"{scheme or '…'}://{region}{self.place}"


def buckets_of(data: Mapping[str, Any]) -> tuple[Bucket, ...]:
    """Return the buckets and URLs of a valid task."""
    return tuple(
        _bucket(whole(path), source)
        for path, source in entries(data.get("file_mounts"))
        if isinstance(source, dict) or is_url(source)
    )


def _bucket(path: str, source: Data) -> Bucket:
    if isinstance(source, str):
        return _located(path, source)
    mount = (source.get("config") or {}).get("mount") or {}
    cached = (source.get("config") or {}).get("mount_cached") or {}
    url, store = source.get("source"), source.get("store")
    name = f"{hub.BUCKETS}/" * (str(store).lower() == HUB) + str(source.get("name"))
    found = _located(path, url) if url else Bucket(path, "", name)
    return Bucket(
        path,
        found.store if url else (store or "").lower(),
        found.place,
        str(source.get("mode") or _DEFAULT).upper(),
        any(fields.get("read_only") for fields in [mount, cached]),
        found.account,
    )


def _located(path: str, url: str) -> Bucket:
    azure = _AZURE.fullmatch(url)
    if azure:
        return Bucket(path, "azure", azure[2], account=azure[1])
    scheme, _, place = url.partition("://")
    store = STORES.get(scheme.lower(), "")
    if store == "ibm":  # cos://REGION/BUCKET
        region, _, place = place.partition("/")
        return Bucket(path, store, place, account=region)
    return Bucket(path, store, url if store == WEB else place)


def undone(document: Document) -> Iterator[tuple[Path, str, str]]:
    """Yield the buckets that cannot be carried out: where they are, why, and what to do."""
    for path, source in entries(document.get("file_mounts")):
        where: Path = ("file_mounts", path)
        if isinstance(source, dict):
            yield from _undone(where, source)
        elif is_url(source):
            yield from _unread(where, source)


def _undone(where: Path, source: Mapping[Data, Data]) -> Iterator[tuple[Path, str, str]]:
    url, name = source.get("source"), source.get("name")
    if str(source.get("store")).upper() == "VOLUME":
        yield (*where, "store"), "this is about disks of GCP machines", "write volumes"
    elif url is None and not name:
        yield where, "the bucket has no name, and none is made", _FILL
    elif url is None and str(source.get("store")).lower() == HUB:
        yield from _unread((*where, "name"), f"hf://{hub.BUCKETS}/{name}")
    elif url is not None and not is_url(url):
        yield (*where, "source"), _LOCAL, _FILL
    elif isinstance(url, str):
        yield from _unread((*where, "source"), url)


def _unread(where: Path, url: str) -> Iterator[tuple[Path, str, str]]:
    scheme, _, place = url.partition("://")
    store = STORES.get(scheme.lower())
    named = place.strip("/") and _located("", url).name.strip("/")
    if store is None:
        yield where, f"no store is known by {printable(scheme)}://", f"such as {', '.join(STORES)}"
    elif store == HUB:
        if not hub.place(place):
            yield where, "this is no place on Hugging Face's Hub", f"such as {hub.EXAMPLES}"
    elif not named:
        yield where, "the URL names no bucket", "such as s3://my-bucket/data"


def _paths(document: Document) -> Iterator[Problem]:
    """A bucket is mounted at its destination, and that bounds what it can be called."""
    for path, source in entries(document.get("file_mounts")):
        if isinstance(source, dict) or is_url(source):
            wrong = "files go to a path, not to a URL" if is_url(path) else wrong_path(whole(path))
            if wrong:
                yield document.problem(("file_mounts", path), wrong, key=True)


def _modes(document: Document) -> Iterator[Problem]:
    for target, bucket in entries(document.get("file_mounts")):
        if isinstance(bucket, dict):
            yield from _fields(document, ("file_mounts", target), bucket.get("mode") or _DEFAULT)


def _fields(document: Document, path: Path, mode: Data) -> Iterator[Problem]:
    for field, needed in _NEEDS:
        if document.get(*path, *field) is not None and str(mode).upper() != needed:
            message = f"means something in the mode {needed} only"
            yield document.problem((*path, *field), message, f"such as mode: {needed}", key=True)


RULES = (_paths, _modes)
