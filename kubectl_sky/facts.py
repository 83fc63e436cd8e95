"""What the world told us before anything was decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from kubectl_sky.kinds import Kind
from kubectl_sky.users import User


@dataclass(frozen=True)
class Machine:
    """A node of the cluster: its labels, and what it gives to pods as Kubernetes quantities."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, str]


class Access(StrEnum):
    """What can be done with a kind that not every cluster has."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    USABLE = "usable"


@dataclass(frozen=True)
class Queues:
    """What Kueue has: the LocalQueues of the namespace, and the classes that order what waits.

    `names` is None where the user may not list them, `installed` False where there is no Kueue.
    `elsewhere` has the namespaces of LocalQueues that the task names and this namespace lacks, as
    far as the user may see them.
    """

    installed: bool = True
    names: tuple[str, ...] | None = None
    classes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class KnownClaim:
    """A PersistentVolumeClaim: its own name, and its access modes as Kubernetes writes them."""

    name: str
    access_modes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Archive:
    """Local files as a tar: its SHA-256, how many files of how many bytes, and it itself, gzip'ed.

    `folder` tells a folder from a single file. `data` is empty where it is too large to keep.
    """

    folder: bool
    digest: str
    files: int
    size: int
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Facts:
    """The user, the namespace, its claims, and the cluster's nodes.

    `claims` is every name that a claim goes by: a volume's that the user or SkyPilot gave it, and
    its own; None where nobody has asked. A name that is not in it is taken as a claim's own.
    `secret_keys` has the keys of each Secret that the task names and that is there; None where
    nobody has asked, or may. `machines` is empty where the nodes are not known.
    `access` has the kinds about which the cluster was asked. `context` is empty without a cluster.
    `archives` are the task's local files, by where they go. `queues` is None where
    nobody has asked. `token` is a random secret for the task's nodes.
    """

    user: User
    namespace: str
    claims: Mapping[str, KnownClaim] | None = None
    secret_keys: Mapping[str, tuple[str, ...]] | None = None
    machines: tuple[Machine, ...] = ()
    access: Mapping[Kind, Access] = field(default_factory=lambda: MappingProxyType({}))
    context: str = ""
    archives: Mapping[str, Archive] = field(default_factory=lambda: MappingProxyType({}))
    queues: Queues | None = None
    token: str = field(default="", repr=False)
