"""What pods and the cluster say is data: no markup, links, keys or memory without bounds."""

import tracemalloc
from threading import Event, Thread

import pytest

from kubectl_sky.observe.logs import Origin
from kubectl_sky.words import kinds, names
from kubectl_sky_ui.feeds import LogFeed
from kubectl_sky_ui.logs import LogView
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from ui_tests.conftest import Play, Screen

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"
MARKUP = "[red]r[/red] [@click=app.stop_app]c[/] [link=http://evil]l[/link] [/] \\[ [$error] [bold"
ESCAPES = (
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x1b]52;c;ZXZpbA==\x07\x1b[?1049l\x1b[2J\x1b[6n"
    "\x1bc\x1bP+q544e\x1b\\\x1b[8mhidden\x1b[0m\x07\x08\x9b31m pay\u202eevil"
)


def links(screen: Screen) -> list[str]:
    """Return the links and actions in the cells above the footer."""
    strips = screen.app.screen._compositor.render_strips()[:-1]
    styles = [segment.style for strip in strips for segment in strip if segment.style]
    return [str(style) for style in styles if style.link or "@click" in style.meta]


@pytest.mark.parametrize("key", ["w", "t"])
def test_log_lines_with_markup_and_escapes_are_text(
    api: FakeCluster, send: Submitter, play: Play, key: str
) -> None:
    send(HELLO)
    api.log(api.start(JOB), f"{MARKUP}\n{ESCAPES}\nend\n".encode())

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("[red]r[/red] [@click=app.stop_app]c[/] [link=http://evil]l", "end")
        await screen.press(key)
        await screen.shows("[@click=app.stop_app]c[/]", "end")
        assert "evil\x1b" not in screen.text and "hidden" in screen.text
        assert "pay<U+202E>" in screen.text
        assert "ZXZpbA" not in screen.text
        assert not any(ord(character) < 32 for line in screen.lines for character in line)
        assert not links(screen)

    play(act)


def test_reasons_and_events_with_markup_are_text(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    hostile = MARKUP + ESCAPES
    waiting = {"waiting": {"reason": MARKUP, "message": hostile}}
    pod = api.start(JOB)
    statuses = [{"name": names.CONTAINER, "restartCount": 0, "state": waiting}]
    spec = api.get(kinds.POD, pod)["spec"] | {"nodeName": "n1"}
    status = {"phase": "Pending", "containerStatuses": statuses}
    api.change(kinds.POD, pod, spec=spec, status=status)
    job = api.get(kinds.JOB, JOB)
    job["metadata"]["annotations"]["kubectl-sky/name"] = "[b]x[/b]\x1b[2J\n\u202e[@click=app.bell]"
    api.put(job)

    async def act(screen: Screen) -> None:
        await screen.shows("pending", "[b]x[/b] <U+", "[red]r[/red] [@click=app.stop_app]c[/]")
        await screen.press("ctrl+k")
        await screen.shows("[b]x[/b] <U+", "y stop")
        await screen.press("n", "enter")
        await screen.shows("[red]r[/red]", "POD")
        assert not links(screen)
        await screen.press("l")
        await screen.until(lambda: isinstance(screen.app.screen, LogView))
        await screen.press("escape", "d")
        await screen.shows(f"task/{ID} ([b]x[/b]", "is pending")
        assert not links(screen)
        assert not any(ord(character) < 32 for line in screen.lines for character in line)

    play(act)


@pytest.mark.usefixtures("few_lines")
@pytest.mark.parametrize("key", ["w", "s"])
def test_flood_of_long_lines_keeps_memory_bounded_and_quit_works(
    api: FakeCluster, send: Submitter, play: Play, key: str
) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"first\n")
    line = b"".join(b"\x1b[3%dmx" % (number % 6 + 1) for number in range(3000))
    enough = Event()
    peak = 0

    def flood(feed: LogFeed) -> None:
        while not enough.wait(0.005):
            lines = [b"2026-01-01T00:00:00Z %d " % number + line for number in range(50)]
            feed.logs([(Origin(ID, 0, "node-0", "pod"), line) for line in lines], True)

    async def act(screen: Screen) -> None:
        nonlocal peak
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("first")
        view, feed = screen.log_view
        await screen.press(key)
        tracemalloc.start()
        Thread(target=flood, args=(feed,), daemon=True).start()
        await screen.until(lambda: view._skipped + feed._skipped > 1000)
        peak = tracemalloc.get_traced_memory()[1]
        await screen.press("q")

    try:
        app = play(act)
    finally:
        enough.set()
        tracemalloc.stop()
    assert app.return_code == 0
    assert peak < 9_000_000, "the lines have 18 MB"
