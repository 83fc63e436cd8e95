"""Labels, annotations and object names: the index by which the cluster is the only state."""

import re

MANAGER = "kubectl-sky"  # field manager of server-side apply

TASK = "skypilot-task"
TASK_ID = "task-id"
TASK_NAME = "task-name"
USERNAME = "username"
NODE_IDX = "node-idx"
FILES = "kubectl-sky/files"  # of objects that carry files, and that tasks share
PORTS = "kubectl-sky/ports"  # of the Service that leads to a task's rank 0
VOLUME = "skypilot-volume"
VOLUME_ID = "volume-id"
VOLUME_NAME = "volume-name"
PIPELINE = "kubectl-sky/pipeline"  # id of the tasks of one file together
LATER_QUEUE = "kubectl-sky/queue"  # in which a held task gets when it is released
LATER_CLASS = "kubectl-sky/queue-class"
STAGE = "kubectl-sky/stage"  # which of them this is, from 1

SKYPILOT_VOLUME = "skypilot-name"  # label of the claims that SkyPilot makes

ORIGINAL_NAME = "kubectl-sky/name"
ORIGINAL_USER = "kubectl-sky/user"
QUEUE = "kueue.x-k8s.io/queue-name"
QUEUE_CLASS = "kueue.x-k8s.io/priority-class"
NUM_NODES = "kubectl-sky/num-nodes"
PIPELINE_NAME = "kubectl-sky/pipeline-name"
STAGES = "kubectl-sky/stages"  # how many tasks there are
EXECUTION = "kubectl-sky/execution"  # serial or parallel
AUXILIARY = "kubectl-sky/auxiliary-stages"  # that end when the other tasks of a group have ended
STOPPED_FOR = "kubectl-sky/stopped-for"  # the node whose failure has ended this one
DELAY = "kubectl-sky/termination-delay"  # seconds that such a task has then
PRIORITY = "kubectl-sky/priority"  # SkyPilot's number
BACKEND = "kubectl-sky/backend"  # not written for the default one
ARRAY = "kubectl-sky/array"  # the numbers of the tasks that are one array
LOCAL_FILES = "kubectl-sky/files"  # what of the user's machine goes where

DEFAULT_BACKEND = "jobs"

CONTAINER = "main"  # the container that runs setup and run
SCRIPTS = "scripts"  # its volume of them
SCRIPTS_FOLDER = "/etc/kubectl-sky"
ROOM = "room"  # its volume that can be written to whatever the image and its user
ROOM_FOLDER = "/kubectl-sky"

_OURS = {TASK, TASK_ID, TASK_NAME, USERNAME, NODE_IDX}
_OUR_PREFIX = "kubectl-sky/"

ID_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own: no vowels, no look-alikes
ID_LENGTH = 8
ID = re.compile(r"[a-z]([a-z0-9]{7})")

_LABEL_MAX = 63
_NAME_MAX = 40  # leaves room for "-{id}-node-{index}" within a DNS label


def is_ours(key: str) -> bool:
    """Say whether a label or annotation is ours, so that nobody else may set it on a task."""
    return key in _OURS or key.startswith(_OUR_PREFIX)


def label_value(text: str) -> str:
    """Return the text as a label value: `user@example.com` becomes `user-example.com`."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:_LABEL_MAX].strip("-._")


def dns_label(text: str, fallback: str = "task") -> str:
    """Return the text as the start of a DNS-1035 name, short enough for the suffixes of nodes."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not slug or not slug[0].isalpha():
        slug = f"{fallback}-{slug}" if slug else fallback
    return slug[:_NAME_MAX].rstrip("-")


def task_object(name: str, task_id: str) -> str:
    """Name of the objects a task has once: `{name}-{id}`."""
    return f"{name}-{task_id}"


def part_id(whole: str, stage: int) -> str:
    """Id of one of the tasks of a file; the same for the same id of the whole."""
    from hashlib import sha256  # noqa: PLC0415 -- brings OpenSSL, which most commands never need

    digest = sha256(f"{whole}/{stage}".encode()).digest()
    letters = ID_ALPHABET.rstrip("0123456789")
    rest = (ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in digest[1:ID_LENGTH])
    return letters[digest[0] % len(letters)] + "".join(rest)


def node_object(name: str, task_id: str, index: int, nodes: int) -> str:
    """Name of a node's Job: as the task's when it has one node, else with the node's index."""
    whole = task_object(name, task_id)
    return whole if nodes == 1 else f"{whole}-node-{index}"


def ports_object(whole: str) -> str:
    """Name of the Service to a task's rank 0."""
    return f"{whole}-ports"


def selector(**labels: str) -> str:
    """A label selector; underscores in names stand for dashes: `selector(task_id="abc")`."""
    return ",".join(f"{name.replace('_', '-')}={value}" for name, value in labels.items())
