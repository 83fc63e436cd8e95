"""An API server in memory, below `Session.open`: for fast tests of what happens when.

Paths, JSON, retries, streams and errors are the real ones. There are no controllers: a test starts
and finishes Jobs, and runs something before or after the n-th request of a kind. Requests are named
as in RBAC: `create jobs`, `get pods/log`, or with the object: `create jobs hello-x1`.
"""

import dataclasses
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http import HTTPStatus
from itertools import count
from time import time
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import urllib3
from msgspec.structs import replace
from urllib3.exceptions import ProtocolError

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.client import Client
from kubectl_sky.cluster.connection import Connection, Target
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.transport import Reply, Request
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import Kind, kind_of
from kubectl_sky_practice import patches, problems, selection
from kubectl_sky_practice.problems import Problem

Json = dict[str, Any]
Action = Callable[[], object]  # an int that it returns is the status of the answer

_SERVER = "https://fake.example"
_PATH = re.compile(
    r"(?P<api>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_EVERYWHERE = frozenset(
    {
        kinds.CONFIG_MAP,
        kinds.EVENT,
        kinds.JOB,
        kinds.LEASE,
        kinds.LIMIT_RANGE,
        kinds.NAMESPACE,
        kinds.NODE,
        kinds.POD,
        kinds.PVC,
        kinds.RESOURCE_QUOTA,
        kinds.SECRET,
        kinds.SELF_SUBJECT_ACCESS_REVIEW,
        kinds.SELF_SUBJECT_REVIEW,
        kinds.SERVICE,
        kinds.STORAGE_CLASS,
    }
)
_NAMESPACES = ("default", "team", "other")  # that exist
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def lost() -> None:
    """Lose the connection: before a request it has no effect, after it only the answer is lost."""
    raise ProtocolError("Connection aborted.", ConnectionResetError(104, "Connection reset"))


def interrupt() -> None:
    """Press Ctrl-C."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def interrupt_soon() -> None:
    """Press Ctrl-C when all threads have started and wait."""
    threading.Timer(0.7, interrupt).start()


@dataclass(frozen=True)
class _Call:
    """A request, parsed."""

    verb: str
    path: str
    kind: Kind
    namespace: str
    name: str
    sub: str
    query: dict[str, str]
    body: Json
    metadata_only: bool
    user: str = ""

    def __str__(self) -> str:
        resource = f"{self.kind.plural}/{self.sub}" if self.sub else self.kind.plural
        dry = " (dry run)" if self.query.get("dryRun") == "All" else ""
        name = self.name or self.body.get("metadata", {}).get("name", "")
        return f"{self.verb} {resource} {name}".rstrip() + dry


@dataclass
class _Hook:
    request: str
    remaining: int
    action: Action
    late: bool


class _Client:
    def __init__(self, cluster: "FakeCluster") -> None:
        self._cluster = cluster

    def send(self, request: Request) -> Reply:
        return self._cluster.answer(request)


class _Session(Session):
    def __init__(self, cluster: "FakeCluster", connection: Connection) -> None:
        client = cast(Client, _Client(cluster))
        authorization = f"Bearer {connection.token}" if connection.token else ""
        target = Target(
            _SERVER, "fake", connection.namespace or cluster.namespace, authorization, client
        )
        super().__init__(connection, target)

    def close(self) -> None:
        """It has no connections."""


class FakeCluster:
    """Objects, watches and logs in memory; `requests` has the received requests, in order."""

    def __init__(self, namespace: str = "default") -> None:
        self.namespace = namespace
        self.user = "alice"
        self.ready = True
        self.tokens: dict[str, str] = {}  # users by token; a request with another one is refused
        self.requests: list[str] = []
        self.connections: list[Connection] = []  # of the clients, in order
        self.sent: list[Request] = []  # the same requests, as they came
        self.forbidden: set[str] = set()  # such as "create pods", or "bob: create pods"
        self.kinds = set(_EVERYWHERE)
        self.sends_initial_events = True  # whether a watch can start with the existing objects
        self.ahead = timedelta()  # of this cluster's clock to ours
        self.stays: dict[str, int] = {}  # grace periods of pods that do not end when deleted
        self.alter: Callable[[str, Json], Any] = lambda request, body: body  # each JSON answer

        self._silent: set[str] = set()  # cluster nodes whose kubelets do not respond
        self._foreground: set[str] = set()  # uids of objects whose dependents go first
        self._hooks: list[_Hook] = []
        self._changed = threading.Condition(threading.RLock())
        self._objects: dict[str, Json] = {}  # by path
        self._applied: dict[tuple[str, str], Json] = {}  # by path and field manager
        self._events: list[tuple[str, str, Json]] = []  # type, path, object
        self._logs: dict[str, list[tuple[str, bytes]]] = {}  # by stream: time and line
        self._streams: list[_Stream] = []
        self._numbers = count(1)

    def session(self, connection: Connection | None = None) -> Session:
        """Return a new client."""
        self.connections.append(connection or Connection())
        return _Session(self, connection or Connection())

    def before(self, request: str, action: Action, nth: int = 1) -> None:
        """Run something before the n-th such request; a status that it returns is the answer."""
        self._hooks.append(_Hook(request, nth, action, late=False))

    def after(self, request: str, action: Action, nth: int = 1) -> None:
        """Run something when the n-th such request has taken effect, before it is answered."""
        self._hooks.append(_Hook(request, nth, action, late=True))

    def count(self, request: str) -> int:
        """Return how many requests of this name were sent."""
        return sum(_matches(text, request) for text in self.requests)

    @property
    def writes(self) -> list[str]:
        """The requests that change something."""
        verbs = {f"{verb} " for verb in _VERBS.values()}
        return [
            text
            for text in self.requests
            if any(map(text.startswith, verbs)) and "selfsubject" not in text
        ]

    @property
    def changes(self) -> list[str]:
        """The requests that change something, and are no dry run."""
        return [text for text in self.writes if "(dry run)" not in text]

    # What controllers, the kubelet and other users do.

    def names(self) -> list[str]:
        """Return the existing objects: `configmaps hello-x1`."""
        with self._changed:
            return sorted(" ".join(path.split("/")[-2:]) for path in self._objects)

    def get(self, kind: Kind, name: str) -> Json:
        """Return an object; KeyError if it does not exist."""
        with self._changed:
            return _copy(self._objects[objects.path(kind, self.namespace, name)])

    def put(self, item: Json) -> Json:
        """Create or replace an object, and return it."""
        kind = kind_of(item)
        assert kind
        metadata = item["metadata"] | {"namespace": self.namespace}
        path = objects.path(kind, self.namespace, metadata["name"])
        with self._changed:
            return self._store(path, item | {"metadata": metadata})

    def change(self, kind: Kind, name: str, **fields: Any) -> None:
        """Change top-level fields of an object."""
        self.put(self.get(kind, name) | fields)

    def remove(self, kind: Kind, name: str) -> None:
        """Delete an object and its dependents."""
        with self._changed:
            self._remove(objects.path(kind, self.namespace, name))

    def end(self, pod: str) -> None:
        """Let a deleted pod that stays end."""
        del self.stays[pod]
        self.remove(kinds.POD, pod)

    def start(self, job: str, node: str = "") -> str:
        """Let a Job create its next pod, which runs at once; return the name of the pod."""
        owner = self.get(kinds.JOB, job)
        pods = self._pods(job)
        name = f"{job}-{len(pods)}"
        reference = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        reference |= {"name": job, "uid": owner["metadata"]["uid"]}
        template = _copy(owner["spec"]["template"])
        template["metadata"] |= {"name": name, "ownerReferences": [reference]}
        running = {"name": "main", "state": {"running": {"startedAt": self._now()}}}
        status = {"phase": "Running", "containerStatuses": [running]}
        template["spec"] |= {"nodeName": node} if node else {}
        self.put({"apiVersion": "v1", "kind": "Pod", **template, "status": status})
        self.change(kinds.JOB, job, status={"active": 1, "ready": 1, "failed": len(pods)})
        return name

    def finish(
        self, job: str, exit_code: int = 0, *, final: bool = True, message: str = ""
    ) -> None:
        """Let the newest pod of a Job exit; the Job completes or fails if that is `final`."""
        pod = self._pods(job)[-1]
        reason = "Error" if exit_code else "Completed"
        before = self.get(kinds.POD, pod)["status"].get("containerStatuses") or [{}]
        running = before[0].get("state", {}).get("running", {})
        started = running.get("startedAt", self._now())
        end = {"exitCode": exit_code, "reason": reason, "finishedAt": self._now()}
        end |= {"startedAt": started}
        end |= {"message": message} if message else {}
        main = {"name": "main", "state": {"terminated": end}}
        phase = "Failed" if exit_code else "Succeeded"
        self.change(kinds.POD, pod, status={"phase": phase, "containerStatuses": [main]})

        if final:
            condition = {
                "type": "Failed" if exit_code else "Complete",
                "status": "True",
                "reason": "BackoffLimitExceeded" if exit_code else "CompletionsReached",
                "lastTransitionTime": self._now(),
            }
            self.change(kinds.JOB, job, status={"conditions": [condition]})

    def saved(self) -> dict[str, Json]:
        """Return all objects, by path."""
        with self._changed:
            return _copy(self._objects)

    def restore(self, objects_by_path: dict[str, Json]) -> None:
        """Let these be all objects, without events for it."""
        with self._changed:
            self._objects = _copy(objects_by_path)

    def log(self, pod: str, text: bytes, container: str = "main") -> None:
        """Let a container of a pod write lines."""
        stream = names.log_stream(pod, container)
        with self._changed:
            for line in text.splitlines(keepends=True):
                stamp = f"2026-01-01T00:00:00.{next(self._numbers):09}Z"
                self._logs.setdefault(stream, []).append((stamp, line))
            self._changed.notify_all()

    def rotate(self, pod: str) -> None:
        """Drop the lines that a pod has written."""
        with self._changed:
            self._logs[names.log_stream(pod)] = []

    def break_streams(self) -> None:
        """Lose the connection of every open watch and log."""
        with self._changed:
            for stream in self._streams:
                stream.broken = True
            self._changed.notify_all()

    def stop_kubelet(self, node: str) -> None:
        """Let the kubelet of a cluster node not respond; its open logs are lost."""
        with self._changed:
            self._silent.add(node)
            for stream in self._streams:
                stream.broken = stream.broken or stream.node == node
            self._changed.notify_all()

    def start_kubelet(self, node: str) -> None:
        self._silent.discard(node)

    def _node_of(self, call: _Call) -> str:
        """Return the cluster node of a pod. Raises the Problem of one that does not respond."""
        with self._changed:
            path = call.path.removesuffix(f"/{call.sub}")
            pod = self._existing(dataclasses.replace(call, path=path))
        node = str(pod["spec"].get("nodeName") or "")
        if node not in self._silent:
            return node
        failure = "dial tcp 10.250.0.13:10250: i/o timeout"
        url = f"https://10.250.0.13:10250/containerLogs/{call.namespace}/{call.name}/main"
        cause = f'Get "{url}?follow=true"' if call.sub == "log" else "error dialing backend"
        raise Problem(500, "", f"{cause}: {failure}")

    def _pods(self, job: str) -> list[str]:
        with self._changed:
            pods = [item for item in self._objects.values() if item["kind"] == "Pod"]
        owned = [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["name"] == job]
        return [pod["metadata"]["name"] for pod in owned]

    # The API

    def answer(self, request: Request) -> Reply:
        name, reply = self._answered(request)
        reply.headers["Date"] = formatdate(time() + self.ahead.total_seconds(), usegmt=True)
        if reply.stream or reply.status >= 300:
            return reply
        body = self.alter(name, json.loads(reply.data))
        return replace(reply, data=json.dumps(body).encode())

    def _now(self) -> str:
        return _stamp(datetime.fromisoformat(_now()) + self.ahead)

    def _answered(self, request: Request) -> tuple[str, Reply]:
        self.sent.append(request)
        url = urlsplit(request.url)
        match = _PATH.fullmatch(url.path)

        if url.path == "/readyz":
            code = 200 if self.ready else 500
            return "", _reply(code, {})

        if url.path == "/version":
            return "", _reply(200, {"gitVersion": "v1.36.0"})
        if url.path.startswith("/apis") and (not match or url.path.count("/") < 4):
            self.requests.append(f"get {url.path}")
            return self.requests[-1], self._discovery(url.path)

        try:
            call = self._parsed(url.path, dict(parse_qsl(url.query)), request, match)
            call = dataclasses.replace(call, user=self._authenticated(request))
            self.requests.append(str(call))
            status = self._run(str(call), late=False)
            if status:
                raise Problem(status, _REASONS.get(status, ""), HTTPStatus(status).phrase)
            action = f"{call.verb} {call.kind.plural}"
            if not {action, f"{call.user}: {action}"}.isdisjoint(self.forbidden):
                raise problems.forbidden(call.kind.resource, call.name, self._missing(call))
            reply = self._handled(call)
            self._run(str(call), late=True)
        except Problem as problem:
            return "", _reply(problem.code, problem.status())

        return str(call), reply

    def _parsed(
        self, path: str, query: dict[str, str], request: Request, match: re.Match[str] | None
    ) -> _Call:
        if not match:
            raise problems.no_path()
        parts = {key: unquote(text or "") for key, text in match.groupdict().items()}
        named = f"{parts['api']}/{parts['plural']}"
        kind = next((kind for kind in self.kinds if objects.path(kind) == named), None)
        if kind is None:
            raise problems.no_path()
        read_many = "watch" if "watch" in query else "list"
        reading = "get" if parts["name"] else read_many

        return _Call(
            _VERBS.get(request.method, reading),
            path,
            kind,
            parts["namespace"],
            parts["name"],
            parts["sub"],
            query,
            value_of(request),
            "PartialObjectMetadata" in request.headers.get("Accept", ""),
        )

    def _authenticated(self, request: Request) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            raise problems.unauthorized()
        return self.tokens.get(token, self.user)

    def _run(self, request: str, *, late: bool) -> int | None:
        """Run the hooks of a request; return the status that the first of them gives."""
        with self._changed:
            due = []
            for hook in [hook for hook in self._hooks if hook.late is late]:
                if _matches(request, hook.request):
                    hook.remaining -= 1
                    if hook.remaining == 0:
                        due.append(hook)
        statuses = [hook.action() for hook in due]
        return next((status for status in statuses if isinstance(status, int)), None)

    def _handled(self, call: _Call) -> Reply:
        if call.sub == "log":
            return self._log_reply(call)
        if call.sub == "exec":  # a test replaces the WebSocket
            self._node_of(call)
            return _reply(200, {})
        if "sendInitialEvents" in call.query and not self.sends_initial_events:
            cause = problems.Cause("FieldValueForbidden", "sendInitialEvents", "not supported")
            raise problems.invalid("ListOptions.meta.k8s.io", "", [cause])
        if call.verb == "watch":
            return self._streamed(lambda stream: self._watched(call, stream))
        if call.kind.plural.startswith("selfsubject"):
            return _reply(201, {"status": self._review(call)})
        with self._changed:
            status, body = getattr(self, f"_{call.verb}")(call)
        if call.metadata_only and call.name:
            body = {"kind": "PartialObjectMetadata", "metadata": body["metadata"]}
        return _reply(status, body)

    def _get(self, call: _Call) -> tuple[int, Json]:
        if call.kind == kinds.NAMESPACE and call.name in _NAMESPACES:
            times = {"uid": f"uid-{call.name}", "creationTimestamp": self._now()}
            return 200, {"metadata": {"name": call.name, **times}}
        return 200, self._existing(call)

    def _list(self, call: _Call) -> tuple[int, Json]:
        items = [item for path, item in self._objects.items() if _selects(call, path, item)]
        return 200, {"metadata": {"resourceVersion": str(next(self._numbers))}, "items": items}

    def _create(self, call: _Call) -> tuple[int, Json]:
        metadata = call.body["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}x"
        path = f"{call.path}/{name}"
        if path in self._objects:
            raise problems.exists(call.kind.resource, name)
        metadata = metadata | {"name": name, "namespace": call.namespace}
        if call.query.get("dryRun"):
            identity = {"uid": f"uid-{next(self._numbers)}", "creationTimestamp": self._now()}
            return 201, call.body | {"metadata": metadata | identity}
        return 201, self._store(path, call.body | {"metadata": metadata})

    def _update(self, call: _Call) -> tuple[int, Json]:
        live = self._existing(call)
        version = call.body["metadata"]["resourceVersion"]
        if version != live["metadata"]["resourceVersion"]:
            raise problems.conflict(call.kind.resource, call.name, "resourceVersion")
        return 200, self._store(call.path, call.body)

    def _apply(self, call: _Call) -> tuple[int, Json]:
        """Merge what a manager applies; fields that it no longer applies are removed."""
        key = (call.path, call.query["fieldManager"])
        live = self._objects.get(call.path, {})
        merged = patches.merge(live, _dropped(self._applied.get(key, {}), call.body))
        merged = patches.merge(merged, call.body)
        if not call.query.get("dryRun"):
            self._applied[key] = call.body
            merged = live if merged == live else self._store(call.path, merged)
        code = 200 if live else 201
        return code, merged

    def _patch(self, call: _Call) -> tuple[int, Json]:
        if "force" in call.query:
            return self._apply(call)
        live = self._existing(call)
        body = call.body

        for field in ("uid", "resourceVersion"):
            if (
                body.get("metadata", {}).get(field, live["metadata"][field])
                != live["metadata"][field]
            ):
                raise problems.conflict(call.kind.resource, call.name, f"{field} in precondition")

        patched = patches.merge(live, body)
        references = live["metadata"].get("ownerReferences", ())

        if "ownerReferences" in body.get("metadata", {}):
            by_uid = {
                entry["uid"]: entry for entry in (*references, *body["metadata"]["ownerReferences"])
            }
            patched["metadata"]["ownerReferences"] = list(by_uid.values())

        return 200, self._store(call.path, patched)

    def _delete(self, call: _Call) -> tuple[int, Json]:
        metadata = self._existing(call)["metadata"]
        for field, value in (call.body.get("preconditions") or {}).items():
            if metadata[field] != value:
                raise problems.conflict(call.kind.resource, call.name, field)
        if call.body.get("propagationPolicy") == "Foreground":
            self._foreground.add(metadata["uid"])
            self._remove_dependents()
        if call.body.get("gracePeriodSeconds") == 0:
            self.stays.pop(metadata["name"], None)
        if call.path in self._objects:
            self._remove(call.path)
        return 200, self._objects.get(call.path, {"kind": "Status", "metadata": {}})

    def _existing(self, call: _Call) -> Json:
        if call.path not in self._objects:
            raise problems.not_found(call.kind.resource, call.name)
        return self._objects[call.path]

    def _store(self, path: str, item: Json) -> Json:
        previous = self._objects.get(path)
        number = next(self._numbers)
        kept = previous["metadata"] if previous else {"uid": f"uid-{number}"}
        identity = {key: kept.get(key, "") for key in ("uid", "creationTimestamp")}
        identity["creationTimestamp"] = identity["creationTimestamp"] or self._now()
        namespace = item["metadata"].get("namespace") or self.namespace
        identity |= {"resourceVersion": str(number), "namespace": namespace}
        item = _copy(item | {"metadata": item["metadata"] | identity})
        self._objects[path] = item
        change = "MODIFIED" if previous else "ADDED"
        self._emit(change, path, item)
        was_held = "deletionTimestamp" in kept and kept.get("finalizers")
        if was_held and not item["metadata"].get("finalizers"):
            self._remove(path)
        return item

    def _remove(self, path: str) -> None:
        """Delete an object, then its dependents whose last owner it was.

        One with finalizers, a pod that `stays` and its owner in the foreground are only marked.
        """
        item = self._objects[path]
        grace = self.stays.get(item["metadata"]["name"])
        if item["metadata"].get("finalizers") or grace is not None or self._has_pods(item):
            self._mark_deleted(path, grace or 0)
            return
        item = self._objects.pop(path)
        version = {"resourceVersion": str(next(self._numbers))}
        self._emit("DELETED", path, item | {"metadata": item["metadata"] | version})
        self._remove_dependents()
        for other, owner in list(self._objects.items()):
            is_marked = "deletionTimestamp" in owner["metadata"]
            if is_marked and owner["metadata"]["uid"] in self._foreground:
                self._remove(other)

    def _has_pods(self, item: Json) -> bool:
        """Return whether an object that is deleted in the foreground still has pods."""
        uid = item["metadata"]["uid"]
        return uid in self._foreground and any(
            owner["uid"] == uid
            for other in self._objects.values()
            if other["kind"] == "Pod"
            for owner in other["metadata"].get("ownerReferences") or ()
        )

    def _mark_deleted(self, path: str, grace: int) -> None:
        item = self._objects[path]
        if "deletionTimestamp" not in item["metadata"]:
            ends = _stamp(datetime.fromisoformat(self._now()) + timedelta(seconds=grace))
            marks = {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
            marks |= {"resourceVersion": str(next(self._numbers))}
            self._objects[path] = item | {"metadata": item["metadata"] | marks}
            self._emit("MODIFIED", path, self._objects[path])

    def _remove_dependents(self) -> None:
        """Delete what has no owner any more; one that is deleted in the foreground is none."""
        uids = {item["metadata"]["uid"] for item in self._objects.values()} - self._foreground
        for other, dependent in list(self._objects.items()):
            owners = dependent["metadata"].get("ownerReferences")
            if owners and other in self._objects and uids.isdisjoint(o["uid"] for o in owners):
                self._remove(other)

    def _emit(self, what: str, path: str, item: Json) -> None:
        self._events.append((what, path, item))
        self._changed.notify_all()

    def _watched(self, call: _Call, stream: "_Stream") -> Iterator[bytes]:
        since = int(call.query.get("resourceVersion") or 0)
        position = 0

        if "sendInitialEvents" in call.query:
            with self._changed:
                (_, answer) = self._list(call)
                position = len(self._events)
            metadata = answer["metadata"] | {"annotations": {"k8s.io/initial-events-end": "true"}}
            end = {"type": "BOOKMARK", "object": {"metadata": metadata}}
            added = [{"type": "ADDED", "object": item} for item in answer["items"]]
            yield b"".join(json.dumps(event).encode() + b"\n" for event in (*added, end))

        while True:
            with self._changed:
                while len(self._events) == position and not stream.over:
                    self._changed.wait()
                if stream.over:
                    return
                what, path, item = self._events[position]
            position += 1
            new = int(item["metadata"]["resourceVersion"]) > since
            if new and _selects(call, path, item):
                yield json.dumps({"type": what, "object": item}).encode() + b"\n"

    def _log_reply(self, call: _Call) -> Reply:
        pod = call.path.removesuffix("/log")
        node = self._node_of(call)
        return self._streamed(lambda stream: self._lines(call, pod, stream), node)

    def _lines(self, call: _Call, path: str, stream: "_Stream") -> Iterator[bytes]:
        query = call.query
        sent = 0
        container = query.get("container", "main")
        lines = self._logs.setdefault(names.log_stream(call.name, container), [])
        if "tailLines" in query:
            sent = max(0, len(lines) - int(query["tailLines"]))

        while True:
            with self._changed:
                while len(lines) == sent and query.get("follow") == "true" and not stream.over:
                    pod = self._objects.get(path)
                    if not pod or not _runs(pod, container):
                        return
                    self._changed.wait()
                if len(lines) == sent or stream.over:
                    return
                stamp, line = lines[sent]
            sent += 1
            if stamp[:19] >= query.get("sinceTime", "")[:19]:
                stamped = query.get("timestamps") == "true"
                yield (f"{stamp} ".encode() if stamped else b"") + line

    def _streamed(self, parts: Callable[["_Stream"], Iterator[bytes]], node: str = "") -> Reply:
        stream = _Stream(self._changed, parts, node)
        self._streams.append(stream)
        return Reply(200, urllib3.HTTPHeaderDict(), b"", stream)

    def _review(self, call: _Call) -> Json:
        attributes = call.body.get("spec", {}).get("resourceAttributes", {})
        resource = "/".join(filter(None, map(attributes.get, ("resource", "subresource"))))
        action = f"{attributes.get('verb')} {resource}"
        allowed = {action, f"{call.user}: {action}"}.isdisjoint(self.forbidden)
        return {"userInfo": {"username": call.user, "groups": ["testers"]}, "allowed": allowed}

    def _missing(self, call: _Call) -> str:
        return (
            f'User "{call.user}" cannot {call.verb} resource "{call.kind.plural}"'
            f' in API group "{call.kind.group}" in the namespace "{self.namespace}"'
        )

    def _discovery(self, path: str) -> Reply:
        absent = _reply(404, problems.no_path().status())
        group, _, version = path.removeprefix("/apis").strip("/").partition("/")
        served = [kind for kind in self.kinds if kind.group and group in ("", kind.group)]
        if version:
            resources = [{"name": kind.plural} for kind in served if kind.version == version]
            return _reply(200, {"resources": resources}) if resources else absent
        versions: dict[str, list[Json]] = {}
        for kind in served:
            versions.setdefault(kind.group, []).append({"version": kind.version})
        groups = [{"name": name, "versions": entries} for name, entries in versions.items()]
        if group:
            return _reply(200, groups[0]) if groups else absent
        return _reply(200, {"groups": groups})


class _Stream:
    """The body of a streaming answer; `read1` waits for the next part."""

    def __init__(
        self, changed: threading.Condition, parts: Callable[["_Stream"], Iterator[bytes]], node: str
    ) -> None:
        self.node = node
        self.closed = self.broken = False
        self._changed = changed
        self._parts = parts(self)

    @property
    def over(self) -> bool:
        return self.closed or self.broken

    def read1(self, size: int, decode_content: bool = True) -> bytes:
        part = next(self._parts, b"")
        if not part and self.broken:
            lost()
        return part

    def shutdown(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def close(self) -> None:
        self.shutdown()


def value_of(request: Request) -> Any:
    """Return the JSON body of a request as the server gets it; only that of an apply is bytes."""
    body = request.body
    return json.loads(body if isinstance(body, bytes) else json.dumps(body or {}))


def _reply(status: int, body: Json) -> Reply:
    headers = urllib3.HTTPHeaderDict({"Content-Type": "application/json"})
    return Reply(status, headers, json.dumps(body).encode())


def _matches(text: str, request: str) -> bool:
    return text == request or text.startswith(f"{request} ")


def _selects(call: _Call, path: str, item: Json) -> bool:
    namespace = call.namespace or item["metadata"]["namespace"]
    parent = path.rpartition("/")[0]
    if parent != objects.path(call.kind, namespace):
        return False
    fields = call.query.get("fieldSelector", "")
    if (
        fields.startswith("metadata.name=")
        and fields != f"metadata.name={item['metadata']['name']}"
    ):
        return False
    return selection.labels(call.query.get("labelSelector", ""))(item)


def _runs(pod: Json, container: str) -> bool:
    """Return whether a container of a pod still writes its log."""
    fields = ("initContainerStatuses", "containerStatuses")
    statuses = [item for field in fields for item in pod["status"].get(field, ())]
    ended = any("terminated" in item["state"] for item in statuses if item["name"] == container)
    return pod["status"]["phase"] == "Running" and not ended


def _dropped(before: Json, after: Json) -> Json:
    """Return the patch that removes the fields of `before` that `after` does not have."""
    patch = {key: None for key in before if key not in after}
    inner = [key for key in before.keys() & after.keys() if isinstance(before[key], dict)]
    return patch | {key: _dropped(before[key], after[key]) for key in inner}


def _copy(item: Json) -> Json:
    copied: Json = json.loads(json.dumps(item))
    return copied


def _now() -> str:
    return _stamp(datetime.now(UTC))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
