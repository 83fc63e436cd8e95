"""Users of a team: their namespaces, pipelines, and what the page of a pipeline offers."""

import pytest
from starlette.testclient import TestClient

from kubectl_sky.words import kinds
from tests.fake_cluster import FakeCluster
from tests.server.conftest import ALICE

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


def test_whoami_of_an_admin_lists_the_namespaces(alice: TestClient, cluster: FakeCluster) -> None:
    for name in ("team-b", "team-a"):
        cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    assert alice.get("/whoami").json()["namespaces"] == ["team-a", "team-b"]


def test_stage_of_a_pipeline_is_resumed_when_it_is_due(
    alice: TestClient, cluster: FakeCluster
) -> None:
    submitted = alice.post("/tasks/submit", content=PIPELINE, headers=YAML).json()
    pipeline_id, (first, second) = submitted["pipeline_id"], submitted["task_ids"]
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


def test_get_of_a_path_that_only_posts_is_405(alice: TestClient) -> None:
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
