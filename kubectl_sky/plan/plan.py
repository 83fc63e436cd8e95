"""The plan: everything a manifest may mention, decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubectl_sky import names
from kubectl_sky.plan.accelerators import Term
from kubectl_sky.plan.bundle import Cargo
from kubectl_sky.plan.custom import Custom
from kubectl_sky.plan.fabric import Fabric
from kubectl_sky.plan.gang import Gang
from kubectl_sky.plan.hidden import SecretVariable
from kubectl_sky.plan.mpi import Mpi
from kubectl_sky.plan.placement import Preference
from kubectl_sky.plan.ports import Ports
from kubectl_sky.plan.registry import Login
from kubectl_sky.plan.storage import Stored
from kubectl_sky.secret import Secret
from kubectl_sky.spec.arrays import Array

_SIZES = ("cpu", "memory", "ephemeral-storage")  # what is no device


@dataclass(frozen=True)
class Node:
    """What is written for one node; a backend may have one for all, told apart by the cluster.

    `job` names the object, `hostname` the pod within the task, and `rank` is the node's; None
    leaves them to the cluster.
    `told` is variable to value, `fields` is variable to the field of the pod that has its value.
    `annotations` are the object's own, beside those of the task.
    """

    index: int
    job: str
    labels: Mapping[str, str]
    hostname: str | None = None
    rank: str | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Toleration:
    """A taint of nodes that the pods bear; no value means whatever value it has."""

    key: str
    operator: str = "Exists"
    value: str | None = None


@dataclass(frozen=True)
class Group:
    """What the objects say that all tasks of a group share; `selector` finds all their pods."""

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """One task, decided.

    `name` names the objects that the task has once, `namespace` is empty for the one in force,
    `env` and `secrets` are name to value, `secret_variables` are those that are secret, here or in
    the cluster already, `requests` and `limits` are resource name to Kubernetes
    quantity, `scripts` is file name to text, `selector` finds the task's pods, and `service` is the
    headless Service through which nodes find each other (None for one node). `ports` leads others
    to rank 0, and `fabric` is the fast network between nodes. A machine has to meet one of the
    `terms`, if there are any.
    `linger` is the seconds after which an ended Job is deleted; None keeps it. A node that fails
    starts again `restarts` times; if the task `recovers`, what the cluster takes away is not
    counted, and neither are the `exit_codes`. `suspended` Jobs begin when somebody releases them.
    `backend` names how it runs, `array` is set where it is many tasks of one node. The tasks of a
    `group` share the Service. `gang` is set where a scheduler starts all nodes or none,
    `mpi` where mpirun starts the programs.
    `pod_annotations` are the pods', `login` is for the registry that the image is pulled from,
    and `custom` is the user's own of pods and queues. `cargo` is the user's files.
    """

    id: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: Mapping[str, str]
    nodes: tuple[Node, ...]
    image: str
    login: Login | None
    env: Mapping[str, str]
    secrets: Mapping[str, Secret]
    secret_variables: tuple[SecretVariable, ...]
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    storage: Stored
    terms: tuple[Term, ...]
    preferred: tuple[Preference, ...]
    tolerations: tuple[Toleration, ...]
    priority_class: str | None
    linger: int | None
    restarts: int
    recovers: bool
    exit_codes: tuple[int, ...]
    shared_memory: bool
    backend: str
    array: Array | None
    scripts: Mapping[str, str]
    pod_annotations: Mapping[str, str]
    custom: Custom
    cargo: Cargo
    service: str | None
    suspended: bool = False
    ports: Ports | None = None
    fabric: Fabric = field(default_factory=Fabric)
    group: Group | None = None
    gang: Gang | None = None
    mpi: Mpi | None = None

    @property
    def meeting(self) -> "Plan | Group":
        """Whose the Service is: the task's, or the group's with which it shares it."""
        return self.group or self

    @property
    def confined(self) -> bool:
        """Whether containers run without capabilities, which nothing in them can regain.

        Not where mpirun starts the programs: the sshd of such images may have a file capability.
        """
        return self.custom.non_root and not self.mpi

    @property
    def sized(self) -> bool:
        """Whether anything is requested or limited."""
        return bool(self.requests or self.limits)

    @property
    def placed(self) -> bool:
        """Whether some nodes of the cluster are better than others."""
        return bool(self.terms or self.preferred)

    @property
    def fetch_requests(self) -> Mapping[str, str]:
        """What a container that runs before the task requests: the same, but no devices."""
        return {name: size for name, size in self.requests.items() if name in _SIZES}

    @property
    def fetch_limits(self) -> Mapping[str, str]:
        """What bounds a container that runs before the task."""
        return {name: size for name, size in self.limits.items() if name in _SIZES}

    @property
    def fetch_sized(self) -> bool:
        """Whether such a container requests anything, or is bounded."""
        return bool(self.fetch_requests or self.fetch_limits)

    @property
    def near(self) -> str | None:
        """The label of machines that is the same for all nodes of the task."""
        if self.storage.together:
            return "kubernetes.io/hostname"
        zone = self.fabric.one_zone and len(self.nodes) > 1
        return "topology.kubernetes.io/zone" if zone else None

    @property
    def affine(self) -> bool:
        """Whether it matters where the pods are."""
        return self.placed or self.near is not None

    @property
    def queue(self) -> str | None:
        """Kueue's queue that the task waits in."""
        return self.custom.queue

    @property
    def queueing(self) -> Mapping[str, str]:
        """The labels by which Kueue knows what waits in its queue, and how urgent it is."""
        return self.custom.queueing

    @property
    def auxiliary(self) -> bool:
        """Whether it is a task of a group that is ended when the others have ended."""
        return names.DELAY in self.annotations

    @property
    def title(self) -> str:
        """The name as the user wrote it."""
        return self.annotations[names.ORIGINAL_NAME]
