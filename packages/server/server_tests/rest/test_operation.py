"""Metrics, health, and the OpenAPI as a fuzzer sees it."""

import json
import re
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import SkipTest
from urllib.parse import quote

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from prometheus_client.parser import text_string_to_metric_families
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from kubectl_sky.errors import UserError
from kubectl_sky_server.controllers import health
from kubectl_sky_server.controllers.loop import Numbers
from kubectl_sky_server.rest import audit, metrics
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config
from server_tests.rest.conftest import ALICE, BOB, Client, bearer, submitted
from tests.fake_cluster import FakeCluster
from tests.markdown import ROOT

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
OPERATION = ROOT / "docs" / "administrators.md"
STREAMS = ("/tasks/events", "/kubernetes")  # these never end


def test_alerts_and_table_of_the_page_use_metrics_that_exist(alice: TestClient) -> None:
    alice.get("/tasks")
    loops = {("tasks", "TasksController"): Numbers()}
    families = [
        *text_string_to_metric_families(alice.get("/metrics").text),
        *health.metrics(("tasks",), True, loops),
    ]
    existing = [sample for family in families for sample in family.samples]
    labels = {sample.name: set(sample.labels) for sample in existing}
    page = OPERATION.read_text(encoding="utf-8")
    *_, block = re.findall(r"```yaml\n(.*?)```", page, re.S)
    rules = yaml.safe_load(block)["groups"][0]["rules"]
    assert len(rules) == 7

    for rule in rules:
        used = re.findall(r"(kubectl_sky_\w+)(?:{(.*?)})?", rule["expr"])
        assert used
        for name, selectors in used:
            assert set(re.findall(r'(\w+)[=!]~?"', selectors)) <= labels[name]
    named = set(re.findall(r"`(kubectl_sky_\w+)`", page))
    of_page = {f"{name}_bucket" if name.endswith("request_seconds") else name for name in named}
    assert of_page <= labels.keys()
    assert {name for name in labels if name.startswith("kubectl_sky_controller")} <= named


def test_metrics_count_requests_by_route(alice: TestClient, client: Client) -> None:
    task_id = submitted(alice)
    alice.get(f"/tasks/{task_id}")
    alice.get("/nothing/at/all")
    text = alice.get("/metrics", headers={"Authorization": ""}).text
    line = 'kubectl_sky_requests_total{method="GET",path="/tasks/{task_id}",status="200"} 1.0'
    assert line in text
    assert 'path="other",status="404"} 1.0' in text
    assert "kubectl_sky_open_streams 0.0" in text
    assert task_id not in text
    assert "alice" not in text


def test_audit_log_has_who_did_what_and_no_secrets(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    with audit.open_log(str(path)) as log:
        alice = client(bearer(ALICE), audit=log)
        task_id = submitted(alice, namespace="default")
        alice.get(f"/tasks/{task_id}/logs", params={"follow": False, "since": "5m"})
        pods = "/kubernetes/api/v1/namespaces/default/pods"
        alice.get(pods, params={"fieldSelector": "spec.s3cr3t=x", "namespace": "other"})
        anyone = client(audit=log)
        anyone.get("/tasks", headers=bearer("s3cr3t"))
        session = anyone.post("/login", json={"token": BOB}).json()["session"]
        anyone.get("/healthz")
    text = path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["user"], line["path"], line["task"], line["status"]) for line in lines] == [
        ("alice", "/tasks/submit", task_id, 200),
        ("alice", f"/tasks/{task_id}/logs", task_id, 200),
        ("alice", pods, None, 200),
        (None, "/tasks", None, 401),
        ("bob", "/login", None, 200),
    ]
    assert lines[0]["method"] == "POST"

    namespaces = ["default", "default", "default", None, None]
    assert [line["namespace"] for line in lines] == namespaces, "of the task, if there is one"
    assert not [secret for secret in ("s3cr3t", session, ALICE, BOB) if secret in text]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_audit_log_has_no_long_or_invalid_values(client: Client, tmp_path: Path) -> None:
    with audit.open_log(str(tmp_path / "audit")) as log:
        anyone = client(audit=log)
        for value in ("a" * 64, "S3cr3t", "a\n"):
            anyone.get("/tasks", params={"namespace": value})
            anyone.get(f"/tasks/{quote(value)}", headers=bearer(ALICE), params={"namespace": value})
        anyone.request("X" * 9000, "/" + "a" * 9000, params={"namespace": "a" * 63})
        anyone.get("/metrics/other")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [line["namespace"] for line in lines] == [None] * 6 + ["a" * 63, None]
    assert [line["task"] for line in lines] == [None] * 8
    assert (len(lines[6]["method"]), len(lines[6]["path"])) == (20, 2000)


def test_audit_log_quotes_what_the_proxy_says_of_the_client(client: Client, tmp_path: Path) -> None:
    with audit.open_log(str(tmp_path / "audit")) as log:
        for behind_proxy in (False, True):
            anyone = client(audit=log, behind_proxy=behind_proxy)
            for value in (b"203.0.113.7", b"a\tb\x9b" + b"1" * 9000 + b", 203.0.113.7"):
                headers = [(b"X-Forwarded-For", value)]
                anyone.get("/tasks", headers=headers)
            anyone.get("/tasks")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert {line["address"] for line in lines} == {"testclient"}
    assert not any("forwarded_for" in line for line in lines[:3])
    first, second, none = (line["forwarded_for"] for line in lines[3:])
    assert (first, none) == ("203.0.113.7", None)
    assert second == "1" * 287 + ", 203.0.113.7"


def test_audit_log_that_cannot_be_opened_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        audit.open_log(str(tmp_path / "none" / "audit"))


def test_readyz_without_api_server_is_503(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ready = False
    anyone = client()
    assert anyone.get("/healthz").text == "ok"
    assert anyone.get("/readyz").status_code == 503
    cluster.ready = True
    assert anyone.get("/readyz").status_code == 503  # the answer counts some seconds
    monkeypatch.setattr(metrics, "_READY_SECONDS", 0.0)
    monkeypatch.setattr(metrics, "monotonic", lambda: 1e12)
    answer = anyone.get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ok")


def test_openapi_has_examples_and_no_422(client: Client) -> None:
    schema = client().get("/openapi.json").json()
    submit = schema["paths"]["/tasks/submit"]["post"]
    assert submit["requestBody"]["content"]["application/json"]["example"]["run"]
    assert all(
        "422" not in operation["responses"]
        for operations in schema["paths"].values()
        for operation in operations.values()
    )


def test_openapi_allows_validate_any_object_and_submit_none_without_fields(client: Client) -> None:
    paths = client().get("/openapi.json").json()["paths"]
    schemas = [
        paths[path]["post"]["requestBody"]["content"]["application/yaml"]["schema"]
        for path in ("/validate", "/tasks/submit")
    ]
    assert schemas == [{"type": "object"}, {"type": "object", "minProperties": 1}]


def test_schemathesis_finds_no_error_and_no_breach(cluster: FakeCluster, config: Config) -> None:
    app = create_app(config)
    headers = bearer(ALICE) | {"Host": "testserver"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers)
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    fuzzed = [item for item in operations if not item.path.startswith(STREAMS)]
    assert len(fuzzed) > 15
    for operation in fuzzed:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            with suppress(Unsatisfiable, SkipTest):
                fuzz(operation.as_strategy(mode), headers)
    sent = Counter(
        sample.labels["status"][0]
        for metric in app.state.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "kubectl_sky_requests_total"
        for _ in range(int(sample.value))
    )

    assert sent["2"] > 20
    assert sent["4"] > 20


def fuzz(cases: SearchStrategy[schemathesis.Case[Any]], headers: dict[str, str]) -> None:
    """Send some cases and check the answers."""

    @settings(
        max_examples=5,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()
