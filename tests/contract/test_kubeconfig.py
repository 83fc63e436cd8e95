"""Which server and which user: files, flags, plugins, and every way that they can be wrong."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.errors import ClusterError, Unreachable
from tests.contract.configs import Json, make_config, reader

__all__ = ["reader"]  # a fixture of all tests here


def message(connection: Connection) -> str:
    with pytest.raises(ClusterError) as caught:
        Session.connect(connection)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert message(Connection()) == (
        "no kubeconfig: none at ~/.kube/config and KUBECONFIG is not set;"
        " name one with --kubeconfig"
    )
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert "KUBECONFIG names /nowhere/config, which does not exist" in message(Connection())
    assert "/other does not exist" in message(Connection(kubeconfig="/other"))


def test_pod_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert "this pod has no service account to use" in message(Connection())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML (line 1)"),
        ("", "not a kubeconfig"),
        ("just text", "not a kubeconfig"),
        ("- 1", "not a kubeconfig"),
        ("clusters: 3", "not a kubeconfig"),
        ("{}", "has no current context"),
        ("current-context: x", "no context 'x'"),
        ("contexts: [{name: x}]\ncurrent-context: x", "no context 'x'"),
        (
            "contexts: [{name: x, context: {cluster: y, user: z}}]\ncurrent-context: x",
            "name y",
        ),
    ],
)
def test_damaged_file(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    told = message(Connection(kubeconfig=str(path)))
    assert why in told
    assert str(path) in told


def test_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x00\x80")
    assert "cannot use the kubeconfig" in message(Connection(kubeconfig=str(path)))
    assert "Is a directory" in message(Connection(kubeconfig=str(tmp_path)))


def test_unknown_context_and_cluster_name_those_that_exist(tmp_path: Path) -> None:
    path = str(make_config(tmp_path / "config"))
    assert message(Connection(kubeconfig=path, context="other")).endswith("it has: here")
    assert message(Connection(kubeconfig=path, cluster="other")).endswith("it has: here")


def test_missing_certificate(tmp_path: Path) -> None:
    path = make_config(tmp_path / "config", cluster={"certificate-authority": "ca.crt"})
    told = message(Connection(kubeconfig=str(path)))
    assert f"the certificate or key file {tmp_path}/ca.crt does not exist" in told


@pytest.mark.parametrize("data", ["", "bm9uZQ==", "%%%"])
def test_damaged_certificate(cluster: Any, tmp_path: Path, data: str) -> None:
    server = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server
    (tmp_path / "ca.crt").write_text(data)
    path = make_config(
        tmp_path / "config",
        cluster={"server": server, "certificate-authority": str(tmp_path / "ca.crt")},
    )
    session = Session.connect(Connection(kubeconfig=str(path)))
    with pytest.raises(ClusterError, match="certificate-authority") as error:
        objects.list_all(session, kinds.NODE)
    assert not isinstance(error.value, Unreachable)


def test_files_merge_and_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = make_config(tmp_path / "1", "one"), make_config(tmp_path / "2", "two")
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path}/none:{two}")
    session = Session.connect()
    assert (session.context, session.namespace) == ("one", "one-ns")
    assert session.server == "https://one.invalid:6443"
    assert Session.connect(Connection(context="two")).namespace == "two-ns"
    mixed = Session.connect(Connection(cluster="two"))
    assert (mixed.server, mixed.context) == ("https://two.invalid:6443", "one")


def test_flags_win(tmp_path: Path) -> None:
    path = str(make_config(tmp_path / "config"))
    session = Session.connect(
        Connection(kubeconfig=path, namespace="mine", server="https://elsewhere:1/")
    )
    assert (session.namespace, session.server) == ("mine", "https://elsewhere:1")


def make_plugin(tmp_path: Path, body: str) -> Json:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(body)
    version = "client.authentication.k8s.io/v1"
    return {
        "exec": {
            "apiVersion": version,
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }


def test_failing_plugin(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user = make_plugin(tmp_path, "import sys; sys.exit('please\\nlog in')")
    path = make_config(tmp_path / "config", user=user)
    told = message(Connection(kubeconfig=str(path)))
    assert told.startswith(f"the credential plugin {sys.executable} failed: process returned 1.")
    assert "please log in" in told
    assert capfd.readouterr() == ("", "")


def test_plugin_is_asked_again_when_its_token_has_expired(cluster: Any, tmp_path: Path) -> None:
    real = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    token = real["users"][0]["user"].get("token")
    if not token:
        pytest.skip("the test cluster's admin has no token")
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    body = f"""
import json, pathlib
first = pathlib.Path({str(tmp_path / "asked")!r})
token = {token!r} if first.exists() else "expired"
first.touch()
print(json.dumps({credential!r} | {{"status": {{"token": token}}}}))
"""
    server = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server
    path = make_config(
        tmp_path / "config",
        user=make_plugin(tmp_path, body),
        cluster={"server": server, "insecure-skip-tls-verify": True},
    )
    session = Session.connect(Connection(kubeconfig=str(path)))
    assert objects.list_all(session, kinds.NODE)


def test_token_file_may_end_with_a_newline(cluster: Any, tmp_path: Path) -> None:
    real = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    token = real["users"][0]["user"].get("token")
    if not token:
        pytest.skip("the test cluster's admin has no token")
    (tmp_path / "token").write_text(f"{token}\n")
    server = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server
    path = make_config(
        tmp_path / "config",
        user={"tokenFile": "token"},
        cluster={"server": server, "insecure-skip-tls-verify": True},
    )
    assert CoreManager(Session.connect(Connection(kubeconfig=str(path)))).whoami() == "admin"


def test_impersonation(cluster: Any) -> None:
    connection = Connection(
        kubeconfig=str(cluster.kubeconfig), as_user="carol", as_groups=("one", "two")
    )
    session = Session.connect(connection)
    answer = session.request(
        "POST",
        objects.path(kinds.SELF_SUBJECT_REVIEW),
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    info = answer["status"]["userInfo"]
    assert info["username"] == "carol"
    assert {"one", "two"} <= set(info["groups"])
    assert "token" not in json.dumps(answer)
