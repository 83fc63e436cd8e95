"""What the API fills in is what a real one fills in, field by field."""

import re
from typing import Any

import pytest

from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import Cluster
from tests.practice.silent import OBJECTS

GROUPS = {"Namespace", "PersistentVolume", "StorageClass", "PriorityClass"}
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What each server makes up as it likes.
MADE_UP = {"creationTimestamp", "managedFields", "lastPhaseTransitionTime", "nodePort"}


def filled(cluster: Cluster, obj: dict[str, Any]) -> Any:
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    group = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
    plural = obj["kind"].lower() + "s"
    plural = {"ingresss": "ingresses", "networkpolicys": "networkpolicies"}.get(plural, plural)
    plural = re.sub("class(es)?s$", "classes", plural)
    place = "" if obj["kind"] in GROUPS else "/namespaces/default"
    path = f"{group}{place}/{plural}"
    found = session.request("POST", path, query={"dryRun": "All"}, body=obj)
    session.close()
    return normal(found)


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: normal(one) for key, one in value.items() if key not in MADE_UP}
        if kept.get("clusterIP", "None") != "None":
            kept |= {"clusterIP": "given", "clusterIPs": ["given"]}
        return kept
    if isinstance(value, list):
        return [normal(one) for one in value]
    return "UID" if isinstance(value, str) and UID.fullmatch(value) else value


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: str(obj["kind"]))
def test_same_as_a_real_one(both: tuple[Cluster, Cluster], obj: dict[str, Any]) -> None:
    real, practice = (filled(cluster, obj) for cluster in both)
    assert practice == real
