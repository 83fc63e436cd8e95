"""Large objects: patches and responses without their data."""

import pytest

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import NotFound
from kubectl_sky.words import kinds
from tests.contract.makers import make_config_map


def test_patch_object_changes_object_without_sending_data(session: Session, namespace: str) -> None:
    made = objects.create(session, make_config_map("a", namespace, data={"x": "1"}))
    for name in ("b", "c"):
        owner = objects.create(session, make_config_map(name, namespace))
        named = {field: owner["metadata"][field] for field in ("name", "uid")}
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", **named}]
        body = {"metadata": {"ownerReferences": owners}, "data": {name: "y"}}
        objects.patch_object(session, made, body, "strategic")
    live = objects.get_manifest(session, kinds.CONFIG_MAP, "a", namespace)
    assert live["data"] == {"x": "1", "b": "y", "c": "y"}
    assert {reference["name"] for reference in live["metadata"]["ownerReferences"]} == {"b", "c"}
    with pytest.raises(NotFound):
        objects.patch_object(session, make_config_map("d", namespace), body, "strategic")
