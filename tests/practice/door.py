"""Requests as a careless or hostile client sends them, byte for byte."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import urllib3

from kubectl_sky.cluster import kubeconfig
from kubectl_sky.cluster.connection import Target
from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import Cluster

JSON = "application/json"


class Answer(NamedTuple):
    """The code of an answer, and the reason and message of its Status."""

    code: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Bad:
    """A request that is wrong, or odd; `{ns}` in its path is a namespace that is there."""

    method: str
    path: str
    body: bytes | None = None
    type: str = JSON
    headers: Mapping[str, str] | None = None
    named: bool = True  # whether the sender says who he is


class Door:
    """A cluster's API, for one user."""

    def __init__(self, session: Session, target: Target) -> None:
        self._session = session
        self._target = target

    @classmethod
    def of(cls, cluster: Cluster, context: str = "test") -> Self:
        """Return the door of a cluster."""
        connection = Connection(kubeconfig=str(cluster.kubeconfig), context=context)
        target = kubeconfig.resolve(connection)
        return cls(Session(connection, target), target)

    @property
    def session(self) -> Session:
        """The session with the same cluster."""
        return self._session

    def send(self, bad: Bad, namespace: str, **more: Any) -> urllib3.BaseHTTPResponse:
        """Send a request as it is."""
        identity = {"Authorization": self._target.authorization} if bad.named else {}
        if bad.body is not None and bad.type:
            identity["Content-Type"] = bad.type
        return self._target.client.pool_manager.request(
            bad.method,
            self._session.server + bad.path.replace("{ns}", namespace),
            body=bad.body.replace(b"{ns}", namespace.encode()) if bad.body else bad.body,
            headers={"Accept": JSON, **identity, **(bad.headers or {})},
            retries=False,
            redirect=False,
            timeout=30,
            **more,
        )

    def ask(self, bad: Bad, namespace: str) -> Answer:
        """Send a request and return what its answer says."""
        response = self.send(bad, namespace)
        try:
            status = json.loads(response.data.splitlines()[0]) if response.data else {}
        except ValueError:
            return Answer(response.status, "", response.data.decode(errors="replace").strip())
        status = status.get("object", status)
        if status.get("kind") != "Status":
            return Answer(response.status)
        return Answer(response.status, status.get("reason", ""), status.get("message", ""))
