"""Decide how buckets and web files reach a task's nodes: copied, synced or mounted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from kubectl_sky.plan import environment, local_files
from kubectl_sky.plan.environment import SecretEnvVar
from kubectl_sky.spec import buckets
from kubectl_sky.spec.buckets import HUB, WEB, Bucket
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.spec.task import Task
from kubectl_sky.words.expansion import literal
from kubectl_sky.words.settings import Settings

DOWNLOAD_PATH = "/kubectl-sky/fetched"  # target folder in the container that copies a bucket
_S3 = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true"}
# rclone's remote settings for each store that do not depend on the user.
_REMOTES: dict[str, Mapping[str, str]] = {
    "s3": {**_S3, "PROVIDER": "AWS"},
    "r2": {**_S3, "PROVIDER": "Cloudflare", "REGION": "auto"},
    "gcs": {"TYPE": "google cloud storage", "ENV_AUTH": "true"},
    "azure": {"TYPE": "azureblob", "ENV_AUTH": "true"},
    "ibm": {**_S3, "PROVIDER": "IBMCOS"},
    "oci": {"TYPE": "oracleobjectstorage", "PROVIDER": "env_auth"},
    "nebius": _S3,
    "coreweave": {**_S3, "ENDPOINT": "https://cwobject.com", "FORCE_PATH_STYLE": "false"},
    "vastdata": _S3,
}
# What a store needs to know, and how settings.yaml says it.
_ENDPOINT = ("endpoint", 'endpoint: "https://…"')
_NEEDED = {
    "azure": ("account", "options: {account: NAME}"),
    "nebius": ("endpoint", "region: eu-north1"),
    "r2": _ENDPOINT,
    "vastdata": _ENDPOINT,
}
_NEBIUS = "https://storage.{}.nebius.cloud"
_IBM = "https://s3.{}.cloud-object-storage.appdomain.cloud"
_GCSFUSE = (
    '{driver: gcsfuse.csi.storage.gke.io, attributes: {bucketName: "{bucket}"},'
    ' annotations: {gke-gcsfuse/volumes: "true"}}'
)
_COPIED = "it is copied at the start, and nothing is written back"
_LOST = "; what the task writes there stays in its pod and is lost with it"
_ANONYMOUS = {"ENV_AUTH": "false"}
_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # as read by the Hub's own tools
_HUB_VARIABLES = ("HF_ENDPOINT", *_HUB_TOKENS)
# The secrets of a task that reach the stores with S3's API, unless the settings have others.
_S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
SYNC = "sync"  # the mode in the settings, and the class of `refuse`
NEWEST = "newest"
_SYNCED = "synced, not mounted: written back every minute; see docs/files.md"
_NAMED = 2  # paths in its note


class Way(StrEnum):
    """How a bucket reaches the nodes.

    SYNCED: copied when the task starts; a sidecar writes new and changed files back.
    """

    COPIED = "copied"
    SYNCED = "synced"
    MOUNTED = "mounted"


class Download(Struct, frozen=True):
    """An init container that copies data into a volume of the pod.

    Its variables come from `secret` and, for `tokens`, from secrets of the task. If it
    `writes_back`, a sidecar with the same image and variables does.
    """

    name: str
    image: str
    env: Mapping[str, str]
    secret: str | None
    volume: str
    tokens: tuple[SecretEnvVar, ...] = ()
    writes_back: bool = False


class CsiVolume(Struct, frozen=True):
    """An inline CSI volume with the pod's lifetime; `secret` is the driver's."""

    name: str
    driver: str
    attributes: Mapping[str, str]
    secret: str | None
    read_only: bool


class BucketVolume(Struct, frozen=True):
    """A bucket in a volume of the pod: copied or synced, an inline CSI volume, or a PVC."""

    bucket: Bucket
    volume: str
    sub_path: str | None
    download: Download | None = None
    csi_volume: CsiVolume | None = None
    pvc: str | None = None
    annotations: Mapping[str, str] = {}


def bucket_volumes(
    task: Task, settings: Settings, image: str, variables: Sequence[SecretEnvVar]
) -> tuple[BucketVolume, ...]:
    """Decide how each bucket reaches the nodes.

    Web files and Hugging Face files are fetched with the task's `image`, the latter with the token
    among its secret `variables`. Raises FieldError if a required setting is missing.
    """
    volumes = []
    for index, bucket in enumerate(_with_store(item, task, settings) for item in task.buckets):
        name = f"bucket-{index}"
        store = settings.stores.get(bucket.store) or {}
        way = find_way(bucket, settings)

        if way is Way.MOUNTED:
            volumes.append(_mount(bucket, name, store, settings))
            continue

        env = _env(bucket)
        default_image = image
        token_names: Sequence[str] = ()
        if bucket.store == HUB:
            env |= _hub_env(bucket.location, task, store)
            token_names = _HUB_TOKENS
        elif bucket.store != WEB:
            env |= _program(bucket, settings) | _remote(bucket, store)
            if way is Way.SYNCED:
                env |= _sync(bucket, task)
            token_names = () if store.get("secret") else _S3_KEYS
            default_image = settings.fetch_image

        anonymous = store.get("anonymous")
        tokens = (item for item in variables if item.name in token_names and not anonymous)
        download = Download(
            name,
            store.get("image") or default_image,
            env,
            store.get("secret"),
            name,
            tuple(tokens),
            way is Way.SYNCED,
        )
        volumes.append(BucketVolume(bucket, name, "data", download))

    return tuple(volumes)


def kept_files(task: Task) -> dict[str, str]:
    """Return the variable with the numbers of the archives that do not replace a bucket's files."""
    paths = [PurePosixPath(bucket.path) for bucket in task.buckets]
    numbers = [
        local_files.archive_number(index)
        for index, entry in enumerate(task.files)
        if any(PurePosixPath(entry.path).is_relative_to(path) for path in paths)
    ]
    return {"KUBECTL_SKY_KEEP": " ".join(numbers)} if numbers else {}


def find_way(bucket: Bucket, settings: Settings) -> Way:
    """Choose for a bucket with a store; what cannot be written needs no sidecar."""
    store = settings.stores.get(bucket.store) or {}
    if bucket.store == WEB or bucket.mode == "COPY" or settings.bucket_mode == "copy":
        return Way.COPIED
    is_mountable = store.get("csi") or bucket.name in (store.get("claims") or {})
    if is_mountable and settings.bucket_mode != SYNC:
        return Way.MOUNTED
    if bucket.read_only or bucket.is_hub_repository:
        return Way.COPIED
    return Way.MOUNTED if bucket.store == HUB or SYNC in settings.refuse else Way.SYNCED


def _with_store(bucket: Bucket, task: Task, settings: Settings) -> Bucket:
    """Return a bucket given by name with the store that the credentials at hand are for."""
    if bucket.store == "azure" and not bucket.account:
        options = (settings.stores.get("azure") or {}).get("options") or {}
        return replace(bucket, account=str(options.get("account") or ""))
    if bucket.store:
        return bucket
    names = {*task.secrets, *(reference.key for reference in task.existing_secrets)}
    configured = [name for name in settings.stores if name != HUB]
    has_s3 = "s3" in configured or _S3_KEYS[0] in names or not configured
    store = settings.default_store or ("s3" if has_s3 else configured[0])
    return replace(bucket, store=store)


def _mount(bucket: Bucket, name: str, store: Mapping[str, Any], settings: Settings) -> BucketVolume:
    """Mount a bucket through its PVC, if configured, or the store's CSI driver."""
    pvc = (store.get("claims") or {}).get(bucket.name)
    if pvc:
        return BucketVolume(bucket, name, bucket.prefix or None, pvc=pvc)

    csi = store.get("csi")
    if not csi:
        setting = f"claims: {{{json.dumps(bucket.name)}: my-pvc}}"
        if bucket.store == "gcs":
            setting = f"csi: {_GCSFUSE}"
        refused = ", and the settings refuse sync" if SYNC in settings.refuse else ""
        raise FieldError(
            ("file_mounts", bucket.key or bucket.path),
            f"no CSI driver or PVC is configured to mount {bucket.url} (mode: {bucket.mode})"
            f"{refused}",
            f"use `submit` with --bucket-mode copy ({_COPIED}); to mount it, set in settings.yaml:"
            f" stores: {{{bucket.store}: {{{setting}}}}}",
        )

    placeholders = {"{bucket}": bucket.name, "{prefix}": bucket.prefix, "{account}": bucket.account}
    attributes = dict(csi.get("attributes") or {})
    for key in attributes:
        for placeholder, value in placeholders.items():
            attributes[key] = attributes[key].replace(placeholder, value)

    csi_volume = CsiVolume(name, csi["driver"], attributes, csi.get("secret"), bucket.read_only)
    sub_path = None if "{prefix}" in str(csi.get("attributes")) else bucket.prefix or None
    annotations = csi.get("annotations") or {}
    return BucketVolume(bucket, name, sub_path, csi_volume=csi_volume, annotations=annotations)


def _env(bucket: Bucket) -> dict[str, str]:
    """Return the script's variables; values are never part of a script."""
    return {"KUBECTL_SKY_SOURCE": bucket.url, "KUBECTL_SKY_SCRATCH": DOWNLOAD_PATH}


def _program(bucket: Bucket, settings: Settings) -> dict[str, str]:
    """Return the variables for rclone."""
    return {
        "KUBECTL_SKY_PROGRAM": settings.fetch_program,
        "KUBECTL_SKY_LOCATION": bucket.location,
        "KUBECTL_SKY_PREFIX": bucket.prefix,
    }


def _sync(bucket: Bucket, task: Task) -> dict[str, str]:
    """Return the variables of sync.sh; a bucket that is given by name is created.

    Buckets share the disk size of the task.
    """
    variables = {"KUBECTL_SKY_SYNC": bucket.download}
    if bucket.by_name:
        variables["KUBECTL_SKY_CREATE"] = bucket.name
    if bucket.sync.include:
        variables["KUBECTL_SKY_INCLUDE"] = literal("\n".join(bucket.sync.include))
    if bucket.sync.delete:
        variables["KUBECTL_SKY_DELETE"] = "yes"
    if bucket.download == NEWEST and task.resources.disk:
        number = sum(item.download == NEWEST and item.mode != "COPY" for item in task.buckets)
        variables["KUBECTL_SKY_DISK"] = str(int(quantity(task.resources.disk) / number))
    return variables


def _remote(bucket: Bucket, store: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that configure rclone's remote for a store."""
    fields = {**_REMOTES[bucket.store], **_address(bucket, store)}
    if store.get("anonymous"):
        fields |= {"ANONYMOUS": "true"} if bucket.store == "gcs" else _ANONYMOUS

    options = {key.upper(): str(value) for key, value in (store.get("options") or {}).items()}
    for name in ("endpoint", "region"):
        if store.get(name):
            fields[name.upper()] = store[name]

    endpoint = options.get("ENDPOINT") or fields.get("ENDPOINT", "")
    if bucket.store == "s3" and endpoint and "amazonaws.com" not in endpoint:
        fields["PROVIDER"] = "Other"  # the bucket is in the path: it has no host name of its own
    fields |= options

    if bucket.store in _NEEDED:
        needed, setting = _NEEDED[bucket.store]
        if needed.upper() not in fields:
            raise FieldError(
                ("file_mounts", bucket.key or bucket.path),
                f'the {needed} of store "{bucket.store}" is not set',
                f"set in settings.yaml: stores: {{{bucket.store}: {{{setting}}}}}",
            )
    return {f"RCLONE_CONFIG_SRC_{key}": value for key, value in fields.items()}


def _address(bucket: Bucket, store: Mapping[str, Any]) -> dict[str, str]:
    """Return where a store is, if its URL or region says it."""
    if bucket.store == "azure" and bucket.account:
        return {"ACCOUNT": bucket.account}
    if bucket.store == "ibm":
        return {"ENDPOINT": _IBM.format(bucket.account)}
    if bucket.store == "nebius" and store.get("region"):
        return {"ENDPOINT": _NEBIUS.format(store["region"])}
    return {}


def notes(task: Task, settings: Settings) -> Iterator[str]:
    """Yield notes on stores that were chosen, and on buckets that are not mounted as written."""
    buckets = [_with_store(bucket, task, settings) for bucket in task.buckets]
    for declared, bucket in zip(task.buckets, buckets, strict=True):
        if not declared.store:
            yield (
                f'file_mounts.{bucket.path}: bucket "{bucket.name}" names no store; {bucket.store}'
                " is used"
            )

    for bucket in buckets:
        if find_way(bucket, settings) is Way.COPIED and bucket.mode != "COPY":
            loss = "" if bucket.read_only or bucket.is_hub_repository else _LOST
            yield f"file_mounts.{bucket.path}: {bucket.url} is copied, not mounted{loss}"


def sync_notes(tasks: Sequence[Task], settings: Settings) -> Iterator[str]:
    """Yield one note for all synced buckets of a file."""
    paths = dict.fromkeys(
        bucket.path
        for task in tasks
        for bucket in (_with_store(item, task, settings) for item in task.buckets)
        if find_way(bucket, settings) is Way.SYNCED
    )
    if paths:
        named = ", ".join(list(paths)[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        yield f"file_mounts ({named}{more}): {_SYNCED}"


def _hub_env(text: str, task: Task, store: Mapping[str, Any]) -> dict[str, str]:
    """Return the Hub's URL paths for a repository or bucket: file list and downloads."""
    location = buckets.hub_path(text)
    if location is None:  # the task file's validation already rejects it
        raise ValueError(f"no location on the Hub: {text}")

    site = location.name if location.kind == "models" else f"{location.kind}/{location.name}"
    revision = (
        "" if location.kind == buckets.HUB_BUCKETS else f"/{quote(location.revision, safe='')}"
    )

    variables = {
        "KUBECTL_SKY_TREE": f"/api/{location.kind}/{location.name}/tree{revision}",
        "KUBECTL_SKY_RESOLVE": f"/{site}/resolve{revision}",
        "KUBECTL_SKY_PREFIX": literal(location.path),
    }
    if store.get("endpoint"):
        variables["HF_ENDPOINT"] = literal(store["endpoint"])

    user_values = environment.without_reserved(task.envs)
    secret_names = {*task.secrets, *(reference.key for reference in task.existing_secrets)}
    return variables | {
        name: literal(user_values[name])
        for name in _HUB_VARIABLES
        if name in user_values and name not in secret_names
    }
