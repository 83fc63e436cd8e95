"""How the replicas of a service are checked, counted and updated."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from kubectl_sky.errors import UserError
from kubectl_sky.plan.local_files import FileTransfer
from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.ray_serve import PodPort, RayServe, plan_ray_serve
from kubectl_sky.plan.runtime import Check, Http
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.service import REPLICA, Probe, Service
from kubectl_sky.spec.task import Task
from kubectl_sky.words import assets, names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings

START_SECONDS = 1200  # SkyPilot's limit for the start of a replica
_START_INTERVAL = 3  # seconds between requests until a replica has started
_PULL_SECONDS = 600  # to schedule a replica and pull its image, as in Kubernetes
_MAX_STABILIZATION = 3600  # seconds; the limit of a HorizontalPodAutoscaler
_QPS: tuple[str, ...] = ("service", "replica_policy", "target_qps_per_replica")
RAY = "rayservice"  # the backend
_SCRIPT = "probe.sh"
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?", re.ASCII)


@dataclass(frozen=True)
class Delay:
    """How long a HorizontalPodAutoscaler waits before it scales in one direction."""

    direction: str
    seconds: int


@dataclass(frozen=True)
class Scaling:
    """The largest number of replicas, and the metric that decides: of the pods, or CPU usage.

    `average` is the Kubernetes quantity of the metric for each pod. `cpu_percent` is None for a
    metric of the pods.
    """

    most: int
    metric: str
    average: str
    cpu_percent: int | None
    delays: tuple[Delay, ...]


@dataclass(frozen=True)
class Serving:
    """A service: the name of its objects, its port, and its replicas.

    An update creates up to `surge` more replicas, and at most `unavailable` are missing. It has
    failed if no replica becomes ready within `deadline` seconds.
    """

    name: str
    port: int
    replicas: int
    surge: int
    unavailable: int
    deadline: int
    checks: tuple[Check, ...]
    scaling: Scaling | None
    most: int
    ray: RayServe | None = None

    @property
    def scales(self) -> bool:
        """Whether the number of replicas changes."""
        return self.most > self.replicas

    @property
    def container_ports(self) -> tuple[PodPort, ...]:
        """The ports that a Ray pod names for KubeRay."""
        return self.ray.ports if self.ray else ()


def plan_serving(
    task: Task,
    placement: Placement,
    requests: Mapping[str, str],
    file_transfer: FileTransfer,
    settings: Settings,
) -> Serving | None:
    """Decide how a service runs; None for a task. Raises FieldError, UserError."""
    service = task.service
    if service is None:
        return None
    for files in file_transfer.large_files.values():
        raise FieldError(
            files.field,
            "too large for ConfigMaps, and a replica may start when no client can upload it",
            "use a git repository, a bucket or a volume, or exclude files in .skyignore",
        )
    gpus, is_ray = placement.device is not None, task.backend == RAY
    in_place = gpus and service.fewest > 1  # a surge would wait for GPUs that nobody has
    return Serving(
        name=names.dns_label(task.name or "", "service"),
        port=service.port,
        replicas=service.fewest,
        surge=0 if in_place else 1,
        unavailable=1 if in_place else 0,
        deadline=math.ceil(service.probe.start or START_SECONDS) + _PULL_SECONDS,
        checks=tuple(_checks(service.probe, service.port)),
        scaling=None if is_ray else _scaling(service, "cpu" in requests, settings),
        most=service.most,
        ray=plan_ray_serve(task, service.port) if is_ray else None,
    )


def _checks(probe: Probe, port: int) -> Iterator[Check]:
    """Yield the probes; a replica that fails later is restarted only if its time is set.

    Kubernetes sends the others only when the startup probe has succeeded.
    """
    http = None if _needs_script(probe) else Http(probe.path, port, tuple(probe.headers.items()))
    period, timeout = max(math.ceil(probe.interval), 1), max(math.ceil(probe.timeout), 1)
    start = math.ceil((probe.start or START_SECONDS) / _START_INTERVAL)
    yield Check("startupProbe", http, _START_INTERVAL, timeout, max(start, 1))
    yield Check("readinessProbe", http, period, timeout, 2)
    if probe.failing is not None:
        failures = max(math.ceil(probe.failing / period), 1)
        yield Check("livenessProbe", http, period, timeout, failures)


def _scaling(service: Service, requests_cpu: bool, settings: Settings) -> Scaling | None:
    flags = service.flags
    percent, metric = flags.cpu_target, flags.qps_metric or settings.qps_metric
    if service.most <= service.fewest:
        if flags.cpu_target or flags.qps_metric:
            message = "--cpu-target and --qps-metric scale between min_replicas and max_replicas"
            raise UserError(message, "set both in service.replica_policy")
        return None
    if percent is None and not metric:
        raise FieldError(
            _QPS,
            "Kubernetes does not count requests, so it cannot scale by them",
            "set qps_metric in settings.yaml to a metric of the pods, or use `serve up` with"
            " --qps-metric NAME, --cpu-target 80 (CPU usage) or --replicas N (a fixed number)",
        )
    if percent is not None and not requests_cpu:
        raise UserError("--cpu-target is relative to the requested CPUs", "set cpus, or --cpus 2")
    seconds = (("scaleUp", service.up_delay), ("scaleDown", service.down_delay))
    return Scaling(
        most=service.most,
        metric=metric or "",
        average=f"{math.ceil((service.qps or 0) * 1000)}m",
        cpu_percent=percent,
        delays=tuple(
            Delay(direction, min(math.ceil(delay), _MAX_STABILIZATION))
            for direction, delay in seconds
            if delay is not None
        ),
    )


def _needs_script(probe: Probe) -> bool:
    """Return whether the kubelet cannot send the request: it POSTs, or needs a secret's value."""
    return probe.data is not None or _has_secret(probe)


def _has_secret(probe: Probe) -> bool:
    return any(
        match[1] in probe.secrets
        for text in (*probe.headers.values(), probe.data or "")
        for match in _REFERENCE.finditer(text)
    )


def probe_script(service: Service | None) -> dict[str, str]:
    """Return the script of the probe by its name, if the probe needs one."""
    if service is None or not _needs_script(service.probe):
        return {}
    probe = service.probe
    headers = dict(probe.headers)
    if probe.data is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"
    path = quote(probe.path, safe="/?&=%+,:;@!$'()*~[]#-._")
    lines = [
        f"url={shlex.quote(f'http://127.0.0.1:{service.port}{path}')}",
        f"timeout={max(math.ceil(probe.timeout), 1)}",
        f"method={'GET' if probe.data is None else 'POST'}",
        f"data={_quoted(probe.data or '', probe)}",
        f"private={'yes' if probe.headers or _has_secret(probe) else ''}",
        f"set -- {' '.join(_quoted(f'{name}: {text}', probe) for name, text in headers.items())}",
    ]
    return {_SCRIPT: "\n".join(lines) + "\n" + assets.read("runtime", _SCRIPT)}


def _quoted(text: str, probe: Probe) -> str:
    """Return the text as a shell word; the shell inserts the values of secrets."""
    words, start = [], 0
    for match in _REFERENCE.finditer(text):
        if match[1] in probe.secrets:
            words += [shlex.quote(text[start : match.start()]), f'"${{{match[1]}-}}"']
            start = match.end()
    return "".join((*words, shlex.quote(text[start:])))


def notes(task: Task, facts: Facts, queue: str | None) -> Iterator[str]:
    """Yield notes on what differs from SkyPilot's services."""
    if task.service is None:
        return
    if REPLICA in f"{task.setup} {task.run}":
        yield f"{REPLICA} is the name of the replica's pod, not a number"
    if queue:
        yield f"queue {queue}: Kueue admits services only with its integration for Deployments"
    for volume in task.volumes if task.service.most > 1 else ():
        pvc = (facts.pvcs or {}).get(volume.name)
        if pvc and "ReadWriteMany" not in pvc.access_modes and not volume.read_only:
            yield (
                f'volumes.{volume.path}: PVC "{pvc.name}" is {" and ".join(pvc.access_modes)}:'
                " replicas on other cluster nodes do not start; use ReadWriteMany"
            )
