"""Service backend: a Deployment whose replicas each run the task, behind a Service."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan.plan import Extras, Node
from kubectl_sky.plan.runtime import Check, Http
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.service import Ingress
from kubectl_sky.words import assets, bounded, kinds, names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import ServiceObject, TaskObject
from kubectl_sky.workloads.workload import PhaseDetails, Workload, node_index, waiting

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.service import Probe, ServiceSpec
    from kubectl_sky.spec.task import Task

_START_SECONDS = 1200  # SkyPilot's limit for the start of a replica
_START_INTERVALS = (3, 2, 1)  # seconds between requests until a replica has started
_PULL_SECONDS = 600  # to schedule a replica and pull its image, as in Kubernetes
_MAX_STABILIZATION = 3600  # seconds; the limit of a HorizontalPodAutoscaler
_SCRIPT = "probe.sh"
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?", re.ASCII)


class Scaling(Struct, frozen=True):
    """The metric that decides the number of replicas: of the pods, or CPU usage.

    `average` is the Kubernetes quantity of the metric for each pod. `cpu_percent` is None for a
    metric of the pods. `delays` are the seconds to wait before scaling in one direction.
    """

    metric: str
    average: str
    cpu_percent: int | None
    delays: Mapping[str, int]


class Replicas(Extras, frozen=True, kw_only=True):
    """A service and its replicas."""

    name: str  # of its objects
    port: int
    replicas: int
    most: int  # the autoscaler's limit
    surge: int  # how many more replicas an update creates
    unavailable: int  # how many may be missing in an update
    deadline: int  # seconds in which a replica must become ready, or the update has failed
    notes: tuple[str, ...]  # what differs from SkyPilot's services
    scaling: Scaling | None = None
    ray_config: str = ""  # that of Ray Serve as YAML, for a RayService
    ingress: Ingress | None = None  # with the Secret of the certificate

    def with_ingress(self, ingress: Ingress | None, name: str) -> Self:
        if not ingress:
            return self
        templates = (*self.templates, "ingress.yaml.j2")
        if ingress.certificate:
            templates = (*templates, "tls.yaml.j2")
            ingress = replace(ingress, secret=f"{name}-tls")
        return replace(self, ingress=ingress, certificate=ingress.certificate, templates=templates)

    @property
    def scales(self) -> bool:
        return self.most > self.replicas


class Service(Workload):
    """A rank is the number of a replica, as `serve status` counts them."""

    name = "service"
    kind: ReadKind[TaskObject] = kinds.DEPLOYMENT
    template = "deployment.yaml.j2"
    rank0_selector: Mapping[str, str] = MappingProxyType({})  # the Service leads to all replicas
    selectable = False
    independent_nodes = True

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Name the objects that all versions share after the service.

        Its pods lack the label of tasks, so that no command takes them for a task's.
        """
        replicas = self.replicas(plan, task, facts)
        service = {names.SERVICE: replicas.name}
        return replace(
            plan,
            labels={**plan.labels, **service},
            selector=service,
            env={key: value for key, value in plan.env.items() if key != names.REPLICA},
            ports=plan.ports and replace(plan.ports, service=replicas.name),
            extras=replicas,
        )

    def replicas(self, plan: "Plan", task: "Task", facts: Facts) -> Replicas:
        """Decide how a service runs. Raises FieldError, UserError."""
        service = _spec(task)
        scaling = _scaling(service, "cpu" in plan.requests)
        templates = ("hpa.yaml.j2",) if scaling else ()
        return replace(
            plan_replicas(plan, task, facts),
            checks=tuple(_checks(service.probe, service.port)),
            scaling=scaling,
            templates=templates,
        ).with_ingress(service.ingress, plan.name)

    def pods(self, plan: "Plan") -> tuple[Node, ...]:
        labels = {key: value for key, value in plan.labels.items() if key != names.TASK}
        return (
            Node(
                index=0,
                job=replicas_of(plan).name,
                labels=labels,
                env_from_fields={names.REPLICA: "metadata.name"},
            ),
        )

    def notes(self, plan: "Plan") -> Sequence[str]:
        return replicas_of(plan).notes

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """A replica never ends."""
        return waiting(item)

    def ranks(self, item: TaskObject) -> Sequence[int]:
        assert isinstance(item, ServiceObject)
        return range(bounded.integer(item.spec.replicas))

    def rank(self, pod: Pod) -> int:
        return node_index(pod)

    def title(self, rank: int) -> str:
        return f"replica-{rank}"


def replicas_of(plan: "Plan") -> Replicas:
    assert isinstance(plan.extras, Replicas)
    return plan.extras


def as_replica(task: "Task", service: "ServiceSpec") -> "Task":
    candidates = [
        replace(item, ports=tuple(sorted({*item.ports, service.port}))) for item in task.candidates
    ]
    return replace(
        task,
        service=service,
        backend=service.flags.backend,
        resources=candidates[0],
        choices=tuple(candidates[1:]),
        max_duration=None,
        scripts=probe_script(service),
    )


def _spec(task: "Task") -> "ServiceSpec":
    assert task.service
    return task.service


def plan_replicas(plan: "Plan", task: "Task", facts: Facts) -> Replicas:
    """Decide how many replicas run, and how they are replaced. Raises FieldError."""
    service = _spec(task)
    for files in plan.file_transfer.large_files.values():
        raise FieldError(
            files.field,
            "too large for ConfigMaps, and a replica may start when no client can upload it",
            "use a git repository, a bucket or a volume, or exclude files in .skyignore",
        )

    has_devices = plan.limits != plan.download_limits
    in_place = has_devices and service.fewest > 1  # a surge would wait for GPUs that nobody has
    surge = 0 if in_place else 1
    unavailable = 1 if in_place else 0

    return Replicas(
        serve=True,
        name=names.dns_label(task.name or "", "service"),
        port=service.port,
        replicas=service.fewest,
        most=service.most,
        surge=surge,
        unavailable=unavailable,
        deadline=math.ceil(_start_seconds(service.probe)) + _PULL_SECONDS,
        notes=tuple(_notes(plan, task, facts)),
    )


def _notes(plan: "Plan", task: "Task", facts: Facts) -> Iterator[str]:
    if names.REPLICA in f"{task.setup} {task.run}":
        yield f"{names.REPLICA} is the name of the replica's pod, not a number"
    if plan.queue:
        yield f"queue {plan.queue}: Kueue admits services only with its integration for Deployments"
    for volume in task.volumes if _spec(task).most > 1 else ():
        pvc = (facts.pvcs or {}).get(volume.name)
        if pvc and "ReadWriteMany" not in pvc.access_modes and not volume.read_only:
            yield (
                f'volumes.{volume.path}: PVC "{pvc.name}" is {" and ".join(pvc.access_modes)}:'
                " replicas on other cluster nodes do not start; use ReadWriteMany"
            )


def _scaling(service: "ServiceSpec", requests_cpu: bool) -> Scaling | None:
    flags = service.flags
    percent = service.flags.cpu_target

    if service.most <= service.fewest:
        if flags.cpu_target or flags.qps_metric:
            message = "--cpu-target and --qps-metric scale between min_replicas and max_replicas"
            raise UserError(message, "set both in service.replica_policy")
        return None
    if percent is not None and not requests_cpu:
        raise UserError("--cpu-target is relative to the requested CPUs", "set cpus, or --cpus 2")

    seconds = {"scaleUp": service.up_delay, "scaleDown": service.down_delay}
    return Scaling(
        metric=service.qps_metric,
        average=f"{math.ceil((service.qps or 0) * 1000)}m",
        cpu_percent=percent,
        delays={
            direction: min(math.ceil(delay), _MAX_STABILIZATION)
            for direction, delay in seconds.items()
            if delay is not None
        },
    )


def _checks(probe: "Probe", port: int) -> Iterator[Check]:
    """Yield the probes; a replica that fails later is restarted only if its time is set.

    Kubernetes sends the others only when the startup probe has succeeded.
    """
    http = None if _needs_script(probe) else Http(probe.path, port, tuple(probe.headers.items()))
    period = max(math.ceil(probe.interval), 1)
    timeout = max(math.ceil(probe.timeout), 1)
    start = math.ceil(_start_seconds(probe))
    interval = next(seconds for seconds in _START_INTERVALS if start % seconds == 0)
    yield Check("startupProbe", http, interval, timeout, start // interval + 1)  # the first at 0
    yield Check("readinessProbe", http, period, timeout, 2)
    if probe.failing is not None:
        failures = max(math.ceil(probe.failing / period), 1)
        yield Check("livenessProbe", http, period, timeout, failures)


def _start_seconds(probe: "Probe") -> float:
    return _START_SECONDS if probe.start is None else probe.start


def _needs_script(probe: "Probe") -> bool:
    """Return whether the kubelet cannot send the request: it POSTs, or needs a secret's value."""
    return probe.data is not None or _has_secret(probe)


def _has_secret(probe: "Probe") -> bool:
    return any(
        match[1] in probe.secrets
        for text in (*probe.headers.values(), probe.data or "")
        for match in _REFERENCE.finditer(text)
    )


def probe_script(service: "ServiceSpec") -> dict[str, str]:
    probe = service.probe
    if not _needs_script(probe):
        return {}

    headers = dict(probe.headers)
    if probe.data is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"

    path = quote(probe.path, safe="/?&=%+,:;@!$'()*~[]#-._")
    lines = [
        'case $POD_IP in *:*) host="[$POD_IP]" ;; *) host=$POD_IP ;; esac',
        f"url=http://$host:{service.port}{shlex.quote(path)}",
        f"timeout={max(math.ceil(probe.timeout), 1)}",
        f"method={'GET' if probe.data is None else 'POST'}",
        f"data={_quote(probe.data or '', probe)}",
        f"private={'yes' if probe.headers or _has_secret(probe) else ''}",
        f"set -- {' '.join(_quote(f'{name}: {text}', probe) for name, text in headers.items())}",
    ]
    return {_SCRIPT: "\n".join(lines) + "\n" + assets.read("runtime", _SCRIPT)}


def _quote(text: str, probe: "Probe") -> str:
    """Return the text as a shell word; the shell inserts the values of secrets."""
    words = []
    start = 0
    for match in _REFERENCE.finditer(text):
        if match[1] in probe.secrets:
            words += [shlex.quote(text[start : match.start()]), f'"${{{match[1]}-}}"']
            start = match.end()
    return "".join((*words, shlex.quote(text[start:])))
