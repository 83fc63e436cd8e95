"""What a task has used: a Prometheus that settings name, asked after the caller's own rights."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from starlette.testclient import TestClient

from kubectl_sky.actions import config as settings
from kubectl_sky.cluster import web
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import InvalidFiles
from kubectl_sky.gpus import prometheus
from server_tests.rest.conftest import ALICE, BOB, Client, bearer, submitted
from tests import clock
from tests.fake_cluster import FakeCluster

AGO = timedelta(minutes=10)


class Prometheus(ThreadingHTTPServer):
    """A stand-in that answers with the series of `values`, and keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.body = b""
        self.find: Callable[[dict[str, str]], bytes] = lambda form: self.body
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/prefix/"

    def answer(self, *series: tuple[dict[str, Any], list[list[Any]]]) -> None:
        """Answer as Prometheus does."""
        result = [{"metric": metric, "values": values} for metric, values in series]
        data = {"resultType": "matrix", "result": result}
        self.body = json.dumps({"status": "success", "data": data}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Prometheus

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert self.path == "/prefix/api/v1/query_range"
        asked = {name: value for name, (value,) in parse_qs(form).items()}
        self.server.asked.append(asked)
        self.server.headers.append(dict(self.headers))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(self.server.find(asked))

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Prometheus]:
    server = Prometheus()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    name(tmp_path, server.url)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def name(folder: Path, url: str) -> None:
    (folder / "settings.yaml").write_text(f"prometheus: {url}\n")


@pytest.fixture
def task(alice: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running task of alice, created ten minutes ago."""
    now = clock.stop(monkeypatch) + AGO
    task_id = submitted(alice)
    cluster.start(f"hello-{task_id}")
    monkeypatch.setattr(Session, "now", lambda _: now)
    return task_id


def usage(client: TestClient, task: str, seconds: int = 86_400) -> dict[str, Any]:
    answer = client.get(f"/tasks/{task}/usage", params={"seconds": seconds})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_history_has_series_of_the_pods_of_the_task_only(
    alice: TestClient, server: Prometheus, task: str
) -> None:
    server.answer()
    history = usage(alice, task)["history"]
    start = history["start"]
    step = history["step"]
    pod = f"hello-{task}-0"
    (asked,) = server.asked
    assert (int(asked["start"]), int(asked["step"])) == (start, step) and step == 15
    assert 600 <= int(asked["end"]) - start < 615, "not before the task"

    escaped = pod.replace("-", r"\\-")
    query = asked["query"]
    assert query.count(f'pod=~"{escaped}"') == 6 == query.count('namespace="default"')

    server.answer(
        ({"pod": pod, "measure": "cpus"}, [[start, "1.5"], [start + 30.2, "2"]]),
        ({"pod": pod, "measure": "gpu_percent"}, [[start + 15, "73"]]),
        ({"pod": "of-bob", "measure": "cpus"}, [[start, "1"]]),
        ({"pod": pod, "measure": "temperature"}, [[start, "1"]]),
    )
    cpus, gpus = usage(alice, task)["history"]["series"]
    assert (cpus["node"], cpus["measure"], cpus["values"][:4]) == (0, "cpus", [1.5, None, 2, None])
    assert (gpus["measure"], gpus["values"][:3]) == ("gpu_percent", [None, 73, None])
    assert usage(alice, task, 0).keys().isdisjoint({"history", "history_reason"})
    assert len(server.asked) == 2


def test_history_of_finished_task_ends_with_it_and_many_nodes_have_fewer_points(
    alice: TestClient,
    cluster: FakeCluster,
    server: Prometheus,
    task: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.answer()
    monkeypatch.setattr(prometheus, "_VALUES", 20)
    usage(alice, task)
    cluster.finish(f"hello-{task}")
    usage(alice, task)
    running, finished = ({name: int(form[name]) for name in ("start", "end", "step")}
                         for form in server.asked)  # fmt: skip
    assert running["end"] - running["start"] >= 600 and running["step"] == 30
    assert finished["end"] - finished["start"] < 120


def test_task_of_another_user_is_refused_before_prometheus_is_asked(
    client: Client, cluster: FakeCluster, server: Prometheus, task: str
) -> None:
    bob = client(bearer(BOB))
    path = f"/tasks/{task}/usage?seconds=60"
    assert bob.get(path).status_code == 404
    cluster.forbidden.add("bob: list pods")
    assert bob.get(f"{path}&all_users=true").status_code == 403
    assert client(bearer("unknown")).get(path).status_code == 401
    assert server.asked == []
    assert client(bearer(ALICE)).get(path).status_code == 200
    assert len(server.asked) == 1


def test_values_that_are_no_numbers_and_times_outside_are_left_out(
    alice: TestClient, server: Prometheus, task: str
) -> None:
    server.answer()
    history = usage(alice, task)["history"]
    start = history["start"]
    pod = f"hello-{task}-0"
    words = ["NaN", "+Inf", "-Inf", "", "<script>", "1e999", "1e308"]
    values: list[list[Any]] = [[start + 15 * at, word] for at, word in enumerate(words)]
    values += [[-1e300, "1"], [1e300, "1"], [start - 16, "1"], [start + 10**6, "1"]]
    server.answer(({"pod": pod, "measure": "cpus"}, values))
    (series,) = usage(alice, task)["history"]["series"]
    assert [value for value in series["values"] if value is not None] == [1e308]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "its answer is not one of Prometheus"),
        (b"<html>", "its answer is not one of Prometheus"),
        (b"[" * 100_000, "its answer is not one of Prometheus"),
        (b'{"data": {"result": {}}}', "its answer is not one of Prometheus"),
        (b'{"data": {"result": [{"metric": {}, "values": [[1, 2]]}]}}', "not one of Prometheus"),
        (b'{"data": {"result": [{"metric": {"pod": 1}, "values": []}]}}', "not one of Prometheus"),
        (b'{"data": {"result": [{"metric": {"pod": "\xff"}, "values": []}]}}', "not one of"),
        (b'{"data": {"result": [{"metric": {}, "values": [[1e999, "1"]]}]}}', "not one of"),
        (b" " * ((8 << 20) + 1), "its answer has more than 8 MiB"),
    ],
)
def test_hostile_answer_is_a_reason_and_the_metrics_api_remains(
    alice: TestClient, server: Prometheus, task: str, body: bytes, reason: str
) -> None:
    server.body = body
    document = usage(alice, task)
    assert document["history_reason"].startswith("Prometheus: ")
    assert reason in document["history_reason"]
    assert (document["nodes"], "history" in document) == ([], False)


def test_prometheus_that_refuses_or_is_away_is_a_reason(
    alice: TestClient, server: Prometheus, task: str, tmp_path: Path
) -> None:
    server.status = 403
    assert usage(alice, task)["history_reason"] == "Prometheus: HTTP 403"
    name(tmp_path, "http://127.0.0.1:1")
    assert usage(alice, task)["history_reason"] == "Prometheus: Connection refused"
    name(tmp_path, "ftp://prometheus")
    assert "an http or https URL" in usage(alice, task)["history_reason"]
    (tmp_path / "settings.yaml").unlink()
    assert usage(alice, task).keys().isdisjoint({"history", "history_reason"})


def test_token_of_the_pod_goes_to_https_and_the_cluster_only(
    alice: TestClient,
    server: Prometheus,
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text("of-the-pod\n")
    monkeypatch.setattr(prometheus, "_ACCOUNT", tmp_path)
    server.answer()
    usage(alice, task)
    (headers,) = server.headers
    assert "Authorization" not in headers and ALICE not in str(headers)
    sent: dict[str, str] = {}

    def fetch(request: web.Fetch) -> Any:
        sent[request.url.removesuffix("/api/v1/query_range")] = dict(request.headers).get(
            "Authorization", ""
        )
        return web.Answer(404, {})

    monkeypatch.setattr(web, "fetch", fetch)
    urls = {
        "https://prometheus.example.com": True,
        "http://prometheus.monitoring.svc:9090": True,
        "http://prometheus.monitoring.svc.cluster.local/prefix": True,
        "http://prometheus.example.com": False,
        "http://prometheus.svc.example.com": False,
        "http://example.com/a.svc": False,
    }
    for url in urls:
        name(tmp_path, url)
        assert usage(alice, task)["history_reason"] == "Prometheus: HTTP 404"
    assert sent == {url: "Bearer of-the-pod" if gets else "" for url, gets in urls.items()}


@pytest.mark.parametrize(
    "url",
    [
        "https://user:password@host",
        "file:///etc/passwd",
        "http://host/?query=1",
        "http://",
        "http://host:65536",
    ],
)
def test_setting_refuses_credentials_queries_and_other_schemes(url: str) -> None:
    with pytest.raises(InvalidFiles):
        settings.read(f"prometheus: {url}\n".encode(), "settings.yaml")


def test_names_in_a_query_are_quoted() -> None:
    query = prometheus._query('a"b', ['x"} or up{a="', "b.c"], 120)
    assert r'namespace="a\"b"' in query
    assert r'pod=~"x\"\\}\\ or\\ up\\{a=\"|b\\.c"' in query
