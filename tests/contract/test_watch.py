"""Watch without gaps over broken connections, timeouts and expired versions."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue

import pytest
from msgspec.structs import replace

from kubectl_sky.cluster import backoff, objects
from kubectl_sky.cluster import watch as watching
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.cluster.watch import Change, ObjectSelection, SharedWatch, WatchEvent, watch_kinds
from kubectl_sky.errors import Expired, Forbidden, Unreachable
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import ConfigMap
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Object
from tests.cluster.target import Cluster
from tests.contract.conftest import THROUGH_SERVER
from tests.contract.makers import make_config_map
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually

Changes = list[tuple[str, str]]


def of_test(namespace: str, *watched: ReadKind[Object]) -> ObjectSelection:
    return ObjectSelection(watched or (kinds.CONFIG_MAP,), namespace, "of=test")


def follow(session: Session, namespace: str) -> Iterator[WatchEvent | None]:
    return watch_kinds(session, of_test(namespace))


def until(watched: Iterator[WatchEvent | None], enough: Callable[[Changes], bool]) -> Changes:
    """Read until a condition holds; return type and name of every change."""
    changes: Changes = []
    for event in watched:
        if event:
            name = event.object.metadata.name
            changes.append((str(event.type), name))
            if enough(changes):
                return changes
    raise AssertionError(f"only {changes} was told")


def watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("watch ")}


def synced(changes: Changes) -> bool:
    return changes[-1][0] == Change.SYNCED


def last(change: Change, name: str) -> Callable[[Changes], bool]:
    return lambda changes: changes[-1] == (change, name)


@THROUGH_SERVER
def test_watch_returns_existing_objects_then_changes(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace))
    watched = follow(session, namespace)
    assert until(watched, synced) == [("ADDED", "a"), ("SYNCED", "")]
    objects.create(session, make_config_map("b", namespace))
    objects.patch(session, kinds.CONFIG_MAP, "a", namespace, {"data": {"x": "1"}})
    objects.delete(session, kinds.CONFIG_MAP, "b", namespace)
    assert until(watched, last(Change.DELETED, "b")) == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    watched.close()  # type: ignore[attr-defined]


def test_watch_existing_objects_needs_no_list(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.create(session, make_config_map("a", namespace))
    monkeypatch.setattr(objects, "collect", None)
    watched = follow(session, namespace)
    assert until(watched, synced) == [("ADDED", "a"), ("SYNCED", "")]


def test_watch_objects_have_api_version_and_kind(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace))
    first = next(filter(None, follow(session, namespace)))
    assert isinstance(first.object, ConfigMap)
    assert (first.object.api_version, first.object.kind) == ("v1", "ConfigMap")


@pytest.mark.practice_only
def test_watch_is_idle_until_stop_ends_it(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_POLL_INTERVAL", 0.05)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    watched = watch_kinds(session, of_test(namespace), stop)
    ticks = [event for event in watched if event is None]
    assert len(ticks) >= 2


@pytest.mark.practice_only
def test_watch_close_ends_thread_and_connection(session: Session, namespace: str) -> None:
    others = watchers()
    watched = follow(session, namespace)
    until(watched, synced)
    watched.close()  # type: ignore[attr-defined]
    eventually(lambda: watchers() <= others, message=lambda: str(watchers()))


def test_watch_broken_connection_misses_no_changes(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    watched = follow(cut_session, namespace)
    until(watched, synced)
    proxy.refusing = True
    proxy.cut()
    objects.create(session, make_config_map("a", namespace))
    objects.delete(session, kinds.CONFIG_MAP, "a", namespace)
    objects.create(session, make_config_map("b", namespace))
    time.sleep(0.5)
    proxy.refusing = False
    assert until(watched, last(Change.ADDED, "b")) == [
        ("ADDED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]


def test_watch_server_timeout_reopens_stream(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SERVER_TIMEOUT_SECONDS", 1)
    watched = follow(session, namespace)
    until(watched, synced)
    time.sleep(1.5)
    objects.create(session, make_config_map("a", namespace))
    assert until(watched, last(Change.ADDED, "a")) == [("ADDED", "a")]


def test_watch_expired_version_lists_again_and_reports_differences(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    for name in ("gone", "changed", "same"):
        objects.create(session, make_config_map(name, namespace))
    forgetful = Forgetful(cut_session)
    watched = follow(forgetful, namespace)  # type: ignore[arg-type]
    until(watched, synced)
    objects.create(session, make_config_map("open", namespace))
    until(watched, last(Change.ADDED, "open"))  # the stream is open now, so a cut ends it
    forgetful.forgets = True
    proxy.refusing = True
    proxy.cut()
    objects.delete(session, kinds.CONFIG_MAP, "gone", namespace)
    objects.patch(session, kinds.CONFIG_MAP, "changed", namespace, {"data": {"x": "1"}})
    objects.create(session, make_config_map("new", namespace))
    proxy.refusing = False
    assert until(watched, synced) == [
        ("DELETED", "gone"),
        ("MODIFIED", "changed"),
        ("ADDED", "new"),
        ("SYNCED", ""),
    ]

    objects.create(session, make_config_map("newer", namespace))
    assert until(watched, last(Change.ADDED, "newer")) == [("ADDED", "newer")]


class Forgetful:
    """A session whose server reports an expired version once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.forgets = False
        self.send = session.send
        self.server = session.server

    def stream(self, path: str, query: dict[str, str], timeout: float | None = None) -> object:
        if self.forgets:
            self.forgets = False
            raise Expired("too old")
        return self._session.stream(path, query, timeout)


def test_watch_error_event_raises_expired(session: Session, namespace: str) -> None:
    """The API server sends 410 as an event when the version is older than its cache."""
    query = {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "2"}
    stream = session.stream(objects.path(kinds.CONFIG_MAP, namespace), query)
    source = watching._KindWatcher(session, kinds.CONFIG_MAP, of_test(namespace), Queue())
    with stream:
        lines = list(watching._lines(stream))
    # A new cluster still knows version 1; an older cluster answers like this.
    recorded = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (18724)",
        "reason": "Expired",
        "code": 410,
    }
    errors = [line for line in lines if json.loads(line)["type"] == "ERROR"]
    errors = errors or [json.dumps({"type": "ERROR", "object": recorded}).encode()]
    with pytest.raises(Expired):
        source._apply(errors[0])


@pytest.mark.practice_only
@pytest.mark.parametrize("annotations", [5, "k8s.io/initial-events-end", ["x"], None])
def test_bookmark_with_annotations_of_wrong_type_is_error(
    session: Session, namespace: str, annotations: object
) -> None:
    source = watching._KindWatcher(session, kinds.CONFIG_MAP, of_test(namespace), Queue())
    metadata = {"resourceVersion": "1", "annotations": annotations}
    event = {"type": "BOOKMARK", "object": {"metadata": metadata}}
    with pytest.raises(Unreachable, match="annotations"):
        source._apply(json.dumps(event).encode())


def test_watch_unreachable_server_raises_after_timeout(
    cut_session: Session,
    proxy: CuttingProxy,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.5)
    watched = follow(cut_session, namespace)
    until(watched, synced)
    proxy.close()
    with pytest.raises(Unreachable, match="cannot reach 127"):
        for _ in watched:
            pass


def test_watch_without_right_raises_forbidden(cluster: Cluster, namespace: str) -> None:
    alice = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), context="alice"))
    with pytest.raises(Forbidden, match="may not watch configmaps"):
        list(follow(alice, namespace))


def test_optional_kinds_that_are_forbidden_or_not_served_have_no_objects(
    cluster: Cluster, session: Session, namespace: str
) -> None:
    optional = (kinds.CONFIG_MAP, replace(kinds.JOB, plural="unknown"))
    selection = replace(of_test(namespace, *optional), optional=optional)
    objects.create(session, make_config_map("a", namespace))
    alice = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), context="alice"))
    for who, expected in (alice, []), (session, [("ADDED", "a")]):
        watched = watch_kinds(who, selection)
        told = until(watched, lambda changes: changes.count(("SYNCED", "")) == 2)
        assert [change for change in told if change[1]] == expected
        assert next(watched) is None
        watched.close()


@pytest.mark.practice_only
def test_watch_kinds_syncs_every_kind(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace))
    both = of_test(namespace, kinds.CONFIG_MAP, kinds.JOB)
    watched = filter(None, watch_kinds(session, both))
    changes = [next(watched) for _ in range(3)]
    assert [event.type for event in changes].count(Change.SYNCED) == 2
    assert [event.kind for event in changes if event.type is not Change.SYNCED] == [
        kinds.CONFIG_MAP
    ]


@pytest.mark.practice_only
def test_shared_watch_gives_each_value_its_own_changes(session: Session, namespace: str) -> None:
    """A value that an object no longer has sees it deleted."""
    for name in ("a", "b"):
        item = make_config_map(name, namespace)
        item["metadata"]["labels"]["of"] = name
        objects.create(session, item)
    kind = kinds.CONFIG_MAP
    stop = threading.Event()
    others = watchers()
    shared = SharedWatch(session, [kind], namespace, "of", ["a", "b"], stop)
    of_a = shared.changes("a")
    of_b = shared.changes("b")
    assert until(of_a, synced) == [("ADDED", "a"), ("SYNCED", "")]
    assert until(of_b, synced) == [("ADDED", "b"), ("SYNCED", "")]

    relabelled = {"metadata": {"labels": {"of": "b"}}}
    objects.patch(session, kinds.CONFIG_MAP, "a", namespace, relabelled)
    assert until(of_a, last(Change.DELETED, "a")) == [("DELETED", "a")]
    assert until(of_b, last(Change.MODIFIED, "a")) == [("MODIFIED", "a")]

    of_a.close()  # type: ignore[attr-defined]
    objects.delete(session, kinds.CONFIG_MAP, "a", namespace)
    assert until(of_b, last(Change.DELETED, "a")) == [("DELETED", "a")]

    of_b.close()  # type: ignore[attr-defined]
    eventually(lambda: watchers() <= others, message=lambda: str(watchers()))


def test_watch_slow_reader_receives_all_events(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_MAX_QUEUED_EVENTS", 2)
    for index in range(12):
        objects.create(session, make_config_map(f"a{index:02}", namespace))
    changes = []
    for event in follow(session, namespace):
        if event:
            time.sleep(0.02)
            changes.append(event)
            if event.type is Change.SYNCED:
                break
    assert len(changes) == 13
