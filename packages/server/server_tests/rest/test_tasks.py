"""Tasks over HTTP: the models of the seed, owners, and what is refused."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from starlette.testclient import TestClient

from kubectl_sky.render.manifests import Manifests
from kubectl_sky.submitting import render as rendering
from kubectl_sky.submitting import submit as submission
from kubectl_sky.tasks import history
from kubectl_sky.tasks.find import Scope, list_tasks
from kubectl_sky.words import kinds, names
from kubectl_sky_server.rest import files
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from server_tests.rest.conftest import ALICE, BOB, HELLO, Client, bearer, submitted
from tests.actions.conftest import put_warning
from tests.builders import ID
from tests.fake_cluster import FakeCluster

YAML = {"Content-Type": "application/yaml"}
TWO_TASKS = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"


def test_root_returns_health_as_specified(client: Client) -> None:
    assert client().get("/").json() == {"status": "ok", "service": "k8s-cli-api"}


def test_submit_json_creates_task(alice: TestClient, cluster: FakeCluster) -> None:
    answer = alice.post("/tasks/submit", json=HELLO)
    task_id = answer.json()["task_id"]
    assert answer.json()["status"] == "submitted"
    assert answer.json()["message"] == f"Task submitted successfully with ID: {task_id}"
    labels = cluster.get(kinds.JOB, f"hello-{task_id}")["metadata"]["labels"]
    assert labels["username"] == "alice"


def test_submit_yaml_of_two_tasks_creates_pipeline(alice: TestClient) -> None:
    answer = alice.post("/tasks/submit", content=TWO_TASKS, headers=YAML).json()
    assert answer["task_id"] == answer["pipeline_id"]
    assert len(answer["task_ids"]) == 2
    shown = alice.get(f"/tasks/{answer['pipeline_id']}").json()
    assert [task["name"] for task in shown["tasks"]] == ["one", "two"]


def test_show_returns_specified_fields(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice, HELLO | {"num_nodes": 2})
    cluster.start(f"hello-{task_id}-node-0")
    task = alice.get(f"/tasks/{task_id}").json()
    assert set(task) - {"apiVersion", "kind"} == {
        "task_id", "name", "status", "created_at", "updated_at", "username", "metadata",
    }  # fmt: skip
    assert (task["name"], task["status"], task["username"]) == ("hello", "running", "alice")
    metadata = task["metadata"]
    assert metadata["job_name"] == f"hello-{task_id}-node-0"
    assert metadata["node_jobs"] == [f"hello-{task_id}-node-{rank}" for rank in range(2)]
    counts = ("num_nodes", "succeeded_nodes", "failed_nodes", "running_nodes", "pending_nodes")
    assert [metadata[name] for name in counts] == [2, 0, 0, 1, 1]
    assert metadata["namespace"] == "default"


def test_list_pages_newest_first_without_gaps(alice: TestClient) -> None:
    ids = {submitted(alice) for _ in range(5)}
    pages = []
    cursor = None
    while True:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = alice.get("/tasks", params=query).json()
        pages.append([task["task_id"] for task in page["tasks"]])
        cursor = page["next"]
        if cursor is None:
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert {task_id for page in pages for task_id in page} == ids


def test_small_page_reads_only_its_tasks_and_their_pipelines_in_full(
    alice: TestClient, cluster: FakeCluster
) -> None:
    pipeline = alice.post("/tasks/submit", content=TWO_TASKS, headers=YAML).json()
    for number in range(3):
        submitted(alice, id=f"zzzzzzz{number}")  # newer, or first of the same second
    cursor = alice.get("/tasks", params={"limit": 3}).json()["next"]
    cluster.sent.clear()
    page = alice.get("/tasks", params={"limit": 1, "cursor": cursor}).json()
    assert page["tasks"][0]["task_id"] in pipeline["task_ids"]
    assert [task["name"] for task in page["pipelines"][0]["tasks"]] == ["one", "two"]

    selectors = {
        parse_qs(urlsplit(request.url).query).get("labelSelector", [""])[0]
        for request in cluster.sent
        if "PartialObjectMetadata" not in request.headers.get("Accept", "")
    }
    selectors.discard("")  # of discovery
    ids = ",".join(sorted(pipeline["task_ids"]))
    assert selectors == {f"skypilot-task=true,username=alice,task-id in ({ids})"}


@pytest.mark.parametrize("cursor", ["x", "", "é", "2026-01-01T00:00:00Z,a0000000"])
def test_list_with_foreign_cursor_is_refused(alice: TestClient, cursor: str) -> None:
    answer = alice.get("/tasks", params={"cursor": cursor})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("cursor: ")


def test_list_tasks_of_other_user_requires_all_users(client: Client) -> None:
    alice = client(bearer(ALICE))
    bob = client(bearer(BOB))

    task_id = submitted(alice)
    assert bob.get("/tasks").json()["tasks"] == []
    for method, path in (
        ("GET", ""), ("POST", "/stop"), ("GET", "/doctor"), ("GET", "/manifests"),
        ("GET", "/usage"), ("GET", "/logs"), ("GET", "/events"), ("GET", "/file"),
        ("GET", "/cluster-events"),
    ):  # fmt: skip
        assert bob.request(method, f"/tasks/{task_id}{path}").status_code == 404, path
    assert [task["username"] for task in bob.get("/tasks?all_users=true").json()["tasks"]] == [
        "alice"
    ]
    assert bob.post("/tasks/stop").json()["count"] == 0
    assert alice.get(f"/tasks/{task_id}").status_code == 200


def test_usage_without_metrics_api_has_only_the_reason(alice: TestClient) -> None:
    answer = alice.get(f"/tasks/{submitted(alice)}/usage")
    assert (answer.status_code, answer.json()["nodes"]) == (200, [])
    assert answer.json()["reason"] == "the cluster has no metrics API; install metrics-server"


def test_list_all_users_returns_only_tasks_allowed_by_rbac(
    client: Client, cluster: FakeCluster
) -> None:
    cluster.forbidden.add("bob: list jobs")
    answer = client(bearer(BOB)).get("/tasks?all_users=true")
    assert answer.status_code == 403
    assert "user bob may not list jobs" in answer.json()["detail"]


def test_submit_without_rights_is_forbidden_and_creates_no_objects(
    client: Client, cluster: FakeCluster
) -> None:
    cluster.forbidden.add("bob: create jobs")
    answer = client(bearer(BOB)).post("/tasks/submit", json=HELLO)
    assert answer.status_code == 403
    assert cluster.names() == []


def test_stop_deletes_task(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice)
    assert alice.post(f"/tasks/{task_id}/stop").json() == {
        "task_id": task_id,
        "status": "stopped",
        "message": f"Task {task_id} stopped successfully",
    }
    assert cluster.names() == []
    assert alice.get(f"/tasks/{task_id}").status_code == 404


def test_stop_all_returns_number_of_tasks(alice: TestClient) -> None:
    ids = [submitted(alice) for _ in range(2)]
    answer = alice.post("/tasks/stop").json()
    assert answer.items() >= {"count": 2, "status": "stopped", "message": "Stopped 2 tasks"}.items()
    assert sorted(answer["task_ids"]) == sorted(ids)


def test_stop_task_with_finalizer_is_accepted_and_names_it(
    alice: TestClient, cluster: FakeCluster
) -> None:
    task_id = submitted(alice)
    job = cluster.get(kinds.JOB, f"hello-{task_id}")
    job["metadata"]["finalizers"] = ["example.com/stuck"]
    cluster.put(job)
    waits = "waits for finalizer example.com/stuck"
    for path in (f"/tasks/{task_id}/stop", "/tasks/stop"):
        answer = alice.post(path)
        assert (answer.status_code, answer.json()["status"]) == (202, "deleting")
        remaining = [f"task/{task_id} (hello): Job hello-{task_id} {waits}"]
        assert answer.json()["remaining"] == remaining
    note = alice.get(f"/tasks/{task_id}").json()["metadata"]["note"]
    assert note.startswith("deleting since 2") and note.endswith(f"Z: {waits}")


def test_idempotency_key_submits_once_per_user(client: Client, cluster: FakeCluster) -> None:
    key = {"Idempotency-Key": "run 7"}
    alice = client(bearer(ALICE))
    bob = client(bearer(BOB))
    first = alice.post("/tasks/submit", json=HELLO, headers=key).json()
    second = alice.post("/tasks/submit", json=HELLO, headers=key).json()
    assert (first["status"], second["status"]) == ("submitted", "unchanged")
    assert first["task_id"] == second["task_id"]
    assert bob.post("/tasks/submit", json=HELLO, headers=key).json()["task_id"] != first["task_id"]
    other = alice.post("/tasks/submit", json=HELLO | {"run": "date"}, headers=key)
    assert other.status_code == 409
    assert other.json()["detail"].startswith(f"id {first['task_id']} belongs to a different task")
    assert other.json()["hint"] == "use another Idempotency-Key for another task"
    assert sum(name.startswith("jobs ") for name in cluster.names()) == 2


def test_idempotency_key_sent_concurrently_creates_single_task(
    alice: TestClient, cluster: FakeCluster
) -> None:
    key = {"Idempotency-Key": "at once"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda _: alice.post("/tasks/submit", json=HELLO, headers=key), range(4))
        )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["task_id"] for answer in answers}) == 1
    assert sum(name.startswith("jobs ") for name in cluster.names()) == 1


def test_key_and_id_together_are_refused(alice: TestClient) -> None:
    answer = alice.post(
        "/tasks/submit", json=HELLO, params={"id": ID}, headers={"Idempotency-Key": "x"}
    )
    assert answer.status_code == 400


def test_submit_dry_run_sends_no_writes(alice: TestClient, cluster: FakeCluster) -> None:
    answer = alice.post("/tasks/submit", json=HELLO, params={"dry_run": "client", "id": ID})
    assert "kind: Job" in answer.json()["manifests"]
    assert cluster.writes == []


def test_invalid_file_is_refused_with_positions(alice: TestClient) -> None:
    text = "run: echo\nresources:\n  acelerators: A100\n"
    answer = alice.post("/tasks/submit", content=text, headers=YAML)
    assert answer.status_code == 400
    [problem] = answer.json()["problems"]
    assert (problem["line"], problem["path"]) == (3, "resources.acelerators")


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({"workdir": "/etc"}, "workdir"),
        ({"workdir": "."}, "workdir"),
        ({"file_mounts": {"/x": "/etc/passwd"}}, "file_mounts./x"),
        ({"file_mounts": {"/x": "~/.ssh"}}, "file_mounts./x"),
        ({"file_mounts": {"/x": "${HOME}"}, "envs": {"HOME": "/root"}}, "file_mounts./x"),
        ({"file_mounts": {"/x": {"name": "b", "source": "/etc", "mode": "COPY"}}}, "source"),
    ],
)
@pytest.mark.parametrize("path", ["/tasks/submit", "/render", "/validate"])
def test_local_files_are_refused(
    alice: TestClient, path: str, task: dict[str, Any], field: str
) -> None:
    answer = alice.post(path, json=HELLO | task)
    assert answer.status_code == (200 if path == "/validate" else 400)
    problems = answer.json()["problems"]
    assert any(
        problem["message"] == "is a local path of the client" and field in problem["path"]
        for problem in problems
    )
    assert "dangers" not in answer.json() or answer.json()["dangers"] == []


def test_submit_does_not_read_environment_of_server(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_SECRET", "leaked")
    unset: dict[str, Any] = {"SERVER_SECRET": None}
    answer = alice.post("/tasks/submit", json=HELLO | {"envs": unset})
    assert answer.status_code == 400
    assert "the value is not set" in answer.text
    answer = alice.post("/render", json=HELLO | {"envs": {"A": "${SERVER_SECRET}"}})
    assert "leaked" not in answer.text


def test_submit_context_of_file_does_not_select_cluster_of_server(alice: TestClient) -> None:
    task = HELLO | {"resources": {"infra": "k8s/other"}}
    answer = alice.post("/tasks/submit", json=task)
    assert answer.status_code == 400
    assert "other" in answer.text


def test_secrets_are_not_in_responses(alice: TestClient) -> None:
    task = HELLO | {"secrets": {"TOKEN": "hunter2"}}
    task_id = submitted(alice, task, id=ID)

    for answer in (
        alice.get("/tasks"),
        alice.get(f"/tasks/{task_id}"),
        alice.get(f"/tasks/{task_id}/manifests"),
        alice.get(f"/tasks/{task_id}/file"),
        alice.get(f"/tasks/{task_id}/doctor"),
        alice.post("/render", json=task),
        alice.post("/validate", json=task | {"run": 5}),
        alice.post("/tasks/submit", json=task, params={"dry_run": "client"}),
        alice.post("/tasks/submit", json=task | {"secrets": {"TOKEN": "hunter2", "B": [1]}}),
    ):
        assert "hunter2" not in answer.text
        assert "aHVudGVyMg" not in answer.text
    assert "kind: Secret" in alice.get(f"/tasks/{task_id}/manifests").json()["manifests"]


def test_file_is_that_of_the_task_or_of_the_whole_pipeline(alice: TestClient) -> None:
    answer = alice.post("/tasks/submit", content=TWO_TASKS, headers=YAML).json()
    whole = alice.get(f"/tasks/{answer['pipeline_id']}/file").json()["file"]
    assert list(yaml.safe_load_all(whole)) == list(yaml.safe_load_all(TWO_TASKS))
    for task_id, name in zip(answer["task_ids"], ("one", "two"), strict=True):
        text = alice.get(f"/tasks/{task_id}/file").json()["file"]
        assert yaml.safe_load(text) == {"name": name, "run": "true"}


def test_file_of_incomplete_pipeline_is_null(alice: TestClient, cluster: FakeCluster) -> None:
    answer = alice.post("/tasks/submit", content=TWO_TASKS, headers=YAML).json()
    alice.post(f"/tasks/{answer['task_ids'][1]}/stop")
    assert alice.get(f"/tasks/{answer['pipeline_id']}/file").json() == {"file": None}


@pytest.mark.parametrize(("size", "kept"), [(16_000, True), (17_000, False)])
def test_file_is_kept_up_to_16_kib(alice: TestClient, size: int, kept: bool) -> None:
    task_id = submitted(alice, HELLO | {"setup": "#" * size})
    assert (alice.get(f"/tasks/{task_id}/file").json()["file"] is not None) is kept


def test_doctor_returns_verdict(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice)
    cluster.start(f"hello-{task_id}")
    cluster.finish(f"hello-{task_id}", 3)
    verdict = alice.get(f"/tasks/{task_id}/doctor").json()
    assert (verdict["task_id"], verdict["status"]) == (task_id, "failed")


def test_render_returns_manifests_of_caller(alice: TestClient) -> None:
    answer = alice.post("/render", json=HELLO, params={"id": ID, "namespace": "team"}).json()
    assert f"name: hello-{ID}" in answer["manifests"]
    assert "username: alice" in answer["manifests"]
    assert "namespace: team" in answer["manifests"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"{", "the body is not JSON"),
        (b"[]", "the body must be a JSON object"),
        (b"\xff", "the body is not JSON"),
        (b"", "the body is not JSON"),
        (b'{"run": NaN}', "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"run": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", ""),
        (b'{"run": "a", "x\\ud800": 1}', ""),
        (b'{"run": ' + b"9" * 5000 + b"}", "the body is not JSON"),
        (b"{}", ""),
    ],
)
def test_malformed_json_is_refused(alice: TestClient, body: bytes, detail: str) -> None:
    answer = alice.post("/tasks/submit", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize(
    "run", ["a\u2028b", "a\x7fb\x85", "\ufeff", "tab\there", "\U0001f600", "a\nb"]
)
def test_submit_json_preserves_every_character(
    alice: TestClient, cluster: FakeCluster, run: str
) -> None:
    submitted(alice, HELLO | {"run": run}, id=ID)
    data = cluster.get(kinds.CONFIG_MAP, f"hello-{ID}")["data"]
    assert any(run in text for text in data.values())


def test_other_content_types_are_refused(alice: TestClient) -> None:
    for media_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ):
        headers = {"Content-Type": media_type}
        assert alice.post("/tasks/submit", content=b"run: x", headers=headers).status_code == 415


def test_deep_yaml_is_refused(alice: TestClient) -> None:
    text = "run: " + "[" * 10_000
    assert alice.post("/tasks/submit", content=text, headers=YAML).status_code == 400


@pytest.mark.parametrize("path", ["/render", "/tasks/submit?dry_run=client", "/tasks/submit"])
def test_file_with_more_nodes_than_the_limit_is_refused_before_it_is_planned(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for module in (rendering, submission):
        monkeypatch.setattr(module, "decide", lambda *_: pytest.fail("the file was planned"))
    task = "num_nodes: 10000\nrun: x\n"
    answer = alice.post(path, content=f"name: p\n---\n{task}---\n{task}", headers=YAML)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "20,000 nodes in one request; the limit is 10,000"


@pytest.mark.parametrize("path", ["/render", "/tasks/submit?dry_run=client", "/tasks/submit"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_manifests_larger_than_the_limit_are_refused_while_they_are_rendered(
    client: Client, path: str, tasks: int
) -> None:
    small = client(bearer(ALICE), limits=Limits(manifest_bytes=90_000))
    large = "name: p\n---\n" + "---\n".join([f"num_nodes: {40 // tasks}\nrun: x\n"] * tasks)
    answer = small.post(path, content=large, headers=YAML)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "the manifests are larger than 90,000 bytes"
    assert "indexed" in answer.json()["hint"]
    assert not small.get("/tasks").json()["tasks"]
    assert small.post(path, content="num_nodes: 20\nrun: x\n", headers=YAML).status_code == 200


def test_render_waits_while_others_render(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    running = 0
    most = 0
    lock = threading.Lock()
    pair = threading.Barrier(2, timeout=60)
    original = rendering.render_files

    def counted(*arguments: Any) -> Manifests:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait()  # two at a time
        time.sleep(0.1)  # for more than two
        with lock:
            running -= 1
        return original(*arguments)

    monkeypatch.setattr(rendering, "render_files", counted)
    app = create_app(replace(config, limits=Limits(submits=2)))

    with TestClient(app, headers=YAML | bearer(ALICE)) as http, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: http.post("/render", content="run: x"), range(6)))
    assert [answer.status_code for answer in answers] == [200] * 6
    assert most == 2


def test_large_bodies_are_refused(alice: TestClient) -> None:
    body = b"run: " + b"x" * 10_000_000
    assert alice.post("/tasks/submit", content=body, headers=YAML).status_code == 413
    chunks = (b"x" * 100_000 for _ in range(100))
    assert alice.post("/tasks/submit", content=chunks, headers=YAML).status_code == 413
    volume = {"name": "x" * 2_000_000, "size": "1"}
    assert alice.post("/volumes/create", json=volume).status_code == 413


@pytest.mark.parametrize(
    "task_id",
    ["%2e%2e", "a%2fb", "abc", "ABCDEFGH", "bcdf2345,x", "bcdf234%00", "bcdf2345%0a", "a" * 9],
)
def test_invalid_ids_are_refused_before_any_request(
    alice: TestClient, cluster: FakeCluster, task_id: str
) -> None:
    for path in ("", "/doctor", "/logs", "/manifests", "/file"):
        assert alice.get(f"/tasks/{task_id}{path}").status_code in (400, 404)
    assert alice.get(f"/volumes/{task_id}").status_code in (400, 404)
    assert not [text for text in cluster.requests if text.startswith("list")]


@pytest.mark.parametrize("namespace", ["..", "a/b", "A", "x" * 64, "", "a\nb", "kube-system/pods"])
def test_invalid_namespaces_are_refused(
    alice: TestClient, cluster: FakeCluster, namespace: str
) -> None:
    assert alice.get("/tasks", params={"namespace": namespace}).status_code == 400
    assert not [text for text in cluster.requests if text.startswith("list")]


def test_unknown_task_is_not_found(alice: TestClient) -> None:
    answer = alice.get(f"/tasks/{ID}")
    assert answer.status_code == 404
    assert answer.json()["detail"].startswith(f'task "{ID}" not found in namespace "default"')


def test_unreachable_cluster_is_503(alice: TestClient, cluster: FakeCluster) -> None:
    alice.get("/whoami")
    cluster.before("list jobs", lambda: 503)
    cluster.forbidden.clear()
    for nth in range(2, 10):
        cluster.before("list jobs", lambda: 503, nth=nth)
    answer = alice.get("/tasks")
    assert answer.status_code in (502, 503)
    assert json.loads(answer.text)["detail"]


def test_internal_error_shows_no_details(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr("kubectl_sky.tasks.find.list_tasks", fail)
    answer = alice.get("/tasks")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "internal error"
    assert "hunter2" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text


def test_responses_have_security_headers(client: Client) -> None:
    for answer in (client().get("/"), client().get("/tasks"), client().get("/nothing")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"


def test_cluster_events_are_those_of_the_task(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice)
    pod = cluster.start(f"hello-{task_id}")
    for number, name in enumerate((f"hello-{task_id}", pod, "other", f"x-hello-{task_id}")):
        cluster.put(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"event-{number}", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "name": name},
                "lastTimestamp": f"2026-01-05T12:00:0{number}Z",
                "type": "Warning",
                "reason": "Failed",
                "message": f"message {number}",
            }
        )

    events = alice.get(f"/tasks/{task_id}/cluster-events").json()["events"]
    assert [event["message"] for event in events] == ["message 1", "message 0"]
    assert events[0] == {
        "time": "2026-01-05T12:00:01Z",
        "type": "Warning",
        "reason": "Failed",
        "object": f"Pod/{pod}",
        "message": "message 1",
        "count": 1,
    }


def test_list_shows_why_pods_are_rejected_as_show_does(
    alice: TestClient, cluster: FakeCluster
) -> None:
    task_id = submitted(alice)
    put_warning(cluster, f"hello-{task_id}")
    (listed,) = alice.get("/tasks").json()["tasks"]
    reason = 'RuntimeClass "fast" not found'
    assert listed["metadata"]["note"] == f"node-0: {reason}"
    assert alice.get(f"/tasks/{task_id}").json()["metadata"] == listed["metadata"]


def test_deep_json_does_not_grow_before_it_is_read(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    source_of = files.source_of

    def measured(text: bytes, *arguments: Any) -> Any:
        sizes.append(len(text))
        return source_of(text, *arguments)

    monkeypatch.setattr(files, "source_of", measured)
    body = '{"a":' + "[" * 900 + ",".join("1" * 50_000) + "]" * 900 + "}"
    answer = alice.post("/render", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500
    assert max(sizes) < 2 * len(body)


def test_list_deleted_pages_finished_tasks_whose_objects_are_gone(
    alice: TestClient, cluster: FakeCluster
) -> None:
    ids = [submitted(alice) for _ in range(3)]
    for task_id in ids:
        cluster.start(f"hello-{task_id}")
        cluster.finish(f"hello-{task_id}", 3)
    session = cluster.session()
    history.record(session, "default", list_tasks(session, Scope("default", None)), 10)
    assert alice.get("/tasks?deleted=true").json()["tasks"] == []

    before = {task["task_id"]: task for task in alice.get("/tasks").json()["tasks"]}
    for task_id in ids[:2]:
        alice.post(f"/tasks/{task_id}/stop")
    first = alice.get("/tasks?deleted=true&limit=1").json()
    second = alice.get(f"/tasks?deleted=true&limit=1&cursor={first['next']}").json()
    tasks = [*first["tasks"], *second["tasks"]]
    assert {task["task_id"] for task in tasks} == set(ids[:2])
    assert second["next"] is None
    assert all(before[task["task_id"]] == task for task in tasks)


def test_list_deleted_notes_records_that_cannot_be_read(
    alice: TestClient, cluster: FakeCluster
) -> None:
    map_type = {"apiVersion": "v1", "kind": "ConfigMap"}
    record = {"id": "aaaaaaa1", "nodes": [], "num_nodes": 1}
    cluster.put(map_type | {"metadata": {"name": names.HISTORY}, "data": {"a": json.dumps(record)}})
    answer = alice.get("/tasks?deleted=true").json()
    assert answer["tasks"] == []
    assert answer["notes"] == ["namespace default: 1 record of a deleted task cannot be read"]
