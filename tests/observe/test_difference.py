"""Differences between the existing and the wanted object."""

import base64
import copy
from typing import Any

import pytest

from kubectl_sky.observe import difference
from kubectl_sky.observe.difference import (
    differences,
    foreign_fields,
    pair,
    project,
)

WANTED: dict[str, Any] = {
    "kind": "Job",
    "metadata": {"name": "x", "labels": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "python:3",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"limits": {"cpu": "500m"}},
            }
        ]
    },
}


def live(**changes: Any) -> dict[str, Any]:
    """Return the object as stored by the server, with defaults."""
    found = copy.deepcopy(WANTED)
    found["metadata"]["uid"] = "1"
    found["spec"]["suspend"] = False
    container = found["spec"]["containers"][0]
    container |= {"imagePullPolicy": "IfNotPresent", **changes}
    return found


def wanted(**changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(WANTED)
    found["spec"]["containers"][0] |= changes
    return found


def shown(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [str(item) for item in differences(wanted, found)]


def test_differences_ignore_server_defaults() -> None:
    assert shown(wanted(), live()) == []


def test_differences_name_changed_field_by_path() -> None:
    assert shown(wanted(image="python:4"), live()) == [
        'spec.containers[main].image: "python:3" would become "python:4"'
    ]


def test_differences_compare_quantities_by_value() -> None:
    assert shown(wanted(resources={"limits": {"cpu": "0.5"}}), live()) == []
    assert len(shown(wanted(resources={"limits": {"cpu": "2"}}), live())) == 1


def test_differences_ignore_order_of_named_items() -> None:
    turned = wanted(env=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])
    assert shown(turned, live()) == []


def test_differences_report_added_field() -> None:
    assert shown(wanted(workingDir="/x"), live()) == [
        'spec.containers[main].workingDir: "/x" would be added'
    ]


def test_differences_hide_long_texts() -> None:
    old = {"data": {"run.sh": "a" * 200}}
    new = {"data": {"run.sh": "b" * 200}}
    assert shown(new, old) == ["data[run.sh]: the text differs"]


def test_differences_hide_values_of_secrets() -> None:
    old = {"kind": "Secret", "data": {"TOKEN": "b2xk"}}
    new = {"kind": "Secret", "data": {"TOKEN": "bmV3"}}
    (line,) = shown(new, old)
    assert "TOKEN" in line
    assert "b2xk" not in line and "bmV3" not in line


def test_differences_compare_items_with_same_name_by_index() -> None:
    taints = [{"key": "a", "effect": "x"}, {"key": "a", "effect": "y"}]
    assert shown({"tolerations": taints}, {"tolerations": taints}) == []
    assert shown({"volumes": [{"sizeLimit": "1024Mi"}]}, {"volumes": [{"sizeLimit": "1Gi"}]}) == []


POD = {"containers": [{"name": "main"}]}
DEFAULTS = {"terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "hostPID": False}


@pytest.mark.parametrize(
    ("desired", "live", "reasons"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, ['data: has the key "b"']),
        ({}, {"binaryData": {"b": "Mg=="}}, ['binaryData: has the key "b"']),
        (
            {"spec": {"selector": {"a": "1"}}},
            {"spec": {"selector": {"a": "1", "b": "2"}}},
            ['spec.selector: has the key "b"'],
        ),
        ({"spec": {}}, {"spec": {"selector": {"uid": "1"}}}, []),
        ({"spec": POD}, {"spec": POD | DEFAULTS}, []),
        ({"spec": POD}, {"spec": POD | {"hostPID": True}}, ["spec.hostPID would go"]),
    ],
)
def test_foreign_fields_are_those_that_affect_a_pod(
    desired: dict[str, Any], live: dict[str, Any], reasons: list[str]
) -> None:
    assert foreign_fields(desired, live) == reasons


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
    assert difference.comparable(job())["spec"] == {"backoffLimit": 0}
