"""Which claim, new volume or directory each of a task's volumes is, and where it is mounted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from kubectl_sky import names
from kubectl_sky.errors import UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan import hidden
from kubectl_sky.plan.claim import Claim
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.volume import HOME, Storage, VolumeMount

LINKED = "/kubectl-sky/home"  # has what the home directory links to
_MANY, _READERS, _ONE_POD = "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"


@dataclass(frozen=True)
class Mount:
    """A volume of the pod, mounted at a path."""

    volume: str
    path: str
    sub_path: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Stored:
    """The volumes of a pod.

    `claims`, `host_paths` and `secrets` are volume of the pod to claim, to directory of the
    machine, and to Secret;
    `fresh` are the claims that are made for the task. `links` is path in the home directory to the
    mount that it stands for. `together` says that all nodes have to be on one machine. `group` may
    write to the volumes.
    """

    mounts: tuple[Mount, ...] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    host_paths: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    fresh: tuple[Claim, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    together: bool = False
    group: int | None = None


def stored(
    task: Task, facts: Facts, settings: Settings, whole: str, labels: Mapping[str, str]
) -> Stored:
    """Decide about volumes. `whole` is the name of the task's objects, `labels` are theirs.

    A name that stands for no claim that is known is a claim's own. Raises UserError for a volume
    that the task's nodes cannot share, and for a directory that the settings do not allow.
    """
    sources: dict[tuple[str, str], str] = {}
    found, fresh, links = [], [], {}
    for index, volume in enumerate(task.volumes):
        if volume.storage:
            claim = _fresh(volume, volume.storage, f"{whole}-volume-{index}", facts)
            fresh.append(replace(claim, labels={**claim.labels, **labels}))
        source = _source(volume, f"{whole}-volume-{index}", facts, settings)
        name = sources.setdefault(source, f"volume-{len(sources)}")
        path = volume.path
        if path.startswith(HOME):
            path = f"{LINKED}/{index}"
            links[volume.path.removeprefix(HOME)] = path
        found.append(Mount(name, path, volume.sub_path, volume.read_only))
    for index, kept in enumerate(one for one in task.kept_secrets if one.path):
        source = "secret", kept.name
        name = sources.setdefault(source, f"secret-{index}")
        path = kept.path or ""
        if path.startswith(HOME):
            path = f"{LINKED}/secret-{index}"
            links[(kept.path or "").removeprefix(HOME)] = path
        found.append(Mount(name, path, hidden.key(kept, facts), read_only=True))
    together = any(_alone(volume, facts) for volume in task.volumes) and task.num_nodes > 1
    if together:
        _refuse(task, facts, settings)
    group = settings.volume_group

    def of(wanted: str) -> dict[str, str]:
        return {name: it for (kind, it), name in sources.items() if kind == wanted}

    return Stored(
        mounts=tuple(found),
        claims=of("claim"),
        host_paths=of("host"),
        secrets=of("secret"),
        fresh=tuple(fresh),
        links=links,
        together=together,
        group=None if group is False or not task.volumes else int(group),
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
    folders = [PurePosixPath(folder) for folder in settings.host_paths]
    if any(PurePosixPath(path).is_relative_to(folder) for folder in folders):
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
