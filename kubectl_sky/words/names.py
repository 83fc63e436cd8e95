"""Labels, annotations and object names, which index the state in the cluster.

There is no other state than the cluster.
"""

import re
from collections.abc import Mapping

MANAGER = "kubectl-sky"  # field manager of server-side apply

TASK = "skypilot-task"
TASK_ID = "task-id"
TASK_NAME = "task-name"
USERNAME = "username"
NODE_IDX = "node-idx"
FILES = "kubectl-sky/files"  # of objects with local files, which tasks share
RUNTIME = "kubectl-sky/runtime"  # of the scripts that tasks share
RUNTIME_PREFIX = "kubectl-sky-runtime-"  # of the name of the ConfigMap with the scripts
SERVICE = "kubectl-sky/service"  # name of a service, of its objects and pods
PORTS = "kubectl-sky/ports"  # of the Service for rank 0 of a task
VOLUME = "skypilot-volume"
VOLUME_ID = "volume-id"
VOLUME_NAME = "volume-name"
PIPELINE = "kubectl-sky/pipeline"  # id shared by the tasks of one file
LATER_QUEUE = "kubectl-sky/queue"  # of a suspended task, set when it is resumed
LATER_CLASS = "kubectl-sky/queue-class"
LATER_MAX_EXEC = "kubectl-sky/max-exec-time-seconds"
AFTER = "kubectl-sky/after"  # id and name of the task that must have succeeded before
STAGE = "kubectl-sky/stage"  # number of a task in its pipeline, from 1

ACCOUNT = "kubectl-sky/account"  # of the objects of `users add`: the kind of the RBAC subject

SKYPILOT_VOLUME = "skypilot-name"  # label of the PVCs that SkyPilot creates

ORIGINAL_NAME = "kubectl-sky/name"
ORIGINAL_USER = "kubectl-sky/user"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"  # manages Jobs that run in another cluster
MULTIKUEUE_COPY = "kubectl-sky/multikueue-copy"  # of an object for a Job of another cluster
QUEUE = "kueue.x-k8s.io/queue-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"  # of pods: a level of the queue
POD_SET_PREFIX = "kueue.x-k8s.io/podset-"  # of all annotations about the topology of pods
QUEUE_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXEC = "kueue.x-k8s.io/max-exec-time-seconds"
ON_HANG = "kubectl-sky/on-hang"  # what is done when a node hangs, and after how long
STEP_REGEX = "kubectl-sky/step-regex"  # which lines of a log are steps
GOODPUT = "kubectl-sky/goodput"  # what the time of a finished task went into, as JSON
MAX_DURATION = "kubectl-sky/max-duration"  # how long the task may run, as the user wrote it
NUM_NODES = "kubectl-sky/num-nodes"
INTERACTIVE = "kubectl-sky/interactive"  # the nodes stay up until the task is stopped
SETUP = "kubectl-sky/setup"  # the nodes run a setup script
PIPELINE_NAME = "kubectl-sky/pipeline-name"
STAGES = "kubectl-sky/stages"  # number of tasks
STAGE_NAMES = "kubectl-sky/stage-names"  # of its tasks, in order, separated by commas
EXECUTION = "kubectl-sky/execution"  # serial or parallel
AUXILIARY = "kubectl-sky/auxiliary-stages"  # stopped when the other tasks of a group have finished
STOPPED_FOR = "kubectl-sky/stopped-for"  # the node whose failure stopped this one
LEAVES = "kubectl-sky/leaves"  # the cluster node that a Job is being moved away from
LEFT = "kubectl-sky/left"  # those that it was moved away from
MAIN_ENDED = "kubectl-sky/main-ended"  # when `main` had ended before its pod was ended
AWAITS_NODES = "kubectl-sky/awaits-nodes"  # of pods: started once their nodes have met
AWAITS_UPLOAD = "kubectl-sky/awaits-upload"  # of pods: started once their files have arrived
DELAY = "kubectl-sky/termination-delay"  # seconds until an auxiliary task is stopped
ACCELERATORS = "kubectl-sky/accelerators"  # of each node: A100:8
PRIORITY = "kubectl-sky/priority"  # SkyPilot's priority, a number
BACKEND = "kubectl-sky/backend"  # not set for the default backend
ARRAY = "kubectl-sky/array"  # the indexes of the tasks of an array
SWEEP = "kubectl-sky/sweep"  # the values of the variables of an array, as JSON
LOGS = "kubectl-sky/logs"  # PVC:PATH, the folder in which nodes also write their logs
LOCAL_FILES = "kubectl-sky/files"  # local paths and their target paths
REVISION = "kubectl-sky/revision"  # the git commits of local files, by target path

RAY_SERVE_GRAPH = "kubectl-sky/ray-serve-graph"  # of a RayService: the RayServeGraph it is made of
RAY_DIGEST = "kubectl-sky/ray-digest"  # of a RayService: the digest of what was applied

DEFAULT_BACKEND = "jobs"

CONTROLLERS_NAMESPACE = "kubectl-sky"  # of the controllers of all namespaces, and their Leases
# Programs of ours that run in a cluster; their ServiceAccounts have the same names.
CONTROLLERS = {name: f"kubectl-sky-controller-{name}" for name in ("tasks", "ray", "fairshare")}
SERVER = "kubectl-sky-api"
KUBERNETES_PATH = "/kubernetes"  # below which it has the API server's paths
HISTORY = "kubectl-sky-history"  # the ConfigMap with the last states of finished tasks
LAST_ACTION = "kubectl-sky/last-action"  # of a controller, in its Lease: a time and what it did

CONTAINER = "main"  # the container that runs setup and run
HOLD = "hold"  # the sidecar that reports that a failed container is held
# Its variables that backends set or leave out.
RANK = "NODE_RANK"
REPLICA = "SKYPILOT_SERVE_REPLICA_ID"  # in SkyPilot a number from 1
TOKEN = "KUBECTL_SKY_TOKEN"  # authenticates the nodes of a task to each other; see barrier.py
SCRIPTS = "scripts"  # volume of these scripts
SCRIPTS_FOLDER = "/etc/kubectl-sky"
SCRATCH = "kubectl-sky"  # writable scratch volume for any image and user
SCRATCH_FOLDER = "/kubectl-sky"

# The labels that tools show for all applications; users can set other values, except for the owner.
MANAGED_BY = "app.kubernetes.io/managed-by"
APP_NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMMON = {MANAGED_BY, APP_NAME, INSTANCE}

_OURS = {TASK, TASK_ID, TASK_NAME, USERNAME, NODE_IDX}
_OUR_PREFIX = "kubectl-sky/"

ID_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes: no vowels, no look-alikes
ID_LENGTH = 8
ID = re.compile(r"[a-z]([a-z0-9]{7})")

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # a DNS label

# A DNS subdomain: the syntax of the names of most objects.
SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

TASK_FILE = "task.yaml"  # the key of the task as submitted, in its ConfigMap
MAX_TASK_FILE = 16 * 1024  # bytes of it

_LABEL_MAX = 63
_NAME_MAX = 40  # leaves room for "-{id}-node-{index}" within a DNS label


def is_ours(key: str) -> bool:
    """Report whether a label or annotation is reserved: task files cannot set it."""
    return key in _OURS or key.startswith(_OUR_PREFIX)


def label_value(text: str) -> str:
    """Return the text as a label value: `a@example.com` becomes `a-example.com`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:_LABEL_MAX].strip("-._")


def dns_label(text: str, fallback: str = "task") -> str:
    """Return the text as a DNS-1035 prefix, short enough for the suffixes of nodes."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not slug or not slug[0].isalpha():
        slug = f"{fallback}-{slug}" if slug else fallback
    return slug[:_NAME_MAX].rstrip("-")


def task_object(name: str, task_id: str) -> str:
    """Return the name of the objects that a task has once: `{name}-{id}`.

    The default name ends with the id already.
    """
    return name if name.endswith(f"-{task_id}") else f"{name}-{task_id}"


def part_id(base: str, stage: int) -> str:
    """Return the id of one task of a file, derived from the id of the whole file."""
    from hashlib import sha256  # noqa: PLC0415 -- loads OpenSSL, which most commands do not need

    digest = sha256(f"{base}/{stage}".encode()).digest()
    letters = ID_ALPHABET.rstrip("0123456789")
    suffix = (ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in digest[1:ID_LENGTH])
    return letters[digest[0] % len(letters)] + "".join(suffix)


def node_object(name: str, task_id: str, index: int, nodes: int) -> str:
    """Return the name of a node's Job; tasks with several nodes add the node index."""
    base = task_object(name, task_id)
    return base if nodes == 1 else f"{base}-node-{index}"


def controller_lease(controller: str, all_namespaces: bool) -> str:
    return f"kubectl-sky-{controller}{'-all' if all_namespaces else ''}"


def ports_object(base: str) -> str:
    return f"{base}-ports"


def log_stream(pod: str, container: str = CONTAINER) -> str:
    """Return what distinguishes the log of a container from others."""
    return f"{pod}/{container}"


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def standard_labels(name: str, instance: str) -> dict[str, str]:
    return {MANAGED_BY: MANAGER, APP_NAME: label_value(name), INSTANCE: label_value(instance)}


def new_id() -> str:
    """Generate an id of a task or volume: 8 characters, the first one a letter."""
    import secrets  # noqa: PLC0415 -- loads OpenSSL, which most commands do not need

    letters = [letter for letter in ID_ALPHABET if letter.isalpha()]
    rest = (secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH - 1))
    return secrets.choice(letters) + "".join(rest)
