"""Decide how buckets and web files reach a task's nodes: copied or mounted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from kubectl_sky.plan import environment
from kubectl_sky.plan.environment import SecretEnvVar
from kubectl_sky.spec import buckets
from kubectl_sky.spec.buckets import HUB, WEB, Bucket
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task
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
_ENDPOINTS = ("r2", "nebius", "vastdata")  # stores with an endpoint per user
_IBM = "https://s3.{}.cloud-object-storage.appdomain.cloud"
_GCSFUSE = (
    '{driver: gcsfuse.csi.storage.gke.io, attributes: {bucketName: "{bucket}"},'
    ' annotations: {gke-gcsfuse/volumes: "true"}}'
)
_COPIED = "it is copied at the start, and nothing is written back"
_ANONYMOUS = {"ENV_AUTH": "false"}
_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # as read by the Hub's own tools
_HUB_VARIABLES = ("HF_ENDPOINT", *_HUB_TOKENS)


class Download(Struct, frozen=True):
    """An init container that copies data into a volume of the pod.

    Its variables come from `secret` and, for `tokens`, from secrets of the task.
    """

    name: str
    image: str
    env: Mapping[str, str]
    secret: str | None
    volume: str
    tokens: tuple[SecretEnvVar, ...] = ()


class CsiVolume(Struct, frozen=True):
    """An inline CSI volume with the pod's lifetime; `secret` is the driver's."""

    name: str
    driver: str
    attributes: Mapping[str, str]
    secret: str | None
    read_only: bool


class BucketVolume(Struct, frozen=True):
    """A bucket in a volume of the pod: copied, an inline CSI volume, or a PVC."""

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
    for index, bucket in enumerate(_with_store(declared, settings) for declared in task.buckets):
        name, store = f"bucket-{index}", settings.stores.get(bucket.store) or {}
        if bucket.store != WEB and not is_copied(bucket, settings):
            volumes.append(_mount(bucket, name, store))
            continue
        tokens: tuple[SecretEnvVar, ...] = ()
        if bucket.store == WEB:
            env, default_image = _env(bucket, ""), image
        elif bucket.store == HUB:
            env = _env(bucket, "") | _hub_env(bucket.location, task, store)
            default_image = image
            token_names = () if store.get("anonymous") else _HUB_TOKENS
            tokens = tuple(variable for variable in variables if variable.name in token_names)
        else:
            env = _env(bucket, settings.fetch_program) | _remote(bucket, store)
            default_image = settings.fetch_image
        download_image = store.get("image") or default_image
        download = Download(name, download_image, env, store.get("secret"), name, tokens)
        volumes.append(BucketVolume(bucket, name, "data", download))
    return tuple(volumes)


def is_copied(bucket: Bucket, settings: Settings) -> bool:
    return bucket.mode == "COPY" or settings.bucket_mode == "copy"


def _with_store(bucket: Bucket, settings: Settings) -> Bucket:
    if bucket.store:
        return bucket
    if not settings.default_store:
        copy = f", and use `submit` with --bucket-mode copy ({_COPIED})"
        raise FieldError(
            ("file_mounts", bucket.key or bucket.path),
            f'the store of bucket "{bucket.name}" is not set',
            f"add store: s3 to it{'' if bucket.mode == 'COPY' else copy};"
            " or set in settings.yaml: default_store: s3",
        )
    return replace(bucket, store=settings.default_store)


def _mount(bucket: Bucket, name: str, store: Mapping[str, Any]) -> BucketVolume:
    """Mount a bucket through its PVC, if configured, or the store's CSI driver."""
    pvc = (store.get("claims") or {}).get(bucket.name)
    if pvc:
        return BucketVolume(bucket, name, bucket.prefix or None, pvc=pvc)
    csi = store.get("csi")
    if not csi:
        setting = f"claims: {{{json.dumps(bucket.name)}: my-pvc}}"
        if bucket.store == "gcs":
            setting = f"csi: {_GCSFUSE}"
        raise FieldError(
            ("file_mounts", bucket.key or bucket.path),
            f"no CSI driver or PVC is configured to mount {bucket.url} (mode: {bucket.mode})",
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


def _env(bucket: Bucket, program: str) -> dict[str, str]:
    """Return the script's variables; values are never part of a script."""
    variables = {"KUBECTL_SKY_SOURCE": bucket.url, "KUBECTL_SKY_SCRATCH": DOWNLOAD_PATH}
    if program:
        variables["KUBECTL_SKY_PROGRAM"] = program
        variables["KUBECTL_SKY_LOCATION"] = bucket.location
        variables["KUBECTL_SKY_PREFIX"] = bucket.prefix
    return variables


def _remote(bucket: Bucket, store: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that configure rclone's remote for a store."""
    fields = dict(_REMOTES[bucket.store])
    if bucket.store == "azure":
        fields["ACCOUNT"] = bucket.account
    if bucket.store == "ibm":
        fields["ENDPOINT"] = _IBM.format(bucket.account)
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
    if bucket.store in _ENDPOINTS and "ENDPOINT" not in fields:
        raise FieldError(
            ("file_mounts", bucket.key or bucket.path),
            f'the endpoint of store "{bucket.store}" is not set',
            f'set in settings.yaml: stores: {{{bucket.store}: {{endpoint: "https://…"}}}}',
        )
    return {f"RCLONE_CONFIG_SRC_{key}": value for key, value in fields.items()}


def notes(buckets: Sequence[Bucket], settings: Settings) -> Iterator[str]:
    """Yield notes on buckets that are copied although the file mounts them."""
    for bucket in buckets:
        if bucket.mode != "COPY" and is_copied(bucket, settings):
            stored = replace(bucket, store=bucket.store or settings.default_store or "")
            yield (
                f"file_mounts.{bucket.path}: {stored.url} is copied, not mounted; what the task"
                " writes there stays in its pod and is lost with it"
            )


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
        "KUBECTL_SKY_PREFIX": environment.literal(location.path),
    }
    if store.get("endpoint"):
        variables["HF_ENDPOINT"] = environment.literal(store["endpoint"])
    user_values = environment.without_reserved(task.envs)
    secret_names = {*task.secrets, *(reference.key for reference in task.existing_secrets)}
    return variables | {
        name: environment.literal(user_values[name])
        for name in _HUB_VARIABLES
        if name in user_values and name not in secret_names
    }
