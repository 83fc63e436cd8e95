"""The sections `service` and `pool`: their rules, the service, and what `serve` cannot do."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from kubectl_sky.errors import Problem
from kubectl_sky.spec import resource_fields, variables
from kubectl_sky.spec.document import Data, Document, Path, entries
from kubectl_sky.spec.kubernetes import POD_CONFIG
from kubectl_sky.spec.lifecycle import is_deleted_when_finished
from kubectl_sky.spec.schema import describe
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.spec.volumes import LOGS
from kubectl_sky.words.secret import Secret

_HEADER = re.compile(r"[-A-Za-z0-9]+")
_POLICY: Path = ("service", "replica_policy")
_PROBE: Path = ("service", "readiness_probe")
QPS: Path = (*_POLICY, "target_qps_per_replica")
_TIMES = (
    (*_PROBE, "initial_delay_seconds"),
    (*_PROBE, "timeout_seconds"),
    (*_PROBE, "endpoint_probe_interval_seconds"),
    (*_PROBE, "consecutive_failure_threshold_timeout"),
    (*_POLICY, "upscale_delay_seconds"),
    (*_POLICY, "downscale_delay_seconds"),
)
_COUNTS = (("service", "replicas"), (*_POLICY, "min_replicas"), (*_POLICY, "max_replicas"))
_RANGES: tuple[tuple[Path, float, float], ...] = (
    *((path, 0, 10_000) for path in _COUNTS),
    *((path, 0, 1_000_000) for path in _TIMES),  # seconds
    (QPS, 0.001, 1_000_000),
)
_SCALING = (  # fields of a pool that only apply if it scales
    "min_workers",
    "queue_length_threshold",
    "upscale_delay_seconds",
    "downscale_delay_seconds",
)
_PER_GPU = "instance_aware_least_load"


class Flags(Struct, frozen=True):
    """The flags of `serve` that are no fields of SkyPilot's language.

    `cpu_target` is in percent of the requested CPUs. `qps_metric` is a metric of the pods. A `new`
    service without a name gets one.
    """

    replicas: int | None = None
    qps_metric: str | None = None
    cpu_target: int | None = None
    backend: str = "service"
    new: bool = True


class Probe(Struct, frozen=True):
    """The request that tells whether a replica is ready; times are in seconds, None if not set."""

    path: str = "/"
    headers: Mapping[str, str] = {}
    data: str | None = None  # to post
    secrets: frozenset[str] = frozenset()  # variables with secret values in the headers and data
    start: float | None = None  # how long a replica may take to start
    timeout: float = 15  # SkyPilot's default
    interval: float = 10  # SkyPilot's default
    failing: float | None = None  # how long it may fail later


class Ingress(Struct, frozen=True):
    """TLS in front of a service: the class of the Ingress, its host and its Secret.

    The host is empty for all hosts. The Secret is empty if `certificate` has its data.
    """

    class_name: str
    host: str
    secret: str = ""
    certificate: Mapping[str, Secret] = {}


class ServiceSpec(Struct, frozen=True):
    """A service: its port, its probe and its number of replicas.

    The replicas are scaled by the CPU usage of the flags, or by queries per second.
    """

    port: int
    probe: Probe = field(default_factory=Probe)
    fewest: int = 1
    most: int = 1  # replicas are scaled if it is more than `fewest`
    qps: float | None = None  # queries per second of one replica
    qps_metric: str = ""  # which counts them
    up_delay: float | None = None  # seconds; None is the cluster's default
    down_delay: float | None = None  # seconds; None is the cluster's default
    flags: Flags = field(default_factory=Flags)
    ingress: Ingress | None = None


def service_of(document: Document, flags: Flags, metric: str) -> ServiceSpec:
    """Return the service of a valid document; `metric` counts requests if no flag names another."""
    filled = Filled(document).document
    data = filled.data["service"]
    listed = (values.get("ports") for _, values in filled.resources.maps)
    numbers = [number for value in listed for number in resource_fields.port_numbers(value)]
    policy = data.get("replica_policy") or {}
    fewest, most = _bounds(data, flags)

    return ServiceSpec(
        port=data.get("ports") or numbers[0],
        probe=_probe(data.get("readiness_probe"), variables.secret_names(document)),
        fewest=fewest,
        most=most,
        qps=policy.get("target_qps_per_replica"),
        qps_metric=flags.qps_metric or metric,
        up_delay=policy.get("upscale_delay_seconds"),
        down_delay=policy.get("downscale_delay_seconds"),
        flags=flags,
    )


def _bounds(data: dict[str, Any], flags: Flags) -> tuple[int, int]:
    policy = data.get("replica_policy") or {}
    numbers = (data.get("replicas"), policy.get("min_replicas"))
    fewest = max(next((number for number in numbers if number is not None), 1), 1)
    most = max(policy.get("max_replicas") or fewest, fewest)
    return (fewest, most) if flags.replicas is None else (flags.replicas, flags.replicas)


def find_without_ingress(
    document: Document, flags: Flags, ingress: Mapping[str, str]
) -> Iterator[Problem]:
    """Refuse a certificate that no Ingress uses: the replicas serve without TLS."""
    path: Path = ("service", "tls")
    if document.get(*path) is None:
        return
    if flags.backend != Flags().backend:
        yield document.problem(path, "not supported by this backend", "remove it")
    elif not ingress.get("class"):
        yield document.problem(
            path,
            "the replicas serve without TLS, and no class of an Ingress is set",
            "run `kubectl sky config set ingress.class nginx`, or remove it and terminate TLS at"
            " an Ingress or Gateway of your own",
        )


def _probe(value: Data, secrets: frozenset[str]) -> Probe:
    if not isinstance(value, dict):
        return Probe(path=value or "/")

    data = value.get("post_data")
    if data is not None and not isinstance(data, str):
        data = json.dumps(data)

    times = {
        "start": value.get("initial_delay_seconds"),
        "timeout": value.get("timeout_seconds"),
        "interval": value.get("endpoint_probe_interval_seconds"),
        "failing": value.get("consecutive_failure_threshold_timeout"),
    }

    return Probe(
        path=value["path"],
        headers=value.get("headers") or {},
        data=data,
        secrets=secrets,
        **{name: seconds for name, seconds in times.items() if seconds is not None},
    )


Undone = tuple[Path, str, str, bool]  # a path, the reason, what to do, and whether it is refused


def undone(filled: Filled) -> Iterator[Undone]:
    """Yield what `serve` cannot do of a service, in addition to schemas/unsupported.yaml."""
    document = filled.document
    if not isinstance(document.get("service"), dict):
        return

    yield from _ports(document)
    yield from _replicas(document)
    yield from _amounts(document)
    yield from _secrets(filled)
    yield from _ends(document)
    yield from _replica(document)

    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict) and value.get("size") is not None:
            reason = "the volume would be deleted with the version of the service"
            instead = "create it by kubectl sky volumes create, and name it"
            yield ("volumes", path), reason, instead, True

    for name, text in entries(document.get(*_PROBE, "headers")):
        if not str(text).isprintable():
            yield (*_PROBE, "headers", name), "contains a control character", "remove it", True
        if not _HEADER.fullmatch(str(name)):
            reason = "invalid header name"
            instead = "use letters, digits and -"
            yield (*_PROBE, "headers", name), reason, instead, True


def _replica(document: Document) -> Iterator[Undone]:
    nodes = document.get("num_nodes")
    if isinstance(nodes, int) and nodes > 1:
        reason = "a replica of a Deployment is one pod"
        yield ("num_nodes",), reason, "serve from one node, or --as-task runs one replica", True
    if document.get(*LOGS) is not None:
        yield LOGS, "all replicas would write the same file", "remove it", True


def _ports(document: Document) -> Iterator[Undone]:
    if document.get("service", "ports") is not None:
        return

    sections = [
        (path, values)
        for path, values in document.resources.maps
        if values.get("ports") is not None
    ]
    if not sections:
        reason = "a service without a port"
        yield ("resources", "ports"), reason, "set it, such as 8080", True

    for path, values in sections:
        try:
            several = len(resource_fields.port_numbers(values["ports"])) > 1
        except ValueError:
            several = False  # reported as an error
        if several:
            reason = "several ports, and one of them serves"
            yield (*path, "ports"), reason, "set service.ports to that one", True


def _ends(document: Document) -> Iterator[Undone]:
    """Yield the fields that say when a task ends or restarts; a service does not end."""
    for path, values in document.resources.maps:
        if values.get("job_recovery") is not None:
            yield (*path, "job_recovery"), "a Deployment always restarts its replicas", "", False
        if is_deleted_when_finished(values.get("autostop")):
            instead = "use kubectl sky serve down"
            yield (*path, "autostop"), "a service runs until it is deleted", instead, False
    if document.get("max_duration") is not None:
        yield ("max_duration",), "a service runs until it is deleted", "", False
    for name in ("hold_on_failure", "on_hang"):
        path = ("config", "kubectl_sky", name)
        if document.get(*path) is not None:
            yield path, "a Deployment always restarts its replicas", "leave it out", True
    path = (*POD_CONFIG, "spec", "activeDeadlineSeconds")
    if document.get(*path) is not None:
        yield path, "the pods of a Deployment have no deadline", "leave it out", True


def _replicas(document: Document) -> Iterator[Undone]:
    replicas = document.get("service", "replicas")
    path: Path = (*_POLICY, "min_replicas")
    if 0 in (document.get(*path), replicas):
        path = path if document.get(*path) == 0 else ("service", "replicas")
        yield path, "no request can start a replica, so one runs always", "", False
    if isinstance(document.get(*QPS), dict):
        reason = "all replicas of a Deployment scale alike"
        yield QPS, reason, "write one number", True


def _amounts(document: Document) -> Iterator[Undone]:
    """Yield numbers that are out of range; NaN is in no range."""
    for path, low, high in _RANGES:
        value = document.get(*path)
        if isinstance(value, int | float) and not low <= value <= high:
            yield path, describe(value), f"use a number from {low:,} to {high:,}", True


def _secrets(filled: Filled) -> Iterator[Undone]:
    """Yield the fields that would show a secret; the probe's script reads it from a variable."""
    hidden = ((*_PROBE, "headers"), (*_PROBE, "post_data"))
    for path in filled.secret:
        if path[:1] == ("service",) and path[:3] not in hidden:
            reason = "the manifests would show a secret's value"
            yield path, reason, "use it in headers or post_data", True


def _exclusive(document: Document) -> Iterator[Problem]:
    pairs = (
        (("service",), ("pool",)),
        (("service", "replicas"), ("service", "replica_policy")),
        (("service", "replicas"), ("service", "workers")),
        (("service", "replicas"), ("service", "pool")),
    )
    for first, second in pairs:
        if document.get(*first) is not None and document.get(*second) is not None:
            message = f"excludes {first[-1]}"
            yield document.problem(second, message, "keep one of them", key=True)


def _probe_path(document: Document) -> Iterator[Problem]:
    path = _PROBE
    probe = document.get(*_PROBE)
    if isinstance(probe, dict):
        data = probe.get("post_data")
        path = (*path, "path")
        probe = probe.get("path")
        try:
            json.loads(data if isinstance(data, str) else "0")
        except (ValueError, RecursionError):
            message = "expected JSON, or fields in place of text"
            yield document.problem((*_PROBE, "post_data"), message)
    if isinstance(probe, str) and not probe.startswith("/"):
        yield document.problem(path, "expected a path that begins with /")


def _policy(document: Document) -> Iterator[Problem]:
    policy = document.get(*_POLICY)
    if not isinstance(policy, dict):
        return

    min_replicas = policy.get("min_replicas")
    max_replicas = policy.get("max_replicas")
    qps = policy.get("target_qps_per_replica")

    if max_replicas is None:
        if qps is not None:
            yield document.problem(QPS, "requires max_replicas")
        return
    if not isinstance(min_replicas, int) or not isinstance(max_replicas, int):
        return

    if max_replicas < min_replicas:
        yield document.problem(
            (*_POLICY, "max_replicas"), f"is less than min_replicas, {min_replicas}"
        )
    elif max_replicas != min_replicas and qps is None:
        hint = "set it, and --cpu-target to scale by CPU usage instead; or make both equal"
        message = "differs from min_replicas, which needs target_qps_per_replica"
        yield document.problem((*_POLICY, "max_replicas"), message, hint)


def _balancing(document: Document) -> Iterator[Problem]:
    qps = document.get(*QPS)
    is_instance_aware = document.get("service", "load_balancing_policy") == _PER_GPU
    if isinstance(qps, dict) and not is_instance_aware:
        yield document.problem(QPS, f"one number a GPU needs load_balancing_policy: {_PER_GPU}")
    if is_instance_aware and not isinstance(qps, dict):
        path: Path = ("service", "load_balancing_policy")
        message = "needs target_qps_per_replica with one number a GPU"
        yield document.problem(path, message, "such as {H100: 5}")


def _tls(document: Document) -> Iterator[Problem]:
    path: Path = ("service", "tls")
    tls = document.get(*path)
    if isinstance(tls, dict) and {*tls} not in ({"secret"}, {"keyfile", "certfile"}):
        yield document.problem(path, "expected {keyfile: …, certfile: …}, or {secret: …}")


def _pools(document: Document) -> Iterator[Problem]:
    for path in (("pool",), ("service", "pool")):
        pool = document.get(*path)
        if isinstance(pool, dict):
            for message in _wrong_pool(pool, document.get("service", "workers")):
                yield document.problem(path, message)


def _wrong_pool(pool: dict[Data, Data], workers: Data) -> Iterator[str]:
    min_workers = pool.get("min_workers")
    max_workers = pool.get("max_workers")
    if (
        min_workers is None
        and max_workers is None
        and pool.get("workers") is None
        and workers is None
    ):
        yield "expected workers, or min_workers and max_workers"
    for name in _SCALING:
        if pool.get(name) is not None and max_workers is None:
            yield f"{name} needs max_workers"
    if isinstance(min_workers, int) and isinstance(max_workers, int) and min_workers > max_workers:
        yield f"max_workers {max_workers} is less than min_workers {min_workers}"


RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (
    _exclusive,
    _probe_path,
    _policy,
    _balancing,
    _tls,
    _pools,
)
