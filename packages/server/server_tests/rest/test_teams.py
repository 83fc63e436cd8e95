"""Users of a team: their namespaces, pipelines, and what the page of a pipeline offers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from kubectl_sky.cluster.errors import lacks_permission
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds, names
from server_tests.rest.conftest import ALICE
from tests import clock
from tests.fake_cluster import FakeCluster
from tests.test_documents import check

PIPELINE = "name: sums\n---\nname: one\nrun: echo 1\n---\nname: two\nrun: echo 2\n"
YAML = {"Content-Type": "application/yaml"}


@pytest.mark.parametrize("name", ["alice", "system:serviceaccount:sky-alice:reader"])
def test_whoami_names_the_namespace_of_users_add(
    name: str, alice: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.tokens[ALICE] = name

    def may(session: object, verb: str, kind: object, namespace: str) -> bool:
        return namespace == "sky-alice"

    monkeypatch.setattr("kubectl_sky.cluster.access.may", may)
    answer = alice.get("/whoami").json()
    assert (answer["all_namespaces"], answer["namespaces"]) == (False, ["sky-alice"])
    assert answer["namespace"] == "sky-alice"


def test_whoami_of_an_admin_lists_the_namespaces(alice: TestClient, cluster: FakeCluster) -> None:
    for name in ("team-b", "team-a"):
        cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    assert alice.get("/whoami").json()["namespaces"] == ["team-a", "team-b"]


def test_stage_of_a_pipeline_is_resumed_when_it_is_due(
    alice: TestClient, cluster: FakeCluster
) -> None:
    submitted = alice.post("/tasks/submit", content=PIPELINE, headers=YAML).json()
    pipeline_id = submitted["pipeline_id"]
    (first, second) = submitted["task_ids"]
    assert "--continue" in " ".join(submitted["notes"])
    (listed,) = alice.get("/tasks", params={"limit": 1}).json()["pipelines"]
    assert [task["task_id"] for task in listed["tasks"]] == [first, second]

    early = alice.post(f"/tasks/{pipeline_id}/resume")
    assert (early.status_code, "no stage" in early.json()["detail"]) == (409, True)
    cluster.start(f"one-{first}")
    cluster.finish(f"one-{first}")
    assert alice.post(f"/tasks/{pipeline_id}/resume").json()["task_id"] == second
    job = f"two-{second}"
    assert cluster.get(kinds.JOB, job)["spec"]["suspend"] is False


def test_other_method_than_post_is_405(alice: TestClient) -> None:
    for path in ("/tasks/submit", "/tasks/stop", "/volumes/create"):
        answer = alice.get(path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_value_of_a_volume_that_the_cluster_finds_invalid_is_400(
    alice: TestClient, cluster: FakeCluster
) -> None:
    cluster.before("POST persistentvolumeclaims", lambda: 422)
    assert alice.post("/volumes/create", json={"name": "v", "size": "1Gi"}).status_code == 400
    assert alice.post("/volumes/create", json={"name": "v", "size": ""}).status_code == 400


def test_openapi_requires_no_token_where_none_is_needed(alice: TestClient) -> None:
    paths = alice.get("/openapi.json").json()["paths"]
    public = {path for path, item in paths.items() for op in item.values() if not op["security"]}
    assert public == {"/", "/login", "/healthz", "/readyz", "/metrics"}


WEB = "name: llm\nservice: {replicas: 1}\nresources: {ports: 8080}\nrun: serve\n"
GPU_TASK = """\
name: t
resources: {accelerators: A100:2, cpus: 4+, memory: 16, labels: {team: vision}}
run: train
"""


def test_list_has_image_resources_and_labels_of_a_pending_task(alice: TestClient) -> None:
    alice.post("/tasks/submit", content=GPU_TASK, headers=YAML)
    (task,) = alice.get("/tasks").json()["tasks"]
    assert task["metadata"]["image"] == "python:3.13-slim"
    assert task["metadata"]["labels"] == {"team": "vision"}
    assert task["metadata"]["resources"] == {
        "gpus": 2, "accelerators": "A100:2", "cpus": "4", "memory": "16Gi",
    }  # fmt: skip


def test_usage_adds_up_gpu_hours_as_the_caller(
    alice: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.stop(monkeypatch)
    monkeypatch.setattr(Session, "now", lambda _: now)
    task_id = alice.post("/tasks/submit", content=GPU_TASK, headers=YAML).json()["task_id"]
    pod: Any = cluster.get(kinds.POD, cluster.start(f"t-{task_id}"))
    start = (now - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    cluster.put(pod | {"status": pod["status"] | {"startTime": start}})
    cluster.change(kinds.JOB, f"t-{task_id}", status={"active": 1, "startTime": start})
    usage = alice.get("/usage", params={"by": "user", "days": 1 / 24}).json()
    assert [(row["key"], row["gpu_hours"]) for row in usage["rows"]] == [("alice", 2.0)]
    assert alice.get("/usage", params={"by": "gpu"}).json()["rows"][0]["gpu_hours"] == 6.0
    assert alice.get("/usage", params={"days": 0}).status_code == 400
    cluster.forbidden.add("alice: list jobs")
    assert alice.get("/usage").status_code == 403


def put_services(cluster: FakeCluster) -> None:
    """Put a service of alice, with a replica that has written a line, and one of bob."""
    cluster.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    for user in ("alice", "bob"):
        name = f"web-{user}"
        labels = {"kubectl-sky/service": name, "username": user}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}]}}
        spec = {"replicas": 1, "template": template}

        owner: dict[str, Any] = {}
        for kind in (kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.POD):
            metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": labels}
            metadata |= {"ownerReferences": [owner]} if owner else {}
            item = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
            live = cluster.put(item | {"spec": spec})
            uid = live["metadata"]["uid"]
            owner = {"uid": uid, "controller": True, "kind": kind.kind, "name": name}
            owner |= {"apiVersion": kind.api_version}

        main = {"name": "main", "state": {"running": {}}}
        cluster.change(kinds.POD, name, status={"phase": "Running", "containerStatuses": [main]})
        cluster.log(name, b"hello\n")


def test_services_lists_those_of_the_caller(alice: TestClient, cluster: FakeCluster) -> None:
    put_services(cluster)
    (service,) = alice.get("/services").json()["services"]
    assert (service["name"], service["replicas"]["wanted"]) == ("web-alice", 1)
    assert len(alice.get("/services?all_users=true").json()["services"]) == 2


def test_service_is_scaled_and_deleted_by_its_owner(
    alice: TestClient, cluster: FakeCluster
) -> None:
    put_services(cluster)
    before = cluster.get(kinds.DEPLOYMENT, "web-alice")["spec"]
    cluster.before("update deployments", lambda: 409)
    answer = alice.post("/services/web-alice/scale", json={"replicas": 3})
    assert (answer.status_code, answer.json()["name"]) == (200, "web-alice")
    assert cluster.get(kinds.DEPLOYMENT, "web-alice")["spec"] == before | {"replicas": 3}
    assert alice.post("/services/web-alice/scale", json={"replicas": -1}).status_code == 400
    assert alice.post("/services/web-bob/scale", json={"replicas": 3}).status_code == 404
    assert alice.delete("/services/web-bob").status_code == 404

    assert alice.delete("/services/web-alice").json()["services"] == ["web-alice"]
    (left,) = alice.get("/services?all_users=true").json()["services"]
    assert left["name"] == "web-bob"


def test_service_is_created_and_updated_by_a_task_file(
    alice: TestClient, cluster: FakeCluster
) -> None:
    put_services(cluster)
    created = alice.post("/services/create", content=WEB, headers=YAML)
    assert (created.status_code, created.json()["name"]) == (200, "llm"), created.text
    live = cluster.get(kinds.DEPLOYMENT, "llm")
    assert live["metadata"]["labels"]["username"] == "alice"
    text = alice.get("/services/llm/file").json()["file"]
    assert "run: serve" in text

    text = text.replace("run: serve", "run: serve --fast").replace("name: llm", "name: other")
    updated = alice.post("/services/llm/update", content=text, headers=YAML)
    assert (updated.status_code, updated.json()["name"]) == (200, "llm"), updated.text
    assert updated.json()["version_id"] != created.json()["version_id"]
    assert "serve --fast" in alice.get("/services/llm/file").json()["file"]

    for path in ("web-bob/update", "none/update"):
        assert alice.post(f"/services/{path}", content=WEB, headers=YAML).status_code == 404
    assert alice.get("/services/web-bob/file").status_code == 404
    cluster.forbidden.add("alice: update deployments")
    answer = alice.post("/services/llm/update", content=WEB, headers=YAML)
    assert (answer.status_code, "forbidden" in answer.text) == (403, True)


def test_scale_of_a_service_with_an_autoscaler_is_refused(
    alice: TestClient, cluster: FakeCluster
) -> None:
    put_services(cluster)
    item = {"apiVersion": kinds.HPA.api_version, "kind": kinds.HPA.kind}
    metadata = {"name": "web-alice", "namespace": "default"}
    cluster.put(item | {"metadata": metadata, "spec": {"maxReplicas": 3}})
    answer = alice.post("/services/web-alice/scale", json={"replicas": 3})
    assert (answer.status_code, "autoscaler" in answer.json()["detail"]) == (400, True)
    assert cluster.get(kinds.DEPLOYMENT, "web-alice")["spec"]["replicas"] == 1


def test_logs_of_a_service_resume_as_events(alice: TestClient, cluster: FakeCluster) -> None:
    put_services(cluster)
    path = "/services/web-alice/logs?follow=false"
    assert alice.get(path).text == "hello\n"
    assert alice.get(f"{path}&replica=7").status_code == 200  # the text says why
    assert alice.get("/services/web-bob/logs").status_code == 404
    events = {"Accept": "text/event-stream"}
    text = alice.get(path, headers=events).text
    assert ('"node":"replica-0"' in text, text.count("event: line")) == (True, 1)
    last = next(line[4:] for line in text.splitlines() if line.startswith("id: "))
    again = alice.get(path, headers=events | {"Last-Event-ID": last}).text
    assert (again.count("event: line"), again.count("event: end")) == (0, 1)


@pytest.mark.parametrize("seconds", [0, 3600])
def test_tasks_controller_leads_while_its_lease_is_live(
    alice: TestClient, cluster: FakeCluster, seconds: int
) -> None:
    renewed = datetime.now(UTC) - timedelta(seconds=seconds)
    cluster.put(
        {
            "apiVersion": kinds.LEASE.api_version,
            "kind": kinds.LEASE.kind,
            "metadata": {"name": names.controller_lease("tasks", all_namespaces=False)},
            "spec": {
                "holderIdentity": "pod-1",
                "leaseDurationSeconds": 45,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
    )
    assert alice.get("/controllers/tasks").json() == {"leads": seconds == 0}


@pytest.mark.parametrize("namespace", ["default", "team", None])
def test_forbidden_in_default_says_how_to_set_the_namespace(namespace: str | None) -> None:
    hint = lacks_permission("you", "list", "jobs.batch", namespace).hint
    assert ("kubectl config set-context --current" in hint) == (namespace == "default")
    assert ("kubectl sky doctor" in hint) == (namespace is not None), "it shows one namespace"


def test_quotas_and_events_are_those_of_the_namespace(
    alice: TestClient, cluster: FakeCluster
) -> None:
    metadata = {"name": "team", "namespace": "default"}
    item = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    amounts = {"spec": {"hard": {"cpu": "4"}}, "status": {"used": {"cpu": "1500m"}}}
    cluster.put(item | amounts)
    about = {"kind": "Pod", "name": "web"}
    event = {"apiVersion": "v1", "kind": "Event", "involvedObject": about, "reason": "Pulled"}
    for name, time in (("new", "2026-01-02T00:00:00Z"), ("old", "2026-01-01T00:00:00Z")):
        cluster.put(event | {"metadata": {"name": name}, "message": name, "lastTimestamp": time})

    (quota,) = alice.get("/quotas").json()["quotas"]
    assert quota == {
        "namespace": "default",
        "quota": "team",
        "resource": "cpu",
        "used": "1500m",
        "hard": "4",
    }
    own = alice.get("/quotas", params={"my_namespaces": "true"}).json()["quotas"]
    assert own == [quota]  # the other namespace, sky-alice, has none
    events = alice.get("/cluster-events").json()["events"]
    assert [(item["message"], item["object"]) for item in events] == [
        ("new", "Pod/web"),
        ("old", "Pod/web"),
    ]
    cluster.forbidden.add("alice: list resourcequotas")
    assert alice.get("/quotas").status_code == 403


def test_timeline_has_the_phases_of_each_node(alice: TestClient, cluster: FakeCluster) -> None:
    submitted = alice.post("/tasks/submit", content=PIPELINE, headers=YAML).json()
    first, _ = submitted["task_ids"]
    cluster.start(f"one-{first}")
    answer = alice.get(f"/tasks/{submitted['pipeline_id']}/timeline").json()
    check(answer)
    one, two = answer["tasks"]
    assert [one["name"], two["name"]] == ["one", "two"]
    assert [phase["phase"] for phase in two["nodes"][0]["phases"]] == ["queued"]
    assert alice.get(f"/tasks/{first}/timeline").json()["tasks"] == [one]


def test_page_of_task_tells_since_when_it_is_in_setup_and_lists_read_no_logs(
    alice: TestClient, cluster: FakeCluster
) -> None:
    task = "name: train\nsetup: pip install x\nrun: x\n"
    task_id = alice.post("/tasks/submit", content=task, headers=YAML).json()["task_id"]
    cluster.log(cluster.start(f"train-{task_id}"), b"kubectl-sky: setup begins\n")
    (listed,) = alice.get("/tasks").json()["tasks"]
    assert "setup_since" not in listed["metadata"]["nodes"][0]
    assert cluster.count("get pods/log") == 0

    shown = alice.get(f"/tasks/{task_id}").json()
    check(shown)
    assert shown["status"] == "running"
    assert shown["metadata"]["nodes"][0]["setup_since"] == "2026-01-01T00:00:00Z"


def test_goodput_says_what_cannot_be_told_without_steps(
    alice: TestClient, cluster: FakeCluster
) -> None:
    submitted = alice.post("/tasks/submit", content=PIPELINE, headers=YAML).json()
    first, _ = submitted["task_ids"]
    cluster.start(f"one-{first}")

    answer = alice.get(f"/tasks/{first}/goodput").json()

    check(answer)
    (task,) = answer["tasks"]
    assert task["name"] == "one"
    assert task["notes"], task
