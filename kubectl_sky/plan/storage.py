"""Which claim, new volume or directory each of a task's volumes is, and where it is mounted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubectl_sky import names
from kubectl_sky.errors import UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan import buckets, bundle, hidden
from kubectl_sky.plan.buckets import Fetch, Inline
from kubectl_sky.plan.claim import Claim
from kubectl_sky.settings import Settings
from kubectl_sky.spec.dangers import is_allowed_host_path
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.volume import HOME, Storage, VolumeMount

LINKED = f"{names.ROOM_FOLDER}/home"  # has what the home directory links to
SHELF = f"{names.ROOM_FOLDER}/shelf"  # has the large files of this task and others
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
    """What of a plan is known before its volumes: the name and labels of objects, the image."""

    name: str
    labels: Mapping[str, str]
    image: str


@dataclass(frozen=True)
class Stored:
    """The volumes of a pod.

    `claims`, `host_paths` and `secrets` are volume of the pod to claim, to directory of the
    machine, and to Secret; `fresh` are the claims that are made for the task. `rooms` are empty
    volumes that the `fetches` fill before the task; `inline` are volumes of CSI drivers, which may
    need the `annotations`. `links` is path in the home directory to the mount that it stands for.
    `together` says that all nodes have to be on one machine. `group` may write to the volumes.
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
        """The claim that keeps large files; "" for none."""
        volumes = {mount.path: mount.volume for mount in self.mounts}
        return self.claims.get(volumes.get(SHELF, ""), "")


def _shelved(task: Task, facts: Facts, settings: Settings) -> Task:
    """Return a task with the volume that keeps its files, where they need one and it serves all.

    Without a cluster that says otherwise it does.
    """
    if _wants_shelf(task, facts, settings) and not _unfit(facts, settings):
        return replace(task, volumes=(*task.volumes, VolumeMount(SHELF, settings.code_volume)))
    return task


def _wants_shelf(task: Task, facts: Facts, settings: Settings) -> bool:
    return bool(settings.code_volume and bundle.streamed(task.files, facts.archives))


def _unfit(facts: Facts, settings: Settings) -> str:
    """Say why the volume for files cannot keep them; nothing where it can."""
    if facts.claims is None:
        return ""
    known = facts.claims.get(settings.code_volume)
    if not known:
        return "there is no such volume, or you may not see it"
    if _MANY in known.access_modes:
        return ""
    return f"not all machines can mount it at a time ({' and '.join(known.access_modes)})"


def stored(task: Task, facts: Facts, settings: Settings, plan: Named) -> Stored:
    """Decide about volumes and buckets.

    A name that stands for no claim that is known is a claim's own. Raises UserError for a volume
    that the task's nodes cannot share, and for a directory that the settings do not allow.
    """
    task, pod = _shelved(task, facts, settings), _Pod()
    fresh = []
    for index, volume in enumerate(task.volumes):
        name = f"{plan.name}-volume-{index}"
        if volume.storage:
            claim = _fresh(volume, volume.storage, name, facts)
            fresh.append(replace(claim, labels={**claim.labels, **plan.labels}))
        kind, it = _source(volume, name, facts, settings)
        source = pod.source(kind, it, f"volume-{len(pod.sources)}")
        pod.mount(volume.path, str(index), Mount(source, "", volume.sub_path, volume.read_only))
    for index, kept in enumerate(one for one in task.kept_secrets if one.path):
        source = pod.source("secret", kept.name, f"secret-{index}")
        key = hidden.key(kept, facts)
        pod.mount(kept.path or "", f"secret-{index}", Mount(source, "", key, read_only=True))
    variables = hidden.variables(task, facts, plan.name)
    bags = buckets.brought(task, settings, plan.image, variables)
    for bag in bags:
        source = pod.source("claim", bag.claim, bag.volume) if bag.claim else bag.volume
        mount = Mount(source, "", bag.sub_path, bag.bucket.read_only)
        pod.mount(bag.bucket.path, bag.volume, mount)
    return Stored(
        mounts=tuple(pod.mounts),
        claims=pod.of("claim"),
        host_paths=pod.of("host"),
        secrets=pod.of("secret"),
        fresh=tuple(fresh),
        rooms=tuple(bag.volume for bag in bags if bag.fetch),
        inline=tuple(bag.inline for bag in bags if bag.inline),
        fetches=tuple(bag.fetch for bag in bags if bag.fetch),
        annotations={key: text for bag in bags for key, text in bag.annotations.items()},
        links=pod.links,
        together=_together(task, facts, settings),
        group=int(settings.volume_group) if task.volumes and _grouped(settings) else None,
    )


class _Pod:
    """The volumes and mounts of a pod, as they are put together."""

    def __init__(self) -> None:
        self.sources: dict[tuple[str, str], str] = {}
        self.mounts: list[Mount] = []
        self.links: dict[str, str] = {}

    def source(self, kind: str, it: str, name: str) -> str:
        """Return the name of the volume that something is; one that is there has its own."""
        return self.sources.setdefault((kind, it), name)

    def of(self, kind: str) -> dict[str, str]:
        """Return what the volumes of a kind are, by name."""
        return {name: it for (known, it), name in self.sources.items() if known == kind}

    def mount(self, path: str, name: str, mount: Mount) -> None:
        """Add a mount; what belongs into the home directory is linked to from there."""
        if path.startswith(HOME):
            within, path = path.removeprefix(HOME), f"{LINKED}/{name}"
            self.links[within] = path
        self.mounts.append(replace(mount, path=path))


def _together(task: Task, facts: Facts, settings: Settings) -> bool:
    if task.num_nodes == 1 or not any(_alone(volume, facts) for volume in task.volumes):
        return False
    _refuse(task, facts, settings)
    return True


def _grouped(settings: Settings) -> bool:
    return settings.volume_group is not False


def unkept(task: Task, facts: Facts, settings: Settings) -> Iterator[str]:
    """Say why the volume for files keeps none, where they are large."""
    why = _unfit(facts, settings) if _wants_shelf(task, facts, settings) else ""
    if why:
        name = settings.code_volume
        yield (
            f"settings.code_volume: {name} keeps no files: {why}; they are sent to each node;"
            f" `kubectl sky volumes create {name} SIZE --access-modes RWX` makes one that does"
        )


def notes(task: Task, facts: Facts) -> Iterator[str]:
    """Say which volumes are not there, and which keep the nodes on one machine."""
    for volume in task.volumes:
        if volume.name and facts.claims is not None and volume.name not in facts.claims:
            yield (
                f"volumes.{volume.path}: there is no volume and no claim {volume.name!r} in"
                f" namespace {facts.namespace}, and the task waits until there is;"
                f" `kubectl sky volumes create {volume.name} SIZE` makes one"
            )
        if task.num_nodes > 1 and _alone(volume, facts):
            yield (
                f"volumes.{volume.path}: one machine at a time can mount it"
                f" ({' and '.join(_modes(volume, facts))}), so all {task.num_nodes} nodes are put"
                f" on one; a volume that is {_MANY} lets them spread"
            )


def _source(volume: VolumeMount, name: str, facts: Facts, settings: Settings) -> tuple[str, str]:
    """Return what a volume is: a claim or a directory of the machine, and which."""
    if volume.host_path:
        _allowed(volume, volume.host_path, settings)
        return "host", volume.host_path
    if volume.storage:
        return "claim", name
    known = (facts.claims or {}).get(volume.name)
    return "claim", known.name if known else volume.name


def _fresh(volume: VolumeMount, storage: Storage, name: str, facts: Facts) -> Claim:
    """The claim of a volume that lives as long as the task."""
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
    raise UserError(
        f"volumes.{volume.path}.host_path: the settings do not let tasks mount {path}, a directory"
        " of the cluster's machines",
        f"mount a volume, or write host_paths: [{path}] into settings.yaml",
    )


def _modes(volume: VolumeMount, facts: Facts) -> tuple[str, ...]:
    if volume.storage:
        return volume.storage.access_modes
    known = (facts.claims or {}).get(volume.name)
    return known.access_modes if known else ()


def _alone(volume: VolumeMount, facts: Facts) -> bool:
    """Say whether only one machine can mount a volume as the task wants it."""
    modes = _modes(volume, facts)
    shared = _MANY in modes or (volume.read_only and _READERS in modes)
    return bool(modes) and not shared and set(modes) != {_READERS}


def _refuse(task: Task, facts: Facts, settings: Settings) -> None:
    """Raise UserError for volumes that several nodes cannot have, or not by the settings."""
    for volume in task.volumes:
        modes = _modes(volume, facts)
        if _ONE_POD in modes:
            raise UserError(
                f"volumes.{volume.path}: one pod at a time can mount it ({_ONE_POD}),"
                f" and the task has {task.num_nodes} nodes",
                f"a volume that is {_MANY} serves them all",
            )
        if settings.single_node_volumes == "refuse" and _alone(volume, facts):
            raise UserError(
                f"volumes.{volume.path}: one machine at a time can mount it"
                f" ({' and '.join(modes)}), and the task has {task.num_nodes} nodes",
                f"a volume that is {_MANY} serves them all; single_node_volumes: together in the"
                " settings would put them on one machine",
            )
