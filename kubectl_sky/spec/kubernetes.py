"""The fields of `config.kubernetes`, as values, and their rules.

schemas/pod.json has the fields of a pod and their types.
"""

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import resource_fields
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.variables import RESERVED
from kubectl_sky.words import names

KUBERNETES: Path = ("config", "kubernetes")

# Values that SkyPilot does not read as the name of a service account.
NOBODY = ("", "LOCAL_CREDENTIALS", "NO_UPLOAD", "SERVICE_ACCOUNT")
_MINUTES = {"": 1, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_QUEUE = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_QUEUES: tuple[Path, ...] = (("quota", "queue"), ("kueue", "local_queue_name"))  # the first wins
POD_CONFIG: Path = ("config", "kubernetes", "pod_config")
MAIN = (names.CONTAINER, "ray-node", None)  # names of the task's container in SkyPilot files

_RETRY = "the cluster would restart failed containers"
_FIXED = {
    "restartPolicy": (_RETRY, "job_recovery is for that"),
    "ephemeralContainers": ("no pod can be created with them", "use kubectl debug"),
}
_FIXED_OF_MAIN = {
    "command": ("this would replace setup and run", "move it to run"),
    "args": ("this would change how setup and run are started", "move it to run"),
    "restartPolicy": (_RETRY, "job_recovery is for that"),
    "restartPolicyRules": (_RETRY, "job_recovery is for that"),
}
_FOUND_BY = ("hostname", "subdomain")  # the nodes of a task find each other by these
_FOLDERS = (f"{names.SCRIPTS_FOLDER}/", f"{names.SCRATCH_FOLDER}/")


class Kubernetes(Struct, frozen=True):
    """A task's settings for Kubernetes, besides its resources."""

    pod: Mapping[str, Data] = {}  # merged into every pod
    labels: Mapping[str, str] = {}  # of every object
    annotations: Mapping[str, str] = {}  # of every object
    # Patterns of kubectl's contexts, and the service account of the pods there.
    accounts: Mapping[str, str] = {}
    queue: str | None = None  # Kueue's LocalQueue: empty for none, None for the one in the settings
    flex_start: bool = False  # GKE's Dynamic Workload Scheduler provides the cluster nodes
    run_seconds: int | None = None  # for how long it does, if the task is queued
    limits: Fraction | None = None  # times requests: 0 for no limits, None for the default
    # Seconds in which the first node must start; None for the default.
    provision_timeout: float | None = None
    ports: str | None = None  # SkyPilot's name for how ports are exposed


def kubernetes_of(config: Mapping[str, Any] | None) -> Kubernetes:
    fields = (config or {}).get("kubernetes") or {}
    custom = fields.get("custom_metadata") or {}
    dws = fields.get("dws") or {}
    queues = [(fields.get(part) or {}).get(name) for part, name in _QUEUES]
    identity = fields.get("remote_identity") or {}
    accounts = {"*": identity} if isinstance(identity, str) else identity

    timeout = fields.get("provision_timeout")
    factor = fields.get("set_pod_resource_limits")
    if timeout is not None:
        timeout = math.inf if timeout < 0 else float(timeout)  # no limit, as in SkyPilot
    if factor is not None:  # a number is kept exactly as written
        factor = Fraction(int(factor) if isinstance(factor, bool) else str(factor))

    return Kubernetes(
        pod=fields.get("pod_config") or {},
        labels=resource_fields.without_ours(custom.get("labels")),
        annotations=resource_fields.without_ours(custom.get("annotations")),
        accounts={
            pattern: name for pattern, name in accounts.items() if name.upper() not in NOBODY
        },
        queue=next((name for name in queues if name is not None), None),
        flex_start=bool(dws.get("enabled")),
        run_seconds=_seconds(dws.get("max_run_duration")),
        limits=factor,
        provision_timeout=timeout,
        ports=fields.get("ports"),
    )


def _seconds(duration: Data) -> int | None:
    """Parse minutes (10, "10") or a duration ("10m", "2h") into seconds."""
    if duration is None:
        return None
    text = str(duration).lower()
    number = text.rstrip("mhdw")
    return int(Fraction(number)) * _MINUTES[text.removeprefix(number)] * 60


def _custom(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "custom_metadata")
    yield from resource_fields.label_problems(document, (*path, "labels"))
    yield from resource_fields.annotation_problems(document, (*path, "annotations"))
    for key, _ in entries(document.get(*path)):
        if key not in ("labels", "annotations"):
            message = "ignored: only labels and annotations are applied"
            yield document.unused((*path, key), message, "leave it out", key=True)


def _identity(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "remote_identity")
    identity = document.get(*path)
    items = [((), identity)] if isinstance(identity, str) else entries(identity)
    for step, name in items:
        field_path = (*path, step) if step else path
        if not isinstance(name, str) or name.upper() in ("", "NO_UPLOAD"):
            continue
        if name.upper() in NOBODY:
            message = "ignored: pods get neither your credentials nor SkyPilot's account"
            yield document.unused(field_path, message, "name an existing service account")
        elif not names.SUBDOMAIN.fullmatch(name):
            message = f'"{printable(name)}" is not a valid service account name'
            yield document.problem(field_path, message, "use lowercase letters, digits, - and .")


def _queue(document: Document) -> Iterator[Problem]:
    paths = [
        queue_path
        for queue_path in _QUEUES
        if isinstance(document.get(*KUBERNETES, *queue_path), str)
    ]
    for queue_path in paths:
        name = document.get(*KUBERNETES, *queue_path)
        if name and not _QUEUE.fullmatch(name):
            message = f'"{printable(name)}" is not a valid queue name'
            hint = "use lowercase letters, digits, - and ., at most 63 of them"
            yield document.problem((*KUBERNETES, *queue_path), message, hint)
    if len(paths) > 1 and not document.source((*KUBERNETES, *paths[0])):
        message = "ignored: quota.queue names the queue"
        yield document.unused((*KUBERNETES, *paths[1]), message, "keep one of them")


def _dws(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "dws", "max_run_duration")
    has_queue = any(document.get(*KUBERNETES, *queue) for queue in _QUEUES)
    if document.get(*path) is not None and not has_queue:
        message = "ignored: the task has no queue"
        yield document.unused(path, message, "add kueue.local_queue_name")


def _factor(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "set_pod_resource_limits")
    factor = document.get(*path)
    if isinstance(factor, float) and not math.isfinite(factor):
        yield document.problem(path, "expected true, false, or a number from 1 to 1000")


def _ports(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "ports")
    if document.get(*path) == "ingress":
        message = "ignored: no Ingress is created, and the Service is unchanged"
        hint = "create an Ingress for that Service, or set config.kubectl_sky.expose: loadbalancer"
        yield document.unused(path, message, hint)


class _Item(Struct, frozen=True):
    """A list item and its path."""

    path: Path
    fields: dict[Data, Data]


def _pod_config(document: Document) -> Iterator[Problem]:
    """Yield an error for each field that must not change, a warning for ignored ones."""
    if not isinstance(document.get(*POD_CONFIG), dict):
        return
    yield from _pod_metadata(document)
    yield from _pod_spec(document)

    for item in _items(document, (*POD_CONFIG, "spec", "volumes")):
        if item.fields.get("name") in (names.SCRIPTS, names.SCRATCH):
            message = "this name is reserved for a volume of the task"
            yield document.problem((*item.path, "name"), message, "choose another name")

    for item in _items(document, (*POD_CONFIG, "spec", "containers")):
        if item.fields.get("name") in MAIN:
            yield from _main(document, item)
        else:
            message = "this container keeps the pod when the task has ended"
            hint = "as an init container with restartPolicy: Always, it stops with the task"
            yield document.problem(item.path, message, hint, "warning")
            if item.fields.get("image") is None:
                hint = f"the task's container is called {names.CONTAINER}"
                yield document.problem(item.path, 'missing field "image"', hint)


def _pod_metadata(document: Document) -> Iterator[Problem]:
    path = (*POD_CONFIG, "metadata")
    yield from resource_fields.label_problems(document, (*path, "labels"))
    yield from resource_fields.annotation_problems(document, (*path, "annotations"))
    fields = document.get(*path)
    for key, value in fields.items() if isinstance(fields, dict) else ():
        if value is not None and key not in ("labels", "annotations"):
            message = "ignored: the Job sets it for its pods"
            yield document.unused((*path, key), message, "leave it out", key=True)


def _pod_spec(document: Document) -> Iterator[Problem]:
    path = (*POD_CONFIG, "spec")
    for name, (message, hint) in _FIXED.items():
        if document.get(*path, name) not in (None, "Never"):
            yield document.problem((*path, name), message, hint, key=True)
    for name in _FOUND_BY:
        if document.get(*path, name) is not None and document.get("num_nodes") not in (None, 1):
            message = "the nodes of the task use it to find each other"
            yield document.problem((*path, name), message, "leave it out", key=True)


def _main(document: Document, container: _Item) -> Iterator[Problem]:
    for name, (message, hint) in _FIXED_OF_MAIN.items():
        if container.fields.get(name) is not None:
            yield document.problem((*container.path, name), message, hint, key=True)
    for item in _items(document, (*container.path, "volumeMounts")):
        mount_path = str(item.fields.get("mountPath"))
        if f"{mount_path.rstrip('/')}/".startswith(_FOLDERS):
            message = "the task's scripts and files are in this folder"
            yield document.problem((*item.path, "mountPath"), message, "choose another folder")
    for item in _items(document, (*container.path, "env")):
        if str(item.fields.get("name")) in RESERVED:
            yield document.unused((*item.path, "name"), "ignored: every node sets its own value")


def _items(document: Document, path: Path) -> Iterator[_Item]:
    items = document.get(*path)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield _Item((*path, index), item)


RULES = (_custom, _identity, _queue, _dws, _factor, _ports, _pod_config)
