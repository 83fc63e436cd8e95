"""The core API: pods and their logs, namespaces, nodes, events, claims, and who is asking."""

from collections.abc import Mapping
from time import monotonic

from kubectl_sky import kinds
from kubectl_sky.cluster import errors, objects
from kubectl_sky.cluster.errors import Call
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.transport import Stream

_MOST = 1 << 20  # bytes of a log's end
_LONG = 30.0  # seconds that reading it may take
_SILENT = 10.0  # seconds that the server may take to say more of one


class CoreManager:
    """What the project does with `/api/v1`; every method raises ClusterError."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list_pods(
        self, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[Json]:
        """Return pods; a namespace of None means all namespaces."""
        return objects.list_all(
            self._session,
            kinds.POD,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    def list_nodes(self) -> list[Json]:
        """Return the cluster's nodes. Raises Forbidden for users who may only read namespaces."""
        return objects.list_all(self._session, kinds.NODE)

    def list_events(
        self,
        namespace: str | None = None,
        involved: Json | None = None,
        field_selector: str = "",
    ) -> list[Json]:
        """Return events, oldest first: of one object, or of a whole namespace."""
        fields = field_selector
        if involved:
            namespace = involved["metadata"].get("namespace") or namespace
            fields = f"involvedObject.uid={involved['metadata']['uid']}"
        found = objects.list_all(self._session, kinds.EVENT, namespace, field_selector=fields)
        return sorted(found, key=_when)

    def list_claims(self, namespace: str | None = None, label_selector: str = "") -> list[Json]:
        """Return PersistentVolumeClaims."""
        return objects.list_all(self._session, kinds.PVC, namespace, label_selector=label_selector)

    def pod_log(self, namespace: str, pod: str, query: Mapping[str, str]) -> Stream:
        """Open the log of a pod's container; the query is that of the API (`follow`, …)."""
        return self._session.stream(objects.path(kinds.POD, namespace, pod, "log"), query)

    def last_lines(self, namespace: str, pod: str, container: str, count: int) -> list[bytes]:
        """Return the last lines of a log, in memory that is bounded however long they are."""
        query = {"container": container, "tailLines": str(count)}
        kept, cut = b"", False
        end = monotonic() + _LONG
        path = objects.path(kinds.POD, namespace, pod, "log")
        with self._session.stream(path, query, timeout=_SILENT) as stream:
            for chunk in stream:
                kept += chunk
                if len(kept) > 2 * _MOST:
                    kept, cut = kept[-_MOST:], True
                if monotonic() > end:  # it may be written faster than it is read
                    break
        lines = kept.removesuffix(b"\n").split(b"\n") if kept else []
        return lines[1:] if cut and len(lines) > 1 else lines

    def whoami(self) -> str:
        """Return the name by which the API server knows the caller."""
        kind = kinds.SELF_SUBJECT_REVIEW
        body = {"apiVersion": kind.api_version, "kind": kind.kind}
        answer = self._session.request("POST", objects.path(kind), body=body)
        try:
            username = answer["status"]["userInfo"].get("username", "")
        except (LookupError, TypeError, AttributeError):
            username = None
        if not isinstance(username, str):
            raise errors.not_kubernetes(Call("POST", objects.path(kind), self._session.server))
        return username


def _when(event: Json) -> str:
    times = (event.get("eventTime"), event.get("lastTimestamp"), event.get("firstTimestamp"))
    return next((str(time) for time in times if time), event["metadata"]["creationTimestamp"])
