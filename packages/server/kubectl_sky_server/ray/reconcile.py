"""One round of a RayServeGraph: download, parse, apply, and report in its status.

Each failure is a condition, and is tried again with backoff.
"""

import base64
import binascii
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import backoff, events, objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotFound, NotServed, Refused, SkyError, UserError
from kubectl_sky.words.kinds import CONFIG_MAP, RAY_SERVE_GRAPH, RAY_SERVICE, SECRET, Kind
from kubectl_sky.words.notice import Notice
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_server.ray import model_graph as graphs
from kubectl_sky_server.ray import model_serve_config as serve_config
from kubectl_sky_server.ray import model_service as service
from kubectl_sky_server.ray import model_status as status
from kubectl_sky_server.ray.download import Answer, DownloadFailed, Source, download
from kubectl_sky_server.ray.model_graph import InvalidGraph
from kubectl_sky_server.ray.model_service import InvalidTemplate
from kubectl_sky_server.ray.model_status import Condition

_BACKOFF_SECONDS = 5.0  # after the first failure; doubled after each
_MAX_BACKOFF_SECONDS = 300.0
_MAX_CA_BYTES = 256 * 1024


@dataclass
class State:
    """What a process remembers of a RayServeGraph; a restart downloads it again."""

    status: Json = field(default_factory=dict)
    source: Json = field(default_factory=dict)
    etag: str = ""
    config: str = ""  # serveConfigV2 of the last valid graph
    revision: str | None = None
    digest: str | None = None
    failures: int = 0
    next_download: float = 0.0  # monotonic time
    lasting: tuple[str, ...] = ()  # paths that differ even after they were applied
    has_builder: bool = False

    @classmethod
    def of(cls, graph: RayServeGraph) -> "State":
        status_before = graph.status or {}
        revision, text = (status_before.get(name) for name in ("observedRevision", "digest"))
        return cls(status_before, revision=revision, digest=text)


class Reconciler(Struct, frozen=True):
    """The edges of a round: the API server and the sources of graphs."""

    session: Session
    trusted_hosts: Collection[str] = ()
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def reconcile(self, graph: RayServeGraph, state: State) -> float:
        """Bring a RayService to its graph; return the seconds until the next round."""
        if state.source != graph.spec["source"]:
            state.source = graph.spec["source"]
            state.etag = ""
            state.next_download = 0.0

        conditions: list[Condition] = []
        failed = False
        if monotonic() >= state.next_download:
            conditions += self._download(graph, state)
            failed = any(condition.status is False for condition in conditions)
            state.failures = state.failures + 1 if failed else 0
            state.next_download = monotonic() + self._pause(graph, state)

        fields: Json = {"observedRevision": state.revision, "digest": state.digest}
        applied, live = self._apply(graph, state)
        conditions += applied
        if live:
            current = status.read(live)
            conditions.append(status.ready(current))
            fields["rayService"] = status.summary(live["metadata"]["name"], current)
        else:
            absent = "no RayService has been applied"
            conditions.append(Condition("Ready", False, "NoRayService", absent))
        self._report(graph, state, conditions, fields)

        pause = max(1.0, state.next_download - monotonic())
        failed = any(condition.status is False for condition in applied)
        return min(pause, _MAX_BACKOFF_SECONDS / 10) if failed else pause

    def _pause(self, graph: RayServeGraph, state: State) -> float:
        """Return the seconds until the next download, with jitter."""
        pause = float(graph.spec["source"].get("pollIntervalSeconds") or 60)
        if state.failures:
            retry = backoff.delay(state.failures, _BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
            pause = min(retry, max(pause, _BACKOFF_SECONDS))
        return pause * random.uniform(0.9, 1.1)

    def _download(self, graph: RayServeGraph, state: State) -> list[Condition]:
        try:
            source = self._source(graph, state.etag)
            answer = download(source, self.trusted_hosts)
        except DownloadFailed as error:
            return [Condition("Downloaded", False, error.reason, str(error))]
        except SkyError as error:
            return [Condition("Downloaded", False, _reason(error), error.what)]
        downloaded = Condition("Downloaded", True, "Downloaded")
        if answer.data is None:
            return [downloaded, *_last(state, "Parsed")]
        return [downloaded, _parse(answer, state)]

    def _source(self, graph: RayServeGraph, etag: str) -> Source:
        """Read the Secrets of the source. Raises DownloadFailed, or ClusterError."""
        spec = graph.spec["source"]
        token = self._secret(graph, spec.get("tokenSecretRef"), "token")
        authority = self._secret(graph, spec.get("caSecretRef"), "ca.crt")
        if len(authority) > _MAX_CA_BYTES:
            raise DownloadFailed("InvalidCA", "the CA is too large")
        try:
            texts = token.decode().strip(), authority.decode()
        except UnicodeDecodeError:
            raise DownloadFailed("InvalidToken", "the token or the CA is not text") from None
        return Source(spec["url"], *texts, float(spec.get("timeoutSeconds") or 30), etag)

    def _secret(self, graph: RayServeGraph, reference: Json | None, default_key: str) -> bytes:
        """Return the value of a Secret reference, empty for none. Raises DownloadFailed."""
        if not reference:
            return b""

        name = reference["name"]
        key = reference.get("key") or default_key
        try:
            item = objects.get(self.session, SECRET, name, graph.metadata.namespace)
        except NotFound:
            raise DownloadFailed("SecretNotFound", f'Secret "{name}" not found') from None

        value = (item.data or {}).get(key)
        if not value:
            raise DownloadFailed("SecretNotFound", f'Secret "{name}" has no key "{key}"')
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise DownloadFailed("SecretNotFound", f'Secret "{name}" is not base64') from None

    def _apply(self, graph: RayServeGraph, state: State) -> tuple[list[Condition], Json | None]:
        """Apply the last valid graph, if any; return the condition and the RayService as it is."""
        name = graph.metadata.name
        namespace = graph.metadata.namespace
        live: Json | None = None

        try:
            live = self._get(RAY_SERVICE, name, namespace)
            if not state.config:
                return [], live
            desired = service.ray_service(graph, state.config)
            condition, live = self._apply_to(graph, state, desired, live)
        except InvalidTemplate as error:
            condition = Condition("Applied", False, "InvalidTemplate", str(error))
        except NotFound:  # the RayServeGraph is deleted, or its namespace
            raise
        except SkyError as error:
            condition = Condition("Applied", False, _reason(error), error.what)
        return [condition], live

    def _apply_to(
        self, graph: RayServeGraph, state: State, desired: Json, live: Json | None
    ) -> tuple[Condition, Json]:
        name = desired["metadata"]["name"]
        if live and not service.is_controlled_by(live, graph):
            why = f'RayService "{name}" exists and belongs to no or another RayServeGraph'
            return Condition("Applied", False, "NotControlled", why), live

        if live is None:
            self._patch_status(graph, [], dry_run=True)
        if not state.has_builder:
            self._apply_builder(graph)
            state.has_builder = True

        differences = service.differences(desired, live) if live else []
        if live and (not differences or tuple(differences) == state.lasting):
            kept = _last(state, "Applied")
            is_same = kept and kept[0].status is True
            condition = kept[0] if is_same else Condition("Applied", True, "Applied")
            return condition, live

        message = self._announce(graph, desired, live, differences)
        applied = objects.apply(self.session, desired)
        state.lasting = tuple(service.differences(desired, applied))
        return Condition("Applied", True, "Applied", message), applied

    def _announce(
        self, graph: RayServeGraph, desired: Json, live: Json | None, differences: list[str]
    ) -> str:
        """Report what is about to be applied and what KubeRay does with it."""
        after = objects.apply(self.session, desired, dry_run=True)
        if live is None:
            message = Notice("created; KubeRay creates a RayCluster")
            self.event(graph, "Normal", "Creating", message)
            return message
        if service.was_applied(desired, live):
            edited = service.join_paths(differences)
            self.event(graph, "Warning", "EditedByHand", Notice(f"putting back: {edited}"))
        message = Notice(service.describe(service.classify(live["spec"], after["spec"])))
        self.event(graph, "Normal", "Updating", message)
        return message

    def _apply_builder(self, graph: RayServeGraph) -> None:
        desired = service.builder(graph)
        name = desired["metadata"]["name"]
        live = self._get(CONFIG_MAP, name, desired["metadata"]["namespace"])
        if live and not service.is_controlled_by(live, graph):
            raise Refused(f'ConfigMap "{name}" exists and belongs to no or another RayServeGraph')
        if live is None or service.differences(desired, live):
            objects.apply(self.session, desired)

    def _get(self, kind: Kind, name: str, namespace: str) -> Json | None:
        with suppress(NotFound):
            return objects.get_manifest(self.session, kind, name, namespace)
        return None

    def _report(
        self, graph: RayServeGraph, state: State, conditions: list[Condition], fields: Json
    ) -> None:
        """Write the status if it changes, and an Event for each new failure."""
        metadata = graph.metadata
        generation = metadata.generation
        now = self.now()
        wanted = status.update(state.status, conditions, generation, now, **fields)
        if wanted == state.status:
            return
        failed = status.first_failure(wanted["conditions"])
        if failed and wanted["lastError"] != state.status.get("lastError"):
            why = Notice(f"{failed['type']} is False: the conditions of the graph say why")
            self.event(graph, "Warning", failed["reason"], why)
        self._patch_status(graph, [{"op": "add", "path": "/status", "value": wanted}])
        state.status = wanted

    def _patch_status(
        self, graph: RayServeGraph, changes: list[Json], *, dry_run: bool = False
    ) -> None:
        """Change the status. Raises NotFound if the RayServeGraph is deleted.

        A dry run only checks that it exists: a watch that was refused does not report what was
        deleted meanwhile, and the garbage collector would delete a RayService without an owner.
        """
        metadata = graph.metadata
        path = objects.path(RAY_SERVE_GRAPH, metadata.namespace, metadata.name, "status")
        body = [{"op": "test", "path": "/metadata/uid", "value": metadata.uid}, *changes]
        headers = {"Content-Type": "application/json-patch+json"}
        query = {"dryRun": "All"} if dry_run else None
        self.session.send("PATCH", path, query=query, body=body, headers=headers)

    def event(self, graph: RayServeGraph, kind: str, reason: str, message: Notice) -> None:
        type_fields = {"apiVersion": RAY_SERVE_GRAPH.api_version, "kind": RAY_SERVE_GRAPH.kind}
        about = {**type_fields, "metadata": graph.metadata.identity}
        try:
            objects.create(self.session, events.event(about, kind, reason, message, self.now()))
        except SkyError:
            return  # the conditions say the same


def _parse(answer: Answer, state: State) -> Condition:
    state.etag = answer.etag
    try:
        parsed = graphs.parse(answer.data or b"")
    except InvalidGraph as error:
        return Condition("Parsed", False, error.reason, str(error))
    config = serve_config.write(serve_config.serve_config(parsed))
    state.config = config
    state.revision = parsed.revision
    state.digest = service.digest(config)
    return Condition("Parsed", True, "Parsed", f'revision "{parsed.revision}"')


def _last(state: State, name: str) -> list[Condition]:
    return [
        Condition(name, item["status"] == "True", item["reason"], item.get("message", ""))
        for item in state.status.get("conditions") or []
        if item["type"] == name
    ]


def _reason(error: SkyError) -> str:
    reasons = {
        NotServed: "RayServiceNotServed",
        Forbidden: "Forbidden",
        UserError: "Invalid",
        Refused: "Refused",
    }
    return next((text for kind, text in reasons.items() if isinstance(error, kind)), "ApplyFailed")
