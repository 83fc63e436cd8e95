"""Objects are compared without what the API server sets, and with Secrets masked."""

import base64
from typing import Any

import pytest

from kubectl_sky.observe import object_diff
from kubectl_sky.observe.object_diff import pair, project


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a-b1", "namespace": "team", "labels": {"task-id": "b1"}},
        "spec": {"backoffLimit": 0, **spec},
    }


def secret(**data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": "a-b1", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}


def test_pair_of_same_object_from_server_does_not_differ() -> None:
    live = job(selector={"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}})
    live["metadata"] |= {"uid": "1", "resourceVersion": "7", "ownerReferences": [{"uid": "2"}]}
    live["metadata"]["labels"] |= {"batch.kubernetes.io/job-name": "a-b1"}
    live["status"] = {"active": 1}
    assert not pair(live, job()).differs
    assert list(pair(live, job()).unified()) == []


def test_pair_of_changed_object_is_unified_diff() -> None:
    lines = list(pair(job(), job(backoffLimit=3)).unified())
    assert lines[:2] == ["--- LIVE/batch.v1.Job.team.a-b1", "+++ MERGED/batch.v1.Job.team.a-b1"]
    assert "-  backoffLimit: 0" in lines and "+  backoffLimit: 3" in lines


@pytest.mark.parametrize(("live", "merged"), [(None, job()), (job(), None)])
def test_pair_with_missing_object_has_all_lines(live: Any, merged: Any) -> None:
    result = pair(live, merged)
    assert result.differs
    sign = "+" if live is None else "-"
    assert f"{sign}kind: Job" in list(result.unified())


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(
    ("live", "merged"),
    [
        (secret(a="hunter2"), secret(a="hunter3")),
        (secret(a="hunter2"), None),
        (None, secret(a="hunter3")),
        (secret(a="hunter2"), secret(b="hunter3")),
    ],
)
def test_pair_of_secrets_masks_values(live: Any, merged: Any, wrap: bool) -> None:
    if wrap:
        live, merged = (job(components=[item] if item else []) for item in (live, merged))
    result = pair(live, merged)
    assert result.differs
    text = result.live + result.merged
    for value in ("hunter2", "hunter3"):
        assert value not in text and base64.b64encode(value.encode()).decode() not in text
    assert "***" in text


def test_pair_of_same_secret_does_not_differ_and_is_masked() -> None:
    result = pair(secret(a="hunter2"), secret(a="hunter2"))
    assert not result.differs
    assert "a: '***'" in result.live


def test_scripts_are_compared_line_by_line() -> None:
    lines = list(pair(job(run="a\nb\nc\n"), job(run="a\nB\nc\n")).unified())
    assert "-    b" in lines and "+    B" in lines and " " * 5 + "a" in lines


def test_project_drops_fields_that_are_not_sent() -> None:
    live = {"a": 1, "default": 2, "list": [{"b": 1, "more": 2}, {"c": 3}]}
    assert project({"a": 0, "list": [{"b": 5}]}, live) == {"a": 1, "list": [{"b": 1}, {"c": 3}]}
    assert object_diff.comparable(job())["spec"] == {"backoffLimit": 0}
