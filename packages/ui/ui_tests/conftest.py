"""The full-screen interface without a terminal, over a cluster in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import pytest
from textual.events import Key
from textual.pilot import Pilot

from kubectl_sky.tasks import pending
from kubectl_sky.words import owners
from kubectl_sky_ui import feeds, logs
from kubectl_sky_ui.app import SkyApp
from kubectl_sky_ui.feeds import LogFeed
from kubectl_sky_ui.logs import LogView
from tests.actions.conftest import Submitter, shorten_waits
from tests.fake_cluster import FakeCluster

NARROW = (60, 20)
WIDE = (120, 40)
_KEYS = {"/": "slash", ":": "colon", "?": "question_mark", "\r": "enter"}
_SECONDS = 60.0  # until a test gives up


class Screen:
    """What a user sees, and the keys."""

    def __init__(self, app: SkyApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def log_view(self) -> tuple[LogView, LogFeed]:
        view = self.app.screen
        assert isinstance(view, LogView) and view._feed
        return view, view._feed

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def burst(self, text: str) -> None:
        """Type a text without pauses, as a fast user does."""
        for character in text:
            key = _KEYS.get(character, character)
            self.app.post_message(Key(key, character))

    async def until(self, check: Callable[[], object]) -> None:
        deadline = monotonic() + _SECONDS
        while not check():
            assert monotonic() < deadline, self.text
            await self.pilot.pause(0.03)

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: (shown := self.text) and all(text in shown for text in texts))

    async def lacks(self, *texts: str) -> None:
        await self.until(lambda: (shown := self.text) and not any(map(shown.count, texts)))


Play = Callable[..., SkyApp]


@pytest.fixture
def no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "_FIRST_LOOK", 3600.0)


@pytest.fixture
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (feeds, logs):
        monkeypatch.setattr(module, "MAX_LINES", 50)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """A cluster in memory; its errors are retried at once."""
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(feeds, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(feeds, "_CHECK_SECONDS", 0.05)
    shorten_waits(monkeypatch)
    return FakeCluster()


@pytest.fixture
def send(api: FakeCluster, tmp_path: Path) -> Submitter:
    return Submitter(api, tmp_path)


@pytest.fixture
def play(api: FakeCluster) -> Play:
    """Run the interface as alice while a user acts; return it when it has ended."""

    def play(
        act: Callable[[Screen], Awaitable[None]],
        size: tuple[int, int] = WIDE,
        namespace: str | None = "default",
        all_users: bool = False,
    ) -> SkyApp:
        app = SkyApp(api.session(), owners.name_owner("alice"), namespace, all_users)

        async def run() -> None:
            async with app.run_test(size=size) as pilot:
                await act(Screen(app, pilot))

        asyncio.run(run())
        return app

    return play
