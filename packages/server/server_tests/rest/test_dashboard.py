"""`kubectl sky dashboard`: the one-time link is in no program's arguments."""

import re
import stat
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlparse

import pytest

from kubectl_sky.cli.main import main
from kubectl_sky.cluster.session import Session
from kubectl_sky_server.rest import serve
from kubectl_sky_server.rest.config import Config
from tests.fake_cluster import FakeCluster

URL = "http://127.0.0.1:4321"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """The pages that browsers open: address, content and mode of the folder."""
    pages: list[tuple[str, str, int]] = []

    def open_page(address: str) -> bool:
        path = Path(urlparse(address).path)
        pages.append((address, path.read_text(), stat.S_IMODE(path.parent.stat().st_mode)))
        return True

    monkeypatch.setattr(webbrowser, "open", open_page)
    return pages


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, serve.Listener]]:
    """What is served, by a server that stops at once."""
    served: list[tuple[Config, serve.Listener]] = []

    def serve_nothing(
        config: Config,
        listener: serve.Listener,
        note: Callable[[str], object],
        listening: Callable[[str], object],
    ) -> None:
        served.append((config, listener))
        listening(URL)

    monkeypatch.setattr(serve, "serve", serve_nothing)
    monkeypatch.setattr(Session, "connect", FakeCluster().session)
    return served


def test_dashboard_opens_a_private_page_with_the_link(
    opened: list[tuple[str, str, int]],
    configs: list[tuple[Config, serve.Listener]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["dashboard"]) == 0
    ((config, listener),) = configs
    link = f"{URL}/ui/#/login?code={config.login_code}"
    assert capsys.readouterr().out == f"{link}\n"
    ((address, content, mode),) = opened
    assert config.login_code not in address
    assert set(re.findall(r'http:[^"]*', content)) == {link}
    assert mode == 0o700
    assert not Path(urlparse(address).path).exists()
    assert len(config.login_code) >= 32
    assert listener == serve.Listener("127.0.0.1", 0)


def test_dashboard_without_browser_only_prints_the_link(
    opened: list[tuple[str, str, int]],
    configs: list[tuple[Config, serve.Listener]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["dashboard", "--no-browser", "--port", "8080", "--user", "alice"]) == 0
    ((config, listener),) = configs
    assert capsys.readouterr().out.startswith(URL)
    assert not opened
    assert (config.owner, listener.port) == ("alice", 8080)
