"""Rounds of a RayServeGraph against an API server in memory: what they write, and when."""

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from kubectl_sky.cluster.encoding import WHOLE, Whole
from kubectl_sky.cluster.session import Answer, Session
from kubectl_sky.errors import NotFound, NotServed, Refused
from kubectl_sky.words.task_objects import RayServeGraph
from kubectl_sky_practice import patches
from kubectl_sky_server.ray import reconcile
from kubectl_sky_server.ray.reconcile import Reconciler, State
from server_tests.ray.graphs import make_bytes, make_spec
from server_tests.ray.source import GraphSource, serving
from tests.reading import read_as

Json = dict[str, Any]

NAMESPACED = "/namespaces/team/"
SERVICE = f"/apis/ray.io/v1{NAMESPACED}rayservices/fruit"
SECRET = f"/api/v1{NAMESPACED}secrets/source"
CONFIG_MAP = f"/api/v1{NAMESPACED}configmaps/fruit-graph-builder"
STATUS = f"/apis/kubectl-sky.dev/v1alpha1{NAMESPACED}rayservegraphs/fruit/status"


class Api:
    """Objects by path; `writes` has the requests that change something, but no dry runs."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.writes: list[str] = []
        self.events: list[str] = []
        self.messages: list[str] = []  # of the events
        self.unserved: set[str] = set()
        self.absent: set[str] = set()  # paths that cannot be changed
        self.mutate: Callable[[Json], None] = lambda item: None

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        shape: type[Any] | Whole = WHOLE,
        **options: Any,
    ) -> Answer[Any]:
        body = json.loads(body) if isinstance(body, bytes) else body  # an apply
        answer = self._answer(method, path, body, **options)
        read = answer if isinstance(shape, Whole) else read_as(shape, answer)
        return Answer(200, read, retried=False)

    def _answer(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        if path.endswith("/events"):
            self.events.append(body["reason"])
            self.messages.append(body["message"])
            return {}

        if any(plural in path for plural in self.unserved):
            raise NotServed("the cluster does not serve rayservices.ray.io (ray.io/v1)")
        if method == "GET":
            if path not in self.objects:
                raise NotFound("not found")
            return copy.deepcopy(self.objects[path])

        if path in self.absent:
            raise NotFound("not found")
        body = copy.deepcopy(body)
        item: Json = body if path == STATUS else patches.merge(self.objects.get(path, {}), body)
        if path == SERVICE:
            self.mutate(item)

        if not (query or {}).get("dryRun"):
            self.writes.append(f"{method} {path}")
            self.objects[path] = copy.deepcopy(body[1]["value"] if path == STATUS else item)

        return copy.deepcopy(item)

    def condition(self, name: str) -> str:
        """Return the reason of a condition."""
        items = self.objects[STATUS]["conditions"]
        return str({item["type"]: item["reason"] for item in items}.get(name))


class Rounds:
    """A RayServeGraph, its source, and rounds of the controller."""

    def __init__(self, source: GraphSource) -> None:
        self.api = Api()
        self.source = source
        self.set_secret(source.token)
        self.graph: Json = {
            "metadata": {"name": "fruit", "namespace": "team", "uid": "1-2-3", "generation": 1},
            "spec": {
                "source": {"url": source.url, "tokenSecretRef": {"name": "source"}},
                "rayService": {"spec": make_spec()},
            },
        }
        self.reconciler = Reconciler(cast(Session, self.api), ("127.0.0.1",))
        self.state = State.of(read_as(RayServeGraph, self.graph))

    def set_secret(self, token: str, key: str = "token") -> None:
        value = base64.b64encode(token.encode()).decode()
        self.api.objects[SECRET] = {"data": {key: value}}

    def run(self, download: bool = True) -> list[str]:
        """Run a round; return its writes."""
        if download:
            self.state.next_download = 0.0
        self.api.writes.clear()
        self.reconciler.reconcile(read_as(RayServeGraph, self.graph), self.state)
        return self.api.writes


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    with serving() as source:
        source.data = make_bytes()
        yield Rounds(source)


def test_round_first_creates_and_next_writes_nothing(rounds: Rounds) -> None:
    assert rounds.run() == [f"PATCH {CONFIG_MAP}", f"PATCH {SERVICE}", f"PATCH {STATUS}"]
    assert rounds.run() == []
    assert rounds.run(download=False) == []
    rounds.source.data = make_bytes("8")
    assert rounds.run() == [f"PATCH {STATUS}"], "another revision of the same graph"
    rounds.source.data = make_bytes("8", base=9)
    assert rounds.run() == [f"PATCH {SERVICE}", f"PATCH {STATUS}"]
    assert rounds.api.events == ["Creating", "Updating"]


def test_round_without_due_download_sends_none(rounds: Rounds) -> None:
    rounds.run()
    before = len(rounds.source.requests)
    rounds.run(download=False)
    assert len(rounds.source.requests) == before


def test_round_edited_service_is_put_back(rounds: Rounds) -> None:
    rounds.run()
    before = rounds.api.objects[SERVICE]["spec"]["serveConfigV2"]
    rounds.api.objects[SERVICE]["spec"]["serveConfigV2"] = "applications: []"
    assert f"PATCH {SERVICE}" in rounds.run(download=False)
    assert rounds.api.objects[SERVICE]["spec"]["serveConfigV2"] == before
    assert "EditedByHand" in rounds.api.events
    assert rounds.run() == []


def test_round_changed_template_is_no_edit_by_hand(rounds: Rounds) -> None:
    rounds.run()
    rounds.graph["spec"]["rayService"]["spec"]["rayClusterConfig"]["rayVersion"] = "2.51.0"
    assert f"PATCH {SERVICE}" in rounds.run(download=False)
    assert rounds.api.events == ["Creating", "Updating"]


def test_round_service_of_another_owner_is_not_changed(rounds: Rounds) -> None:
    rounds.api.objects[SERVICE] = {"metadata": {"name": "fruit"}, "spec": {}}
    assert rounds.run() == [f"PATCH {STATUS}"]
    assert rounds.api.condition("Applied") == "NotControlled"


def test_round_deleted_graph_is_not_applied_again(rounds: Rounds) -> None:
    rounds.run()
    del rounds.api.objects[SERVICE]
    rounds.api.absent.add(STATUS)
    events = len(rounds.api.events)
    with pytest.raises(NotFound):
        rounds.run()
    assert rounds.api.writes == []
    assert len(rounds.api.events) == events


def test_round_refused_service_is_not_announced_as_created(rounds: Rounds) -> None:
    def refuse(item: Json) -> None:
        raise Refused("denied by a webhook")

    rounds.api.mutate = refuse
    rounds.run()
    assert rounds.api.condition("Applied") == "Refused"
    assert rounds.api.events == ["Refused"]
    assert rounds.api.messages == ["Applied is False: the conditions of the graph say why"]


def test_round_field_changed_by_admission_is_written_once(rounds: Rounds) -> None:
    def mutate(item: Json) -> None:
        item["spec"]["rayClusterConfig"]["rayVersion"] = "mutated"

    rounds.api.mutate = mutate
    assert f"PATCH {SERVICE}" in rounds.run()
    assert rounds.run() == []


def test_round_without_kind_is_condition_and_applied_later(rounds: Rounds) -> None:
    rounds.api.unserved = {"rayservices"}
    rounds.run()
    assert rounds.api.condition("Applied") == "RayServiceNotServed"
    assert rounds.run() == []
    rounds.api.unserved = set()
    assert f"PATCH {SERVICE}" in rounds.run(download=False)
    assert rounds.api.condition("Applied") == "Applied"


def test_round_after_restart_with_source_down_keeps_revision(rounds: Rounds) -> None:
    rounds.run()
    rounds.graph["status"] = rounds.api.objects[STATUS]
    rounds.source.mode = 500
    rounds.state = State.of(read_as(RayServeGraph, rounds.graph))
    assert rounds.run() == [f"PATCH {STATUS}"]
    assert rounds.api.objects[STATUS]["observedRevision"] == "7"
    assert rounds.api.condition("Downloaded") == "ServerError"
    assert rounds.api.condition("Applied") == "Applied"


def test_round_invalid_graph_keeps_service_and_is_not_downloaded_again(rounds: Rounds) -> None:
    rounds.run()
    rounds.source.data = b"\x08\x02"
    assert rounds.run() == [f"PATCH {STATUS}"]
    assert rounds.api.condition("Parsed") == "UnsupportedVersion"
    assert rounds.run() == [], "by its ETag"
    assert rounds.api.objects[STATUS]["observedRevision"] == "7"
    assert rounds.source.requests[-1][2], "with an ETag"


def test_round_changed_source_forgets_etag(rounds: Rounds) -> None:
    rounds.run()
    rounds.graph["spec"]["source"] = {**rounds.graph["spec"]["source"], "timeoutSeconds": 7}
    rounds.run(download=False)
    assert rounds.source.requests[-1][2] == ""


def test_round_secret_missing_or_changed_is_read_again(rounds: Rounds) -> None:
    del rounds.api.objects[SECRET]
    rounds.run()
    assert rounds.api.condition("Downloaded") == "SecretNotFound"
    rounds.set_secret("x", key="other")
    rounds.run()
    assert 'no key "token"' in rounds.api.objects[STATUS]["lastError"]
    rounds.api.objects[SECRET] = {"data": {"token": "***"}}
    rounds.run()
    assert rounds.api.condition("Downloaded") == "SecretNotFound"
    rounds.set_secret("secret-token\n")
    rounds.run()
    assert rounds.api.condition("Downloaded") == "Downloaded"
    assert "secret-token" not in str(rounds.api.objects[STATUS])


def test_round_failures_back_off_up_to_limit(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 1.0)
    monkeypatch.setattr(reconcile, "monotonic", lambda: 0.0)
    rounds.graph["spec"]["source"]["pollIntervalSeconds"] = 3600
    rounds.source.mode = 500
    pauses = []
    for _ in range(9):
        rounds.run()
        pauses.append(rounds.state.next_download)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    rounds.source.mode = 200
    rounds.run()
    assert (rounds.state.failures, rounds.state.next_download) == (0, 3600)
