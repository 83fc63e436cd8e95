"""What `config.kubernetes` asks for beside `pod_config`, as values; and its rules."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.spec import metadata
from kubectl_sky.spec.document import Data, Document, Path, entries, printable

KUBERNETES: Path = ("config", "kubernetes")

# Words that SkyPilot reads as something other than a service account's name.
NOBODY = ("", "LOCAL_CREDENTIALS", "NO_UPLOAD", "SERVICE_ACCOUNT")
_MINUTES = {"": 1, "m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_OBJECT = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_QUEUE = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_QUEUES: tuple[Path, ...] = (("quota", "queue"), ("kueue", "local_queue_name"))  # the first wins


@dataclass(frozen=True)
class Kubernetes:
    """What a task asks of Kubernetes beyond its resources.

    `pod` is merged into every pod, `labels` and `annotations` are put on every object. `accounts`
    is a pattern of kubectl's contexts to the service account that pods act for. `queue` is Kueue's
    LocalQueue to wait in: "" for none, None leaves it to the settings. With `flex_start` machines
    come from GKE's dynamic workload scheduler, for `run_seconds` where the task is queued. Limits
    are requests times `limits`: 0 for no limits, None for what is usual. `patience` is the seconds
    that the first node may take to start; None for what is usual. `ports` is SkyPilot's word for
    how ports are reached.
    """

    pod: Mapping[str, Data] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    flex_start: bool = False
    run_seconds: int | None = None
    limits: Fraction | None = None
    patience: float | None = None
    ports: str | None = None


def kubernetes_of(config: Mapping[str, Any] | None) -> Kubernetes:
    """Return what a valid `config` says."""
    fields = (config or {}).get("kubernetes") or {}
    custom, dws = fields.get("custom_metadata") or {}, fields.get("dws") or {}
    queues = [(fields.get(part) or {}).get(name) for part, name in _QUEUES]
    return Kubernetes(
        pod=fields.get("pod_config") or {},
        labels=metadata.without_ours(custom.get("labels")),
        annotations=metadata.without_ours(custom.get("annotations")),
        accounts=_accounts(fields.get("remote_identity")),
        queue=next((name for name in queues if name is not None), None),
        flex_start=bool(dws.get("enabled")),
        run_seconds=_seconds(dws.get("max_run_duration")),
        limits=_limits(fields.get("set_pod_resource_limits")),
        patience=_patience(fields.get("provision_timeout")),
        ports=fields.get("ports"),
    )


def _accounts(identity: Data) -> Mapping[str, str]:
    given = {"*": identity} if isinstance(identity, str) else identity or {}
    return {pattern: name for pattern, name in given.items() if name.upper() not in NOBODY}


def _seconds(duration: Data) -> int | None:
    """Read minutes such as 10 or "10", or a time such as "10m", "2h"."""
    if duration is None:
        return None
    text = str(duration).lower()
    number = text.rstrip("mhdw")
    return int(Fraction(number)) * _MINUTES[text.removeprefix(number)] * 60


def _limits(factor: Data) -> Fraction | None:
    """Read true, false, or a number, exactly as it is written."""
    if factor is None:
        return None
    return Fraction(int(factor)) if isinstance(factor, bool) else Fraction(str(factor))


def _patience(seconds: Data) -> float | None:
    """SkyPilot waits for ever where the number is negative."""
    return None if seconds is None else math.inf if seconds < 0 else float(seconds)


def _custom(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "custom_metadata")
    yield from metadata.labels(document, (*path, "labels"))
    yield from metadata.annotations(document, (*path, "annotations"))
    for key, _ in entries(document.get(*path)):
        if key not in ("labels", "annotations"):
            message = "ignored: objects get labels and annotations only"
            yield document.problem((*path, key), message, "leave it out", "warning", key=True)


def _identity(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "remote_identity")
    identity = document.get(*path)
    named = [((), identity)] if isinstance(identity, str) else entries(identity)
    for step, name in named:
        where = (*path, step) if step else path
        if not isinstance(name, str) or name.upper() in ("", "NO_UPLOAD"):
            continue
        if name.upper() in NOBODY:
            message = "ignored: neither your credentials nor SkyPilot's account are given to pods"
            hint = "name a service account that is there"
            yield document.problem(where, message, hint, "warning")
        elif not _OBJECT.fullmatch(name):
            message = f"'{printable(name)}' is no service account's name"
            yield document.problem(where, message, "small letters, digits, - and .")


def _queue(document: Document) -> Iterator[Problem]:
    found = [path for path in _QUEUES if isinstance(document.get(*KUBERNETES, *path), str)]
    for path in found:
        name = document.get(*KUBERNETES, *path)
        if name and not _QUEUE.fullmatch(name):
            message = f"'{printable(name)}' is no queue's name"
            hint = "small letters, digits, - and ., at most 63 of them"
            yield document.problem((*KUBERNETES, *path), message, hint)
    if len(found) > 1 and not document.source((*KUBERNETES, *found[0])):
        message = "ignored: quota.queue names the queue"
        yield document.problem((*KUBERNETES, *found[1]), message, "keep one of them", "warning")


def _dws(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "dws", "max_run_duration")
    queued = any(document.get(*KUBERNETES, *queue) for queue in _QUEUES)
    if document.get(*path) is not None and not queued:
        message = "ignored: it is told to a queue, and the task names none"
        yield document.problem(path, message, "add kueue.local_queue_name", "warning")


def _factor(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "set_pod_resource_limits")
    factor = document.get(*path)
    if isinstance(factor, float) and not math.isfinite(factor):
        yield document.problem(path, "expected true, false, or a number from 1 to 1000")


def _ports(document: Document) -> Iterator[Problem]:
    path = (*KUBERNETES, "ports")
    if document.get(*path) == "ingress":
        message = "ignored: no Ingress is made, the ports' Service is as without it"
        hint = "write an Ingress to that Service, or say --expose loadbalancer"
        yield document.problem(path, message, hint, "warning")


RULES = (_custom, _identity, _queue, _dws, _factor, _ports)
