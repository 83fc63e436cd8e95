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
    live = objects.get(session, kinds.CONFIG_MAP, "a", namespace)
    assert live["data"] == {"x": "1", "b": "y", "c": "y"}
    assert {reference["name"] for reference in live["metadata"]["ownerReferences"]} == {"b", "c"}
    with pytest.raises(NotFound):
        objects.patch_object(session, make_config_map("d", namespace), body, "strategic")


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_send_partial_metadata_returns_only_metadata(
    session: Session, namespace: str, method: str
) -> None:
    objects.create(session, make_config_map("a", namespace, data={"x": "1"}))
    path = objects.path(kinds.CONFIG_MAP, namespace, "a")
    headers = {
        "Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "Content-Type": "application/merge-patch+json",
    }
    body: dict[str, object] | None = {} if method == "PATCH" else None
    answer = session.send(method, path, headers=headers, body=body)
    assert sorted(answer.body) == ["apiVersion", "kind", "metadata"]
    assert answer.body["kind"] == "PartialObjectMetadata"
