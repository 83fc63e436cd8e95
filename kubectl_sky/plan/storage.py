"""Resolve a task's volumes to PVCs, new PVCs or host paths, and their mounts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubectl_sky import names
from kubectl_sky.facts import Facts
from kubectl_sky.plan import buckets, bundle, hidden
from kubectl_sky.plan.buckets import Fetch, Inline
from kubectl_sky.plan.claim import Claim
from kubectl_sky.settings import Settings
from kubectl_sky.spec.dangers import is_allowed_host_path
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.volume import HOME, Storage, VolumeMount

LINKED = f"{names.ROOM_FOLDER}/home"  # mounts that the home directory links to
SHELF = f"{names.ROOM_FOLDER}/shelf"  # mount path of the code volume, for large files
_MANY, _READERS, _ONE_POD = "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"


@dataclass(frozen=True)
class Mount:
    """A volume of the pod, mounted at a path."""

    volume: str
    path: str
    sub_path: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Named:
    """The parts of a plan known before its volumes: object name, labels and image."""

    name: str
    labels: Mapping[str, str]
    image: str


@dataclass(frozen=True)
class Stored:
    """The volumes of a pod.

    `claims`, `host_paths` and `secrets` map a pod volume to its PVC, to a directory of the cluster
    node, and to a Secret. `fresh` are the PVCs created for the task. `rooms` are empty volumes that
    the `fetches` fill before the task starts. `inline` are volumes of CSI drivers, which may need
    the `annotations`. `links` maps a path in the home directory to the mount it links to.
    `together` means that all nodes must run on one cluster node. `group` is the group ID that may
    write to the volumes.
    """

    mounts: tuple[Mount, ...] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    host_paths: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    fresh: tuple[Claim, ...] = ()
    rooms: tuple[str, ...] = ()
    inline: tuple[Inline, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    together: bool = False
    group: int | None = None

    @property
    def shelf(self) -> str:
        """The PVC that keeps large files; "" for none."""
        volumes = {mount.path: mount.volume for mount in self.mounts}
        return self.claims.get(volumes.get(SHELF, ""), "")


def _shelved(task: Task, facts: Facts, settings: Settings) -> Task:
    """Return the task with the code volume added, if needed and usable by all nodes.

    Without information from a cluster, the code volume is assumed to be usable.
    """
    if _wants_shelf(task, facts, settings) and not _unfit(facts, settings):
        return replace(task, volumes=(*task.volumes, VolumeMount(SHELF, settings.code_volume)))
    return task


def _wants_shelf(task: Task, facts: Facts, settings: Settings) -> bool:
    return bool(settings.code_volume and bundle.streamed(task.files, facts.archives))


def _unfit(facts: Facts, settings: Settings) -> str:
    """Return why the code volume cannot keep files; empty if it can."""
    if facts.claims is None:
        return ""
    claim = facts.claims.get(settings.code_volume)
    if not claim:
        return "not found, or you are not allowed to see it"
    if _MANY in claim.access_modes:
        return ""
    return f"it is {' and '.join(claim.access_modes)}, so only one cluster node can mount it"


def stored(task: Task, facts: Facts, settings: Settings, plan: Named) -> Stored:
    """Decide a task's volumes and buckets.

    A volume name that matches no known volume is taken as the name of a PVC. Raises FieldError for
    a volume that the task's nodes cannot share, or a host path that the settings do not allow.
    """
    task, pod = _shelved(task, facts, settings), _Pod()
    new_claims = []
    for index, volume in enumerate(task.volumes):
        name = f"{plan.name}-volume-{index}"
        if volume.storage:
            claim = _fresh(volume, volume.storage, name, facts)
            new_claims.append(replace(claim, labels={**claim.labels, **plan.labels}))
        kind, target = _source(volume, name, facts, settings)
        volume_name = pod.source(kind, target, f"volume-{len(pod.sources)}")
        pod.mount(
            volume.path, str(index), Mount(volume_name, "", volume.sub_path, volume.read_only)
        )
    for index, secret in enumerate(reference for reference in task.kept_secrets if reference.path):
        volume_name = pod.source("secret", secret.name, f"secret-{index}")
        key = hidden.key(secret, facts)
        pod.mount(secret.path or "", f"secret-{index}", Mount(volume_name, "", key, read_only=True))
    variables = hidden.variables(task, facts, plan.name)
    bucket_mounts = buckets.brought(task, settings, plan.image, variables)
    for bucket in bucket_mounts:
        volume_name = (
            pod.source("claim", bucket.claim, bucket.volume) if bucket.claim else bucket.volume
        )
        mount = Mount(volume_name, "", bucket.sub_path, bucket.bucket.read_only)
        pod.mount(bucket.bucket.path, bucket.volume, mount)
    return Stored(
        mounts=tuple(pod.mounts),
        claims=pod.of("claim"),
        host_paths=pod.of("host"),
        secrets=pod.of("secret"),
        fresh=tuple(new_claims),
        rooms=tuple(bucket.volume for bucket in bucket_mounts if bucket.fetch),
        inline=tuple(bucket.inline for bucket in bucket_mounts if bucket.inline),
        fetches=tuple(bucket.fetch for bucket in bucket_mounts if bucket.fetch),
        annotations={
            key: text for bucket in bucket_mounts for key, text in bucket.annotations.items()
        },
        links=pod.links,
        together=_together(task, facts, settings),
        group=int(settings.volume_group) if task.volumes and _grouped(settings) else None,
    )


class _Pod:
    """Builder for the volumes and mounts of a pod."""

    def __init__(self) -> None:
        self.sources: dict[tuple[str, str], str] = {}
        self.mounts: list[Mount] = []
        self.links: dict[str, str] = {}

    def source(self, kind: str, it: str, name: str) -> str:
        """Return the pod volume of a source; add it as `name` if it is new."""
        return self.sources.setdefault((kind, it), name)

    def of(self, kind: str) -> dict[str, str]:
        """Return the sources of one kind by volume name."""
        return {
            name: target
            for (source_kind, target), name in self.sources.items()
            if source_kind == kind
        }

    def mount(self, path: str, name: str, mount: Mount) -> None:
        """Add a mount; a path in the home directory is mounted elsewhere and linked."""
        if path.startswith(HOME):
            relative_path, path = path.removeprefix(HOME), f"{LINKED}/{name}"
            self.links[relative_path] = path
        self.mounts.append(replace(mount, path=path))


def _together(task: Task, facts: Facts, settings: Settings) -> bool:
    if task.num_nodes == 1 or not any(_alone(volume, facts) for volume in task.volumes):
        return False
    _refuse(task, facts, settings)
    return True


def _grouped(settings: Settings) -> bool:
    return settings.volume_group is not False


def unkept(task: Task, facts: Facts, settings: Settings) -> Iterator[str]:
    """Yield why the code volume is not used for large files."""
    reason = _unfit(facts, settings) if _wants_shelf(task, facts, settings) else ""
    if reason:
        name = settings.code_volume
        yield (
            f'settings: code_volume "{name}" is not used: {reason}; files are uploaded to every'
            f' node; to create it, run "kubectl sky volumes create {name} SIZE --access-modes RWX"'
        )


def notes(task: Task, facts: Facts) -> Iterator[str]:
    """Yield notes on missing volumes and on those that prevent spreading nodes."""
    for volume in task.volumes:
        if volume.name and facts.claims is not None and volume.name not in facts.claims:
            yield (
                f'volumes.{volume.path}: volume or PVC "{volume.name}" not found in namespace'
                f' "{facts.namespace}"; the task waits for it; to create it, run'
                f' "kubectl sky volumes create {volume.name} SIZE"'
            )
        if task.num_nodes > 1 and _alone(volume, facts):
            yield (
                f"volumes.{volume.path}: the PVC is {' and '.join(_modes(volume, facts))}, so all"
                f" {task.num_nodes} nodes run on one cluster node; use {_MANY} to spread them"
            )


def _source(volume: VolumeMount, name: str, facts: Facts, settings: Settings) -> tuple[str, str]:
    """Return the kind of a volume's source, PVC or host path, and its name or path."""
    if volume.host_path:
        _allowed(volume, volume.host_path, settings)
        return "host", volume.host_path
    if volume.storage:
        return "claim", name
    claim = (facts.claims or {}).get(volume.name)
    return "claim", claim.name if claim else volume.name


def _fresh(volume: VolumeMount, storage: Storage, name: str, facts: Facts) -> Claim:
    """Return the PVC of a volume that lives as long as the task."""
    return Claim(
        name=name,
        namespace=facts.namespace,
        labels=storage.labels,
        annotations={names.ORIGINAL_NAME: volume.path, names.ORIGINAL_USER: facts.user.name},
        size=storage.size,
        storage_class=storage.storage_class,
        access_modes=storage.access_modes,
    )


def _allowed(volume: VolumeMount, path: str, settings: Settings) -> None:
    if is_allowed_host_path(path, settings.host_paths):
        return
    raise FieldError(
        ("volumes", volume.path, "host_path"),
        f'the settings do not let tasks mount "{path}" of the cluster nodes',
        f"mount a volume, or set host_paths: [{path}] in settings.yaml",
    )


def _modes(volume: VolumeMount, facts: Facts) -> tuple[str, ...]:
    if volume.storage:
        return volume.storage.access_modes
    claim = (facts.claims or {}).get(volume.name)
    return claim.access_modes if claim else ()


def _alone(volume: VolumeMount, facts: Facts) -> bool:
    """Return whether only one cluster node can mount the volume as requested."""
    modes = _modes(volume, facts)
    shared = _MANY in modes or (volume.read_only and _READERS in modes)
    return bool(modes) and not shared and set(modes) != {_READERS}


def _refuse(task: Task, facts: Facts, settings: Settings) -> None:
    """Raise FieldError for volumes that several nodes cannot or may not mount."""
    for volume in task.volumes:
        modes = _modes(volume, facts)
        if _ONE_POD in modes:
            raise FieldError(
                ("volumes", volume.path),
                f"the PVC is {_ONE_POD}, and the task has {task.num_nodes} nodes",
                f"use a volume that is {_MANY}",
            )
        if settings.single_node_volumes == "refuse" and _alone(volume, facts):
            raise FieldError(
                ("volumes", volume.path),
                f"the PVC is {' and '.join(modes)}, and the task has {task.num_nodes} nodes",
                f"use a volume that is {_MANY}, or set single_node_volumes: together in the"
                " settings to run all nodes on one cluster node",
            )
