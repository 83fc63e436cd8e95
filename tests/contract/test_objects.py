"""API operations for objects of any kind."""

from typing import Any

import pytest

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Conflict, Expired, NotFound, UserError
from kubectl_sky.words import kinds
from kubectl_sky.words.objects import Object
from tests.contract.conftest import THROUGH_SERVER
from tests.contract.makers import make_config_map, make_job, make_pod


def list_names(session: Session, namespace: str, **how: str) -> list[str]:
    listed = objects.list_all(
        session,
        kinds.CONFIG_MAP,
        namespace,
        label_selector="of=test",
        **how,
    )
    return [item.metadata.name for item in listed]


@THROUGH_SERVER
def test_objects_create_get_list_and_delete(session: Session, namespace: str) -> None:
    made = objects.create(session, make_config_map("a", namespace, data={"x": "1"}))
    got = objects.get(session, kinds.CONFIG_MAP, "a", namespace)
    assert got.metadata.uid == made["metadata"]["uid"]
    [listed] = objects.list_all(session, kinds.CONFIG_MAP, namespace, label_selector="of=test")
    assert (listed.api_version, listed.kind, listed.data) == ("v1", "ConfigMap", {"x": "1"})
    [manifest] = objects.list_manifests(
        session, kinds.CONFIG_MAP, namespace, label_selector="of=test"
    )
    assert (manifest["kind"], manifest["data"]) == ("ConfigMap", {"x": "1"})
    assert list_names(session, namespace, field_selector="metadata.name=b") == []
    assert objects.delete(session, kinds.CONFIG_MAP, "a", namespace) is True
    assert objects.delete(session, kinds.CONFIG_MAP, "a", namespace) is False
    with pytest.raises(NotFound):
        objects.get(session, kinds.CONFIG_MAP, "a", namespace)


def test_objects_default_to_session_namespace(session: Session, namespace: str) -> None:
    manifest = make_config_map("a", namespace)
    del manifest["metadata"]["namespace"]
    assert objects.apply(session, manifest)["metadata"]["namespace"] == namespace
    assert objects.get(session, kinds.CONFIG_MAP, "a").metadata.namespace == namespace


def test_list_all_namespaces_includes_namespace(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace))
    listed = objects.list_all(session, kinds.CONFIG_MAP, field_selector="metadata.name=a")
    assert namespace in {item.metadata.namespace for item in listed}


def test_collect_reads_all_pages(session: Session, namespace: str) -> None:
    for index in range(7):
        objects.create(session, make_config_map(f"a{index}", namespace))
    query = objects.selectors("of=test")
    listed, _ = objects.collect(session, kinds.CONFIG_MAP, namespace, query | {"limit": "3"})
    assert [item.metadata.name for item in listed] == [f"a{index}" for index in range(7)]


def test_extract_keeps_only_parts_of_all_pages(session: Session, namespace: str) -> None:
    for index in range(5):
        objects.create(session, make_config_map(f"a{index}", namespace))

    def odd(item: Object) -> str | None:
        name = item.metadata.name
        return name if name in ("a1", "a3") else None

    query = objects.selectors("of=test") | {"limit": "2"}
    names = objects.extract(session, kinds.CONFIG_MAP, namespace, query, odd)
    assert names == ["a1", "a3"]
    names = objects.extract_metadata(session, kinds.CONFIG_MAP, namespace, query, odd)
    assert names == ["a1", "a3"]


def test_collect_expired_page_starts_again(session: Session, namespace: str) -> None:
    for index in range(4):
        objects.create(session, make_config_map(f"a{index}", namespace))

    class Forgetful:
        """A session whose second page has expired."""

        server = session.server

        def send(self, method: str, path: str, *, query: dict[str, str], **options: Any) -> Any:
            if "continue" in query:
                raise Expired("too old")
            return session.send(method, path, query=query, **options)

    names = [
        item.metadata.name
        for item in objects.collect(
            Forgetful(),  # type: ignore[arg-type]
            kinds.CONFIG_MAP,
            namespace,
            objects.selectors("of=test") | {"limit": "2"},
        )[0]
    ]
    assert names == ["a0", "a1", "a2", "a3"]


def test_list_of_metadata_has_no_data(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("small", namespace))
    answer = session.send(
        "GET",
        objects.path(kinds.CONFIG_MAP, namespace),
        headers={"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
    )
    assert answer.body["kind"] == "PartialObjectMetadataList"
    assert all("data" not in item for item in answer.body["items"])
    listed = objects.list_metadata(session, kinds.CONFIG_MAP, namespace)
    assert "small" in [item.metadata.name for item in listed]


def test_create_and_apply_preserve_every_character(session: Session, namespace: str) -> None:
    """The server reads applied objects as YAML, which has other escapes than JSON."""
    hard = (
        "😀",
        "a\\ud83d\\ude00",
        "\\😀",
        "\x01\x7f\x85\u2028\ufeff\uffff",
        "\U0010ffff",
        "é\r\n\t ",
    )
    data = {f"k{number}": text for number, text in enumerate(hard)}
    for send in (objects.create, objects.apply):
        name = send.__name__
        made = send(session, make_config_map(name, namespace, data=data))
        assert made["data"] == data


def test_apply_creates_then_updates_object(session: Session, namespace: str) -> None:
    first = objects.apply(session, make_config_map("a", namespace, data={"x": "1"}))
    again = objects.apply(session, make_config_map("a", namespace, data={"y": "2"}))
    assert first["metadata"]["uid"] == again["metadata"]["uid"]
    assert again["data"] == {"y": "2"}
    managers = [field["manager"] for field in again["metadata"]["managedFields"]]
    assert managers == ["kubectl-sky"]


def test_dry_run_creates_no_objects(session: Session, namespace: str) -> None:
    assert objects.apply(session, make_config_map("a", namespace), dry_run=True)["metadata"]["uid"]
    objects.create(session, make_config_map("b", namespace), dry_run=True)
    assert list_names(session, namespace) == []


def test_patch_types_change_data(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace, data={"x": "1", "y": "2"}))
    merged = objects.patch(
        session, kinds.CONFIG_MAP, "a", namespace, {"data": {"x": None, "z": "3"}}
    )
    assert merged["data"] == {"y": "2", "z": "3"}
    strategic = objects.patch(
        session, kinds.CONFIG_MAP, "a", namespace, {"data": {"w": "5"}}, "strategic"
    )
    assert strategic["data"] == {"y": "2", "z": "3", "w": "5"}


def test_delete_by_uid_replaced_object_is_kept(session: Session, namespace: str) -> None:
    first = objects.create(session, make_config_map("a", namespace))["metadata"]
    objects.delete(session, kinds.CONFIG_MAP, "a", namespace)
    objects.create(session, make_config_map("a", namespace))
    objects.delete_by_uid(session, kinds.CONFIG_MAP, first)
    second = objects.get(session, kinds.CONFIG_MAP, "a", namespace).metadata.identity
    objects.delete_by_uid(session, kinds.CONFIG_MAP, second)
    objects.delete_by_uid(session, kinds.CONFIG_MAP, second)
    with pytest.raises(NotFound):
        objects.get(session, kinds.CONFIG_MAP, "a", namespace)


def test_patch_by_uid_replaced_object_is_unchanged(session: Session, namespace: str) -> None:
    first = objects.create(session, make_config_map("a", namespace))["metadata"]
    objects.delete(session, kinds.CONFIG_MAP, "a", namespace)
    second = objects.create(session, make_config_map("a", namespace))["metadata"]
    body = {"metadata": {"labels": {"changed": "yes"}}}
    with pytest.raises(ClusterError, match=r"uid|UID"):
        objects.patch_by_uid(session, kinds.CONFIG_MAP, first, body)
    patched = objects.patch_by_uid(session, kinds.CONFIG_MAP, second, body)
    assert patched["metadata"]["labels"] == {"of": "test", "changed": "yes"}
    assert patched["metadata"]["uid"] == second["uid"] != first["uid"]


def test_apply_unknown_kind_is_user_error(session: Session) -> None:
    with pytest.raises(UserError, match=r"unknown kind Foo of v9"):
        objects.apply(session, {"apiVersion": "v9", "kind": "Foo", "metadata": {"name": "a"}})


def test_core_manager_lists_pods_and_events(session: Session, namespace: str) -> None:
    core = CoreManager(session)
    pod = objects.create(session, make_pod("a", namespace, "true"))
    assert [item.metadata.name for item in core.list_pods(namespace)] == ["a"]
    assert core.list_pods(namespace, "of=nobody") == []
    assert core.list_pods(namespace, field_selector="metadata.name=b") == []

    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "uid": pod["metadata"]["uid"]},
        "reason": "Told",
        "lastTimestamp": "2020-01-01T00:00:00Z",
    }
    session.send("POST", objects.path(kinds.EVENT, namespace), body=event)
    assert "Told" in [item.reason for item in core.list_events(namespace)]


def test_objects_jobs_and_namespaces_support_same_operations(
    session: Session, namespace: str
) -> None:
    objects.create(session, make_job("dry", namespace), dry_run=True)
    objects.create(session, make_job("a", namespace, suspend=True))
    with pytest.raises(Conflict):
        objects.create(session, make_job("a", namespace))
    jobs = objects.list_all(session, kinds.JOB, namespace, label_selector="of=test")
    assert [job.metadata.name for job in jobs] == ["a"]
    assert objects.delete(session, kinds.JOB, "a", namespace, propagation="Foreground", grace=5)
    going = [job.metadata for job in objects.list_all(session, kinds.JOB, namespace)]
    assert all(job.finalizers == ("foregroundDeletion",) for job in going)
    assert objects.get(session, kinds.NAMESPACE, namespace).metadata.name == namespace
    assert CoreManager(session).whoami()
