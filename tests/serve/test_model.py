"""The status of a service from its objects."""

from typing import Any

import pytest

from kubectl_sky.serve.model import ServiceObjects, ServiceState, status_of
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import Event, Scaler
from tests.builders import CREATED, make_pod, make_ray_head, terminated
from tests.reading import read, read_all, read_as, read_list, read_pods

Json = dict[str, Any]


def deployment(wanted: int = 2, reason: str = "NewReplicaSetAvailable", **status: Any) -> Json:
    labels = {"kubectl-sky/service": "web", "task-id": "bcdf2345", "username": "alice"}
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "uid-web",
        "generation": 3,
        "creationTimestamp": CREATED,
        "labels": labels,
        "annotations": {
            "deployment.kubernetes.io/revision": "2",
            "kubectl-sky/backend": "service",
        },
    }
    progress = {"type": "Progressing", "reason": reason, "status": "True"}
    if reason == "ProgressDeadlineExceeded":
        progress["status"] = "False"

    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": wanted, "template": {"metadata": {"labels": labels}}},
        "status": {"observedGeneration": 3, "conditions": [progress], **status},
    }


def owned(uid: str) -> list[Json]:
    return [{"kind": "x", "uid": uid, "controller": True}]


def replica_set(version: int) -> Json:
    metadata = {
        "name": f"web-{version}",
        "uid": f"uid-rs-{version}",
        "ownerReferences": owned("uid-web"),
        "annotations": {"deployment.kubernetes.io/revision": str(version)},
    }
    return {"kind": "ReplicaSet", "metadata": metadata}


def pod(name: str, version: int, ready: bool = True, state: Json | None = None) -> Json:
    made = make_pod(0, "Running", state or {"running": {"startedAt": CREATED}})
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    made["metadata"]["ownerReferences"] = owned(f"uid-rs-{version}")
    made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return made


SETS = (replica_set(1), replica_set(2))
FULL: Json = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (deployment(**FULL), ServiceState.READY),
        (deployment(**FULL | {"readyReplicas": 1}), ServiceState.DEGRADED),
        (deployment(**FULL | {"replicas": 3}), ServiceState.UPDATING),
        (deployment(**FULL | {"observedGeneration": 2}), ServiceState.UPDATING),
        (deployment(reason="ReplicaSetUpdated", replicas=1), ServiceState.STARTING),
        (deployment(reason="ProgressDeadlineExceeded", replicas=2), ServiceState.FAILED),
        (deployment(wanted=0), ServiceState.STOPPED),
    ],
)
def test_state_of_service(item: Json, state: ServiceState) -> None:
    assert (
        status_of(
            ServiceObjects(read(kinds.DEPLOYMENT, item), read_all(kinds.REPLICA_SET, SETS), ())
        ).status
        is state
    )


@pytest.mark.parametrize(
    ("version", "restarts", "observed", "state"),
    [
        (2, 2, 3, ServiceState.UPDATING),
        (2, 3, 3, ServiceState.FAILED),
        (1, 3, 3, ServiceState.UPDATING),  # the version before crashes
        (2, 3, 2, ServiceState.UPDATING),  # the newest version is not known yet
    ],
)
def test_version_whose_replica_crashes_again_and_again_has_failed(
    version: int, restarts: int, observed: int, state: ServiceState
) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    item = pod("web-b", version, ready=False, state=waiting)
    item["status"]["containerStatuses"][1] |= {"restartCount": restarts, "lastState": terminated(3)}
    live = deployment(replicas=2, readyReplicas=1, observedGeneration=observed)
    web = status_of(
        ServiceObjects(
            read(kinds.DEPLOYMENT, live),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods((item, pod("web-a", 1))),
        )
    )
    assert (web.status, web.pods[1].reason) == (state, "exit code 3")


def test_replica_that_fails_has_reason_and_others_have_none() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    bad = pod("web-b", 2, ready=False, state=waiting)
    bad["status"]["containerStatuses"][1]["lastState"] = terminated(3)
    objects = ServiceObjects(
        read(kinds.DEPLOYMENT, deployment()),
        read_all(kinds.REPLICA_SET, SETS),
        read_pods((bad, pod("web-a", 1))),
    )
    web = status_of(objects)
    assert [(item.pod, item.version, item.ready) for item in web.pods] == [
        ("web-a", 1, True),
        ("web-b", 2, False),
    ]
    assert web.pods[0].reason == "" and "3" in web.pods[1].reason
    assert web.message.endswith("(web-b)")
    assert all(finding.ranks == (1,) for finding in web.findings)


def test_pod_of_another_controller_is_no_replica() -> None:
    """Labels find, uids decide."""
    foreign = pod("web-x", 9)
    assert (
        status_of(
            ServiceObjects(
                read(kinds.DEPLOYMENT, deployment()),
                read_all(kinds.REPLICA_SET, SETS),
                read_pods((foreign,)),
            )
        ).pods
        == ()
    )


def test_unready_replica_shows_what_its_probe_says() -> None:
    about = {"name": "web-a"}
    message = "Readiness probe failed: HTTP probe failed with statuscode: 503"
    event = {"involvedObject": about, "reason": "Unhealthy", "type": "Warning", "message": message}
    objects = ServiceObjects(
        read(kinds.DEPLOYMENT, deployment()),
        read_all(kinds.REPLICA_SET, SETS),
        read_pods((pod("web-a", 2, ready=False),)),
        events=read_list(Event, (event,)),
    )
    assert "503" in status_of(objects).message


@pytest.mark.parametrize(
    "state", [{"running": {"startedAt": CREATED}}, terminated(0), terminated(143)]
)
def test_pod_that_is_deleted_is_terminating_and_no_failure(state: Json) -> None:
    leaving = pod("web-a", 1, state=state)
    leaving["metadata"]["deletionTimestamp"] = CREATED
    about = {"name": "web-a"}
    message = "Readiness probe failed: connection refused"
    event = {"involvedObject": about, "reason": "Unhealthy", "type": "Warning", "message": message}
    pods = leaving, pod("web-b", 2)
    web = status_of(
        ServiceObjects(
            read(kinds.DEPLOYMENT, deployment()),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods(pods),
            events=read_list(Event, (event,)),
        )
    )
    assert web.findings == [] and web.pods[0].reason == "Terminating"
    assert web.message == ""


def of_pod(reason: str, message: str, at: str) -> Json:
    about = {"name": "web-a"}
    return {"involvedObject": about, "reason": reason, "message": message, "lastTimestamp": at}


AT_START = "2026-01-01T00:00:30Z"
AT_END = "2026-01-01T00:05:00Z"
REFUSED = 'Get "http://10.1.2.3:80/": dial tcp 10.1.2.3:80: connect: connection refused'
NOT_READY = "not ready within initial_delay_seconds: 10: connection refused; last lines: loading"
NOT_ALIVE = "restarted: its probe failed for longer than consecutive_failure_threshold_timeout: 30"


@pytest.mark.parametrize(
    ("probe", "code", "killed_at", "reason"),
    [
        ("startup", 137, AT_END, NOT_READY),
        ("startup", 143, AT_END, NOT_READY),
        ("startup", 0, AT_END, NOT_READY),
        ("liveness", 143, AT_END, f"{NOT_ALIVE}: connection refused; last lines: loading"),
        ("startup", 137, AT_START, "killed: exit code 137 (SIGKILL: killed, often out of memory)"),
    ],
)
def test_replica_that_its_probe_killed_names_the_probe(
    probe: str, code: int, killed_at: str, reason: str
) -> None:
    """The kill of a container that ran before explains nothing."""
    item = pod("web-a", 2, ready=False, state={"waiting": {"reason": "CrashLoopBackOff"}})
    last = terminated(code, at="2026-01-01T00:05:01Z")
    last["terminated"] |= {"startedAt": "2026-01-01T00:01:00Z", "message": "loading\n"}
    item["status"]["containerStatuses"][1]["lastState"] = last
    item["metadata"]["labels"]["kubectl-sky/service"] = "web"
    probes = {
        "startupProbe": {"periodSeconds": 2, "failureThreshold": 6},
        "livenessProbe": {"periodSeconds": 10, "failureThreshold": 3},
    }
    item["spec"]["containers"] = [{"name": "main", **probes}]
    events = (
        of_pod("Unhealthy", f"{probe.capitalize()} probe failed: {REFUSED}", killed_at),
        of_pod("Killing", f"Container main failed {probe} probe, will be restarted", killed_at),
    )
    web = status_of(
        ServiceObjects(
            read(kinds.DEPLOYMENT, deployment()),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods((item,)),
            events=read_list(Event, events),
        )
    )
    assert web.pods[0].reason.startswith(reason)

    advised = [cause.then.startswith("correct service.readiness_probe") for cause in web.findings]
    assert advised == [killed_at == AT_END]


@pytest.mark.parametrize("restarts", [0, 1])
def test_startup_probe_of_a_starting_replica_gives_no_advice(restarts: int) -> None:
    """Its delay is not over; the events are read beside a pod that is still pending."""
    item = pod("web-a", 2, ready=False)
    item["status"]["phase"] = "Pending"
    item["status"]["containerStatuses"][1]["restartCount"] = restarts
    item["metadata"]["labels"]["kubectl-sky/service"] = "web"
    event = of_pod("Unhealthy", f"Startup probe failed: {REFUSED}", AT_START)
    events = (event | {"type": "Warning"},)
    web = status_of(
        ServiceObjects(
            read(kinds.DEPLOYMENT, deployment()),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods((item,)),
            events=read_list(Event, events),
        )
    )
    advice = "correct service.readiness_probe: its path, or its initial_delay_seconds; or"
    assert [cause.then.startswith(advice) for cause in web.findings] == [True] * restarts
    assert web.pods[0].reason.endswith(f"Startup probe failed: {REFUSED}")


RUNNING = {"running": {"startedAt": CREATED}}
LATER = {"running": {"startedAt": "2026-01-01T00:01:40Z"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}
UNHEALTHY = "Readiness probe failed: command timed out"
SLOW = "the Ray head is not ready: its CPU limit of 300m is too small for Ray to start"
KILLED = "exit code 137 (SIGKILL: killed, often out of memory)"


@pytest.mark.parametrize(
    ("state", "last", "limits", "reason"),
    [
        (RUNNING, {}, {"cpu": "300m"}, SLOW),
        (LATER, {}, {"cpu": "300m"}, UNHEALTHY),
        (RUNNING, {}, {"cpu": "1"}, UNHEALTHY),
        (RUNNING, {}, {}, UNHEALTHY),
        (
            LATER,
            terminated(137, "OOMKilled"),
            {"memory": "1Gi"},
            "the Ray head was killed: OOMKilled (exit code 137); its memory limit is 1Gi",
        ),
        (
            BACK_OFF,
            terminated(137),
            {},
            f"the Ray head was killed: {KILLED}; its memory limit is not set",
        ),
    ],
)
def test_ray_head_that_is_too_small_names_its_limit(
    state: Json, last: Json, limits: Json, reason: str
) -> None:
    service = deployment() | {"apiVersion": "ray.io/v1", "kind": "RayService", "status": {}}
    service["metadata"]["annotations"]["kubectl-sky/backend"] = "rayservice"
    template = service["spec"].pop("template")
    service["spec"]["rayClusterConfig"] = {"headGroupSpec": {"template": template}}
    head, event = make_ray_head(state, last, limits)
    head["metadata"]["ownerReferences"] = owned("uid-rs-1")
    web = status_of(
        ServiceObjects(
            read(kinds.RAY_SERVICE, service),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods((head,)),
            events=read_list(Event, (event,)),
        )
    )
    assert web.message == f"{reason} ({head['metadata']['name']})"
    assert all("pod_config" in finding.then for finding in web.findings)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("FailedGetResourceMetric", "autoscaling inactive: FailedGetResourceMetric"),
        ("ScalingDisabled", ""),  # it has 0 replicas
    ],
)
def test_status_of_autoscaler_that_cannot_work_says_so(reason: str, message: str) -> None:
    inactive = {"type": "ScalingActive", "status": "False", "reason": reason}
    autoscaler = {"spec": {"maxReplicas": 3}, "status": {"conditions": [inactive]}}
    pods = [pod("a", 2), pod("b", 2)]
    service = status_of(
        ServiceObjects(
            read(kinds.DEPLOYMENT, deployment(**FULL)),
            read_all(kinds.REPLICA_SET, SETS),
            read_pods(pods),
            autoscaler=read_as(Scaler, autoscaler),
        )
    )
    assert (service.status, service.message) == (ServiceState.READY, message)
