"""Read a graph of Ray Serve deployments from the bytes of ray_graph.proto.

All problems of a graph are reported at once. Nothing here needs a cluster or Ray.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from keyword import iskeyword
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Struct

from kubectl_sky_server.ray import ray_graph_pb2 as proto

SCHEMA_VERSION = 1
MAX_BYTES = 1024 * 1024  # of a graph: a Kubernetes object has at most 1.5 MiB

_MAX_DEPLOYMENTS = 500
_MAX_EDGES = 5000
_MAX_APPLICATIONS = 100
_MAX_REPLICAS = 10_000
_MAX_REQUESTS = 1_000_000
_MAX_AMOUNT = 2.0**50  # of a resource; bytes of memory, too
_MAX_DELAY_SECONDS = 86_400.0
_MAX_CUSTOM = 20
_MAX_REVISION = 128  # characters
_MAX_PATH = 256  # characters of import paths and routes
_MAX_PROBLEMS = 50
_MAX_CYCLES = 10

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\Z")
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_ARGUMENT = re.compile(_IDENTIFIER + r"\Z")
_IMPORT_PATH = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*:{_IDENTIFIER}\Z")
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+"
_ROUTE = re.compile(rf"/(?:{_SEGMENT}(?:/{_SEGMENT})*)?\Z")
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")
_REVISION = re.compile(rf"[!-~]{{1,{_MAX_REVISION}}}\Z")
_RESERVED_RESOURCES = {"CPU", "GPU", "memory", "object_store_memory"}

Json = dict[str, Any]


class InvalidGraph(Exception):
    """The bytes are no valid graph; `reason` is that of the condition Parsed."""

    def __init__(self, reason: str, problems: Sequence[str]) -> None:
        shown = list(problems[:_MAX_PROBLEMS])
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more problems")
        super().__init__("; ".join(shown))
        self.reason = reason
        self.problems = tuple(problems)


class Autoscaling(Struct, frozen=True):
    """Bounds and targets of a deployment's autoscaler; None means Ray's default."""

    min_replicas: int
    max_replicas: int
    initial_replicas: int | None = None
    target_ongoing_requests: float | None = None
    upscale_delay_seconds: float | None = None
    downscale_delay_seconds: float | None = None


class Resources(Struct, frozen=True):
    """Resources of each replica; None means Ray's default. Memory is in bytes."""

    cpu: float | None = None
    gpu: float | None = None
    memory: int | None = None
    accelerator_type: str = ""
    custom: tuple[tuple[str, float], ...] = ()


class Deployment(Struct, frozen=True):
    """A node of the graph. `handles` maps keyword arguments to the names of the callees."""

    name: str
    import_path: str
    replicas: int | None
    autoscaling: Autoscaling | None
    resources: Resources
    max_ongoing_requests: int | None
    max_queued_requests: int | None
    user_config: Json
    arguments: Json
    handles: tuple[tuple[str, str], ...]


class Application(Struct, frozen=True):
    """An ingress with the deployments that it reaches, callees before their callers."""

    name: str
    route_prefix: str
    ingress: str
    runtime_env: Json
    deployments: tuple[Deployment, ...]


class Graph(Struct, frozen=True):
    """A valid graph: acyclic, and each deployment belongs to one application."""

    revision: str
    applications: tuple[Application, ...]


def parse(data: bytes) -> Graph:
    """Return the graph in these bytes. Raises InvalidGraph."""
    message = _decode(data)
    problems = [*_sizes(message)]
    if problems:
        raise InvalidGraph("InvalidGraph", problems)
    problems += _field_problems(message)
    problems += _edge_problems(message)
    order = _order(message, problems)
    members = _members(message, order)
    problems += _membership_problems(message, members)
    if problems:
        raise InvalidGraph("InvalidGraph", problems)
    return _graph(message, members)


def _decode(data: bytes) -> proto.RayGraph:
    if not data:
        raise InvalidGraph("InvalidProtobuf", ["the graph is empty"])
    if len(data) > MAX_BYTES:
        raise InvalidGraph("InvalidGraph", [f"the graph has more than {MAX_BYTES} bytes"])

    message = proto.RayGraph()
    try:
        message.ParseFromString(data)
    except DecodeError:
        why = f"{len(data)} bytes are not a complete RayGraph message"
        raise InvalidGraph("InvalidProtobuf", [why]) from None

    if message.schema_version != SCHEMA_VERSION:
        version = message.schema_version or "not set"
        supported = f"this controller supports {SCHEMA_VERSION}"
        raise InvalidGraph("UnsupportedVersion", [f"schema_version is {version}: {supported}"])
    unknown = list(_unknown_fields(message, "graph"))
    if unknown:
        raise InvalidGraph("UnknownFields", unknown)
    return message


def _unknown_fields(message: Message, path: str) -> Iterator[str]:
    """Yield the fields that the schema does not have, in all messages."""
    unknown = UnknownFieldSet(message)
    for index in range(len(unknown)):
        yield f"{path}: unknown field {unknown[index].field_number}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        values = value if field.is_repeated else [value]
        for index, item in enumerate(values):
            position = f"[{index}]" if field.is_repeated else ""
            yield from _unknown_fields(item, f"{path}.{field.name}{position}")


def _sizes(message: proto.RayGraph) -> Iterator[str]:
    limits = {
        "deployments": (len(message.deployments), _MAX_DEPLOYMENTS),
        "edges": (len(message.edges), _MAX_EDGES),
        "applications": (len(message.applications), _MAX_APPLICATIONS),
    }
    for name, (count, limit) in limits.items():
        if count > limit:
            yield f"{count} {name}: the limit is {limit}"
    if not message.applications:
        yield "no applications: nothing would be served"
    if not _REVISION.match(message.revision):
        yield f"revision must have 1 to {_MAX_REVISION} printable ASCII characters without spaces"


def _field_problems(message: proto.RayGraph) -> Iterator[str]:
    yield from _names("deployment", (item.name for item in message.deployments))
    yield from _names("application", (item.name for item in message.applications))
    for deployment in message.deployments:
        for problem in _deployment_problems(deployment):
            yield f"deployment {_quote(deployment.name)}: {problem}"
    for application in message.applications:
        for problem in _application_problems(application):
            yield f"application {_quote(application.name)}: {problem}"
    for route, count in Counter(item.route_prefix for item in message.applications).items():
        if count > 1:
            yield f"route {_quote(route)} is used by {count} applications"


def _names(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if not _NAME.match(name):
            rule = "1 to 63 letters, digits, '-' and '_', with a letter or digit at both ends"
            yield f"{what} {_quote(name)}: a name has {rule}"
        if count > 1:
            yield f"{what} {_quote(name)} is defined {count} times"


def _deployment_problems(deployment: proto.Deployment) -> Iterator[str]:
    if not _valid(_IMPORT_PATH, deployment.import_path):
        yield f'import_path {_quote(deployment.import_path)} is not like "package.module:Name"'
    if deployment.HasField("autoscaling"):
        yield from _autoscaling_problems(deployment.autoscaling)
        if deployment.HasField("replicas"):
            yield "replicas and autoscaling are both set"
    elif deployment.HasField("replicas"):
        yield from _between("replicas", deployment.replicas, 1, _MAX_REPLICAS)
    for name, least in (("max_ongoing_requests", 1), ("max_queued_requests", 0)):
        yield from _between(name, _optional(deployment, name), least, _MAX_REQUESTS)
    yield from _resource_problems(deployment.resources)
    yield from _json_problems("user_config_json", deployment.user_config_json)
    yield from _json_problems("arguments_json", deployment.arguments_json)


def _autoscaling_problems(scaling: proto.Autoscaling) -> Iterator[str]:
    low = _min_replicas(scaling)
    high = scaling.max_replicas
    yield from _between("autoscaling.max_replicas", high, 1, _MAX_REPLICAS)
    if low > high:
        yield f"autoscaling.min_replicas {low} is more than max_replicas {high}"
    initial = _optional(scaling, "initial_replicas")
    if initial is not None and low <= high:
        yield from _between("autoscaling.initial_replicas", initial, low, high)
    target = _optional(scaling, "target_ongoing_requests")
    if target is not None and not 0 < target <= _MAX_REQUESTS:
        yield f"autoscaling.target_ongoing_requests must be more than 0, at most {_MAX_REQUESTS}"
    for name in ("upscale_delay_seconds", "downscale_delay_seconds"):
        delay = _optional(scaling, name)
        yield from _between(f"autoscaling.{name}", delay, 0, _MAX_DELAY_SECONDS)


def _resource_problems(resources: proto.Resources) -> Iterator[str]:
    for name in ("cpu", "gpu", "memory_bytes"):
        yield from _between(f"resources.{name}", _optional(resources, name), 0, _MAX_AMOUNT)
    gpu = resources.gpu
    if gpu > 1 and math.isfinite(gpu) and gpu != int(gpu):
        yield "resources.gpu above 1 must be a whole number"
    if resources.accelerator_type and not _RESOURCE.match(resources.accelerator_type):
        yield f"resources.accelerator_type {_quote(resources.accelerator_type)} is not valid"
    yield from _custom_problems(resources.custom)


def _custom_problems(custom: Sequence[proto.CustomResource]) -> Iterator[str]:
    if len(custom) > _MAX_CUSTOM:
        yield f"{len(custom)} custom resources: the limit is {_MAX_CUSTOM}"
    for name, count in Counter(item.name for item in custom).items():
        if not _RESOURCE.match(name) or name in _RESERVED_RESOURCES:
            yield f"custom resource {_quote(name)} is not a valid name"
        if count > 1:
            yield f"custom resource {_quote(name)} is defined {count} times"
    for item in custom:
        yield from _between(f"custom resource {_quote(item.name)}", item.amount, 0, _MAX_AMOUNT)


def _application_problems(application: proto.Application) -> Iterator[str]:
    route = application.route_prefix
    if not _valid(_ROUTE, route):
        yield f'route_prefix {_quote(route)} is not like "/" or "/fruit/v1"'
    elif route == "/-" or route.startswith("/-/"):
        yield f"route_prefix {_quote(route)} is reserved by Ray Serve"
    yield from _json_problems("runtime_env_json", application.runtime_env_json)


def _edge_problems(message: proto.RayGraph) -> Iterator[str]:
    known = {deployment.name for deployment in message.deployments}
    arguments = {item.name: _object(item.arguments_json) or {} for item in message.deployments}

    for edge in message.edges:
        label = f"edge {_quote(edge.caller)} -> {_quote(edge.callee)}"
        for name in sorted({edge.caller, edge.callee} - known):
            yield f"{label}: deployment {_quote(name)} not found"
        if not _ARGUMENT.match(edge.argument) or iskeyword(edge.argument):
            yield f"{label}: argument {_quote(edge.argument)} is not a Python identifier"
        if edge.argument in arguments.get(edge.caller, ()):
            yield f"{label}: argument {_quote(edge.argument)} is also in arguments_json"

    targets: dict[tuple[str, str], list[str]] = {}
    for edge in message.edges:
        targets.setdefault((edge.caller, edge.argument), []).append(edge.callee)
    for (caller, argument), callees in targets.items():
        if len(callees) > 1:
            names = ", ".join(map(_quote, callees))
            yield f"deployment {_quote(caller)}: argument {_quote(argument)} has edges to {names}"


def _order(message: proto.RayGraph, problems: list[str]) -> list[str]:
    """Return the deployments, callees before callers; add a problem for each cycle."""
    callees = _callees(message)
    for _ in range(_MAX_CYCLES):
        try:
            return list(TopologicalSorter(callees).static_order())
        except CycleError as error:
            cycle = error.args[1]  # callees first
            problems.append("cycle: " + " -> ".join(map(_quote, reversed(cycle))))
            callees[cycle[1]] = [name for name in callees[cycle[1]] if name != cycle[0]]
    return list(callees)


def _callees(message: proto.RayGraph) -> dict[str, list[str]]:
    callees: dict[str, list[str]] = {item.name: [] for item in message.deployments}
    for edge in message.edges:
        if edge.caller in callees and edge.callee in callees:
            callees[edge.caller].append(edge.callee)
    return callees


def _members(message: proto.RayGraph, order: Sequence[str]) -> list[list[str]]:
    """Return the deployments that each application reaches, callees before callers."""
    callees = _callees(message)
    members = []
    for application in message.applications:
        reached: set[str] = set()
        pending = [application.ingress]
        while pending:
            name = pending.pop()
            if name in callees and name not in reached:
                reached.add(name)
                pending += callees[name]
        members.append([name for name in order if name in reached])
    return members


def _membership_problems(
    message: proto.RayGraph, members: Sequence[Sequence[str]]
) -> Iterator[str]:
    owners: dict[str, list[str]] = {item.name: [] for item in message.deployments}
    for application, names in zip(message.applications, members, strict=True):
        if application.ingress not in owners:
            name = _quote(application.name)
            yield f"application {name}: ingress {_quote(application.ingress)} not found"
        for name in names:
            owners[name].append(application.name)
    for name, applications in owners.items():
        if not applications:
            yield f"deployment {_quote(name)} is not reachable from the ingress of an application"
        elif len(applications) > 1:
            listed = ", ".join(map(_quote, applications[:10]))
            yield f"deployment {_quote(name)} belongs to several applications: {listed}"


def _graph(message: proto.RayGraph, members: Sequence[Sequence[str]]) -> Graph:
    handles: dict[str, list[tuple[str, str]]] = {}
    for edge in message.edges:
        handles.setdefault(edge.caller, []).append((edge.argument, edge.callee))

    deployments = {
        item.name: _deployment(item, tuple(sorted(handles.get(item.name, ()))))
        for item in message.deployments
    }

    return Graph(
        message.revision,
        tuple(
            Application(
                item.name,
                item.route_prefix,
                item.ingress,
                _object(item.runtime_env_json) or {},
                tuple(deployments[name] for name in names),
            )
            for item, names in zip(message.applications, members, strict=True)
        ),
    )


def _deployment(item: proto.Deployment, handles: tuple[tuple[str, str], ...]) -> Deployment:
    autoscaling = _autoscaling(item.autoscaling) if item.HasField("autoscaling") else None
    return Deployment(
        item.name,
        item.import_path,
        _optional(item, "replicas"),
        autoscaling,
        Resources(
            _optional(item.resources, "cpu"),
            _optional(item.resources, "gpu"),
            _optional(item.resources, "memory_bytes"),
            item.resources.accelerator_type,
            tuple(sorted((custom.name, custom.amount) for custom in item.resources.custom)),
        ),
        _optional(item, "max_ongoing_requests"),
        _optional(item, "max_queued_requests"),
        _object(item.user_config_json) or {},
        _object(item.arguments_json) or {},
        handles,
    )


def _min_replicas(scaling: proto.Autoscaling) -> int:
    return scaling.min_replicas if scaling.HasField("min_replicas") else 1


def _autoscaling(item: proto.Autoscaling) -> Autoscaling:
    return Autoscaling(
        _min_replicas(item),
        item.max_replicas,
        _optional(item, "initial_replicas"),
        _optional(item, "target_ongoing_requests"),
        _optional(item, "upscale_delay_seconds"),
        _optional(item, "downscale_delay_seconds"),
    )


def _optional(message: Message, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _between(name: str, value: float | None, least: float, most: float) -> Iterator[str]:
    if value is not None and not least <= value <= most:  # neither is NaN
        yield f"{name} must be between {least:g} and {most:g}"


def _valid(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _MAX_PATH and bool(pattern.match(text))


def _json_problems(field: str, text: str) -> Iterator[str]:
    if text and _object(text) is None:
        yield f"{field} is not a JSON object"


def _object(text: str) -> Json | None:
    """Return a JSON object, empty for an empty text; None if it is anything else."""
    if not text:
        return {}
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # not a lone surrogate
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _quote(text: str) -> str:
    """Quote a name of the graph, shortened and without control characters."""
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return json.dumps(shown)
