"""The `service` section of a task: what `kubectl sky serve` runs, and what it cannot do."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubectl_sky.spec import resource_fields, variables
from kubectl_sky.spec.document import Data, Document, Path, entries
from kubectl_sky.spec.kubernetes import POD_CONFIG
from kubectl_sky.spec.lifecycle import is_deleted_when_finished
from kubectl_sky.spec.schema import described
from kubectl_sky.spec.substitute import Filled

REPLICA = "SKYPILOT_SERVE_REPLICA_ID"  # in SkyPilot a number from 1
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_POLICY: Path = ("service", "replica_policy")
_PROBE: Path = ("service", "readiness_probe")
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
    ((*_POLICY, "target_qps_per_replica"), 0.001, 1_000_000),
)


@dataclass(frozen=True)
class Flags:
    """The flags of `serve` that are no fields of SkyPilot's language.

    `cpu_target` is in percent of the requested CPUs. `qps_metric` is a metric of the pods.
    """

    replicas: int | None = None
    qps_metric: str | None = None
    cpu_target: int | None = None
    backend: str = "service"


@dataclass(frozen=True)
class Probe:
    """The request that tells whether a replica is ready; times are in seconds.

    `data` is posted if it is set. `secrets` are the variables with secret values in the headers and
    the data. `start` is how long a replica may take to start, `failing` how long it may fail
    later. A time that is None is not set.
    """

    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    secrets: frozenset[str] = frozenset()
    start: float | None = None
    timeout: float = 15  # SkyPilot's default
    interval: float = 10  # SkyPilot's default
    failing: float | None = None


@dataclass(frozen=True)
class Service:
    """A service: its port, its probe and its number of replicas.

    The replicas are scaled if `most` is more than `fewest`, by `qps`, the queries per second of one
    replica, or by the flags. The delays are in seconds; None is the cluster's default.
    """

    port: int
    probe: Probe = field(default_factory=Probe)
    fewest: int = 1
    most: int = 1
    qps: float | None = None
    up_delay: float | None = None
    down_delay: float | None = None
    flags: Flags = field(default_factory=Flags)


def service_of(document: Document, flags: Flags) -> Service:
    """Return the service of a document without errors."""
    filled = Filled(document).document
    data = filled.data["service"]
    listed = (values.get("ports") for _, values in filled.resources.maps)
    numbers = [number for value in listed for number in resource_fields.port_numbers(value)]
    policy = data.get("replica_policy") or {}
    fewest = max(_number(data.get("replicas"), policy.get("min_replicas")), 1)
    most = max(policy.get("max_replicas") or fewest, fewest)
    if flags.replicas is not None:
        fewest = most = flags.replicas
    return Service(
        port=data.get("ports") or numbers[0],
        probe=_probe(data.get("readiness_probe"), variables.secret_names(document)),
        fewest=fewest,
        most=most,
        qps=policy.get("target_qps_per_replica"),
        up_delay=policy.get("upscale_delay_seconds"),
        down_delay=policy.get("downscale_delay_seconds"),
        flags=flags,
    )


def _number(*values: int | None) -> int:
    return next((value for value in values if value is not None), 1)


def _probe(value: Data, secrets: frozenset[str]) -> Probe:
    if not isinstance(value, dict):
        return Probe(path=value or "/")
    data = value.get("post_data")
    times = {
        "start": value.get("initial_delay_seconds"),
        "timeout": value.get("timeout_seconds"),
        "interval": value.get("endpoint_probe_interval_seconds"),
        "failing": value.get("consecutive_failure_threshold_timeout"),
    }
    return Probe(
        path=value["path"],
        headers=value.get("headers") or {},
        data=data if data is None or isinstance(data, str) else json.dumps(data),
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
    nodes = document.get("num_nodes")
    if isinstance(nodes, int) and nodes > 1:
        reason = "a replica of a Deployment is one pod"
        yield ("num_nodes",), reason, "serve from one node, or --as-task runs one replica", True
    for path, value in entries(document.get("volumes")):
        if isinstance(value, dict) and value.get("size") is not None:
            reason = "the volume would be deleted with the version of the service"
            instead = "create it by kubectl sky volumes create, and name it"
            yield ("volumes", path), reason, instead, True
    for name, text in entries(document.get(*_PROBE, "headers")):
        if not str(text).isprintable():
            yield (*_PROBE, "headers", name), "contains a control character", "remove it", True
        if not _HEADER.fullmatch(str(name)):
            yield (
                (*_PROBE, "headers", name),
                "invalid header name",
                "use letters, digits and -",
                True,
            )


def _ports(document: Document) -> Iterator[Undone]:
    if document.get("service", "ports") is not None:
        return
    sections = [
        (path, values)
        for path, values in document.resources.maps
        if values.get("ports") is not None
    ]
    if not sections:
        reason = "no port to serve on"
        yield ("resources", "ports"), reason, "such as 8080", True
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
    path = (*POD_CONFIG, "spec", "activeDeadlineSeconds")
    if document.get(*path) is not None:
        yield path, "the pods of a Deployment have no deadline", "leave it out", True


def _replicas(document: Document) -> Iterator[Undone]:
    replicas = document.get("service", "replicas")
    path: Path = (*_POLICY, "min_replicas")
    if 0 in (document.get(*path), replicas):
        path = path if document.get(*path) == 0 else ("service", "replicas")
        yield path, "no request can start a replica, so one runs always", "", False
    if isinstance(document.get(*_POLICY, "target_qps_per_replica"), dict):
        reason = "all replicas of a Deployment scale alike"
        yield (*_POLICY, "target_qps_per_replica"), reason, "write one number", True


def _amounts(document: Document) -> Iterator[Undone]:
    """Yield numbers that are out of range; NaN is in no range."""
    for path, low, high in _RANGES:
        value = document.get(*path)
        if isinstance(value, int | float) and not low <= value <= high:
            yield path, described(value), f"use a number from {low:,} to {high:,}", True


def _secrets(filled: Filled) -> Iterator[Undone]:
    """Yield the fields that would show a secret; the probe's script reads it from a variable."""
    hidden = ((*_PROBE, "headers"), (*_PROBE, "post_data"))
    for path in filled.secret:
        if path[:1] == ("service",) and path[:3] not in hidden:
            reason = "the manifests would show a secret's value"
            yield path, reason, "use it in headers or post_data", True
