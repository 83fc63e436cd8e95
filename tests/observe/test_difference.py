"""Which fields differ between what is there and what would be sent."""

import copy
from typing import Any

from kubectl_sky.observe.difference import differences

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
SENT = {
    "f:metadata": {"f:labels": {"f:a": {}}},
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {
                ".": {},
                "f:name": {},
                "f:image": {},
                "f:env": {
                    'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}},
                    'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}},
                },
            }
        }
    },
}


def live(**changes: Any) -> dict[str, Any]:
    """The object as the server keeps it: with defaults, and managed fields."""
    found = copy.deepcopy(WANTED)
    found["metadata"] |= {
        "uid": "1",
        "managedFields": [{"manager": "kubectl-sky", "operation": "Apply", "fieldsV1": SENT}],
    }
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


def test_what_the_server_added_is_no_difference() -> None:
    assert shown(wanted(), live()) == []


def test_a_changed_value_is_named_by_its_path() -> None:
    assert shown(wanted(image="python:4"), live()) == [
        'spec.containers[main].image: "python:3" would become "python:4"'
    ]


def test_quantities_are_compared_by_value() -> None:
    assert shown(wanted(resources={"limits": {"cpu": "0.5"}}), live()) == []
    assert len(shown(wanted(resources={"limits": {"cpu": "2"}}), live())) == 1


def test_a_value_that_is_sent_no_more_is_found_through_managed_fields() -> None:
    fewer = wanted(env=[{"name": "A", "value": "1"}])
    assert shown(fewer, live()) == [
        'spec.containers[main].env[B]: {"name": "B", "value": "2"} would go'
    ]


def test_order_of_named_things_is_no_difference() -> None:
    turned = wanted(env=[{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])
    assert shown(turned, live()) == []


def test_a_new_value() -> None:
    assert shown(wanted(workingDir="/x"), live()) == [
        'spec.containers[main].workingDir: "/x" would be added'
    ]


def test_long_texts_are_not_printed() -> None:
    old, new = {"data": {"run.sh": "a" * 200}}, {"data": {"run.sh": "b" * 200}}
    assert shown(new, old) == ["data[run.sh]: the text differs"]


def test_values_of_secrets_are_never_printed() -> None:
    old = {"kind": "Secret", "data": {"TOKEN": "b2xk"}}
    new = {"kind": "Secret", "data": {"TOKEN": "bmV3"}}
    (line,) = shown(new, old)
    assert "TOKEN" in line
    assert "b2xk" not in line and "bmV3" not in line


def test_things_that_share_a_name_are_compared_by_place() -> None:
    taints = [{"key": "a", "effect": "x"}, {"key": "a", "effect": "y"}]
    assert shown({"tolerations": taints}, {"tolerations": taints}) == []
    assert shown({"volumes": [{"sizeLimit": "1024Mi"}]}, {"volumes": [{"sizeLimit": "1Gi"}]}) == []
