"""The default StorageClass, the users of a volume, and what its deletion waits for."""

from typing import Any

import pytest

from kubectl_sky.observe.volumes import default_class, known, users_of, volume
from kubectl_sky.words import names
from kubectl_sky.words.core_objects import Pvc
from kubectl_sky.words.objects import Object
from kubectl_sky.words.owners import User
from tests.builders import make_pod
from tests.reading import read_as, read_pods


@pytest.mark.parametrize("group", ["storageclass", "storageclass.beta"])
def test_default_class_is_found_by_both_annotations(group: str) -> None:
    marked = {f"{group}.kubernetes.io/is-default-class": "true"}
    fast = {"metadata": {"name": "fast", "annotations": marked}}
    slow = {"metadata": {"name": "slow", "annotations": dict.fromkeys(marked, "false")}}
    assert (
        default_class(
            [
                read_as(Object, {"metadata": {"name": "none"}}),
                read_as(Object, slow),
                read_as(Object, fast),
            ]
        )
        == "fast"
    )
    assert default_class([read_as(Object, slow)]) == ""


def make_claim(**metadata: Any) -> dict[str, Any]:
    labels = {names.VOLUME_ID: "vvvv2345", names.VOLUME_NAME: "data"}
    finalizers = ["kubernetes.io/pvc-protection"]
    named = {"name": "data-x", "namespace": "default", "labels": labels, "finalizers": finalizers}
    return {"metadata": named | metadata, "status": {"phase": "Bound"}}


def make_user(rank: int, phase: str = "Succeeded", scheduled: bool = True) -> dict[str, Any]:
    pod = make_pod(rank, phase)
    pod["metadata"]["labels"] |= {names.TASK_ID: f"task000{rank}", names.TASK_NAME: "train"}
    pod["spec"] = {"volumes": [{"persistentVolumeClaim": {"claimName": "data-x"}}]}
    pod["spec"] |= {"nodeName": "worker-1"} if scheduled else {}
    return pod


def test_users_of_include_finished_pods_that_delay_the_deletion() -> None:
    pods = [
        make_user(0),
        make_user(1, "Running"),
        make_user(2, "Pending", scheduled=False),
        make_user(3, "Failed", scheduled=False),
    ]
    assert users_of("data-x", read_pods(pods)) == [
        "task/task0000 (train, finished)",
        "task/task0001 (train)",
        "task/task0002 (train)",
    ]
    assert users_of("other", read_pods(pods)) == []


def test_terminating_volume_says_what_it_waits_for() -> None:
    claim = make_claim(deletionTimestamp="2026-01-01T00:00:00Z")
    other = make_user(1)
    other["metadata"]["namespace"] = "other"
    pods = [make_user(0), other, make_user(2, "Pending", scheduled=False)]
    reason = "waits for task/task0000 (train, finished) to be stopped"
    status = volume(read_as(Pvc, claim), read_pods(pods))
    assert (status.phase, status.reason) == ("Terminating", reason)
    assert status.as_json()["reason"] == reason
    assert known([read_as(Pvc, claim)], User("alice"), read_pods(pods))["data-x"].deletion == reason
    assert volume(read_as(Pvc, claim)).reason == "waits for finalizer kubernetes.io/pvc-protection"
    bound = volume(read_as(Pvc, make_claim()), read_pods(pods))
    assert bound.phase == "Bound" and "reason" not in bound.as_json()


def test_known_volume_of_the_user_is_found_by_its_name() -> None:
    claim = make_claim(annotations={names.ORIGINAL_USER: "alice"})
    claim["metadata"]["labels"] |= {names.VOLUME: "true", names.USERNAME: User("alice").label}
    assert set(known([read_as(Pvc, claim)], User("alice"))) == {"data-x", "data"}
    assert set(known([read_as(Pvc, claim)], User("bob"))) == {"data-x"}
    del claim["metadata"]["labels"][names.VOLUME]
    assert set(known([read_as(Pvc, claim)], User("alice"))) == {"data-x"}
