"""The lists of tasks that pages follow: shared by viewers with equal rights, and bounded."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from kubectl_sky.actions import namespaces
from kubectl_sky.errors import Forbidden
from kubectl_sky.words import kinds
from kubectl_sky_server.rest import events as events_module
from kubectl_sky_server.rest import identity, live
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.identity import Caller, Identities
from kubectl_sky_server.rest.lists import LiveLists
from kubectl_sky_server.rest.memory import Memory
from server_tests.rest.conftest import ALICE, BOB, HELLO, Client, bearer, serving, submitted
from server_tests.rest.test_streams import events
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

OWN = "/tasks/events"
ALL_USERS = "/tasks/events?all_users=true"


class Viewer:
    """A page that follows the list."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._text = b""

    def read(self, done: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Read until the events are those; return them."""
        while True:
            body = self._text.partition(b"\r\n\r\n")[2]
            blocks = b"".join(_unchunked(body)).decode().rpartition("\n\n")[0]
            if done(found := events(blocks)):
                return found
            part = self._client.recv(65536)
            assert part, self._text
            self._text += part

    @property
    def closed(self) -> bool:
        while self._client.recv(65536):
            pass
        return True

    @property
    def ended(self) -> bool:
        while not self._text.endswith(b"\r\n0\r\n\r\n"):
            part = self._client.recv(65536)
            assert part, self._text
            self._text += part
        return True


def _unchunked(body: bytes) -> Iterator[bytes]:
    while True:
        size, found, body = body.partition(b"\r\n")
        if not (found and size):
            return
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


@contextmanager
def viewing(port: int, path: str = OWN, **headers: str) -> Iterator[Viewer]:
    headers = {"Host": "x"} | (headers or bearer(ALICE))
    lines = [f"GET {path} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall("\r\n".join(lines).encode())
        yield Viewer(client)


def caller_of(config: Config, token: str) -> Caller:
    return Identities(config).of_token(token)


def came_back(event_id: str) -> dict[str, str]:
    return bearer(ALICE) | {"Last-Event-ID": event_id}


def names(found: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in found]


def has(name: str, count: int = 1) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: names(found).count(name) >= count


def test_events_after_the_list_are_only_what_changed(alice: TestClient, config: Config) -> None:
    submitted(alice, HELLO | {"name": "other"})
    with serving(config) as (port, _), viewing(port) as viewer:
        [whole] = viewer.read(bool)
        assert [task["name"] for task in whole["data"]["tasks"]] == ["other"]
        submitted(alice, id=ID)
        [_, *new] = viewer.read(lambda found: len(found) > 1)
        assert [(event["event"], event["data"]["task_id"]) for event in new] == [("task", ID)]
        alice.post(f"/tasks/{ID}/stop")
        gone = viewer.read(has("gone"))[-1]
        assert gone["data"] == {"namespace": "default", "id": ID}


def test_viewers_with_equal_rights_share_a_watch_whatever_their_tokens(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    with (
        serving(config) as (port, _),
        viewing(port, ALL_USERS) as one,
        viewing(port, ALL_USERS) as other,
        viewing(port, ALL_USERS, **bearer(BOB)) as bob,
    ):
        assert one.read(bool) == other.read(bool) == bob.read(bool)
        assert cluster.count("watch jobs") == 1


def test_viewers_of_their_own_tasks_share_no_watch(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    with serving(config) as (port, _), viewing(port) as one, viewing(port, **bearer(BOB)) as bob:
        assert one.read(bool)[0]["data"]["tasks"]
        assert not bob.read(bool)[0]["data"]["tasks"]
        assert cluster.count("watch jobs") == 2


@pytest.mark.parametrize("right", ["list jobs", "watch pods"])
def test_viewer_without_a_right_is_refused_while_others_look(
    alice: TestClient, cluster: FakeCluster, config: Config, right: str
) -> None:
    submitted(alice, id=ID)
    cluster.forbidden.add(f"bob: {right}")
    cluster.sends_initial_events = False
    with serving(config) as (port, app), viewing(port, ALL_USERS) as one:
        one.read(bool)
        with viewing(port, ALL_USERS, **bearer(BOB)) as bob:
            [error] = bob.read(bool)
            assert error["data"]["status"] == 403
            assert f"may not {right}" in error["data"]["detail"]
        if right == "list jobs":
            page = TestClient(app, headers=bearer(BOB)).get("/tasks?all_users=true")
            assert page.status_code == 403
        assert one.read(bool) == one.read(bool)


def test_viewer_with_fewer_optional_rights_has_a_list_of_their_own(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    cluster.forbidden.add("bob: list events")
    with (
        serving(config) as (port, _),
        viewing(port, ALL_USERS) as one,
        viewing(port, ALL_USERS, **bearer(BOB)) as bob,
    ):
        assert names(one.read(bool)) == names(bob.read(bool)) == ["tasks"]
        assert cluster.count("watch jobs") == 2


def test_right_that_is_withdrawn_ends_the_stream_of_its_viewer_only(
    cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "REVIEW_SECONDS", 0.05)
    with (
        serving(config) as (port, app),
        viewing(port, ALL_USERS) as one,
        viewing(port, ALL_USERS, **bearer(BOB)) as bob,
    ):
        one.read(bool)
        bob.read(bool)
        cluster.forbidden.add("bob: list pods")
        assert bob.ended
        submitted(TestClient(app, headers=bearer(ALICE)), id=ID)
        one.read(has("task"))


@pytest.mark.parametrize(
    ("right", "path"),
    [
        ("get pods/log", f"/tasks/{ID}/logs?all_users=true"),
        ("list pods", f"/tasks/{ID}/events?all_users=true"),
        ("list jobs", f"/tasks/{ID}/events?all_users=true"),
    ],
)
def test_right_that_is_withdrawn_ends_the_stream_of_one_task(
    alice: TestClient,
    cluster: FakeCluster,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    right: str,
    path: str,
) -> None:
    monkeypatch.setattr(events_module, "REVIEW_SECONDS", 0.05)
    submitted(alice, id=ID)
    headers = bearer(BOB) | {"Accept": "text/event-stream"}
    with serving(config) as (port, _), viewing(port, path, **headers) as viewer:
        viewer.read(bool)
        cluster.forbidden.add(f"bob: {right}")
        assert viewer.ended


def test_token_that_is_withdrawn_ends_its_streams(
    alice: TestClient, cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "REVIEW_SECONDS", 0.05)
    monkeypatch.setattr(identity, "_RECENT_SECONDS", 0.0)
    submitted(alice, id=ID)
    path = f"/tasks/{ID}/events"
    with serving(config) as (port, _), viewing(port, path) as viewer:
        viewer.read(bool)
        del cluster.tokens[ALICE]
        assert viewer.ended


def test_token_that_is_withdrawn_ends_a_watch_of_the_api_server(
    cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "REVIEW_SECONDS", 0.05)
    monkeypatch.setattr(identity, "_RECENT_SECONDS", 0.0)
    path = "/kubernetes/api/v1/namespaces/default/pods?watch=true"
    with serving(config) as (port, app), viewing(port, path) as viewer:
        eventually(lambda: app.state.streams.total)
        assert app.state.streams.total == 1
        del cluster.tokens[ALICE]
        eventually(lambda: not app.state.streams.total)
        assert viewer.closed


def test_rights_of_a_caller_count_for_a_minute(
    config: Config, cluster: FakeCluster, alice: TestClient
) -> None:
    now = 1000.0
    lists = LiveLists(Memory(1, lambda: 0), lambda: now)
    caller = caller_of(config, BOB)
    scope = caller.scope(all_users=True)
    followed = lists.open(caller, scope)
    eventually(lambda: followed.is_current)
    cluster.forbidden.add("bob: list jobs")
    now += events_module.REVIEW_SECONDS - 1
    assert lists.find(caller, scope) is followed
    now += 2
    assert lists.find(caller, scope) is None
    with pytest.raises(Forbidden):
        lists.confirm(caller, scope, followed)


def test_other_viewers_do_not_notice_that_the_token_that_reads_is_refused(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    bob_client = TestClient(create_app(config), headers=bearer(BOB))
    submitted(bob_client, id=ID)
    kept = submitted(bob_client)
    with (
        serving(config) as (port, _),
        viewing(port, ALL_USERS) as one,
        viewing(port, ALL_USERS, **bearer(BOB)) as bob,
    ):
        one.read(bool)
        bob.read(bool)
        del cluster.tokens[ALICE]
        cluster.break_streams()
        bob_client.post(f"/tasks/{ID}/stop")
        new = submitted(bob_client)
        found = bob.read(lambda found: {"gone", "task"} <= set(names(found)))
        changed = {event["data"].get("task_id") or event["data"]["id"] for event in found[1:]}
        assert changed == {ID, new}
        assert kept not in changed


def test_token_of_a_viewer_who_is_gone_does_not_read(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    bob_client = TestClient(create_app(config), headers=bearer(BOB))
    with serving(config) as (port, app), viewing(port, ALL_USERS, **bearer(BOB)) as bob:
        with viewing(port, ALL_USERS) as one:
            one.read(bool)
            bob.read(bool)
        [followed] = app.state.lists._lists.values()
        eventually(lambda: len(followed._viewers) == 1)
        del cluster.tokens[ALICE]
        cluster.break_streams()
        submitted(bob_client, id=ID)
        bob.read(has("task"))
        assert cluster.count("watch jobs") == 2


def test_viewer_who_comes_back_gets_what_changed_meanwhile(
    alice: TestClient, config: Config
) -> None:
    with serving(config) as (port, _), viewing(port) as keeper:
        keeper.read(bool)
        with viewing(port) as viewer:
            seen = viewer.read(bool)[-1]["id"]
        submitted(alice, id=ID)
        keeper.read(has("task"))
        with viewing(port, **came_back(seen)) as viewer:
            assert names(viewer.read(bool)) == ["task"]
        with viewing(port, **came_back("00000000-7")) as viewer:
            assert names(viewer.read(bool)) == ["tasks"]


def test_viewer_who_missed_forgotten_deletions_gets_the_whole_list(
    alice: TestClient, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_MAX_GONE", 1)
    with serving(config) as (port, _), viewing(port) as keeper:
        seen = keeper.read(bool)[-1]["id"]
        for count, task_id in enumerate((ID, f"{ID[:-1]}2"), 1):
            submitted(alice, id=task_id)
            keeper.read(has("task", count))
            alice.post(f"/tasks/{task_id}/stop")
            keeper.read(has("gone", count))
        with viewing(port, **came_back(seen)) as viewer:
            assert names(viewer.read(bool)) == ["tasks"]


def test_pipeline_changes_with_its_tasks(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    text = "name: two\n---\nname: one\nrun: echo 1\n---\nname: next\nrun: echo 2\n"
    with serving(config) as (port, _), viewing(port) as viewer:
        viewer.read(bool)
        answer = alice.post(
            "/tasks/submit", content=text, headers={"Content-Type": "application/yaml"}
        )
        pipeline_id = answer.json()["pipeline_id"]
        found = viewer.read(has("pipeline"))
        assert found[-1]["data"]["pipeline_id"] == pipeline_id
        alice.post(f"/tasks/{pipeline_id}/stop")
        viewer.read(lambda found: {"namespace": "default", "id": pipeline_id} in [
            event["data"] for event in found if event["event"] == "gone"
        ])  # fmt: skip


def test_list_of_tasks_is_read_from_the_followed_list_until_the_caller_changes_something(
    cluster: FakeCluster, config: Config
) -> None:
    with serving(config) as (port, app), viewing(port) as viewer:
        viewer.read(bool)
        alice = TestClient(app, headers=bearer(ALICE))
        before = len(cluster.requests)
        assert alice.get("/tasks").json()["tasks"] == []
        assert len(cluster.requests) == before

        for number in range(3):
            submitted(alice, id=f"{ID[:-1]}{number}")
            assert len(alice.get("/tasks").json()["tasks"]) == number + 1
        viewer.read(has("task", 3))
        caller = caller_of(config, ALICE)
        eventually(lambda: app.state.lists.find(caller, caller.scope()))

        before = len(cluster.requests)
        page = alice.get("/tasks?limit=2").json()
        rest = alice.get("/tasks", params={"limit": 2, "cursor": page["next"]}).json()
        ids = [task["task_id"] for task in page["tasks"] + rest["tasks"]]
        assert sorted(ids) == [f"{ID[:-1]}{number}" for number in range(3)]
        assert rest["next"] is None
        assert len(cluster.requests) == before


def test_new_list_is_refused_when_memory_is_short_and_an_open_one_is_not(config: Config) -> None:
    used = 0
    with serving(config) as (port, app):
        app.state.lists = LiveLists(Memory(100 << 20, lambda: used))
        with viewing(port, ALL_USERS) as viewer:
            viewer.read(bool)
            used = 81 << 20
            with viewing(port, ALL_USERS, **bearer(BOB)) as other:
                assert names(other.read(bool)) == ["tasks"]
            answer = TestClient(app, headers=bearer(BOB)).get("/tasks/events")
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
            assert "81 of its 100 MiB" in answer.json()["detail"]


def test_list_waits_until_another_one_is_complete(config: Config) -> None:
    with serving(config) as (port, app), viewing(port) as viewer:
        viewer.read(bool)
        lists = app.state.lists
        with viewing(port, ALL_USERS) as other:
            with lists._turn:
                eventually(lambda: len(lists._lists) == 2)
                [_, waiting] = lists._lists.values()
                assert not waiting.is_current
            assert names(other.read(bool)) == ["tasks"]


def test_refused_watch_ends_the_list(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    cluster.forbidden.add("watch jobs")
    with serving(config) as (port, _), viewing(port) as viewer:
        *_, error = viewer.read(has("error"))
        assert "may not watch jobs" in error["data"]["detail"]
        assert error["data"]["status"] == 403  # no retry can help


def test_list_of_who_may_not_read_the_kinds_of_add_ons_has_the_rest(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    cluster.kinds.add(kinds.JOB_SET)
    cluster.forbidden.add("watch jobsets")
    with serving(config) as (port, _), viewing(port) as viewer:
        [whole] = viewer.read(bool)
        assert [task["task_id"] for task in whole["data"]["tasks"]] == [ID]


def test_tasks_are_not_gone_for_who_may_no_longer_read_their_kind(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    cluster.kinds.add(kinds.JOB_SET)
    submitted(alice, id=ID, backend="jobset")
    with serving(config) as (port, _), viewing(port) as viewer:
        viewer.read(bool)
        cluster.forbidden.add("watch jobsets")
        cluster.break_streams()
        *others, error = viewer.read(has("error"))
        assert "may not watch jobsets" in error["data"]["detail"]
        assert "gone" not in names(others)


def test_list_without_viewers_ends(
    cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_IDLE_SECONDS", 0.1)
    with serving(config) as (port, app):
        with viewing(port) as viewer:
            viewer.read(bool)
            [followed] = app.state.lists._lists.values()
            assert not followed.ended.wait(1)
        assert followed.ended.wait(60)


def test_log_out_without_a_session_ends_no_stream(client: Client, config: Config) -> None:
    with serving(config) as (port, app), viewing(port, **bearer(ALICE)) as program:
        program.read(bool)
        assert TestClient(app).post("/logout").status_code == 204
        submitted(TestClient(app, headers=bearer(ALICE)), id=ID)
        program.read(has("task"))


def test_log_out_ends_the_streams_of_the_session_only(client: Client, config: Config) -> None:
    with serving(config) as (port, app):
        browser = TestClient(app)
        sessions = [
            browser.post("/login", json={"token": ALICE}).json()["session"] for _ in range(2)
        ]
        header = identity.SESSION_HEADER

        with (
            viewing(port, **{header: sessions[0]}) as one,
            viewing(port, **{header: sessions[1]}) as other,
        ):
            one.read(bool)
            other.read(bool)
            browser.post("/logout", headers={header: sessions[0]})
            assert one.ended
            submitted(TestClient(app, headers=bearer(ALICE)), id=ID)
            other.read(has("task"))


def test_viewer_who_reads_slowly_is_sent_rows_as_they_are_then(
    alice: TestClient, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_ROWS", 2)
    ids = {submitted(alice) for _ in range(5)}
    caller = caller_of(config, ALICE)
    followed = LiveLists(Memory(1, lambda: 0)).open(caller, caller.scope())
    eventually(lambda: followed.is_current)
    (_, oldest, _), *_ = followed._order

    async def read(new: str) -> list[dict[str, Any]]:
        view = followed.view(caller, None, 60)
        chunks = [await anext(view)]
        alice.post(f"/tasks/{oldest}/stop")
        eventually(lambda: followed._entries["task", "default", oldest].text == b"")
        submitted(alice, id=new)
        eventually(lambda: ("task", "default", new) in followed._entries)
        while new not in chunks[-1].decode() or b"event: task\n" not in chunks[-1]:
            chunks.append(await anext(view))
        await view.aclose()  # type: ignore[attr-defined]
        return events(b"".join(chunks).decode())

    *pages, gone, task = asyncio.run(read(ID))
    rows = [row["task_id"] for page in pages for row in page["data"]["tasks"]]
    assert names(pages) == ["tasks", *["more"] * (len(pages) - 1)]
    assert all(len(page["data"]["tasks"]) <= 2 for page in pages)
    assert set(rows) - {ID} == ids - {oldest}
    assert (gone["data"]["id"], task["data"]["task_id"]) == (oldest, ID)


def test_window_is_sent_again_only_what_has_changed_in_it(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    ids = [submitted(alice, HELLO | {"name": name}) for name in ("a", "b", "c")]
    with serving(config) as (port, _), viewing(port, f"{OWN}?rows=2&sort=name") as viewer:
        [first] = viewer.read(bool)
        assert first["event"] == "rows"
        assert first["data"]["order"] == [f"default/{task_id}" for task_id in ids[:2]]
        assert first["data"]["counts"] == {"pending": 3}
        assert [task["name"] for task in first["data"]["tasks"]] == ["a", "b"]

        cluster.start(f"b-{ids[1]}")
        started = viewer.read(
            lambda found: found[-1]["data"]["counts"] == {"pending": 2, "running": 1}
        )
        assert [task["name"] for task in started[-1]["data"]["tasks"]] == ["b"]

        alice.post(f"/tasks/{ids[0]}/stop")
        order = [f"default/{task_id}" for task_id in ids[1:]]
        *_, moved = viewer.read(lambda found: found[-1]["data"]["order"] == order)
        assert [task["name"] for task in moved["data"]["tasks"]] == ["c"]


def test_window_has_the_pipelines_of_its_tasks(alice: TestClient, config: Config) -> None:
    text = "name: two\n---\nname: one\nrun: echo 1\n---\nname: next\nrun: echo 2\n"
    answer = alice.post("/tasks/submit", content=text, headers={"Content-Type": "application/yaml"})
    with serving(config) as (port, _), viewing(port, f"{OWN}?rows=1&filter=next") as viewer:
        [rows] = viewer.read(bool)
        [pipeline] = rows["data"]["pipelines"]
        assert pipeline["pipeline_id"] == answer.json()["pipeline_id"]


def test_window_that_the_server_does_not_know_is_refused(alice: TestClient) -> None:
    for query in ("rows=0", "rows=1001", "rows=9&sort=cost", "rows=9&status=lost"):
        assert alice.get(f"{OWN}?{query}").status_code == 400


def test_window_of_my_namespaces_is_one_list(
    alice: TestClient, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "list_own", lambda _: ["default", "team"])
    here = submitted(alice, HELLO | {"name": "b"})
    there = submitted(alice, HELLO | {"name": "a"}, namespace="team")
    listed = alice.get("/tasks", params={"my_namespaces": "true"}).json()["tasks"]
    assert {task["task_id"] for task in listed} == {here, there}
    page = alice.get("/tasks", params={"my_namespaces": "true", "limit": "1"}).json()
    rest = {"my_namespaces": "true", "cursor": page["next"]}
    found = [*page["tasks"], *alice.get("/tasks", params=rest).json()["tasks"]]
    assert [task["task_id"] for task in found] == [task["task_id"] for task in listed]

    path = f"{OWN}?my_namespaces=true&rows=2&sort=name"
    with serving(config) as (port, _), viewing(port, path) as viewer:
        [first] = viewer.read(bool)
        assert first["data"]["order"] == [f"team/{there}", f"default/{here}"]
        assert first["data"]["counts"] == {"pending": 2}

        alice.post(f"/tasks/{there}/stop", params={"namespace": "team"})
        *_, last = viewer.read(lambda found: found[-1]["data"]["counts"] == {"pending": 1})
        assert (last["data"]["order"], last["data"]["tasks"]) == ([f"default/{here}"], [])


def test_events_of_several_namespaces_need_rows(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "list_own", lambda _: ["default", "team"])
    answer = alice.get(OWN, params={"my_namespaces": "true"})
    assert (answer.status_code, "need rows" in answer.text) == (400, True)
