"""Cells of tables: the paths of printer columns."""

from typing import Any

import pytest

from kubectl_sky_practice.resources import Resource
from kubectl_sky_practice.tables import get, table

CONDITIONS = [{"type": "Applied", "status": "True"}, {"type": "Ready", "status": "False"}, "x"]
OBJECT: dict[str, Any] = {
    "metadata": {"name": "graph", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"ports": [{"port": 80}]},
    "status": {"phase": "Running", "conditions": CONDITIONS},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.ports[0].port", 80),
        (".spec.ports[1].port", None),
        ('.status.conditions[?(@.type=="Ready")].status', "False"),
        (".status.conditions[?(@.type == 'Applied')].status", "True"),
        ('.missing[?(@.type=="Ready")].status', None),
    ],
)
def test_get_path_returns_value(path: str, value: object) -> None:
    assert get(OBJECT, path) == value


def test_table_of_custom_resource_has_columns_with_filter() -> None:
    path = '.status.conditions[?(@.type=="Applied")].status'
    columns = [{"name": "Applied", "type": "string", "jsonPath": path}]
    resource = Resource(
        "example.com", "v1", "Graph", "graphs", custom={"additionalPrinterColumns": columns}
    )
    (row,) = table(resource, [OBJECT], {}, "None")["rows"]
    assert row["cells"] == ["graph", "True"]


def test_table_with_time_that_python_cannot_hold_shows_the_others() -> None:
    times = ("0000-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    metadata = [{"name": f"n{n}", "creationTimestamp": time} for n, time in enumerate(times)]
    items = [{"metadata": item} for item in metadata]
    rows = table(Resource("", "v1", "ConfigMap", "configmaps"), items, {}, "None")["rows"]
    assert rows[0]["cells"][-1] == "<invalid>"
    assert rows[1]["cells"][-1].endswith("d")
