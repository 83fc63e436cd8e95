"""The tables of tasks and nodes: live, filtered, and safe with names of others."""

import pytest

from kubectl_sky.words import kinds
from kubectl_sky_ui.table import Table
from kubectl_sky_ui.view import Prompt
from kubectl_sky_ui.views import NodeList, TaskList
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from ui_tests.conftest import NARROW, WIDE, Play, Screen

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"
OTHER = "wxyz2345"
TWO = HELLO + "num_nodes: 2\n"


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_task_list_fits_screen(send: Submitter, play: Play, size: tuple[int, int]) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID, "hello", "pending", "0/1", "Logs", "Doctor", "Stop", "Filter")
        title, header, row = screen.lines[:3]
        assert title.startswith(" 1 task · default · alice · fake")
        assert header.split()[:5] == ["ID", "NAME", "STATUS", "NODES", "AGE"]
        assert row.split()[:4] == [ID, "hello", "pending", "0/1"]
        assert len(screen.lines) == size[1]
        assert all(len(line) <= size[0] for line in screen.lines)
        assert all(word in screen.lines[-1] for word in ("Logs", "Doctor", "Stop", "Filter"))

    play(act, size)


def test_task_list_shows_changes_as_they_come(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows("pending")
        api.start(JOB)
        await screen.shows("running", "1/1")
        api.finish(JOB, 3)
        await screen.shows("failed", "exit code 3")
        api.remove(kinds.JOB, JOB)
        await screen.shows("no tasks found")

    play(act)


def test_task_list_keeps_selected_task_when_newer_task_arrives(send: Submitter, play: Play) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        send("name: newer\nrun: 'true'\n", task_id=OTHER)
        await screen.shows(OTHER)
        assert isinstance(screen.app.screen, TaskList)
        assert screen.app.screen.query_one(Table).selected == f"default/{ID}"

    play(act)


def test_filter_shows_matching_tasks_until_escape(send: Submitter, play: Play) -> None:
    send(HELLO)
    send("name: train\nrun: 'true'\n", task_id=OTHER)

    async def act(screen: Screen) -> None:
        await screen.shows(ID, OTHER)
        await screen.press("slash", *"TRAI")
        await screen.lacks(ID)
        await screen.press("enter")
        await screen.shows(OTHER, "/TRAI")
        await screen.press("escape")
        await screen.shows(ID, OTHER)
        await screen.press("slash", *"nosuch")
        await screen.shows("no task contains the filter")
        await screen.press("escape")
        await screen.shows(ID, OTHER)

    play(act)


def test_users_key_shows_tasks_of_all_users(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    send("name: theirs\nrun: 'true'\n", task_id=OTHER)
    labels = api.get(kinds.JOB, f"theirs-{OTHER}")
    labels["metadata"]["labels"]["username"] = "bob"
    labels["metadata"]["annotations"]["kubectl-sky/user"] = "bob"
    api.put(labels)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        assert OTHER not in screen.text
        await screen.press("u")
        await screen.shows(ID, OTHER, "bob", "all users")
        await screen.press("u")
        await screen.lacks(OTHER, "all users")

    play(act)


def test_enter_shows_nodes_and_escape_returns(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(TWO)
    api.start(f"{JOB}-node-1")

    async def act(screen: Screen) -> None:
        await screen.shows("1/2")
        await screen.press("enter")
        await screen.shows("node-0", "node-1", "RESTARTS", f"hello {ID}")
        assert isinstance(screen.app.screen, NodeList)
        api.start(f"{JOB}-node-0")
        await screen.until(lambda: screen.text.count("running") >= 3)
        api.finish(f"{JOB}-node-0", 3)
        await screen.shows("failed")
        await screen.press("escape")
        await screen.shows("1 task", "NAME")

    play(act)


def test_many_tasks_are_cut(
    api: FakeCluster, send: Submitter, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_sky_ui.views.MAX_ROWS", 1)
    send(HELLO)
    send("name: train\nrun: 'true'\n", task_id=OTHER)

    async def act(screen: Screen) -> None:
        await screen.shows("first 1 of 2 tasks")
        assert (ID in screen.text) is not (OTHER in screen.text)

    play(act)


@pytest.mark.parametrize("keys", ["/train", "/q", "/a/b:c?"])
def test_keys_typed_at_once_after_slash_are_the_filter(
    send: Submitter, play: Play, keys: str
) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows("hello")
        screen.burst(keys)
        await screen.until(lambda: screen.app.screen.query_one(Prompt).value == keys[1:])
        assert isinstance(screen.app.screen, TaskList)

    play(act)
