"""The summary of a RayService, and its condition, in the status of a RayServeGraph."""

from typing import Any

import pytest

from kubectl_sky_server.ray import model_status as status

Json = dict[str, Any]


def make_service(**conditions: str) -> Json:
    return {
        "status": {
            "conditions": [{"type": key, "status": text} for key, text in conditions.items()],
            "numServeEndpoints": 2,
            "activeServiceStatus": {
                "rayClusterName": "fruit-a",
                "applicationStatuses": {"market": {"status": "RUNNING"}, "hello": {}},
            },
            "pendingServiceStatus": {"rayClusterName": "fruit-b"},
        }
    }


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({"Ready": "True"}, "Running"),
        ({"Ready": "False"}, "NotReady"),
        ({"Ready": "True", "UpgradeInProgress": "True"}, "Upgrading"),
    ],
)
def test_summary_of_rayservice_has_state_clusters_and_applications(
    conditions: dict[str, str], state: str
) -> None:
    assert status.summary("fruit", status.read(make_service(**conditions))) == {
        "name": "fruit",
        "state": state,
        "serveEndpoints": 2,
        "rayCluster": "fruit-a",
        "pendingRayCluster": "fruit-b",
        "applications": {"hello": "", "market": "RUNNING"},
    }


def test_summary_of_rayservice_without_status_has_no_clusters() -> None:
    assert status.summary("fruit", status.read({})) == {
        "name": "fruit",
        "state": "NotReady",
        "serveEndpoints": 0,
    }


@pytest.mark.parametrize(
    ("service", "value", "reason"),
    [
        ({}, False, "WaitingForKubeRay"),
        (make_service(Ready="True"), True, "Unknown"),
        (make_service(Ready="Unknown"), None, "Unknown"),
    ],
)
def test_condition_ready_is_that_of_the_rayservice(
    service: Json, value: bool | None, reason: str
) -> None:
    condition = status.ready(status.read(service))
    assert (condition.type, condition.status, condition.reason) == ("Ready", value, reason)
