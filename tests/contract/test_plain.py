"""Certificates of kubeconfigs, and which kubeconfigs the Kubernetes client is not needed for."""

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.errors import ClusterError
from tests.contract.certificates import Authority, StrictServer
from tests.contract.configs import Json, make_config, reader

__all__ = ["reader"]  # a fixture of all tests here


@pytest.fixture
def authority() -> Authority:
    """Certificates of our own making."""
    return Authority()


@pytest.fixture
def strict(authority: Authority, tmp_path: Path) -> Iterator[StrictServer]:
    """A server that is called `inside` and asks for a certificate of whoever comes."""
    found = StrictServer(authority, tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("files", [False, True])
def test_certificates(
    authority: Authority, strict: StrictServer, tmp_path: Path, files: bool
) -> None:
    pair = authority.issue("carol")
    contents = {
        "certificate-authority": authority.certificate,
        "client-certificate": pair.certificate,
        "client-key": pair.key,
    }
    given = {}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        data = {f"{name}-data": b64encode(content).decode()}
        given[name] = {name: name} if files else data
    path = make_config(
        tmp_path / "config",
        user=given["client-certificate"] | given["client-key"],
        cluster=given["certificate-authority"]
        | {"server": strict.url, "tls-server-name": "inside"},
    )
    session = Session.connect(Connection(kubeconfig=str(path)))
    assert objects.list_all(session, kinds.NODE) == []
    assert strict.callers == ["carol"]
    other = Connection(kubeconfig=str(path), insecure=False)
    path.write_text(path.read_text().replace("tls-server-name: inside", "tls-server-name: outside"))
    with pytest.raises(ClusterError, match="certificate"):
        objects.list_all(Session.connect(other), kinds.NODE)
    assert strict.callers == ["carol"]
    loose = Connection(kubeconfig=str(path), insecure=True)
    assert objects.list_all(Session.connect(loose), kinds.NODE) == []


PLAIN = """
import sys
from kubectl_sky.cluster.session import Connection, Session
session = Session.connect(Connection(kubeconfig=sys.argv[1]))
print(session.server, session.context, session.namespace, "kubernetes" in sys.modules)
"""


@pytest.mark.parametrize(
    ("user", "cluster", "environment", "client"),
    [
        ({"token": "t"}, {}, {}, False),
        ({}, {"insecure-skip-tls-verify": True}, {}, False),
        ({"tokenFile": "token"}, {}, {}, True),
        ({"token": "t"}, {"proxy-url": "http://proxy.invalid"}, {}, True),
        ({"token": "t"}, {}, {"HTTPS_PROXY": "http://proxy.invalid"}, True),
        ({"username": "u", "password": "p"}, {}, {}, True),
    ],
)
def test_the_client_is_imported_only_where_it_is_needed(
    tmp_path: Path, user: Json, cluster: Json, environment: dict[str, str], client: bool
) -> None:
    (tmp_path / "token").write_text("t")
    path = make_config(tmp_path / "config", user=user, cluster=cluster)
    if not user:
        path.write_text(path.read_text().replace("token: t", "client-key-data: ''"))
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    assert done.stdout == f"https://here.invalid:6443 here here-ns {client}\n"
