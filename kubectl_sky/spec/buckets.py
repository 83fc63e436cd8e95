"""Buckets, Hugging Face repositories and URLs in file_mounts, and the fields of each mode."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, convert

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.files import is_url, list_copied, list_uploaded, target_path
from kubectl_sky.spec.volumes import wrong_path

_HUB_EXAMPLES = (
    "hf://OWNER/MODEL, hf://datasets/OWNER/NAME@REVISION/PATH or hf://buckets/OWNER/NAME"
)
HUB_BUCKETS = "buckets"  # buckets have no revisions

_HUB_PATH = re.compile(
    r"((?P<kind>datasets|spaces|buckets)/)?"
    r"(?P<name>(?!(datasets|spaces|buckets)/)\w[\w.-]*/\w[\w.-]*)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?",
    re.ASCII | re.DOTALL,
)


class HubPath(Struct, frozen=True):
    """A repository or bucket by OWNER/NAME, its revision, and a folder or file in it.

    `kind` is models, datasets, spaces or buckets, as in the Hub's own URLs.
    """

    kind: str
    name: str
    revision: str
    path: str


def hub_path(text: str) -> HubPath | None:
    """Parse a location; return None if it is not valid on the Hub."""
    match = _HUB_PATH.fullmatch(text)
    if not match:
        return None
    kind = match["kind"] or "models"
    revision = match["revision"]
    path = (match["path"] or "").rstrip("/")
    invalid_parts = {"", ".", ".."}.intersection(path.split("/")) if path else ()
    if invalid_parts or (kind == HUB_BUCKETS and revision) or not path.isprintable():
        return None
    return HubPath(kind, match["name"], unquote(revision or "main"), path)


HUB = "hf"
WEB = "https"  # the store of a URL that is not a bucket: a single file
_DEFAULT = "MOUNT"
_AZURE = re.compile(r"https://([a-z0-9]{3,24})\.blob\.core\.windows\.net/(.+)")
# A field of a bucket, and the only mode in which it has an effect.
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
_ONE_URL = "write a mount for each bucket"
_SYNC: Path = ("config", "kubectl_sky", "sync")

# Which names the stores allow for a new bucket, and how to say it.
_NAMES_OF_S3 = (
    re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "3 to 63 lower-case letters, digits, dots and hyphens; the first and last no dot or hyphen",
)
_NAMES_OF_GCS = (
    re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "3 or more lower-case letters, digits, dots, hyphens and underscores; the first and last a"
    " letter or digit",
)
_NAMES_OF_AZURE = (
    re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"),
    "3 to 63 lower-case letters, digits and single hyphens; the first and last no hyphen",
)
_NAMES_OF_R2 = (
    re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"),
    "3 to 63 lower-case letters, digits and hyphens; the first and last no hyphen",
)
_NAMES_OF_OCI = (
    re.compile(r"[A-Za-z0-9._-]{1,256}"),
    "1 to 256 letters, digits, dots, hyphens and underscores",
)
_NAMES = {
    "s3": _NAMES_OF_S3,
    "gcs": _NAMES_OF_GCS,
    "azure": _NAMES_OF_AZURE,
    "r2": _NAMES_OF_R2,
    "ibm": _NAMES_OF_S3,
    "oci": _NAMES_OF_OCI,
    "nebius": _NAMES_OF_S3,
    "coreweave": _NAMES_OF_S3,
    "vastdata": _NAMES_OF_S3,
    "": _NAMES_OF_GCS,  # the settings choose the store
}
# A URL may be of a bucket that was created under older rules: S3 had others until 2018.
_OLD_NAMES_OF_S3 = (
    re.compile(r"[A-Za-z0-9._-]{3,255}"),
    "3 to 255 letters, digits, dots, hyphens and underscores",
)
_NAMES_IN_URLS = {
    store: _OLD_NAMES_OF_S3 if names is _NAMES_OF_S3 else names for store, names in _NAMES.items()
}


class Sync(Struct, frozen=True):
    """What a synced bucket downloads: all, newest or none; empty for its default.

    `include` limits it to rclone's patterns. With `delete`, deletions reach the bucket.
    """

    download: str = ""
    include: tuple[str, ...] = ()
    delete: bool = False


@dataclass(frozen=True)
class Bucket:
    """A bucket, a prefix of a bucket, or a file on the web, at a path.

    `path` is absolute or below `~/`.
    `store` is the store's name in the settings; empty if the task leaves it to the settings.
    `location` is the part of the URL after the scheme: `bucket/prefix`. Azure's account and IBM's
    region are in `account` instead. For the web, `location` is the whole URL; for Hugging Face, a
    location on the Hub.
    """

    path: str
    store: str
    location: str
    mode: str = "COPY"
    read_only: bool = False
    account: str = ""
    by_name: bool = False  # by a name instead of a URL: SkyPilot creates it
    key: str = field(default="", compare=False)  # in file_mounts, as the user wrote it
    sync: Sync = field(default_factory=Sync)

    @property
    def name(self) -> str:
        return self._hub.name if self._hub else self.location.split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """Return the prefix in the bucket; empty for the whole bucket."""
        return self._hub.path if self._hub else self.location.partition("/")[2].strip("/")

    @property
    def download(self) -> str:
        """What is downloaded if it is synced.

        A bucket that is named or cached is for what the task writes, and may outgrow the disk.
        """
        is_output = self.by_name or self.mode == "MOUNT_CACHED"
        return self.sync.download or ("newest" if is_output else "all")

    @property
    def is_hub_repository(self) -> bool:
        """Whether it is a repository on the Hub, which no node can write."""
        return bool(self._hub and self._hub.kind != HUB_BUCKETS)

    @property
    def _hub(self) -> HubPath | None:
        return hub_path(self.location) if self.store == HUB else None

    @property
    def url(self) -> str:
        scheme = next((key for key, store in STORES.items() if store == self.store), self.store)
        if self.store == "azure":
            return f"https://{self.account}.blob.core.windows.net/{self.location}"
        if self.store == WEB:
            return self.location
        region = f"{self.account}/" if self.account else ""
        return f"{scheme or '…'}://{region}{self.location}"


def buckets_of(data: Mapping[str, Any]) -> tuple[Bucket, ...]:
    own_fields = (data.get("config") or {}).get("kubectl_sky") or {}
    syncs = {_sync_path(path): _sync(fields) for path, fields in entries(own_fields.get("sync"))}
    return tuple(
        replace(
            _bucket(target_path(path), source), key=path, sync=syncs.get(target_path(path), Sync())
        )
        for path, source in entries(data.get("file_mounts"))
        if (isinstance(source, dict) and not list_copied(source)) or is_url(source)
    )


def _sync_path(path: str) -> str:
    """Return the path in file_mounts, where none ends with a slash."""
    return target_path(path).rstrip("/")


def _sync(fields: Data) -> Sync:
    return convert(fields, Sync) if isinstance(fields, dict) else Sync()


def _bucket(path: str, source: Data) -> Bucket:
    if isinstance(source, str):
        return _locate(path, source)

    mount = (source.get("config") or {}).get("mount") or {}
    cached = (source.get("config") or {}).get("mount_cached") or {}
    url = source.get("source")
    store = source.get("store")
    url = url if is_url(url) else None  # local files are uploaded into the bucket's folder

    name = str(source.get("name"))
    if str(store).lower() == HUB:
        name = f"{HUB_BUCKETS}/{name}"
    located = _locate(path, url) if url else Bucket(path, (store or "").lower(), name)

    return Bucket(
        path,
        located.store,
        located.location,
        str(source.get("mode") or _DEFAULT).upper(),
        any(fields.get("read_only") for fields in [mount, cached]),
        located.account,
        by_name=not url,
    )


def _locate(path: str, url: str) -> Bucket:
    azure = _AZURE.fullmatch(url)
    if azure:
        return Bucket(path, "azure", azure[2], account=azure[1])
    scheme, _, location = url.partition("://")
    store = STORES.get(scheme.lower(), "")
    if store == "ibm":  # cos://REGION/BUCKET
        region, _, location = location.partition("/")
        return Bucket(path, store, location, account=region)
    if store == WEB:
        location = url
    return Bucket(path, store, location)


def undone(document: Document) -> Iterator[tuple[Path, str, str]]:
    """Yield the buckets that are not supported: the path, the reason and a hint."""
    for path, source in entries(document.get("file_mounts")):
        field_path: Path = ("file_mounts", path)
        if isinstance(source, dict) and not list_copied(source):
            yield from _undone(field_path, source)
        elif is_url(source):
            yield from _unread(field_path, source)


def _undone(where: Path, source: Mapping[Data, Data]) -> Iterator[tuple[Path, str, str]]:
    url = source.get("source")
    name = source.get("name")
    if str(source.get("store")).upper() == "VOLUME":
        yield (*where, "store"), "it applies to disks of GCP", "write volumes"
    elif isinstance(url, list) and not list_uploaded(source):
        yield (*where, "source"), "a list has files and folders with a name only", _ONE_URL
    elif is_url(url):
        yield from _unread((*where, "source"), str(url))
    elif not str(name or "").split("/")[0]:
        field_path = (*where, "source") if url == "" else where
        yield field_path, "the bucket has no name", "such as name: my-bucket"
    elif str(source.get("store")).lower() == HUB:
        yield from _unread((*where, "name"), f"hf://{HUB_BUCKETS}/{name}")
    elif is_url(name):
        hint = f"write source: {printable(str(name))}"
        yield (*where, "name"), "a name is no URL", hint
    else:
        store = str(source.get("store") or "").lower()
        yield from _misnamed((*where, "name"), store, str(name), _NAMES)


def _unread(where: Path, url: str) -> Iterator[tuple[Path, str, str]]:
    scheme, _, location = url.partition("://")
    store = STORES.get(scheme.lower())
    located = _locate("", url)
    bucket_name = location.strip("/") and located.name.strip("/")
    if store is None:
        yield where, f"no store is known by {printable(scheme)}://", f"such as {', '.join(STORES)}"
    elif store == HUB:
        if not hub_path(location):
            yield where, "this is no place on Hugging Face's Hub", f"such as {_HUB_EXAMPLES}"
    elif not bucket_name:
        yield where, "the URL names no bucket", "such as s3://my-bucket/data"
    elif "$" in bucket_name and store != WEB:
        yield where, "the bucket's name has a variable that is not set", "set it in envs"
    elif located.store != WEB:
        yield from _misnamed(where, located.store, located.name, _NAMES_IN_URLS)


def _misnamed(
    where: Path, store: str, name: str, names: Mapping[str, tuple[re.Pattern[str], str]]
) -> Iterator[tuple[Path, str, str]]:
    bucket_name = name.split("/")[0]
    pattern, form = names.get(store, names[""])
    if not pattern.fullmatch(bucket_name):
        of_store = f" of store {store}" if store else ""
        message = f'"{printable(bucket_name)}" is not a valid bucket name{of_store}'
        yield where, message, f"use {form}"


def _paths(document: Document) -> Iterator[Problem]:
    """Check the destinations; as they are mounted, the rules of mount paths apply."""
    for path, source in entries(document.get("file_mounts")):
        if isinstance(source, dict) or is_url(source):
            message = (
                "files go to a path, not to a URL"
                if is_url(path)
                else wrong_path(target_path(path))
            )
            if message:
                yield document.problem(("file_mounts", path), message, key=True)


def _unused(document: Document) -> Iterator[Problem]:
    """Warn about a name or a store beside the URL of another bucket, which counts."""
    for target, mount in entries(document.get("file_mounts")):
        url = mount.get("source") if isinstance(mount, dict) else None
        if not is_url(url):
            continue
        located = _locate("", str(url))
        for name, used in (("name", located.name), ("store", located.store)):
            value = mount.get(name)
            if isinstance(value, str) and value.lower() not in (used.lower(), ""):
                message = f'ignored: source is of "{printable(used)}"'
                path = ("file_mounts", target, name)
                yield document.unused(path, message, "remove it, or change source")


def _modes(document: Document) -> Iterator[Problem]:
    for target, bucket in entries(document.get("file_mounts")):
        mode = str(bucket.get("mode") or _DEFAULT).upper() if isinstance(bucket, dict) else None
        for steps, required_mode in _NEEDS:
            path = ("file_mounts", target, *steps)
            if mode and document.get(*path) is not None and mode != required_mode:
                message = f"means something in the mode {required_mode} only"
                yield document.problem(path, message, f"such as mode: {required_mode}", key=True)


def _syncs(document: Document) -> Iterator[Problem]:
    """Check that the settings of synced buckets are about buckets that may be synced."""
    mounts = {
        target_path(path): source
        for path, source in entries(document.get("file_mounts"))
        if isinstance(source, dict) and not list_copied(source)
    }
    for path, _ in entries(document.get(*_SYNC)):
        mode = str((mounts.get(_sync_path(path)) or {}).get("mode") or _DEFAULT).upper()
        if _sync_path(path) not in mounts or mode == "COPY":
            message = "no bucket is mounted at this path"
            yield document.problem((*_SYNC, path), message, "write a path of file_mounts", key=True)


RULES = (_paths, _modes, _unused)
CONFIG_RULES = (_syncs,)
