"""Hide a secret's value in over 200 ways, and search for it in all output and all objects."""

import base64
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from kubectl_sky.api.task import Task
from kubectl_sky.cli.main import main
from kubectl_sky.errors import SkyError
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from tests.fake_cluster import FakeCluster

CANARY = "hunter2canary"  # also valid in the name of an object
ID = "abcd1234"
TASK = "run: echo\n"

# Where the value is, with the anchor t.
SOURCES = {
    "plain": "secrets: {T: &t CANARY}",
    "quoted": "secrets: {T: &t 'CANARY'}",
    "block": "secrets:\n  T: &t |\n    CANARY",
    "tag": "secrets: {T: &t !!str CANARY}",
    "value is a list": "secrets: {T: &t [CANARY]}",
    "value is a map": "secrets: {T: &t {k: CANARY}}",
    "whole map": "secrets: &t {T: CANARY}",
    "personal": "secrets: {personal.T: &t CANARY}",
    "workspace": "secrets: {workspace.T: &t CANARY}",
    "global": "secrets: {global.T: &t CANARY}",
    "prefix": "secrets: {'secrets:T': &t CANARY}",
    "merge": "x-a: &a {T: &t CANARY}\nsecrets: {<<: *a}",
    "alias": "x-a: &a {T: &t CANARY}\nsecrets: *a",
    "merge of the root": "<<: {secrets: {T: &t CANARY}}",
    "variable of the same name": "secrets: {T: x}\nenvs: {T: &t CANARY}",
    "login": "x-t: &t CANARY\nsecrets: {SKYPILOT_DOCKER_PASSWORD: *t,"
    " SKYPILOT_DOCKER_USERNAME: u, SKYPILOT_DOCKER_SERVER: ghcr.io}",
    "text": "secrets: &t CANARY",
    "item": "secrets: [&t CANARY]",
    "map in a list": "secrets: [{T: &t CANARY}]",
    "managed": "managed_secrets: [{T: &t CANARY}]",
    "managed map": "managed_secrets: {T: &t CANARY}",
    "managed field": "managed_secrets: [{T: {value: &t CANARY}}]",
    "managed text": "managed_secrets: &t CANARY",
    "managed list": "managed_secrets: [[&t CANARY]]",
}
# Where else the YAML has it.
SINKS = (
    "name: *t",
    "num_nodes: *t",
    "setup: *t",
    "envs: {A: *t}",
    "envs: {<<: *t}",
    "envs: {? *t : x}",
    "envs: {? *t : a, ? *t : b}",
    "resources: {cpus: *t}",
    "resources: {accelerators: *t}",
    "resources: {image_id: *t}",
    "resources: {labels: {a: *t}}",
    "resources: {labels: *t}",
    "resources: {ports: [*t]}",
    "resources: {any_of: [{memory: *t}]}",
    "resources: {? *t : x}",
    "workdir: *t",
    "workdir: {url: *t}",
    "file_mounts: {/a: *t}",
    "file_mounts: {? *t : ./x}",
    "volumes: {/d: *t}",
    "config: {kubernetes: {pod_config: {spec: {nodeSelector: {a: *t}}}}}",
    "config: {kubernetes: {pod_config: {spec: {? *t : x}}}}",
    "config: {kubernetes: {custom_metadata: {annotations: {a: *t}}}}",
    "service: {readiness_probe: *t}",
    "unknown: *t",
    "? *t : x",
)
GROUP = "name: g\nexecution: parallel\n"
HEADERS = (
    "secrets: {T: CANARY}",
    "secrets: {personal.T: CANARY}",
    "envs: {T: CANARY}",
    "managed_secrets: [{T: CANARY}]",
    "unknown: CANARY",
    "unknown: {CANARY: x}",
    "secrets: {T: &t CANARY}\nprimary_tasks: [*t]",
    "secrets: {T: &t CANARY}\ntermination_delay: *t",
    "secrets: {T: &t CANARY}\ntermination_delay: {? *t : 3}",
    "secrets: {T: &t CANARY}\ninter_connection: *t",
    "secrets: {T: &t CANARY}\n? *t : x",
)
# Fields with the warning that they are ignored.
IGNORED = (
    "config: {docker_login: CANARY}",
    "config: {kubernetes: {password: {a: CANARY}}}",
    "resources: {job_recovery: {token: CANARY}}",
    "resources: {any_of: [{job_recovery: {token: CANARY}}]}",
)
LISTED = "secrets: ['secrets:A', T]\n"
FLAGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("--secret", "T=CANARY")),
    ("", ("--secret", "CANARY")),
    ("", ("--secret", "personal.T=CANARY")),
    ("", ("--secret", "secrets:T=CANARY")),
    ("", ("--secret", "1T=CANARY")),
    ("", ("--secret", "=CANARY")),
    ("", ("--secret", "SKYPILOT_DOCKER_PASSWORD=CANARY")),
    ("", ("--secret-file", "t.env")),
    ("secrets: {T: null}\n", ("--env-file", "t.env")),
    ("secrets: {T: null}\n", ("--secret-file", "t.env", "--env", "T=CANARY")),
    ("envs: {T: CANARY}\n", ("--secret", "T=x")),
    (LISTED, ("--secret", "T=CANARY")),
    ("secrets: [CANARY]\n", ("--secret", "T=x")),
    ("secrets: CANARY\n", ("--secret", "T=x")),
    ("secrets: {T: &t x}\nname: *t\n", ("--secret", "T=CANARY")),
    (f"name: p\n---\n{TASK}---\nsecrets: {{T: null}}\n", ("--secret", "T=CANARY")),
)


@dataclass(frozen=True)
class Way:
    """A way to hide the value: a task file, and flags."""

    kind: str
    text: str
    flags: tuple[str, ...] = ()


def ways() -> Iterator[Way]:
    """Yield the ways: each source alone, and with every third sink."""
    for number, (kind, source) in enumerate(SOURCES.items()):
        for sink in ("", *SINKS[number % 3 :: 3]):
            yield Way(kind, f"{source}\n{sink}\n{TASK}")
    for header in HEADERS:
        yield Way("header", f"{GROUP}{header}\n---\nname: a\n{TASK}")
    for field in IGNORED:
        yield Way("ignored field", f"{field}\n{TASK}")
    for text, flags in FLAGS:
        yield Way("flag", f"{text}{TASK}", flags)


def filled(way: Way) -> Way:
    """Return the way with the value in it."""
    flags = tuple(flag.replace("CANARY", CANARY) for flag in way.flags)
    return Way(way.kind, way.text.replace("CANARY", CANARY), flags)


WAYS = list(map(filled, ways()))


def without_secrets(manifests: str) -> str:
    """Return the text of all objects other than Secrets."""
    items = [item for item in yaml.safe_load_all(manifests) if item["kind"] != "Secret"]
    return json.dumps(items, ensure_ascii=False)


def command(*words: str) -> str:
    """Return what a command prints, without the Secrets among manifests."""
    out = io.StringIO()
    errors = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(words)
    assert code in (0, 2), errors.getvalue()
    text = out.getvalue()
    if "--show-secrets" in words and code == 0:
        text = without_secrets(text)
    return text + errors.getvalue()


def python(work: Callable[[], object]) -> str:
    """Return how Python shows a result or an error."""
    try:
        result = work()
    except SkyError as error:
        return f"{error!r} {error}"
    return f"{result!r} {result}"


@dataclass
class Rest:
    """The REST server over a cluster in memory."""

    cluster: FakeCluster
    client: TestClient

    def outputs(self, body: bytes) -> Iterator[tuple[str, str]]:
        """Yield what the server answers, and the objects in the cluster after a submit."""
        self.cluster.restore({})
        for path in ("/validate", "/render"):
            yield f"POST {path}", self.client.post(path, content=body).text
        answer = self.client.post("/tasks/submit", content=body, params={"id": ID})
        yield "POST /tasks/submit", answer.text
        for path in ("file", "manifests") if answer.status_code == 200 else ():
            yield f"GET {path}", self.client.get(f"/tasks/{ID}/{path}").text
        items = [item for item in self.cluster.saved().values() if item["kind"] != "Secret"]
        yield "stored objects", json.dumps(items)


@contextlib.contextmanager
def serving() -> Iterator[Rest]:
    cluster = FakeCluster()
    cluster.tokens = {"alice-token": "alice"}
    limits = Limits(requests_per_second=1000)
    config = Config(hosts=("testserver",), connect=cluster.session, limits=limits)
    headers = {"Authorization": "Bearer alice-token", "Content-Type": "application/yaml"}
    with TestClient(create_app(config), headers=headers) as client:
        yield Rest(cluster, client)


def outputs(way: Way, folder: Path, rest: Rest) -> Iterator[tuple[str, str]]:
    """Yield each output and what it shows of a task."""
    file = folder / "task.yaml"
    file.write_text(way.text)
    (folder / "t.env").write_text(f"T={CANARY}\n")
    words = (str(file), "--id", ID, *way.flags)
    if not way.flags:
        yield "validate", command("validate", str(file))
        yield "validate -o json", command("validate", str(file), "-o", "json")
        task = Task.from_yaml(file)
        yield "Python", repr(task) + python(task.validate) + python(task.render)
        yield from rest.outputs(way.text.encode())
    yield "render", command("render", *words, "--show-secrets", "--explain")
    yield "render -o json", command("render", *words, "-o", "json")


def shows(text: str) -> bool:
    """Return whether a text has the value, also in Base64."""
    encoded = (
        base64.b64encode(b"x" * before + CANARY.encode()).decode()[4:-4] for before in range(3)
    )
    return CANARY in text.lower() or any(form in text for form in encoded)


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    with serving() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"KUBECTL_SKY_{name}_HOME", str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", dict.fromkeys(way.kind for way in WAYS))
def test_value_of_secret_hidden_in_any_way_is_in_secrets_only(
    folder: Path, rest: Rest, kind: str
) -> None:
    shown = [
        (way.text, way.flags, output)
        for way in WAYS
        if way.kind == kind
        for output, text in outputs(way, folder, rest)
        if shows(text)
    ]
    assert shown == []


def test_ways_are_more_than_200_and_some_are_valid_tasks() -> None:
    assert len(set(WAYS)) > 200
    texts = [python(Task.from_yaml(way.text).validate) for way in WAYS if not way.flags]
    valid = [text for text in texts if text.startswith("Validation") and "'error'" not in text]
    assert len(valid) > 15
