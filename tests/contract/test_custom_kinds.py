"""Custom kinds: schema defaults and served versions."""

import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kubectl_sky.cluster import access
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from tests.contract.makers import DEFINITIONS
from tests.polling import eventually

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "color": {"type": "string"},
            },
        }
    },
}


@pytest.fixture
def custom_kind(session: Session) -> Iterator[Kind]:
    """A CRD for this test only."""
    kind = Kind(f"{secrets.token_hex(4)}.example.com", "v1", "Thing", "things")
    name = f"{kind.plural}.{kind.group}"
    version = {"name": kind.version, "served": True, "storage": True}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": "thing"},
            "versions": [version | {"schema": {"openAPIV3Schema": SCHEMA}}],
        },
    }
    assert not access.serves(session, kind)
    session.send("POST", DEFINITIONS, body=body)

    try:
        eventually(lambda: access.serves(session, kind))
        yield kind
    finally:
        session.send("DELETE", f"{DEFINITIONS}/{name}")


def applied(session: Session, kind: Kind, namespace: str, spec: Json) -> Json:
    """Apply a thing once the server serves its kind."""
    metadata = {"name": "a", "namespace": namespace}
    path = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}/a"
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }

    def apply() -> Json | None:
        with suppress(ClusterError):
            return session.send(
                "PATCH",
                path,
                query={"fieldManager": "tests", "force": "true"},
                body=body,
                headers={"Content-Type": "application/apply-patch+yaml"},
            ).body
        return None

    return eventually(apply, message="the kind is not served in time") or {}


def test_apply_schema_default_has_no_field_manager(
    session: Session, namespace: str, custom_kind: Kind
) -> None:
    created = applied(session, custom_kind, namespace, {"color": "red"})
    assert created["spec"] == {"color": "red", "size": 3}
    (entry,) = created["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:color": {}}}
    again = applied(session, custom_kind, namespace, {"color": "red"})
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    changed = applied(session, custom_kind, namespace, {"size": 4})
    assert changed["spec"] == {"size": 4}


def test_access_serves_and_may_report_known_kinds(session: Session, namespace: str) -> None:
    assert access.serves(session, kinds.JOB)
    assert not access.serves(session, Kind("batch", "v1", "Frob", "frobs"))
    assert not access.serves(session, Kind("frobs.example.com", "v1", "Frob", "frobs"))
    assert access.may(session, "create", kinds.JOB, namespace=namespace)
