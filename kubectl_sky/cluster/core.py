"""The core API: pods and their logs, nodes, events and the current user."""

from collections.abc import Generator
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.loglines import LineSplitter
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import age, kinds
from kubectl_sky.words.answers import UserReview
from kubectl_sky.words.core_objects import Event, Node
from kubectl_sky.words.pod_objects import Pod

_MAX_LOG_BYTES = 1 << 20  # bytes kept of the end of a log
_LOG_SECONDS = 30.0  # seconds to read the beginning or the end of a log
_NO_LOG = (
    b"unable to retrieve container logs for ",
    b'failed to try resolving symlinks in path "',
)
_SILENCE_SECONDS = 10.0  # seconds without data before the read fails


class Identity(Struct, frozen=True):
    """A user and the groups, as the API server authenticated them."""

    name: str
    groups: tuple[str, ...] = ()


class CoreManager:
    """Read the core API (`/api/v1`); every method raises ClusterError."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list_pods(
        self, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[Pod]:
        """Return pods; namespace None means all namespaces."""
        return objects.list_all(
            self._session,
            kinds.POD,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    def list_nodes(self) -> list[Node]:
        """Return the cluster nodes. Raises Forbidden without cluster-wide read access."""
        return objects.list_all(self._session, kinds.NODE)

    def list_events(self, namespace: str | None = None, field_selector: str = "") -> list[Event]:
        events = objects.list_all(
            self._session, kinds.EVENT, namespace, field_selector=field_selector
        )
        return sorted(events, key=_event_time)

    def last_lines(
        self, namespace: str, pod: str, container: str, count: int, **options: str
    ) -> list[bytes]:
        """Return the last lines of a log, in bounded memory; options are those of the API."""
        query = {"container": container, "tailLines": str(count), **options}
        data = b""
        truncated = False
        deadline = monotonic() + _LOG_SECONDS
        path = objects.path(kinds.POD, namespace, pod, "log")

        with self._session.stream(path, query, timeout=_SILENCE_SECONDS) as stream:
            for chunk in stream:
                data += chunk
                if len(data) > 2 * _MAX_LOG_BYTES:
                    data = data[-_MAX_LOG_BYTES:]
                    truncated = True
                if monotonic() > deadline:  # a log may grow faster than it is read
                    break

        if data.startswith(_NO_LOG) and b"\n" not in data:  # of the kubelet, not of the program
            return []
        lines = data.removesuffix(b"\n").split(b"\n") if data else []
        return lines[1:] if truncated and len(lines) > 1 else lines

    def first_lines(
        self, namespace: str, pod: str, container: str, limit: int
    ) -> Generator[bytes, None, None]:
        """Yield the lines of the first bytes of a log, with their times."""
        query = {"container": container, "limitBytes": str(limit), "timestamps": "true"}
        splitter = LineSplitter()
        rest = limit
        deadline = monotonic() + _LOG_SECONDS
        path = objects.path(kinds.POD, namespace, pod, "log")

        with self._session.stream(path, query, timeout=_SILENCE_SECONDS) as stream:
            for chunk in stream:
                yield from splitter.feed(chunk[:rest])
                rest -= len(chunk)
                if rest <= 0:
                    break
                if monotonic() > deadline:
                    raise ClusterError(f"logs of pod {pod} were not read in {_LOG_SECONDS:.0f} s")
        if remainder := splitter.remainder():
            yield remainder

    def whoami(self) -> str:
        return self.identity().name

    def identity(self) -> Identity:
        kind = kinds.SELF_SUBJECT_REVIEW
        body = {"apiVersion": kind.api_version, "kind": kind.kind}
        path = objects.path(kind)
        answer = self._session.send("POST", path, body=body, shape=UserReview).body
        info = answer.status.user_info
        return Identity(info.username, info.groups)


def _event_time(event: Event) -> str:
    times = (event.event_time, event.last_timestamp, event.first_timestamp)
    return next(filter(age.parse, times), None) or event.metadata.creation_timestamp
