"""Server and user of a connection: kubeconfig files, flags, credential plugins and errors."""

import json
import os
import pty
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.cluster import kubeconfig, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Connection, Outgoing, Session
from kubectl_sky.cluster.websocket import connect
from kubectl_sky.errors import ClusterError, Forbidden, Unreachable, UserError
from kubectl_sky.words import kinds
from tests.cluster.target import Cluster, selected
from tests.contract.certificates import Authority, StrictServer
from tests.contract.configs import Json, make_config


def message(connection: Connection) -> str:
    with pytest.raises(ClusterError) as caught:
        Session.connect(connection)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_connect_without_kubeconfig_prints_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert message(Connection()) == (
        "no kubeconfig: none at ~/.kube/config and KUBECONFIG is not set;"
        " name one with --kubeconfig; `kubectl sky local up` starts a cluster on this machine"
    )
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert message(Connection()).startswith(
        "no kubeconfig: KUBECONFIG names /nowhere/config, which does not exist;"
        " run `unset KUBECONFIG`; "
    )
    assert "/other does not exist" in message(Connection(kubeconfig="/other"))


def test_connect_pod_without_service_account_is_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert "this pod has no service account to use" in message(Connection())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML (line 1)"),
        ("", "has no contexts"),
        ("# nothing\n", "has no contexts"),
        ("just text", "not a kubeconfig"),
        ("- 1", "not a kubeconfig"),
        ("clusters: 3", "not a kubeconfig"),
        ("{}", "has no contexts"),
        ("contexts: [{name: x}]", "has no current context"),
        ("current-context: x", 'context "x" not found'),
        ("contexts: [{name: x}]\ncurrent-context: x", 'context "x" not found'),
        (
            "contexts: [{name: x, context: {cluster: y, user: z}}]\ncurrent-context: x",
            'cluster "y" not found',
        ),
    ],
)
def test_kubeconfig_invalid_yaml_is_error_with_path(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    error = message(Connection(kubeconfig=str(path)))
    assert why in error
    assert str(path) in error


def test_kubeconfig_binary_file_or_directory_is_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x00\x80")
    assert "cannot use the kubeconfig" in message(Connection(kubeconfig=str(path)))
    assert "Is a directory" in message(Connection(kubeconfig=str(tmp_path)))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_kubeconfig_with_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    path = make_config(tmp_path / "config", user={"token": "t", "as": "jäne"})
    path.write_text(path.read_text(), encoding=encoding)
    target = kubeconfig.resolve(Connection(kubeconfig=str(path)))
    assert target.impersonation == (("Impersonate-User", "jäne"),)


def test_kubeconfig_empty_file_in_list_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").touch()
    path = make_config(tmp_path / "config", "one")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/empty:{path}")
    assert Session.connect().context == "one"


def test_kubeconfig_relative_paths_are_of_the_file_of_their_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "token").write_text("t0ken")
    user = {"name": "one", "user": {"tokenFile": "token"}}
    (tmp_path / "users" / "config").write_text(json.dumps({"users": [user]}))
    path = make_config(tmp_path / "config", "one")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/users/config:{path}")
    assert kubeconfig.resolve(Connection()).authorization == "Bearer t0ken"


def test_kubeconfig_unknown_context_or_cluster_lists_existing(tmp_path: Path) -> None:
    path = str(make_config(tmp_path / "config"))
    assert message(Connection(kubeconfig=path, context="other")).endswith("it has: here")
    similar = message(Connection(kubeconfig=path, context="hero"))
    assert similar.endswith('did you mean "here"? it has: here')
    assert "; it has: here; " in message(Connection(kubeconfig=path, cluster="other"))


def test_kubeconfig_missing_certificate_file_is_error(tmp_path: Path) -> None:
    path = make_config(tmp_path / "config", cluster={"certificate-authority": "ca.crt"})
    error = message(Connection(kubeconfig=str(path)))
    assert f"the certificate or key file {tmp_path}/ca.crt does not exist" in error


@pytest.mark.parametrize("data", ["", "bm9uZQ==", "%%%"])
def test_kubeconfig_invalid_certificate_is_error(cluster: Any, tmp_path: Path, data: str) -> None:
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


def test_kubeconfig_several_files_merge_and_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_config(tmp_path / "1", "one")
    second = make_config(tmp_path / "2", "two")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/none:{second}")
    session = Session.connect()
    assert (session.context, session.namespace) == ("one", "one-ns")
    assert session.server == "https://one.invalid:6443"
    assert Session.connect(Connection(context="two")).namespace == "two-ns"
    mixed = Session.connect(Connection(cluster="two"))
    assert (mixed.server, mixed.context) == ("https://two.invalid:6443", "one")


def test_connect_flags_override_kubeconfig(tmp_path: Path) -> None:
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


def test_credential_plugin_failure_prints_exit_code_and_last_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    user = make_plugin(tmp_path, "import sys; sys.exit('Traceback\\nplease log in\\n')")
    user["exec"]["installHint"] = "install it"
    path = make_config(tmp_path / "config", user=user)
    assert message(Connection(kubeconfig=str(path))) == (
        f"the credential plugin {sys.executable} failed (exit code 1): please log in; log in again,"
        " or run the plugin by hand: exec in `kubectl config view --minify` shows how"
    )
    assert capfd.readouterr() == ("", "")


def test_credential_plugin_in_terminal_shows_its_messages_and_reads_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    body = "import sys; print('code?', file=sys.stderr); sys.exit('no' + input())"
    user = make_plugin(tmp_path, body)
    user["exec"]["interactiveMode"] = "IfAvailable"
    make_config(tmp_path / "config", user=user)
    connecting = "from kubectl_sky.cluster.session import Session; Session.connect()"
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", connecting], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    os.write(master, b"pe\n")
    assert process.wait(60) == 1

    screen = os.read(master, 65536).decode()
    os.close(master)
    assert "code?" in screen
    assert "\nnope" in screen
    assert f"the credential plugin {sys.executable} failed (exit code 1); log in" in screen


def test_credential_plugin_without_terminal_reads_no_stdin_of_ours(tmp_path: Path) -> None:
    """It belongs to `submit -`."""
    body = "import sys; sys.exit('read:' + sys.stdin.read())"
    path = make_config(tmp_path / "config", user=make_plugin(tmp_path, body))
    connecting = (
        "from kubectl_sky.cluster.session import Connection, Session;"
        f"Session.connect(Connection(kubeconfig={str(path)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", connecting], input="name: task", capture_output=True, text=True
    )
    assert "(exit code 1): read:; " in done.stderr


def test_credential_plugin_that_needs_a_terminal_is_refused_without_one(tmp_path: Path) -> None:
    user = make_plugin(tmp_path, "1 // 0")
    user["exec"]["interactiveMode"] = "Always"
    path = make_config(tmp_path / "config", user=user)
    assert "needs a terminal: stdin is not a terminal" in message(Connection(kubeconfig=str(path)))


def test_credential_plugin_gets_cluster_with_ca_as_data(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(Authority().certificate)
    keys = "sorted(info['cluster']), info['cluster'].get('config'), info['interactive']"
    info = "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']"
    body = f"import json, os, sys; {info}\nsys.exit(str(({keys})))"
    user = make_plugin(tmp_path, body)
    user["exec"]["provideClusterInfo"] = True
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    cluster = {"certificate-authority": "ca.crt", "extensions": extensions}
    path = make_config(tmp_path / "config", user=user, cluster=cluster)
    expected = "(['certificate-authority-data', 'config', 'server'], {'audience': 'x'}, False)"
    assert expected in message(Connection(kubeconfig=str(path)))


@pytest.mark.practice_only
def test_credential_plugin_expired_token_runs_it_again(cluster: Any, tmp_path: Path) -> None:
    token, _ = token_and_name(cluster)
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


@pytest.mark.practice_only
def test_token_file_with_trailing_newline_is_accepted(cluster: Any, tmp_path: Path) -> None:
    token, username = token_and_name(cluster)
    (tmp_path / "token").write_text(f"{token}\n")
    server = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server
    path = make_config(
        tmp_path / "config",
        user={"tokenFile": "token"},
        cluster={"server": server, "insecure-skip-tls-verify": True},
    )
    assert CoreManager(Session.connect(Connection(kubeconfig=str(path)))).whoami() == username


def token_and_name(cluster: Any) -> tuple[str, str]:
    """Return the token and the name of the current context's user, who is an admin."""
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    contexts = {item["name"]: item["context"] for item in config["contexts"]}
    users = {item["name"]: item["user"] for item in config["users"]}
    token = users[contexts[config["current-context"]]["user"]].get("token")
    if not token:
        pytest.skip("the test cluster's admin has no token")
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    return token, CoreManager(session).whoami()


JANE = {"as": "jane", "as-groups": ["dev", "qa"], "as-uid": "u-1"}
JANE_EXTRA = {"example.com/scope %": ["a", "ü"], "reason": ["test"]}


@pytest.mark.parametrize(
    ("user", "flags", "expected"),
    [
        ({}, {}, []),
        ({"as": "jane"}, {}, [("User", "jane")]),
        (
            JANE | {"as-user-extra": JANE_EXTRA},
            {},
            [
                *[("User", "jane"), ("Uid", "u-1"), ("Group", "dev"), ("Group", "qa")],
                ("Extra-example.com%2Fscope%20%25", "a"),
                ("Extra-example.com%2Fscope%20%25", "ü"),
                ("Extra-reason", "test"),
            ],
        ),
        (
            JANE,
            {"as_user": "bob"},
            [("User", "bob"), ("Uid", "u-1"), ("Group", "dev"), ("Group", "qa")],
        ),
        ({"as": "jane"}, {"as_uid": "u-2"}, [("User", "jane"), ("Uid", "u-2")]),
        (JANE, {"as_groups": ("ops",)}, [("User", "jane"), ("Uid", "u-1"), ("Group", "ops")]),
        ({"as-groups": ["dev"]}, {"as_user": "bob"}, [("User", "bob"), ("Group", "dev")]),
        (
            JANE,
            {"token": "t"},
            [("User", "jane"), ("Uid", "u-1"), ("Group", "dev"), ("Group", "qa")],
        ),
        (JANE, {"anonymous": True}, []),
    ],
)
def test_impersonation_of_kubeconfig_merges_with_flags_as_in_kubectl(
    tmp_path: Path, user: Json, flags: Json, expected: list[tuple[str, str]]
) -> None:
    path = make_config(tmp_path / "config", user={"token": "t"} | user)
    target = kubeconfig.resolve(Connection(kubeconfig=str(path), **flags))
    assert list(target.impersonation) == [(f"Impersonate-{name}", text) for name, text in expected]


@pytest.mark.parametrize("key", ["as-groups", "as-uid", "as-user-extra"])
def test_impersonation_of_kubeconfig_without_user_is_refused(tmp_path: Path, key: str) -> None:
    value = JANE.get(key, JANE_EXTRA)
    path = make_config(tmp_path / "config", user={"token": "t", key: value})
    assert "has as-uid, as-groups or as-user-extra without as; add as" in message(
        Connection(kubeconfig=str(path))
    )


@pytest.mark.parametrize(
    ("flag", "value"), [("--as-group", {"as_groups": ("ops",)}), ("--as-uid", {"as_uid": "u-1"})]
)
def test_as_group_or_uid_without_user_is_an_error_of_the_user(
    tmp_path: Path, flag: str, value: Json
) -> None:
    path = make_config(tmp_path / "config")
    with pytest.raises(UserError, match=f"{flag} requires --as"):
        Session.connect(Connection(kubeconfig=str(path), **value))


def test_impersonation_that_no_header_can_have_is_refused(tmp_path: Path) -> None:
    path = make_config(tmp_path / "config", user={"token": "t", "as": "jane\r\nX-Evil: 1"})
    assert "Impersonate-User has characters that no HTTP" in message(
        Connection(kubeconfig=str(path))
    )


def test_impersonation_of_kubeconfig_reaches_requests_and_websockets(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    entry, user = selected(yaml.safe_load(cluster.kubeconfig.read_text()))
    user |= JANE | {"as-user-extra": JANE_EXTRA}
    path = make_config(tmp_path / "config", user=user, cluster=entry)
    session = Session.connect(Connection(kubeconfig=str(path)))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = session.send("POST", objects.path(kinds.SELF_SUBJECT_REVIEW), body=review).body

    info = answer["status"]["userInfo"]
    assert (info["username"], info["uid"], info["extra"]) == ("jane", "u-1", JANE_EXTRA)
    assert set(info["groups"]) == {"dev", "qa", "system:authenticated"}
    assert CoreManager(session).whoami() == "jane"
    exec_path = objects.path(kinds.POD, namespace, "a", "exec")
    for attempt in (
        partial(objects.list_all, session, kinds.NODE),
        partial(connect, session, exec_path, {"command": "true"}, ("v5.channel.k8s.io",)),
    ):
        with pytest.raises(Forbidden, match=r"user jane may not|you may not create pods/exec"):
            attempt()


def test_impersonation_of_session_replaces_that_of_a_request(tmp_path: Path) -> None:
    """A page of the dashboard must not widen the rights of `--as`."""
    path = make_config(tmp_path / "config", user={"token": "t", "as": "jane"})
    session = Session.connect(Connection(kubeconfig=str(path)))
    given = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")]
    headers = session._headers(Outgoing(None, {}, given), session._target)  # type: ignore[arg-type]
    sent = [item for item in headers.iteritems() if item[0].lower().startswith("impersonate-")]
    assert sent == [("Impersonate-User", "jane")]


@pytest.fixture
def authority() -> Authority:
    """A test certificate authority."""
    return Authority()


@pytest.fixture
def strict(authority: Authority, tmp_path: Path) -> Iterator[StrictServer]:
    """A server named `inside` that requires client certificates."""
    server = StrictServer(authority, tmp_path)
    yield server
    server.close()


def test_anonymous_connection_sends_no_client_certificate(
    authority: Authority, strict: StrictServer, tmp_path: Path
) -> None:
    """A server that acts for callers must not identify as its owner."""
    pair = authority.issue("owner")
    texts = {
        "client-certificate-data": b64encode(pair.certificate).decode(),
        "client-key-data": b64encode(pair.key).decode(),
    }
    trusted = {"certificate-authority-data": b64encode(authority.certificate).decode()}
    trusted |= {"server": strict.url, "tls-server-name": "inside"}
    path = make_config(tmp_path / "config", user=texts, cluster=trusted)
    session = Session.connect(Connection(kubeconfig=str(path), anonymous=True))
    with pytest.raises(ClusterError):  # its TLS requires a certificate
        objects.list_all(session.with_token("caller"), kinds.NODE)
    assert strict.callers == []


@pytest.mark.parametrize(
    "user",
    [
        {"token": "owner"},
        {"username": "owner", "password": "owner"},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere"}},
        {"tokenFile": "/etc/hostname"},
    ],
    ids=lambda user: next(iter(user)),
)
def test_anonymous_connection_has_no_credentials(tmp_path: Path, user: Json) -> None:
    path = make_config(tmp_path / "config", user=user)
    connection = Connection(kubeconfig=str(path), anonymous=True)
    assert kubeconfig.resolve(connection).authorization == ""
    session = Session.connect(connection).with_token("caller")
    assert session._target.authorization == "Bearer caller"
    assert not session._target.renewable


@pytest.mark.parametrize("files", [False, True])
def test_connect_client_certificates_authenticate_user(
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


@pytest.mark.parametrize("has_kubeconfig", [True, False])
def test_certificate_and_server_name_of_flags_replace_those_of_the_kubeconfig(
    strict: StrictServer,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_kubeconfig: bool,
) -> None:
    pair = authority.issue("carol")
    contents = {"ca": authority.certificate, "cert": pair.certificate, "key": pair.key}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config"
    if has_kubeconfig:
        other = {"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="}
        make_config(path, user=other, cluster={"tls-server-name": "outside"})
    connection = Connection(
        kubeconfig=str(path),
        server=strict.url,
        certificate_authority="ca",
        client_certificate="cert",
        client_key="key",
        tls_server_name="inside",
    )
    assert objects.list_all(Session.connect(connection), kinds.NODE) == []
    assert strict.callers == ["carol"]


@pytest.mark.parametrize(
    "user",
    [
        {"token": "t0ken"},
        {"tokenFile": "token"},
        {"username": "u", "password": "t0ken"},
        {"exec": {"apiVersion": "v1", "command": "must-not-run"}},
    ],
)
@pytest.mark.parametrize("flag", [None, "t0ken"])
def test_credentials_with_http_server_are_not_sent(
    tmp_path: Path, user: Json, flag: str | None
) -> None:
    (tmp_path / "token").write_text("t0ken")
    path = make_config(tmp_path / "config", user=user, cluster={"server": "http://here.invalid"})
    target = kubeconfig.resolve(Connection(kubeconfig=str(path), token=flag))
    assert (target.server, target.authorization) == ("http://here.invalid", "")
    other = make_config(tmp_path / "other", user={"token": "t0ken"})
    server = Connection(kubeconfig=str(other), server="HTTP://elsewhere.invalid", token=flag)
    assert kubeconfig.resolve(server).authorization == ""


def test_service_account_with_http_server_sends_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    only_flags = Connection(server="http://here.invalid", token="t0ken")
    assert kubeconfig.resolve(only_flags).authorization == ""
    encrypted = Connection(server="https://here.invalid", token="t0ken")
    assert kubeconfig.resolve(encrypted).authorization == "Bearer t0ken"


@pytest.mark.parametrize(
    "authority", [{"certificate-authority": "ca.crt"}, {"certificate-authority-data": "eA=="}]
)
def test_insecure_together_with_authority_is_refused(tmp_path: Path, authority: Json) -> None:
    (tmp_path / "ca.crt").write_text("x")
    cluster = authority | {"insecure-skip-tls-verify": True}
    path = make_config(tmp_path / "config", cluster=cluster)
    expected = "insecure-skip-tls-verify together with certificate-authority is not allowed"
    assert expected in message(Connection(kubeconfig=str(path)))
    flag = Connection(kubeconfig=str(path), insecure=True)  # as in kubectl, it drops the authority
    assert Session.connect(flag).server == "https://here.invalid:6443"


@pytest.mark.parametrize("server", ["here.invalid:6443", "ftp://here.invalid", "file:///etc", "x"])
def test_server_without_scheme_is_refused(tmp_path: Path, server: str) -> None:
    path = make_config(tmp_path / "config", cluster={"server": server})
    assert "is not a server address; use https" in message(Connection(kubeconfig=str(path)))


@pytest.mark.parametrize("flag", ["server", "server_url"])
@pytest.mark.parametrize(
    "address", ["BAD", "localhost:1", "https://", "http://a b", "https://x:99999", "https://[::1"]
)
def test_invalid_address_of_a_flag_is_an_error_of_the_user(flag: str, address: str) -> None:
    with pytest.raises(UserError) as error:
        Session.connect(Connection(**{flag: address}))  # type: ignore[arg-type]
    assert error.value.what == f'"{address}" is not a server address'


@pytest.mark.parametrize("flag", ["server", "server_url"])
def test_invalid_address_of_a_flag_with_password_is_not_quoted(flag: str) -> None:
    with pytest.raises(UserError) as error:
        Session.connect(Connection(**{flag: "https://me:s3cret@here:99999"}))  # type: ignore[arg-type]
    assert "s3cret" not in str(error.value)


def test_server_with_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    cluster = {"server": "https://me:s3cret@here.invalid"}
    path = make_config(tmp_path / "config", cluster=cluster)
    assert message(Connection(kubeconfig=str(path))) == (
        "the server's address has credentials in it; set them as the kubeconfig's user"
    )


@pytest.mark.parametrize("token", ["a\nX-Evil: 1", "a b c", "tökén", "a\x00b"])
def test_token_with_control_characters_is_refused_without_showing_it(
    tmp_path: Path, token: str
) -> None:
    path = make_config(tmp_path / "config", user={"token": token})
    error = message(Connection(kubeconfig=str(path)))
    assert "the token has characters" in error
    assert token[:3] not in error.removeprefix("the token has characters")


def test_credential_plugin_certificate_is_used(
    authority: Authority, strict: StrictServer, tmp_path: Path
) -> None:
    pair = authority.issue("dave")
    status = {
        "clientCertificateData": pair.certificate.decode(),
        "clientKeyData": pair.key.decode(),
    }
    (tmp_path / "ca").write_bytes(authority.certificate)
    path = make_config(
        tmp_path / "config",
        user=make_plugin(tmp_path, f"print({json.dumps(answer_of_plugin(status))!r})"),
        cluster={"server": strict.url, "tls-server-name": "inside", "certificate-authority": "ca"},
    )
    session = Session.connect(Connection(kubeconfig=str(path)))
    assert objects.list_all(session, kinds.NODE) == []
    assert strict.callers == ["dave"]


def answer_of_plugin(status: Json) -> Json:
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }


def test_credential_plugin_expired_by_our_clock_runs_once_until_server_refuses_token(
    authority: Authority, tmp_path: Path
) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    status = {"token": "t", "expirationTimestamp": past.strftime("%Y-%m-%dT%H:%M:%SZ")}
    runs = tmp_path / "runs"
    body = f"open({str(runs)!r}, 'a').write('x'); print({json.dumps(answer_of_plugin(status))!r})"
    path = make_config(
        tmp_path / "config",
        user=make_plugin(tmp_path, body),
        cluster={"server": "https://127.0.0.1:1"},
    )
    session = Session.connect(Connection(kubeconfig=str(path), request_timeout=1))
    with pytest.raises(Unreachable):
        session.send("GET", "/version")
    assert runs.read_text() == "x"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "it prints no JSON"),
        ("not json", "it prints no JSON"),
        ("3", "it prints JSON that is not an ExecCredential"),
        ("[]", "it prints JSON that is not an ExecCredential"),
        ({}, "its ExecCredential has no status"),
        ({"status": 3}, "its ExecCredential has no status"),
        ({"status": {}}, "its ExecCredential has neither token nor certificate"),
        ({"status": {"clientKeyData": "x"}}, "it returns only one of certificate and key"),
        (
            {"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "x"}},
            'it answers in apiVersion "client.authentication.k8s.io/v1beta1", the kubeconfig asks'
            ' for "client.authentication.k8s.io/v1"',
        ),
    ],
)
def test_credential_plugin_malformed_answer_says_what_is_wrong(
    tmp_path: Path, answer: str | Json, why: str
) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer_of_plugin({}) | answer)
    if answer == {}:
        text = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}'
    path = make_config(tmp_path / "config", user=make_plugin(tmp_path, f"print({text!r})"))
    assert message(Connection(kubeconfig=str(path))).startswith(
        f"the credential plugin {sys.executable} gives no credentials: {why};"
    )


def test_credential_plugin_not_installed_prints_install_hint(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "installHint": "get it\nfrom the store",
    }
    path = make_config(tmp_path / "config", user={"exec": plugin})
    assert message(Connection(kubeconfig=str(path))) == (
        "the credential plugin no-such-plugin is not installed; get it from the store"
    )


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        ("gcp", "install gke-gcloud-auth-plugin, then run"),
        ("azure", "install kubelogin, then run"),
        ("openstack", "use a token, a client certificate or exec"),
    ],
)
def test_auth_provider_that_kubectl_has_removed_names_its_successor(
    tmp_path: Path, provider: str, hint: str
) -> None:
    path = make_config(tmp_path / "config", user={"auth-provider": {"name": provider}})
    error = message(Connection(kubeconfig=str(path)))
    assert f'{path}: auth-provider "{provider}" of user "here" is not supported; {hint}' in error


def test_auth_provider_without_usable_token_is_refused(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"id-token": "no.token"}}
    path = make_config(tmp_path / "config", user={"auth-provider": provider})
    assert "the id-token of its auth-provider is not valid; log in" in message(
        Connection(kubeconfig=str(path))
    )


@pytest.mark.parametrize(
    ("user", "cluster", "why"),
    [
        ({"as-user": "jane"}, {}, 'user "here" has an unknown key "as-user"; did you mean'),
        ({"As": "jane"}, {}, 'user "here" has an unknown key "As"; correct or remove it'),
        ({"as-group": ["a"]}, {}, 'an unknown key "as-group"; did you mean "as-groups"? correct'),
        ({}, {"proxy_url": "x"}, 'cluster "here" has an unknown key "proxy_url"; did you mean'),
        ({"exec": {"commands": []}}, {}, 'exec of user "here" has an unknown key "commands"'),
        ({"as": 7}, {}, 'as of user "here" is not a string; correct it'),
        ({"as-groups": "dev"}, {}, 'as-groups of user "here" is not a list of strings'),
        ({"as-user-extra": {"a": "b"}}, {}, "is not a map of lists of strings"),
        ({}, {"insecure-skip-tls-verify": "false"}, "is not true or false"),
        ({"token": "t", "username": "u"}, {}, "has a token and a password; remove one"),
        ({"exec": {}, "auth-provider": {}}, {}, "has exec and auth-provider; remove one"),
        ({"exec": {"interactiveMode": "no"}}, {}, "is not Never, IfAvailable or Always"),
    ],
)
def test_kubeconfig_key_that_cannot_be_carried_out_is_refused_by_name(
    tmp_path: Path, user: Json, cluster: Json, why: str
) -> None:
    path = make_config(tmp_path / "config", user=user, cluster=cluster)
    error = message(Connection(kubeconfig=str(path)))
    assert error.startswith(f"cannot use the kubeconfig {path}: ")
    assert why in error


@pytest.mark.parametrize("text", ["certificate", "password"])
def test_exec_plugin_with_other_credentials_does_not_run(tmp_path: Path, text: str) -> None:
    """As in kubectl, where a token, a password or a client certificate wins."""
    pair = Authority().issue("carol")
    credentials = {
        "certificate": {
            "client-certificate-data": b64encode(pair.certificate).decode(),
            "client-key-data": b64encode(pair.key).decode(),
        },
        "password": {"username": "carol"},
    }
    user = make_plugin(tmp_path, "1 // 0") | credentials[text]
    path = make_config(tmp_path / "config", user=user)
    authorization = kubeconfig.resolve(Connection(kubeconfig=str(path))).authorization
    assert authorization == ("Basic Y2Fyb2w6" if text == "password" else "")


@pytest.mark.parametrize("disabled", [False, True])
def test_disable_compression_asks_for_plain_answers(tmp_path: Path, disabled: bool) -> None:
    path = make_config(tmp_path / "config", cluster={"disable-compression": disabled})
    session = Session.connect(Connection(kubeconfig=str(path)))
    headers = session._headers(Outgoing(None, {}, {"Accept-Encoding": "gzip"}), session._target)  # type: ignore[arg-type]
    assert headers["Accept-Encoding"] == ("identity" if disabled else "gzip")


def test_kubeconfig_is_never_written(tmp_path: Path) -> None:
    path = make_config(tmp_path / "config", user={"token": "t"})
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    kubeconfig.resolve(Connection(kubeconfig=str(path), cluster="here", server="https://x.invalid"))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
