"""Objects that cannot be are refused in the words of a real server."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.practice.problems import Problem
from tests.practice.world import Json, World, play


def pod(resources: Json | None = None, container: Json | None = None, **spec: Any) -> Json:
    main = {"name": "c", "image": "x", "resources": resources or {}, **(container or {})}
    return {"containers": [main], **spec}


def job(template: Json | None = None, **spec: Any) -> Json:
    return {"template": {"spec": {"restartPolicy": "Never", **pod(), **(template or {})}}, **spec}


def codes(action: str = "FailJob", **rule: Any) -> Json:
    return {"rules": [{"action": action, "onExitCodes": rule}]}


C = "spec.containers[0]"
INDEXED: Json = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
POLICY = "spec.podFailurePolicy.rules[0]"
POSITIVE = "must be greater than or equal to 0"
VOLUME = {"name": "x", "emptyDir": {}}
RESTARTS = 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    " validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

PODS = [
    ({}, "spec.containers: Required value"),
    ({"containers": [{}]}, f"[{C}.name: Required value, {C}.image: Required value]"),
    (
        pod({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        f'{C}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        pod({"requests": {"cpu": "-1"}}),
        f'{C}.resources.requests[cpu]: Invalid value: "-1": {POSITIVE}',
    ),
    (
        pod({"requests": {"nvidia.com/gpu": "1"}}),
        f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        pod({"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "2"}}),
        f'{C}.resources.requests: Invalid value: "2": must be equal to nvidia.com/gpu limit of 1',
    ),
    (
        pod({"limits": {"nvidia.com/gpu": "500m"}}),
        f'[{C}.resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer,'
        f' {C}.resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer]',
    ),
    (
        pod(restartPolicy="Sometimes"),
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always",'
        ' "OnFailure", "Never"',
    ),
    (pod(container={"name": "A_b"}), f'{C}.name: Invalid value: "A_b": {NO_LABEL}'),
    (pod(hostname="A_b"), f'spec.hostname: Invalid value: "A_b": {NO_LABEL}'),
    (
        pod(container={"volumeMounts": [{"name": "x"}]}, volumes=[VOLUME, VOLUME]),
        '[spec.volumes[1].name: Duplicate value: "x",'
        f" {C}.volumeMounts[0].mountPath: Required value]",
    ),
    (
        pod(volumes=[{"name": "x", "emptyDir": {}, "configMap": {"name": "x"}}]),
        "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
    ),
    (
        pod(volumes=[{"name": "x", "persistentVolumeClaim": {}}]),
        "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
    ),
    (
        pod(container={"volumeMounts": [{"name": "x", "mountPath": "/a", "subPath": "../b"}]})
        | {"volumes": [VOLUME]},
        f"{C}.volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'",
    ),
    (
        pod(container={"ports": [{"containerPort": 70000}]}),
        f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        pod(activeDeadlineSeconds=0),
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    (
        pod(
            container={"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "status.x"}}}]}
        ),
        f'{C}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "status.x": error converting'
        " fieldPath: field label not supported: status.x",
    ),
]

JOBS = [
    ({}, f"[spec.template.spec.containers: Required value, {RESTARTS}]"),
    (job({"restartPolicy": "Always"}), RESTARTS),
    (
        job(ttlSecondsAfterFinished=-1),
        f"spec.ttlSecondsAfterFinished: Invalid value: -1: {POSITIVE}",
    ),
    (
        job(backoffLimitPerIndex=1),
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
    ),
    (
        job(completionMode="Indexed", parallelism=2),
        "spec.completions: Required value: when completion mode is Indexed",
    ),
    (
        job(maxFailedIndexes=2, **INDEXED),
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    ),
    (
        job(podFailurePolicy={"rules": [{"action": "FailJob"}]}),
        f"{POLICY}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
    ),
    (
        job(podFailurePolicy=codes(operator="In", values=[0])),
        f"{POLICY}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
    ),
    (
        job({"restartPolicy": "OnFailure"}, podFailurePolicy=codes(operator="In", values=[1])),
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported'
        " when podFailurePolicy is specified",
    ),
    (
        job(podFailurePolicy=codes(containerName="no", operator="In", values=[1])),
        f'{POLICY}.onExitCodes.containerName: Invalid value: "no": must be one of the container or'
        " initContainer names in the pod template",
    ),
    (
        job(successPolicy={"rules": [{"succeededIndexes": "x"}]}, **INDEXED),
        'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "x": error parsing'
        ' succeededIndexes: cannot convert string to integer for index: "x"',
    ),
    (
        job(podReplacementPolicy="x"),
        'spec.podReplacementPolicy: Unsupported value: "x": supported values: "Failed",'
        ' "TerminatingOrFailed"',
    ),
]

OTHERS = [
    ("services", {}, "spec.ports: Required value"),
    (
        "services",
        {"ports": [{"port": 80}, {"port": 81}]},
        "[spec.ports[0].name: Required value, spec.ports[1].name: Required value]",
    ),
    (
        "persistentvolumeclaims",
        {"accessModes": ["x"], "resources": {"requests": {"storage": "0"}}},
        '[spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany",'
        ' "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod",'
        ' spec.resources[storage]: Invalid value: "0": must be greater than zero]',
    ),
    (
        "resourcequotas",
        {"hard": {"cpu": "-1"}},
        f'spec.hard[cpu]: Invalid value: "-1": {POSITIVE}',
    ),
]
KINDS = {
    "pods": "Pod",
    "jobs.batch": "Job.batch",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "resourcequotas": "ResourceQuota",
}
ALL = [
    *(("pods", spec, why) for spec, why in PODS),
    *(("jobs.batch", spec, why) for spec, why in JOBS),
    *OTHERS,
]


@pytest.mark.parametrize(("storage", "spec", "why"), ALL)
def test_refused(tmp_path: Path, storage: str, spec: Json, why: str) -> None:
    async def story(w: World) -> None:
        with pytest.raises(Problem) as error:
            w.create(storage, "a", spec)
        assert error.value.code == 422
        assert error.value.message == f'{KINDS[storage]} "a" is invalid: {why}'

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("storage", "spec"),
    [
        ("pods", pod({"limits": {"cpu": "x"}})),
        ("persistentvolumeclaims", {"resources": {"requests": {"storage": "1gi"}}}),
        ("resourcequotas", {"hard": {"pods": "many"}}),
    ],
)
def test_amounts_that_are_none(tmp_path: Path, storage: str, spec: Json) -> None:
    async def story(w: World) -> None:
        with pytest.raises(Problem) as error:
            w.create(storage, "a", spec)
        kind = KINDS[storage]
        assert error.value.code == 400
        assert error.value.message == (
            f'{kind} in version "v1" cannot be handled as a {kind}: quantities must match the'
            " regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )

    play(tmp_path, story)
