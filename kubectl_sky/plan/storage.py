"""Resolve a task's volumes to PVCs, new PVCs or host paths, and their mounts."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan import buckets, environment
from kubectl_sky.plan.buckets import BucketVolume, CsiVolume, Download
from kubectl_sky.plan.pvc import Pvc
from kubectl_sky.spec.dangers import is_allowed_host_path
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.volumes import HOME, Storage, VolumeMount, containing
from kubectl_sky.words import names
from kubectl_sky.words.expansion import literal
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings

_SYNC_PATH = f"{names.SCRATCH_FOLDER}/sync"  # where the nodes and their sidecars meet
LINKS_PATH = f"{names.SCRATCH_FOLDER}/home"  # mounts that the home directory links to
_RWX = "ReadWriteMany"
_ROX = "ReadOnlyMany"
_RWOP = "ReadWriteOncePod"


class Mount(Struct, frozen=True):
    """A volume of the pod, mounted at a path."""

    volume: str
    path: str
    sub_path: str | None = None
    read_only: bool = False


class ObjectNames(Struct, frozen=True):
    """The parts of a plan known before its volumes: object name, labels and image."""

    name: str
    labels: Mapping[str, str]
    image: str


class LogFolder(Struct, frozen=True):
    """The variable with the folder for logs, and the annotation with the same one as `PVC:PATH`."""

    env: Mapping[str, str] = {}
    index: Mapping[str, str] = {}


class PodStorage(Struct, frozen=True):
    """The volumes of a pod."""

    mounts: tuple[Mount, ...] = ()
    pvcs: Mapping[str, str] = {}  # pod volumes, and their PVCs
    host_paths: Mapping[str, str] = {}  # pod volumes, and directories of the cluster node
    secrets: Mapping[str, str] = {}  # pod volumes, and Secrets
    new_pvcs: tuple[Pvc, ...] = ()  # created for the task
    # Empty ones that `downloads` fill before the task starts.
    download_volumes: tuple[str, ...] = ()
    csi_volumes: tuple[CsiVolume, ...] = ()  # of CSI drivers, which may need the `annotations`
    downloads: tuple[Download, ...] = ()
    annotations: Mapping[str, str] = {}
    links: Mapping[str, str] = {}  # paths in the home directory, and the mount each links to
    one_cluster_node: bool = False  # all nodes must run on one
    group: int | None = None  # id of the group that may write to the volumes
    logs: LogFolder = LogFolder()  # for nodes that also write their logs to a volume

    @property
    def mounts_shared_memory(self) -> bool:
        return any(mount.path == "/dev/shm" for mount in self.mounts)


def plan_storage(task: Task, facts: Facts, settings: Settings, plan: ObjectNames) -> PodStorage:
    """Decide a task's volumes and buckets.

    A volume name that matches no known volume is taken as the name of a PVC. Raises FieldError for
    a volume that the task's nodes cannot share, or a host path that the settings do not allow.
    """
    pod = _PodVolumes()
    new_pvcs = []
    for index, volume in enumerate(task.volumes):
        name = f"{plan.name}-volume-{index}"
        if volume.storage:
            pvc = _new_pvc(volume, volume.storage, name, facts)
            new_pvcs.append(replace(pvc, labels={**pvc.labels, **plan.labels}))

        kind, target = _source(volume, name, facts, settings)
        volume_name = pod.source(kind, target, f"volume-{len(pod.sources)}")
        volume_mount = Mount(volume_name, "", volume.sub_path, volume.read_only)
        pod.mount(volume.path, str(index), volume_mount)

    for index, secret in enumerate(
        reference for reference in task.existing_secrets if reference.path
    ):
        volume_name = pod.source("secret", secret.name, f"secret-{index}")
        key = environment.find_key(secret, facts)
        pod.mount(secret.path or "", f"secret-{index}", Mount(volume_name, "", key, read_only=True))

    _check_sources(task, facts)
    variables = environment.secret_variables(task, facts, plan.name)
    bucket_mounts = buckets.bucket_volumes(task, settings, plan.image, variables)
    for bucket in bucket_mounts:
        _mount_bucket(pod, bucket)

    has_group = task.volumes and settings.volume_group is not False
    group = int(settings.volume_group) if has_group else None
    return PodStorage(
        mounts=tuple(pod.mounts),
        pvcs=pod.by_kind("claim"),
        host_paths=pod.by_kind("host"),
        secrets=pod.by_kind("secret"),
        new_pvcs=tuple(new_pvcs),
        download_volumes=tuple(bucket.volume for bucket in bucket_mounts if bucket.download),
        csi_volumes=tuple(bucket.csi_volume for bucket in bucket_mounts if bucket.csi_volume),
        downloads=tuple(bucket.download for bucket in bucket_mounts if bucket.download),
        annotations={
            key: text for bucket in bucket_mounts for key, text in bucket.annotations.items()
        },
        links=pod.links,
        one_cluster_node=_needs_one_cluster_node(task, facts),
        group=group,
        logs=_log_folder(task, pod),
    )


def _log_folder(task: Task, pod: "_PodVolumes") -> LogFolder:
    """Return the folder for logs; the first mounts of the pod are those of the volumes."""
    path = containing(task.logs, (volume.path for volume in task.volumes)) if task.logs else None
    if path is None:
        return LogFolder()
    mounts = dict(zip((volume.path for volume in task.volumes), pod.mounts, strict=False))
    mount = mounts[path]
    below = str(task.logs).removeprefix(path).strip("/")
    pvc = pod.by_kind("claim").get(mount.volume)
    within = PurePosixPath(mount.sub_path or "", below)
    folder = literal(str(PurePosixPath(mount.path, below)))
    index = {names.LOGS: f"{pvc}:{within}"} if pvc else {}
    return LogFolder({"KUBECTL_SKY_LOGS": folder}, index)


class _PodVolumes:
    """Builder for the volumes and mounts of a pod."""

    def __init__(self) -> None:
        self.sources: dict[tuple[str, str], str] = {}
        self.mounts: list[Mount] = []
        self.links: dict[str, str] = {}

    def source(self, kind: str, target: str, name: str) -> str:
        """Return the pod volume of a source; add it as `name` if it is new."""
        return self.sources.setdefault((kind, target), name)

    def by_kind(self, kind: str) -> dict[str, str]:
        return {
            name: target
            for (source_kind, target), name in self.sources.items()
            if source_kind == kind
        }

    def mount(self, path: str, name: str, mount: Mount) -> None:
        """Add a mount; a path in the home directory is mounted elsewhere and linked."""
        if path.startswith(HOME):
            relative_path = path.removeprefix(HOME)
            path = f"{LINKS_PATH}/{name}"
            self.links[relative_path] = path
        self.mounts.append(replace(mount, path=path))


def _mount_bucket(pod: _PodVolumes, bucket: BucketVolume) -> None:
    volume_name = pod.source("claim", bucket.pvc, bucket.volume) if bucket.pvc else bucket.volume
    mount = Mount(volume_name, "", bucket.sub_path, bucket.bucket.read_only)
    pod.mount(bucket.bucket.path, bucket.volume, mount)
    if bucket.download and bucket.download.writes_back:
        pod.mounts.append(Mount(bucket.volume, f"{_SYNC_PATH}/{bucket.volume}", "sync"))


def _check_sources(task: Task, facts: Facts) -> None:
    """Check the local files that buckets are filled from. Raises FieldError."""
    targets = {bucket.path for bucket in task.buckets}
    for entry in task.files:
        if entry.path in targets and not facts.archives[entry.path].folder:
            reason = f'"{entry.source}" is a file, and a bucket is filled from a folder'
            raise FieldError(entry.field, reason, "write a list of files: source: [./a, ./b]")


def _needs_one_cluster_node(task: Task, facts: Facts) -> bool:
    if task.num_nodes == 1 or not any(_is_single_node(volume, facts) for volume in task.volumes):
        return False
    for volume in task.volumes:
        if _RWOP in _access_modes(volume, facts):
            raise FieldError(
                ("volumes", volume.path),
                f"the PVC is {_RWOP}, and the task has {task.num_nodes} nodes",
                f"use a volume that is {_RWX}",
            )
    return True


def missing(task: Task, facts: Facts) -> Iterator[VolumeMount]:
    """Yield the volumes that do not exist, if the PVCs are known."""
    for volume in task.volumes:
        if volume.name and facts.pvcs is not None and volume.name not in facts.pvcs:
            yield volume


def of_others(name: str, facts: Facts) -> list[str]:
    """Return the PVCs of volumes of this name, of which the user has none."""
    prefix = f"{names.dns_label(name)}-"
    claims = {claim.name for claim in (facts.pvcs or {}).values()}
    return sorted(
        claim
        for claim in claims
        if claim.startswith(prefix) and names.ID.fullmatch(claim.removeprefix(prefix))
    )


def notes(task: Task, facts: Facts) -> Iterator[str]:
    """Yield notes on volumes that prevent spreading nodes."""
    for volume in task.volumes:
        if task.num_nodes > 1 and _is_single_node(volume, facts):
            yield (
                f"volumes.{volume.path}: the PVC is {' and '.join(_access_modes(volume, facts))},"
                f" so all {task.num_nodes} nodes run on one cluster node; use {_RWX} to spread them"
            )


def _source(volume: VolumeMount, name: str, facts: Facts, settings: Settings) -> tuple[str, str]:
    """Return the kind of a volume's source, PVC or host path, and its name or path."""
    if path := volume.host_path:
        if is_allowed_host_path(path, settings.host_paths):
            return "host", path
        raise FieldError(
            ("volumes", volume.path, "host_path"),
            f'the settings do not let tasks mount "{path}" of the cluster nodes',
            f"mount a volume, or set host_paths: [{path}] in settings.yaml",
        )

    if volume.storage:
        return "claim", name

    pvc = (facts.pvcs or {}).get(volume.name)
    if pvc and pvc.deletion:
        raise FieldError(
            ("volumes", volume.path),
            f'volume "{volume.name}" is being deleted: {pvc.deletion}',
            "use another volume, or wait until it is deleted and create it again",
        )
    claim = pvc.name if pvc else volume.name
    return "claim", claim


def _new_pvc(volume: VolumeMount, storage: Storage, name: str, facts: Facts) -> Pvc:
    return Pvc(
        name=name,
        namespace=facts.namespace,
        labels=storage.labels,
        annotations={names.ORIGINAL_NAME: volume.path, names.ORIGINAL_USER: facts.user.name},
        size=storage.size,
        storage_class=storage.storage_class,
        access_modes=storage.access_modes,
    )


def _access_modes(volume: VolumeMount, facts: Facts) -> tuple[str, ...]:
    if volume.storage:
        return volume.storage.access_modes
    pvc = (facts.pvcs or {}).get(volume.name)
    return pvc.access_modes if pvc else ()


def _is_single_node(volume: VolumeMount, facts: Facts) -> bool:
    modes = _access_modes(volume, facts)
    shared = _RWX in modes or (volume.read_only and _ROX in modes)
    return bool(modes) and not shared and set(modes) != {_ROX}
