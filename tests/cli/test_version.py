"""`version` with the client's and the server's version."""

import json

import pytest

from kubectl_sky import __version__
from kubectl_sky.cli import main
from kubectl_sky.cluster import web
from kubectl_sky.cluster.session import Answer, Session
from kubectl_sky.errors import Unreachable

SERVER = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}


class Server:
    """A session that answers /version only."""

    def send(self, method: str, path: str) -> Answer[dict[str, str]]:
        assert (method, path) == ("GET", "/version")
        return Answer(200, SERVER, False)


def test_version_json_has_client_and_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "connect", lambda connection: Server())
    assert main.main(["version", "-o", "json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["clientVersion"]["gitVersion"] == f"v{__version__}"
    assert versions["serverVersion"] == SERVER


def test_version_without_cluster_prints_client_and_exits_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(connection: object) -> Session:
        raise Unreachable("cannot reach the cluster")

    monkeypatch.setattr(Session, "connect", refuse)
    assert main.main(["version", "-o", "json"]) == 3
    out, err = capsys.readouterr()
    assert "clientVersion" in json.loads(out) and "serverVersion" not in out
    assert "error: cannot reach the cluster" in err
    assert main.main(["version", "-o", "json", "--client"]) == 0
    assert main.main(["version"]) == 0
    assert capsys.readouterr().out.endswith(f"{__version__}\n")


RELEASES = "https://github.com/kubectl-sky/kubectl-sky/releases"


@pytest.mark.parametrize(
    ("location", "code", "message"),
    [
        (f"{RELEASES}/tag/v{__version__}", 0, "this is the newest version"),
        (f"{RELEASES}/tag/v0.0.9", 0, "this is the newest version"),
        (f"{RELEASES}/tag/v10.2.0", 0, f"version 10.2.0 is available: {RELEASES}/tag/v10.2.0"),
        (RELEASES, 1, f"error: no release found at {RELEASES}"),
        ("https://login.example.com/tag/v9.9.9", 1, "no release found"),
    ],
)
def test_version_check_compares_with_newest_release(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    location: str,
    code: int,
    message: str,
) -> None:
    asked: list[web.Fetch] = []

    def fetch(request: web.Fetch) -> web.Answer:
        asked.append(request)
        return web.Answer(302, {"Location": location})

    monkeypatch.setattr(web, "fetch", fetch)
    assert main.main(["version"]) == 0
    assert asked == []
    assert main.main(["version", "--check"]) == code
    assert asked == [web.Fetch(f"{RELEASES}/latest")]
    assert message in capsys.readouterr().err


def test_version_check_without_network_has_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(request: web.Fetch) -> web.Answer:
        raise web.FetchFailed("ConnectionFailed", "Name or service not known")

    monkeypatch.setattr(web, "fetch", refuse)
    assert main.main(["version", "--check", "-o", "json"]) == 3
    assert capsys.readouterr() == (
        "",
        f"error: cannot ask {RELEASES} for the newest version: Name or service not known\n"
        "hint: check the network; `version` alone asks nobody\n",
    )
