"""The plan of a task: every value that a manifest template may use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from kubectl_sky.plan.runtime import STARTED, Check, Runtime, profile, runtime, start
from kubectl_sky.words import names
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import DEFAULT_IMAGE

if TYPE_CHECKING:  # backends import this module also to read, and then need none of these
    from kubectl_sky.plan.accelerators import Term
    from kubectl_sky.plan.buckets import Download
    from kubectl_sky.plan.environment import RegistryLogin, SecretEnvVar
    from kubectl_sky.plan.high_speed_network import HighSpeedNetwork
    from kubectl_sky.plan.local_files import FileTransfer
    from kubectl_sky.plan.placement import Preference
    from kubectl_sky.plan.pod_options import PodOptions
    from kubectl_sky.plan.ports import Ports
    from kubectl_sky.plan.storage import PodStorage

_SIDECAR = {"cpu": "250m", "memory": "512Mi"}  # rclone with 8 transfers
_SIZES = ("cpu", "memory", "ephemeral-storage")  # all other resources are devices


class Node(Struct, frozen=True):
    """The values for one node's object; a backend may use one entry for all nodes."""

    index: int
    job: str  # name of the object
    labels: Mapping[str, str]
    hostname: str | None = None  # of the pod within the task; None: the cluster sets it
    rank: str | None = None  # None: the cluster sets it
    env: Mapping[str, str] = {}
    env_from_fields: Mapping[str, str] = {}  # variables, and the pod field that has the value
    annotations: Mapping[str, str] = {}  # of the object, in addition to the task's


class Toleration(Struct, frozen=True):
    """A toleration of a node taint; no value matches any value."""

    key: str
    operator: str = "Exists"
    value: str | None = None


class TaskGroup(Struct, frozen=True):
    """Metadata shared by all tasks of a group; `selector` matches all their pods."""

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: Mapping[str, str]


class PodPort(Struct, frozen=True):
    """A named port of the pods."""

    name: str
    number: int


class Extras(Struct, frozen=True, kw_only=True):
    """What only some backends need; a backend's own extras have more for its own template."""

    # Of the runtime, run in addition; with any, nodes need more than a command.
    scripts: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()  # probes of the main container
    ports: tuple[PodPort, ...] = ()  # named ports of the main container
    scheduler: str | None = None  # None: the default one
    templates: tuple[str, ...] = ()  # render additional objects
    serve: bool = False  # pods run until they are deleted
    certificate: Mapping[str, Secret] = {}  # data of a TLS Secret
    may_drop_capabilities: bool = True  # containers may lose theirs


class Gang(Struct, frozen=True):
    """The PodGroup of a task for the scheduler of the cluster.

    `members` is how many pods start together; 0 lets each start alone. The pods share the value of
    the label `topology` of cluster nodes.
    """

    api_version: str
    members: int = 0
    topology: str | None = None


class Plan(Struct, frozen=True):
    """All decisions about one task."""

    id: str
    name: str  # of the objects that exist once per task
    namespace: str  # empty: the current one
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: Mapping[str, str]  # matches the task's pods
    nodes: tuple[Node, ...]
    image: str
    login: "RegistryLogin | None"  # for the registry of the image
    env: Mapping[str, str]
    secrets: Mapping[str, Secret]
    # Variables from Secrets, the task's own or existing ones.
    secret_env: "tuple[SecretEnvVar, ...]"
    requests: Mapping[str, str]  # resource names, and Kubernetes quantities
    limits: Mapping[str, str]
    storage: "PodStorage"
    terms: "tuple[Term, ...]"  # a cluster node must meet one of them, if there are any
    exclude_nodes: tuple[str, ...]
    preferred: "tuple[Preference, ...]"
    tolerations: tuple[Toleration, ...]
    priority_class: str | None
    max_seconds: int | None  # how long the task may run
    grace_seconds: int | None  # how long its nodes may take to stop
    ttl_seconds: int | None  # after which a finished Job is deleted; None keeps it
    restarts: int  # of a failed node
    start_retries: int  # of a pod that fails before its program runs
    # Disruptions by the cluster, such as evictions, and `exit_codes` are not counted.
    recovers: bool
    exit_codes: tuple[int, ...]
    shared_memory: bool
    backend: str
    scripts: Mapping[str, str]  # file names, and their text
    pod_annotations: Mapping[str, str]
    pod_options: "PodOptions"  # the user's settings for pods and queues
    file_transfer: "FileTransfer"  # the user's local files
    network: "HighSpeedNetwork"  # the fast network between nodes
    service: str | None  # the headless Service by which nodes find each other; None for one node
    suspended: bool = False  # Jobs start when a client resumes them
    ports: "Ports | None" = None  # the Service that exposes rank 0
    group: TaskGroup | None = None  # tasks that share the Service
    gang: Gang | None = None  # the PodGroup
    # Label of cluster nodes whose value the nodes should share, if only affinity can do it.
    near: str | None = None
    extras: Extras = field(default_factory=Extras)  # what the backend adds
    # Its YAML documents without values of secrets; first the header of a pipeline or group.
    task_file: tuple[Mapping[str, Any], ...] = ()
    hold: str = ""  # how long a failed container is held

    @property
    def restart_policy(self) -> str:
        """The restart policy of the pods: a task's nodes are restarted by its workload."""
        return "Always" if self.extras.serve else "Never"

    @property
    def alternatives(self) -> "tuple[Term, ...]":
        """The terms of the required node affinity; one without labels only excludes nodes."""
        return self.terms or (((),) if self.exclude_nodes else ())

    @property
    def drops_capabilities(self) -> bool:
        """Whether containers run without capabilities and cannot regain them."""
        return self.pod_options.non_root and self.extras.may_drop_capabilities

    @property
    def checks(self) -> tuple[Check, ...]:
        """The probes of the backend, or of a node that waits for an upload or for the others."""
        waits = {names.AWAITS_UPLOAD, names.AWAITS_NODES} & self.pod_annotations.keys()
        return (STARTED,) if waits else self.extras.checks

    @property
    def service_owner(self) -> TaskGroup:
        """The metadata of the headless Service: the task's, or that of the group that shares it."""
        return self.group or self.companion_metadata

    @property
    def download_requests(self) -> Mapping[str, str]:
        """The requests of a container that runs before the task: no devices."""
        return {name: size for name, size in self.requests.items() if name in _SIZES}

    @property
    def download_limits(self) -> Mapping[str, str]:
        """The limits of a container that runs before the task: no devices."""
        return {name: size for name, size in self.limits.items() if name in _SIZES}

    @property
    def sidecar_requests(self) -> Mapping[str, str]:
        """The requests of a container that runs beside the task, if the task has such ones."""
        return {name: size for name, size in _SIDECAR.items() if name in self.requests}

    @property
    def sidecar_limits(self) -> Mapping[str, str]:
        """The limits of a container that runs beside the task: its requests, to be guaranteed."""
        return {name: size for name, size in _SIDECAR.items() if name in self.limits}

    @property
    def topology_key(self) -> str | None:
        """The topology key that all nodes of the task must share; None if there is none."""
        if self.storage.one_cluster_node:
            return "kubernetes.io/hostname"
        zone = self.network.one_zone and len(self.nodes) > 1
        return "topology.kubernetes.io/zone" if zone else None

    @property
    def queue(self) -> str | None:
        return self.queueing.get(names.QUEUE)

    @property
    def queueing(self) -> Mapping[str, str]:
        """The Kueue labels for the queue and its priority class."""
        return self.pod_options.queueing

    @property
    def backoff_limit(self) -> int:
        """How often the Job of a node may create another pod after a failure that counts."""
        return self.restarts or self.start_retries

    @property
    def unrepeated_downloads(self) -> "tuple[Download, ...]":
        """The downloads that end the task without its restarts if their store refuses them."""
        return self.storage.downloads if self.restarts else ()

    @property
    def auxiliary(self) -> bool:
        """Whether it is a task of a group that is stopped after the others finish."""
        return names.DELAY in self.annotations

    @property
    def title(self) -> str:
        return self.annotations.get(names.ORIGINAL_NAME) or self.labels[names.TASK_NAME]

    @property
    def start(self) -> str | None:
        """The command of a task that only runs `run` on one node; others use the runtime."""
        several = self.extras.scripts or len(self.nodes) > 1 or self.hold or self.slurm
        mounted = self.storage.links or self.storage.downloads or self.storage.logs.env
        if several or mounted or self.scripts.keys() - {"bash.sh"} != {"run.sh"}:
            return None
        return start(self.image)

    @property
    def slurm(self) -> str:
        """Whether `run` is a batch script of Slurm: for rank 0, or for all ranks."""
        return self.env.get("KUBECTL_SKY_SLURM", "")

    @property
    def files(self) -> Mapping[str, str]:
        """The files of the task's ConfigMap."""
        return {**self.scripts, **(profile(self.image) if self.start else {})}

    @property
    def runtime(self) -> Runtime | None:
        """The scripts that the task runs, unless it only has a command."""
        if self.start:
            return None
        several = len(self.nodes) > 1
        transfers = bool(self.file_transfer.unpack_paths)
        barrier = several and self.service
        downloads = self.storage.downloads
        clones = "repository.txt" in self.scripts
        synced = any(download.writes_back for download in downloads)
        # The default image has no conda or ~/.bashrc; setup, files and volumes may add them.
        changes_home = self.scripts.keys() != {"run.sh"} or self.storage.mounts
        used = {
            "entry.sh": True,
            "nodes.sh": several,
            "barrier.py": barrier,
            "dns.sh": several and not (barrier and self.image == DEFAULT_IMAGE),  # it has Python
            "files.sh": transfers or clones,
            "unpack.sh": transfers,
            "started.sh": STARTED in self.checks,
            "clone.sh": clones,
            "links.sh": self.storage.links,
            "logs.sh": self.storage.logs.env,
            "profile.sh": self.image != DEFAULT_IMAGE or changes_home,
            "fetch.sh": downloads,
            "hold.sh": self.hold,
            "held.sh": self.hold,
            "slurm.sh": self.slurm,
            "srun.py": self.slurm == "batch",
            "serve.sh": self.slurm == "batch" and several,
            "sync.sh": synced,
            "written.sh": synced,
            "hub.py": any("KUBECTL_SKY_TREE" in download.env for download in downloads),
        }
        scripts = [name for name, is_used in used.items() if is_used]
        return runtime(self.namespace, [*scripts, *self.extras.scripts])

    @property
    def companion_metadata(self) -> TaskGroup:
        """The metadata of the objects beside the workload, which has all annotations."""
        annotations = {
            key: text for key, text in self.annotations.items() if key == names.ORIGINAL_USER
        }
        return TaskGroup(self.namespace, self.labels, annotations, self.selector)
