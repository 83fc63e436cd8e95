"""Invalid objects are refused with the status code and the field paths of a real API server."""

import copy
from typing import Any

import pytest

from kubectl_sky_practice import validation
from kubectl_sky_practice.problems import Problem
from kubectl_sky_practice.resources import Resource
from practice_tests.world import NS, Json, World

pytestmark = pytest.mark.anyio


def pod(resources: Json | None = None, container: Json | None = None, **spec: Any) -> Json:
    main = {"name": "c", "image": "x", "resources": resources or {}, **(container or {})}
    return {"containers": [main], **spec}


def mount(**fields: Any) -> Json:
    return pod(container={"volumeMounts": [{"name": "x", **fields}]}, volumes=[VOLUME])


def job(template: Json | None = None, **spec: Any) -> Json:
    return {"template": {"spec": {"restartPolicy": "Never", **pod(), **(template or {})}}, **spec}


def deployment(**spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": pod()}
    return {"selector": {"matchLabels": LABELS}, "template": template, **spec}


def codes(action: str = "FailJob", **rule: Any) -> Json:
    return {"rules": [{"action": action, "onExitCodes": rule}]}


C = "spec.containers[0]"
LABELS = {"app": "a"}
GPU = "nvidia.com/gpu"
QUOTA_OF_CLASS = "standard.storageclass.storage.k8s.io/requests.storage"
SUCCESS = {"rules": [{"succeededCount": 1}]}
TEMPLATE = "spec.template.spec"
VOLUME = {"name": "x", "emptyDir": {}}
RESTARTS = f"{TEMPLATE}.restartPolicy"

PODS: list[tuple[Json, set[str]]] = [
    ({}, {"spec.containers"}),
    ({"containers": [{}]}, {f"{C}.name", f"{C}.image"}),
    (pod({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), {f"{C}.resources.requests"}),
    (pod({"requests": {"cpu": "-1"}}), {f"{C}.resources.requests[cpu]"}),
    (pod({"requests": {"nosuch": "1"}}), {f"{C}.resources.requests[nosuch]"}),
    (pod({"requests": {GPU: "1"}}), {f"{C}.resources.limits"}),
    (pod({"limits": {GPU: "1"}, "requests": {GPU: "2"}}), {f"{C}.resources.requests"}),
    (
        pod({"limits": {GPU: "500m"}}),
        {f"{C}.resources.limits[{GPU}]", f"{C}.resources.requests[{GPU}]"},
    ),
    (pod(restartPolicy="Sometimes"), {"spec.restartPolicy"}),
    (pod(container={"imagePullPolicy": "Perhaps"}), {f"{C}.imagePullPolicy"}),
    (pod(container={"name": "A_b"}), {f"{C}.name"}),
    (mount(), {f"{C}.volumeMounts[0].mountPath"}),
    (mount(name="nosuch", mountPath="/a"), {f"{C}.volumeMounts[0].name"}),
    (pod(volumes=[VOLUME, VOLUME]), {"spec.volumes[1].name"}),
    (pod(volumes=[{**VOLUME, "configMap": {"name": "x"}}]), {"spec.volumes[0].configMap"}),
    (
        pod(volumes=[{"name": "x", "persistentVolumeClaim": {}}]),
        {"spec.volumes[0].persistentVolumeClaim.claimName"},
    ),
]
JOBS: list[tuple[Json, set[str]]] = [
    ({}, {f"{TEMPLATE}.containers", RESTARTS}),
    (job({"restartPolicy": "Always"}), {RESTARTS}),
    (job(ttlSecondsAfterFinished=-1), {"spec.ttlSecondsAfterFinished"}),
    (job(completionMode="Sometimes"), {"spec.completionMode"}),
    (job(backoffLimitPerIndex=1), {"spec.backoffLimitPerIndex"}),
    (job(completionMode="Indexed", parallelism=2), {"spec.completions"}),
    (job(selector={"matchLabels": {"a": "b"}}), {"spec.template.metadata.labels"}),
    (
        job({"restartPolicy": "OnFailure"}, podFailurePolicy=codes(operator="In", values=[1])),
        {RESTARTS},
    ),
    (job(completionMode="Indexed", completions=1, successPolicy=SUCCESS), {"spec.successPolicy"}),
    (job(managedBy="example.com/x"), {"spec.managedBy"}),
    (job(podReplacementPolicy="x"), {"spec.podReplacementPolicy"}),
]
OTHERS: list[tuple[str, Json, set[str]]] = [
    (
        "persistentvolumeclaims",
        {"accessModes": ["x"], "resources": {}},
        {"spec.accessModes", "spec.resources[storage]"},
    ),
    ("resourcequotas", {"scopes": ["Terminating"]}, {"spec.scopes"}),
    ("resourcequotas", {"hard": {QUOTA_OF_CLASS: "1"}}, {f"spec.hard[{QUOTA_OF_CLASS}]"}),
]
DEPLOYMENTS: list[tuple[Json, set[str]]] = [
    (deployment(selector=None), {"spec.selector"}),
    (deployment(template=None), {f"{TEMPLATE}.containers", "spec.template.metadata.labels"}),
    (deployment(replicas=-1), {"spec.replicas"}),
    (deployment(paused=True), {"spec.paused"}),
    (deployment(strategy={"type": "Recreate"}), {"spec.strategy.type"}),
]
ALL = [
    *(("deployments.apps", spec, fields) for spec, fields in DEPLOYMENTS),
    *(("pods", spec, fields) for spec, fields in PODS),
    *(("jobs.batch", spec, fields) for spec, fields in JOBS),
    *OTHERS,
]


@pytest.mark.parametrize(("storage", "spec", "fields"), ALL)
async def test_create_invalid_spec_names_fields(
    w: World, storage: str, spec: Json, fields: set[str]
) -> None:
    obj = {"metadata": {"name": "a"}, "spec": copy.deepcopy(spec)}
    with pytest.raises(Problem) as error:
        w.api.add(w.api.resources.stored(storage), obj, NS)
    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert {cause["field"] for cause in error.value.details["causes"]} == fields


@pytest.mark.parametrize(
    ("storage", "spec"),
    [
        ("pods", pod({"limits": {"cpu": "x"}})),
        ("persistentvolumeclaims", {"resources": {"requests": {"storage": "1gi"}}}),
        ("resourcequotas", {"hard": {"pods": "many"}}),
    ],
)
async def test_create_unreadable_quantity_is_bad_request(
    w: World, storage: str, spec: Json
) -> None:
    with pytest.raises(Problem) as error:
        w.create(storage, "a", spec)
    assert error.value.code == 400


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"metadata": []}, "metadata"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a"),
        ({"spec": {"containers": [{"image": 1}]}}, "spec.containers[0].image"),
        ({"spec": {"containers": [{"ports": [{"containerPort": True}]}]}}, "containerPort"),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}}, "limits.cpu"),
    ],
)
def test_mistyped_names_field(obj: Json, path: str) -> None:
    assert f"{path}: " in validation.mistyped(obj, Resource("", "v1", "Pod", "pods"))


def test_mistyped_secret_names_key_not_value() -> None:
    secrets = Resource("", "v1", "Secret", "secrets")
    assert validation.mistyped({"data": {"a": "aGVsbG8="}}, secrets) == ""
    assert validation.mistyped({"data": {"a": "%%hidden"}}, secrets) == "data.a: wrong type, string"
