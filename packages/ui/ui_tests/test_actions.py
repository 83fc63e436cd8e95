"""Stop, doctor, namespaces, commands, lost connections, and the end of the interface."""

import os
import signal
from contextlib import nullcontext
from threading import Event
from threading import enumerate as enumerate_threads

import pytest
from rich.color import Color
from textual.color import BLACK

from kubectl_sky.errors import Forbidden
from kubectl_sky.words import kinds, owners
from kubectl_sky_ui.app import SkyApp, run
from kubectl_sky_ui.views import DoctorView, HelpView, TaskList, TooSmall
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from ui_tests.conftest import NARROW, Play, Screen

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"


@pytest.mark.parametrize("key", ["n", "escape", "enter"])
def test_stop_that_is_not_confirmed_deletes_nothing(
    api: FakeCluster, send: Submitter, play: Play, key: str
) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("ctrl+k")
        await screen.shows("Stop this task", "namespace  default", "user       alice")
        await screen.press(key)
        await screen.lacks("Stop this task")

    play(act)
    assert api.count("delete jobs") == 0


def test_stop_that_is_confirmed_deletes_task(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("enter")
        await screen.shows("NODE")
        await screen.press("ctrl+k")
        await screen.shows("Stop this task", f"id         {ID}", "y stop   n cancel")
        await screen.press("y")
        await screen.shows(f"task/{ID} (hello) stopped", "deleted")
        await screen.press("escape")
        await screen.shows("0 tasks")

    play(act, NARROW)
    assert api.names() == []


def test_stop_without_right_shows_error(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.forbidden.add("delete jobs")

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("ctrl+k", "y")
        await screen.shows("error: ", "delete")

    play(act)
    assert f"jobs {JOB}" in api.names()


@pytest.mark.parametrize("allowed", [True, False])
def test_stop_is_finished_and_reported_after_quit(
    api: FakeCluster, send: Submitter, play: Play, allowed: bool
) -> None:
    send(HELLO)
    answer = Event()
    api.before("delete jobs", lambda: answer.wait() and None)
    api.forbidden |= set() if allowed else {"delete jobs"}

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("ctrl+k", "y")
        await screen.shows("stopping task")
        await screen.until(lambda: api.count("delete jobs"))
        await screen.press("q")

    app = play(act)
    assert f"jobs {JOB}" in api.names()
    answer.set()
    with nullcontext() if allowed else pytest.raises(Forbidden):
        app.finish_stops()
    assert (f"jobs {JOB}" in api.names()) is not allowed


def test_doctor_shows_stages_and_cause(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.start(JOB)
    api.finish(JOB, 127)

    async def act(screen: Screen) -> None:
        await screen.shows("failed")
        await screen.press("d")
        await screen.shows(f"task/{ID} (hello) failed:", "next: ", "queue       ok", "problem")

    play(act, NARROW)


@pytest.mark.usefixtures("no_look")
def test_doctor_without_answer_leaves_keys_working(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    answer = Event()
    api.before("list events", lambda: answer.wait() and None)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("d")
        await screen.until(lambda: isinstance(screen.app.screen, DoctorView))
        await screen.until(lambda: api.count("list events"))
        await screen.press("escape")
        await screen.until(lambda: isinstance(screen.app.screen, TaskList))
        await screen.press("question_mark")
        await screen.shows("ctrl-k")
        answer.set()
        await screen.until(
            lambda: not any(thread.name == "doctor" for thread in enumerate_threads())
        )
        await screen.pilot.pause()

    play(act)


@pytest.mark.usefixtures("no_look")
def test_doctor_refused_shows_error(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        for nth in range(1, 11):
            api.before("list events", lambda: 401, nth)
        await screen.press("d")
        await screen.shows("error: ", "press r to try again")

    play(act)


def test_namespaces_are_chosen_from_list_or_by_command(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    api.kinds.add(kinds.NAMESPACE)
    for name in ("default", "team"):
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("n")
        await screen.shows("all namespaces", "default", "team")
        await screen.press("slash", *"tea", "enter")
        await screen.lacks("all namespaces")
        await screen.press("enter")
        await screen.shows(" · team · alice", "no tasks found")
        await screen.press("0")
        await screen.shows(ID, "NAMESPACE", "all namespaces")
        await screen.press("colon", *"ns team", "enter")
        await screen.shows("no tasks found")
        assert screen.app.namespace == "team"

    play(act)


def test_namespaces_without_right_say_how_to_choose(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    api.kinds.add(kinds.NAMESPACE)
    api.forbidden.add("list namespaces")

    async def act(screen: Screen) -> None:
        await screen.press("n")
        await screen.shows("error: ", ":ns NAME")

    play(act)


def test_unknown_command_is_reported(play: Play) -> None:
    async def act(screen: Screen) -> None:
        await screen.press("colon", *"nosuch", "enter")
        await screen.shows('unknown command "nosuch"')
        await screen.press("colon", "escape", "colon", "h", "enter")
        await screen.until(lambda: isinstance(screen.app.screen, HelpView))

    play(act)


def test_lost_connection_is_shown_until_it_is_back(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        api.ready = False
        await screen.shows("error: ", ID)
        api.ready = True
        await screen.lacks("error: ")

    play(act, NARROW)


def test_refused_watch_is_shown_and_retried(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.forbidden |= {"watch jobs", "list jobs"}

    async def act(screen: Screen) -> None:
        await screen.shows("error: ", "retrying")
        api.forbidden.clear()
        await screen.shows(ID)
        await screen.lacks("error: ")

    play(act)


def test_quit_key_ends_with_zero_and_interrupt_with_130(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)

    async def quit_(screen: Screen) -> None:
        await screen.press("q")

    async def interrupt(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("ctrl+d")
        await screen.shows("Stop this task")
        await screen.press("ctrl+c")

    async def kill(screen: Screen) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await screen.until(lambda: screen.app.return_code is not None)

    codes = [play(act).return_code for act in (quit_, interrupt, kill)]
    assert codes == [0, 130, 130]
    assert api.count("delete jobs") == 0


def test_small_terminal_covers_question_until_it_is_larger(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        await screen.press("ctrl+k")
        await screen.shows("Stop this task")
        for size in ((30, 20), (1, 1)):
            await screen.pilot.resize_terminal(*size)
            await screen.until(lambda: isinstance(screen.app.screen, TooSmall))
            await screen.press("y", "ctrl+k")
        await screen.pilot.resize_terminal(40, 12)
        await screen.shows("Stop this task", "y stop   n cancel")
        await screen.press("n")
        await screen.shows(ID)

    play(act)
    assert api.count("delete jobs") == 0


@pytest.mark.usefixtures("no_look")
def test_end_does_not_wait_for_server(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    answer = Event()

    async def act(screen: Screen) -> None:
        await screen.shows(ID)
        api.before("list events", lambda: answer.wait() and None)
        await screen.press("d")
        await screen.until(lambda: api.count("list events"))
        await screen.press("ctrl+c")

    assert play(act).return_code == 130
    answer.set()


def test_bug_in_thread_ends_interface_without_traceback(
    play: Play, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    apps: list[SkyApp] = []

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    async def act(screen: Screen) -> None:
        apps.append(screen.app)
        screen.app.in_background("test", fail)
        await screen.until(lambda: screen.app.bug)

    with pytest.raises(ZeroDivisionError):
        play(act)
    assert isinstance(apps[0].bug, ZeroDivisionError)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_no_color_uses_colors_of_terminal_and_reverses_selected_row(
    send: Submitter, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    send(HELLO)

    async def act(screen: Screen) -> None:
        await screen.shows(ID, "pending")
        (filter_,) = screen.app.get_line_filters()
        strips = screen.app.screen._compositor.render_strips()
        segments = [segment for strip in strips for segment in strip.apply_filter(filter_, BLACK)]
        styles = [segment.style for segment in segments if segment.style]
        assert {str(style.color) for style in styles} == {str(Color.default())}
        assert {str(style.bgcolor) for style in styles} == {str(Color.default())}
        assert any(style.reverse for style in styles), "the selected row"

    play(act)


def test_run_raises_bug_of_interface(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(app: SkyApp, **options: object) -> None:
        app.bug = ZeroDivisionError("a bug")

    monkeypatch.setattr(SkyApp, "run", fail)
    with pytest.raises(ZeroDivisionError):
        run(api.session(), owners.name_owner("alice"), None, True)
