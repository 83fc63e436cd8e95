"""The lists of tasks that pages follow: shared by the viewers of a token, and bounded."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from kubectl_sky.words import kinds
from kubectl_sky_server.rest import identity, live
from kubectl_sky_server.rest.config import Config, Limits
from server_tests.rest.conftest import ALICE, BOB, HELLO, Client, bearer, serving, submitted
from server_tests.rest.test_streams import events
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.polling import eventually


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
    def ended(self) -> bool:
        while part := self._client.recv(65536):
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
def viewing(port: int, query: str = "", **headers: str) -> Iterator[Viewer]:
    headers = {"Host": "x"} | (headers or bearer(ALICE))
    lines = [f"GET /tasks/events{query} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall("\r\n".join(lines).encode())
        yield Viewer(client)


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


def test_viewers_of_a_token_share_a_watch_and_another_token_does_not(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    with serving(config) as (port, _), viewing(port) as one, viewing(port) as other:
        assert one.read(bool) == other.read(bool)
        shared = cluster.count("watch jobs")
        assert shared == 1
        with viewing(port, "?all_users=true", **bearer(BOB)) as bob:
            assert bob.read(bool)[0]["data"]["tasks"]
            assert cluster.count("watch jobs") == shared + 1


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
        [followed] = app.state.lists._lists.values()
        eventually(lambda: followed.is_current)

        before = len(cluster.requests)
        page = alice.get("/tasks?limit=2").json()
        rest = alice.get("/tasks", params={"limit": 2, "cursor": page["next"]}).json()
        ids = [task["task_id"] for task in page["tasks"] + rest["tasks"]]
        assert sorted(ids) == [f"{ID[:-1]}{number}" for number in range(3)]
        assert rest["next"] is None
        assert len(cluster.requests) == before


def test_lists_that_need_too_much_memory_are_refused(alice: TestClient, config: Config) -> None:
    submitted(alice, id=ID)
    small = replace(config, limits=Limits(list_bytes=100))
    with serving(small) as (port, _), viewing(port) as viewer:
        *_, error = viewer.read(has("error"))
        assert "need more than 0 MiB" in error["data"]["detail"]


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


def test_list_that_viewers_have_not_read_counts_once_in_the_limit(
    alice: TestClient, config: Config
) -> None:
    async def hold(followed: live.LiveList) -> list[int]:
        sizes = [followed.size]
        views = [followed.view(None, 60) for _ in range(2)]
        blocks = [await anext(view) for view in views]
        sizes.append(followed.size - len(blocks[0]))
        for view in views:
            await view.aclose()  # type: ignore[attr-defined]
        return [*sizes, followed.size]

    submitted(alice, id=ID)
    with serving(config) as (port, app), viewing(port) as viewer:
        viewer.read(bool)
        [followed] = app.state.lists._lists.values()
        eventually(lambda: not followed._unread)
        before, held, after = asyncio.run(hold(followed))
        assert before == held == after
