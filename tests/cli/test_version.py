"""`version` with the client's and the server's version."""

import json
from typing import Any

import pytest

from kubectl_sky import __version__
from kubectl_sky.cli import main
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Unreachable

SERVER = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}


class Server:
    """A session that answers /version only."""

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/version")
        return SERVER


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
