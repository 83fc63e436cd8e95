"""Input of a plan: what is known about the user, the cluster and local files."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.owners import User
from kubectl_sky.words.secret import Secret


class Place(Struct, frozen=True):
    """Where tasks are: the URL of the API server, the context, and the namespace."""

    server: str
    context: str
    namespace: str

    def __str__(self) -> str:
        return f'namespace "{self.namespace}" of context "{self.context}"'


class ClusterNode(Struct, frozen=True):
    """A cluster node: its labels, and its allocatable Kubernetes quantities.

    `devices` counts those of DRA drivers by model.
    """

    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    devices: Mapping[str, int] = {}


class Access(StrEnum):
    """Access to a kind that not every cluster serves."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    USABLE = "usable"


class Queues(Struct, frozen=True):
    """Kueue's LocalQueues in the namespace, and its WorkloadPriorityClasses.

    If the task names a LocalQueue that the namespace lacks, `elsewhere` has the namespaces with
    one, as far as the user may see them.
    """

    installed: bool = True  # False without Kueue
    names: tuple[str, ...] | None = None  # None if the user may not list the LocalQueues
    classes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    topologies: Mapping[str, tuple[str, ...]] = {}  # keys of node labels, by LocalQueue
    multikueue: bool = False  # whether Kueue sends the tasks of the queue to other clusters


class Gangs(Struct, frozen=True):
    """What the scheduler of the cluster supports, and the user may create.

    `api_version` is that of PodGroups, empty for none. `topology` is whether these can keep pods
    in one topology domain.
    """

    api_version: str = ""
    topology: bool = False


class ExistingPvc(Struct, frozen=True):
    """A PVC: its object name, and its access modes as Kubernetes writes them.

    `deletion` is what its deletion waits for; empty if it is not being deleted.
    """

    name: str
    access_modes: tuple[str, ...] = ()
    deletion: str = ""


class Archive(Struct, frozen=True):
    """Local files as a tar archive.

    `folder` is False for a single file. `digest` is the SHA-256 of the tar. `files` is the number
    of files, and `size` their bytes. `data` is the tar with gzip, or empty if too large to keep.
    `revision` is the commit of the repository that they are from, and how many have changed since.
    """

    folder: bool
    digest: str
    files: int
    size: int
    data: bytes = b""
    revision: str = ""

    def __repr__(self) -> str:
        """Leave out the data."""
        return f"Archive({self.digest!r}, {self.files} files)"


class Predecessor(Struct, frozen=True):
    """The task or pipeline that must have succeeded before a task starts."""

    id: str
    name: str
    succeeded: bool


class Facts(Struct, frozen=True):
    """What a plan needs to know: the user, the namespace, its PVCs, and the cluster nodes."""

    user: User
    namespace: str
    # By volume name, SkyPilot's name and object name; None: not queried.
    pvcs: Mapping[str, ExistingPvc] | None = None
    # Keys of existing Secrets that the task names; None: unknown.
    secret_keys: Mapping[str, tuple[str, ...]] | None = None
    cluster_nodes: tuple[ClusterNode, ...] = ()  # empty: not known
    access: Mapping[Kind, Access] = {}  # to the kinds that were queried
    context: str = ""  # empty without a cluster
    archives: Mapping[str, Archive] = {}  # the task's local files, by target path
    queues: Queues | None = None  # None: not queried
    gangs: Gangs | None = None  # None: not queried
    token: Secret = Secret("")  # a random secret for the task's nodes
    after: Predecessor | None = None
