"""Search for a secret's value in all objects other than Secrets, and in all output."""

import base64
import json
import os
import ssl
import stat
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.errors import InvalidFiles, UserError
from kubectl_sky.render import manifests, writer
from kubectl_sky.spec.load import load
from kubectl_sky.spec.task import Task, task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.words import assets
from kubectl_sky.words.secret import Secret, reveal
from tests.builders import make_plan
from tests.contract.certificates import Authority
from tests.e2e.command import Command
from tests.spec.documents import problems, read

MARKER = "s3cr3t-V4lue-0f-the-t0ken"
URL = "https://x-access-token:${TOKEN}@git.example.com/me/code.git"


def forms(value: str = MARKER) -> set[str]:
    """Return the value and its base64 forms at every offset."""
    texts = {value, value[::-1]}
    for before in range(3):
        text = base64.b64encode(b"x" * before + value.encode()).decode()
        texts.add(text[4:-4])
    return texts


def leaks(text: str) -> set[str]:
    return {form for form in forms() if form in text}


# --- The type ---------------------------------------------------------------------------------


def test_secret_as_text_is_redacted() -> None:
    secret = Secret(MARKER)
    for text in (str(secret), repr(secret), f"{secret}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert not leaks(text)
    assert reveal(secret) == MARKER.encode()
    assert secret == Secret(MARKER, "elsewhere") != Secret("x")
    assert not leaks(repr(make_plan(Task(run="x", secrets={"TOKEN": secret}))))


def test_secret_in_yaml_or_json_writer_raises() -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        writer.document({"key": Secret(MARKER)})
    assert not leaks(str(caught.value))
    with pytest.raises(TypeError):
        json.dumps({"key": Secret(MARKER)})


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("plan.secrets.TOKEN", "ConfigMap", "by the filter base64"),
        ("plan.secrets.TOKEN", "Secret", "by the filter base64"),
        ("plan.secrets.TOKEN | base64", "ConfigMap", "into a ConfigMap"),
        ("plan.secrets", "ConfigMap", "cannot represent an object"),
        ("[plan.secrets.TOKEN]", "ConfigMap", "cannot represent an object"),
        ("plan.login.config | base64", "ConfigMap", "into a ConfigMap"),
        ("plan.login.password", "ConfigMap", "by the filter base64"),
    ],
)
def test_template_writing_secret_outside_secret_is_refused(
    tmp_path: Path, expression: str, kind: str, message: str
) -> None:
    text = (
        f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\ndata: {{a: {{{{ {expression} }}}}}}"
    )
    (tmp_path / "configmap.yaml.j2").write_text(text)
    login = {f"SKYPILOT_DOCKER_{name}": Secret(MARKER) for name in ("USERNAME", "PASSWORD")}
    login["SKYPILOT_DOCKER_SERVER"] = Secret("ghcr.io")
    plan = make_plan(Task(run="x", secrets={"TOKEN": Secret(MARKER), **login}))
    with pytest.raises(UserError) as caught:
        manifests.render(plan, tmp_path)
    assert message in str(caught.value)
    assert not leaks(str(caught.value))


@pytest.mark.parametrize("expression", ["plan.secrets.TOKEN ~ ''", "plan.secrets.TOKEN | block(2)"])
def test_template_converting_secret_to_text_writes_no_value(
    tmp_path: Path, expression: str
) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\na: {{{{ {expression} }}}}\n"
    (tmp_path / "configmap.yaml.j2").write_text(text)
    plan = make_plan(Task(run="x", secrets={"TOKEN": Secret(MARKER)}))
    rendered = manifests.render(plan, tmp_path)
    assert not leaks("".join(manifest.text for manifest in rendered.all if not manifest.is_secret))


# --- Fields that would show a value ------------------------------------------------------------


SHOWN = {
    "workdir: code/$TOKEN": "3:1: workdir",
    "workdir: {url: 'https://git.example.com/$TOKEN'}": "3:11: workdir.url",
    "workdir: {url: 'https://a${TOKEN}@git.example.com/x'}": "3:11: workdir.url",
    "workdir: {url: 'https://$TOKEN/x'}": "3:11: workdir.url",
    "workdir: {url: 'https://x:p@$TOKEN/x'}": "3:11: workdir.url",
    "workdir: {url: 'https://g.example.com/x', ref: $TOKEN}": "3:43: workdir.ref",
    "file_mounts: {/a: 'https://x:${TOKEN}@example.com/f'}": "3:15: file_mounts./a",
    "file_mounts: {/a: 's3://b/$TOKEN'}": "3:15: file_mounts./a",
    "file_mounts: {/a: './$TOKEN'}": "3:15: file_mounts./a",
    "file_mounts: {'/${TOKEN}': ./x}": '3:15: file_mounts."/${TOKEN}"',
    "file_mounts: {/a: {source: 's3://$TOKEN'}}": "3:20: file_mounts./a.source",
    "volumes: {/data: $TOKEN}": "3:11: volumes./data",
    "volumes: {'/$TOKEN': data}": '3:11: volumes."/$TOKEN"',
    "volumes: {/data: {name: x, sub_path: $TOKEN}}": "3:28: volumes./data.sub_path",
    "volumes: {/data: {size: 1Gi, labels: {a: $TOKEN}}}": "3:39: volumes./data.labels.a",
}


@pytest.mark.parametrize("secrets", ["{TOKEN: %s}" % MARKER, "['secrets:TOKEN']"])  # noqa: UP031
@pytest.mark.parametrize("field", SHOWN)
def test_field_that_would_show_secret_is_refused_with_position(field: str, secrets: str) -> None:
    text = f"run: x\nsecrets: {secrets}\n{field}\n"
    (document,) = read(text)
    messages = [str(problem) for problem in refusals(document)]
    assert [message.split(": not supported")[0] for message in messages] == [
        f"task.yaml:{SHOWN[field]}"
    ]
    assert "the manifests would show a secret's value; " in messages[0]
    (warning,) = problems(text, "warning")
    assert warning.startswith(f"task.yaml:{SHOWN[field]}: warning: not supported, submit")
    assert not leaks("".join(messages))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("secrets: {TOKEN: &s %s}\nname: *s\n", "3:1: name"),
        ("secrets: {TOKEN: &s %s}\nenvs: {A: *s}\n", "3:8: envs.A"),
        ("envs: {A: &s %s}\nsecrets: {TOKEN: *s}\n", "2:8: envs.A"),
        ("secrets: &s {TOKEN: %s}\nresources: {labels: *s}\n", "2:14: resources.labels.TOKEN"),
        (
            "secrets: &s {TOKEN: %s}\nresources: {labels: {<<: *s}}\n",
            "3:22: resources.labels.TOKEN",
        ),
        ("envs: {SKYPILOT_DOCKER_PASSWORD: &s %s, A: *s}\n", "2:64: envs.A"),
    ],
)
def test_secret_alias_in_other_field_is_refused_with_position(text: str, position: str) -> None:
    text = f"run: x\n{text % MARKER}"
    assert problems(text) == [
        f"task.yaml:{position}: shows a secret's value; write the value instead of the alias"
    ]


def test_secret_alias_in_variable_of_same_name_is_secret(offline: Command) -> None:
    text = f"run: x\nsecrets: &s {{TOKEN: {MARKER}}}\nenvs: {{<<: *s}}\n"
    done = offline("render", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert not leaks(done.stdout + done.stderr)


def test_secret_anchor_in_extension_field_is_accepted_and_not_printed(offline: Command) -> None:
    text = f"x-common: &c {{TOKEN: {MARKER}, PIN: 0755}}\nrun: x\nsecrets: *c\n"
    done = offline("render", "-", "--explain", stdin=text)
    assert done.returncode == 0, done.stderr
    assert not leaks(done.stdout + done.stderr)
    assert "0755" not in done.stdout + done.stderr


@pytest.mark.parametrize("value", ["*{}", "!{} x", "!!{} x", "!{} [x]", "!<{}> x", "&{} *x"])
def test_secret_parsed_as_yaml_alias_or_tag_is_not_printed(value: str) -> None:
    with pytest.raises(InvalidFiles) as caught:
        load(f"run: x\nsecrets:\n  TOKEN: {value.format(MARKER)}\n".encode(), "task.yaml")
    assert "task.yaml:3:" in str(caught.value)
    assert not leaks(str(caught.value))


@pytest.mark.parametrize("lines", [f"TOKEN=x\n{MARKER}\n", f"{MARKER}", f"export {MARKER}\nA=b"])
def test_secret_file_line_without_value_is_not_printed(offline: Command, lines: str) -> None:
    offline.write("s.env", lines)
    words = ("--secret-file", "s.env")
    done = offline("render", "-", *words, stdin="run: x\nsecrets: {TOKEN: null}\n")
    assert done.returncode == 2
    assert not leaks(done.stdout + done.stderr)


def test_secret_in_service_as_task_is_not_rendered(offline: Command) -> None:
    probe = "{path: /, headers: {Authorization: Bearer $TOKEN}}"
    text = f"run: x\nsecrets: {{TOKEN: {MARKER}}}\nservice: {{readiness_probe: {probe}}}\n"
    done = offline("render", "-", "--as-task", stdin=text)
    assert done.returncode == 0, done.stderr
    assert not leaks(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "url",
    [
        f"https://{MARKER}@git.example.com/x",
        f"https://x:{MARKER}@git.example.com/x",
        f"http://x:{MARKER}@git.example.com/x",
        f"ssh://x:{MARKER}@git.example.com/x",
        f"git://x:{MARKER}@git.example.com/x",
        f"https://x:{MARKER}@git.example.com",
        f"https://$TOKEN:{MARKER}@git.example.com/x",
    ],
)
@pytest.mark.parametrize("field", ["workdir: {{url: '{}'}}", "file_mounts: {{/a: '{}'}}"])
def test_url_with_literal_credentials_is_refused_and_not_printed(
    offline: Command, url: str, field: str
) -> None:
    text = f"run: x\nsecrets: {{TOKEN: x}}\n{field.format(url)}\n"
    for command in ("render", "validate"):
        done = offline(command, "-", stdin=text)
        assert "<stdin>:3:" in done.stderr + done.stdout
        assert done.returncode == 2 or (command == "validate" and "$TOKEN" in url)
        assert not leaks(done.stdout + done.stderr)


def test_env_file_secret_of_single_task_is_secret_in_all_tasks(offline: Command) -> None:
    offline.write("t.env", f"TOKEN={MARKER}\n")
    for first in ("", "secrets: ['secrets:OTHER']\n"):
        text = f"name: p\n---\nname: a\n{first}run: x\n"
        text += "---\nname: b\nsecrets: {TOKEN: null}\nrun: y\n"
        done = offline("render", "-", "--env-file", "t.env", "--show-secrets", stdin=text)
        assert done.returncode == 0, done.stderr
        others = [item for item in yaml.safe_load_all(done.stdout) if item["kind"] != "Secret"]
        assert not leaks(yaml.safe_dump_all(others))
        assert leaks(done.stdout)


def test_render_secrets_are_written_with_mode_0600(offline: Command) -> None:
    text = f"name: t\nrun: x\nsecrets: {{TOKEN: {MARKER}}}\n"
    old = offline.folder / "out" / "01-secret-t-abcd1234.yaml"
    before = os.umask(0)

    try:
        for _ in range(2):
            words = ("--id", "abcd1234", "--show-secrets", "--output-dir", "out")
            assert offline("render", "-", *words, stdin=text).returncode == 0
            assert leaks(old.read_text())
            assert stat.S_IMODE(old.stat().st_mode) == 0o600
            assert stat.S_IMODE(old.parent.stat().st_mode) == 0o700
            (old.parent / "elsewhere").write_text("keep me")
            (old.parent / "elsewhere").chmod(0o644)
            old.unlink()
            old.symlink_to("elsewhere")
    finally:
        os.umask(before)
    assert (old.parent / "elsewhere").read_text() == "keep me"


# --- Any task -----------------------------------------------------------------------------------


# --- Git ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, ("x-access-token", "TOKEN")),
        ("https://$TOKEN@git.example.com/me/code.git", ("x-access-token", "TOKEN")),
        ("https://${USER}:${TOKEN}@git.example.com/me/code.git", ("$USER", "TOKEN")),
        ("https://$NAME:$TOKEN@git.example.com/me/code.git", ("bob", "TOKEN")),
        ("https://git.example.com/me/code.git", ("x-access-token", "GIT_TOKEN")),
    ],
)
def test_git_login_is_passed_by_secret_name(url: str, expected: tuple[str, str]) -> None:
    secrets = "{TOKEN: null, USER: null}"
    (document,) = read(
        f"run: x\nenvs: {{NAME: bob}}\nsecrets: {secrets}\nworkdir: {{url: '{url}'}}"
    )
    assert (
        problems(f"run: x\nenvs: {{NAME: bob}}\nsecrets: {secrets}\nworkdir: {{url: '{url}'}}")
        == []
    )
    assert refusals(document) == []
    plan = make_plan(task_of(document))
    lines = ("https://git.example.com/me/code.git", "HEAD", *expected)
    assert plan.scripts["repository.txt"] == "".join(f"{line}\n" for line in lines)


def test_git_login_by_secret_name_is_no_danger(offline: Command) -> None:
    text = f"run: x\nsecrets: {{TOKEN: {MARKER}}}\nworkdir: {{url: '{URL}'}}\n"
    done = offline("render", "-", "--user", "me", "--image", "example.com/git:1", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert not leaks(done.stdout)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            URL.replace("https", "http"),
            "the login would be sent unencrypted over http; write https",
        ),
        (URL.replace("TOKEN", "NOBODY"), "NOBODY is not a secret of this task; write secrets: {NO"),
        ("https://x:${TOKEN}@-h/x", "expected the URL of a git repository"),
        ("https://x:${TOKEN}@h\\@evil/x", "the manifests would show the credentials before @"),
        ("https://h#@evil/x", "expected the URL of a git repository"),
    ],
)
def test_git_login_that_could_leak_is_refused(url: str, message: str) -> None:
    reported = problems(f"run: x\nsecrets: {{TOKEN: x}}\nworkdir:\n  url: '{url}'\n")
    reported += [
        str(problem)
        for problem in refusals(
            read(f"run: x\nsecrets: {{TOKEN: x}}\nworkdir:\n  url: '{url}'\n")[0]
        )
    ]
    assert reported
    assert reported[0].startswith("task.yaml:4:")
    assert message in reported[0] or "the manifests would show" in reported[0]


def test_git_token_over_http_is_warned() -> None:
    (warning,) = problems(
        "run: x\nsecrets: {GIT_TOKEN: x}\nworkdir: {url: 'http://h/x'}", "warning"
    )
    assert "3:16: workdir.url: warning: GIT_TOKEN is not sent over http; write https" in warning


class Site:
    """A web server, with or without TLS, that requires a login and records the logins it gets."""

    def __init__(self, folder: Path, authority: Authority | None, redirect: str = "") -> None:
        site = self
        self.logins: list[str] = []

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *words: Any) -> None:
                super().__init__(*words, directory=str(folder))

            def do_GET(self) -> None:
                login = self.headers.get("Authorization")
                if login:
                    site.logins.append(login)

                if redirect:
                    self.send_response(302)
                    self.send_header("Location", redirect + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif login:
                    super().do_GET()
                else:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="x"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *words: object) -> None:
                """Disable the request log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if authority:
            scheme = "https"
            pair = authority.issue("localhost")
            (folder.parent / "pair.pem").write_bytes(pair.certificate + pair.key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder.parent / "pair.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://localhost:{self._server.server_port}"

    def __enter__(self) -> "Site":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    for words in (
        ("init", "-q", "-b", "main"),
        ("commit", "-q", "--allow-empty", "-m", "first"),
        ("update-server-info",),
    ):
        options = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", *options, *words], cwd=path, check=True)
    return path / ".git"


def clone(folder: Path, url: str, authority: Authority, **variables: str) -> tuple[int, str]:
    """Run clone.sh as a node does; return its exit code and output."""
    node = folder / "node"
    programs = folder / "bin"
    (node / "sky_workdir").mkdir(parents=True)
    programs.mkdir()
    (programs / "git").write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/arguments\nPATH=${{PATH#*:}} exec git "$@"\n'
    )
    (programs / "git").chmod(0o755)
    (folder / "ca.pem").write_bytes(authority.certificate)
    (document,) = read(
        f"run: x\nsecrets: {{TOKEN: null, GIT_TOKEN: null}}\nworkdir: {{url: '{url}'}}"
    )
    scripts = make_plan(task_of(document)).scripts
    (node / "repository.txt").write_text(scripts["repository.txt"])
    (node / "clone.sh").write_text(assets.read("runtime", "clone.sh"))
    before = 'fail() { echo "$2"; exit 1; }; dir=$PWD; cd sky_workdir; . "$dir/clone.sh"; env'

    done = subprocess.run(
        ["sh", "-c", before],
        cwd=node,
        env={
            "HOME": str(node),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GIT_SSL_CAINFO": str(folder / "ca.pem"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    for name, value in variables.items():
        output = output.replace(f"{name}={value}\n", "")  # its input
    assert not leaks(output + (folder / "arguments").read_text())
    return done.returncode, output


@pytest.mark.parametrize(("user", "variable"), [("bob:$TOKEN@", "TOKEN"), ("", "GIT_TOKEN")])
def test_git_token_is_sent_to_host_of_url(
    tmp_path: Path, repository: Path, user: str, variable: str
) -> None:
    authority = Authority()
    with Site(repository, authority) as site:
        url = site.url.replace("https://", f"https://{user}")
        code, output = clone(tmp_path, url + "/", authority, **{variable: f"{MARKER}\n"})
    assert code == 0, output
    name = "bob" if user else "x-access-token"
    expected = f"Basic {base64.b64encode(f'{name}:{MARKER}'.encode()).decode()}"
    assert set(site.logins) == {expected}


@pytest.mark.parametrize("tls", [True, False])
def test_git_token_is_not_sent_to_redirect_target(
    tmp_path: Path, repository: Path, tls: bool
) -> None:
    authority = Authority()
    evil_authority = authority if tls else None
    with (
        Site(repository, evil_authority) as evil,
        Site(repository, authority, redirect=evil.url) as good,
    ):
        code, output = clone(tmp_path, f"{good.url}/", authority, GIT_TOKEN=MARKER)
    assert code == 1
    assert "cannot fetch https://localhost" in output
    assert evil.logins == []


def test_git_token_is_not_sent_over_http(tmp_path: Path, repository: Path) -> None:
    with Site(repository, None) as site:
        code, _ = clone(tmp_path, f"{site.url}/", Authority(), GIT_TOKEN=MARKER)
    assert (code, site.logins) == (1, [])


# --- On a cluster -------------------------------------------------------------------------------
