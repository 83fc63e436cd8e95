"""Lifecycle of pods with real processes, compared with recorded behavior of a real kubelet."""

from pathlib import Path

import pytest

from practice_tests.machine import Machine, conditions, container, shared
from practice_tests.ports import free_port
from practice_tests.world import NS, Json, until

pytestmark = pytest.mark.anyio


async def test_pod_succeeded_has_status_and_events(m: Machine) -> None:
    m.pod("a", "printf hello; echo oh >&2; echo why > /dev/termination-log")
    status = await m.ended("a")
    assert await m.log("a") in ("oh\nhello", "hellooh\n")
    assert (status["phase"], status["qosClass"]) == ("Succeeded", "BestEffort")

    (main,) = status["containerStatuses"]
    ended = main["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", "why\n")
    assert ended["containerID"] == main["containerID"]
    assert ended["startedAt"] <= ended["finishedAt"]
    assert (main["ready"], main["started"], main["restartCount"]) == (False, False, 0)

    by_type = conditions(status)
    assert by_type["Ready"] == by_type["ContainersReady"] == ("False", "PodCompleted")
    assert by_type["Initialized"] == ("True", "PodCompleted")
    assert by_type["PodReadyToStartContainers"] == ("False", "")
    assert by_type["PodScheduled"] == ("True", "")
    assert m.events("Created") == ["Container created"]
    assert m.events("Started") == ["Container started"]

    (notice,) = m.events("NotPulled")
    assert 'image "busybox:1.36" is not pulled here' in notice


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("echo one; echo two; exit 3", 3, "one\ntwo\n"),
        ("echo x; echo mine > /dev/termination-log; exit 4", 4, "mine\n"),
        ("sh -c 'kill -9 $PPID'; sh -c 'kill -9 $$$$'; exit $?", 137, "Killed\n"),
    ],
)
async def test_pod_failed_has_exit_code_and_message(
    m: Machine, command: str, code: int, message: str
) -> None:
    m.pod("a", command, terminationMessagePolicy="FallbackToLogsOnError")
    status = await m.ended("a")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", code, "Error")
    assert ended["message"] == message
    assert conditions(status)["Ready"] == ("False", "PodFailed")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretKeyRef": {"name": "x", "key": "k"}}, 'secret "x" not found'),
        ({"secretKeyRef": {"name": "s", "key": "k"}}, f"couldn't find key k in Secret {NS}/s"),
        ({"configMapKeyRef": {"name": "x", "key": "k"}}, 'configmap "x" not found'),
    ],
)
async def test_pod_missing_config_source_is_config_error(
    m: Machine, source: Json, message: str
) -> None:
    m.create("secrets", "s", data={}, type="Opaque")
    m.pod("a", "true", env=[{"name": "A", "valueFrom": source}])
    reason = "CreateContainerConfigError"
    await until(lambda: m.container("a")["state"].get("waiting", {}).get("reason") == reason)
    assert m.container("a")["state"]["waiting"]["message"] == message
    assert m.status("a")["phase"] == "Pending"
    assert m.events("Failed") == [f"Error: {message}"]


async def test_pod_restart_policy_always_backs_off(m: Machine) -> None:
    """The first restart is immediate, the second waits for the backoff."""
    m.pod("a", "echo run; exit 3", restartPolicy="Always")
    await until(lambda: "CrashLoopBackOff" in str(m.status("a")))
    status = m.status("a")
    (main,) = status["containerStatuses"]
    assert (status["phase"], main["restartCount"], main["ready"]) == ("Running", 1, False)
    uid = m.get("pods", "a")["metadata"]["uid"]
    message = f"back-off 10s restarting failed container=main pod=a_{NS}({uid})"
    assert main["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert main["lastState"]["terminated"]["exitCode"] == 3
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    assert await m.log("a", previous="true") == "run\n"
    m.delete("a")
    await m.gone("a")


async def test_pod_failed_init_container_fails_pod(m: Machine) -> None:
    """Init containers run in order; the first failure fails the pod."""
    first = [container("i", "exit 4"), container("j", "true")]
    m.pod("a", "true", initContainers=first)
    status = await m.ended("a")
    assert status["phase"] == "Failed"
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    states = [entry["state"] for entry in status["initContainerStatuses"]]
    assert states[0]["terminated"]["exitCode"] == 4
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert states[1] == m.container("a")["state"] == waiting


async def test_pod_sidecar_stops_after_main_container(m: Machine) -> None:
    side = container("side", "trap 'echo over; exit 0' TERM; while :; do sleep 0.05; done")
    m.pod("a", "sleep 0.1", initContainers=[side | {"restartPolicy": "Always"}])
    status = await m.ended("a")
    assert status["phase"] == "Succeeded"
    assert await m.log("a", container="side") == "over\n"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_pod_deleted_gets_sigterm_then_sigkill(m: Machine, stubborn: bool) -> None:
    trap = "trap '' TERM" if stubborn else "trap 'echo bye; exit 0' TERM"
    m.pod("a", f"{trap}; sleep 1000 & echo up; while :; do sleep 0.05; done")
    await m.wait_for_log("a", "up\n")
    changes: list[Json] = []
    m.api.state.listeners.append(lambda change: changes.append(change.object))
    grace = 1 if stubborn else 60
    m.delete("a", grace=grace)
    assert m.get("pods", "a")["metadata"]["deletionGracePeriodSeconds"] == grace

    await m.gone("a")
    last = [entry for entry in changes if entry["kind"] == "Pod"][-1]["status"]
    code = last["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    assert (last["phase"], code) == (("Failed", 137) if stubborn else ("Succeeded", 0))
    assert m.events("Killing") == ["Stopping container main"]

    await until(lambda: not list((m.api.folder / "pods").iterdir()))
    assert not list((m.api.folder / "logs").iterdir())


async def test_pod_force_deleted_name_can_be_reused(m: Machine) -> None:
    """A new pod of the same name starts while the first is being killed."""
    m.pod("a", "trap '' TERM; echo first; while :; do sleep 0.05; done")
    await m.wait_for_log("a", "first\n")
    m.delete("a", grace=0)
    m.pod("a", "echo second")
    await m.ended("a")
    assert await m.log("a") == "second\n"


SERVE = """
import http.server, os, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        up = pathlib.Path("/test/up").exists() and self.headers["Token"] == "x"
        self.send_response(200 if up else 503)
        self.end_headers()
http.server.HTTPServer((os.environ["POD_IP"], int(os.environ["PORT"])), Handler).serve_forever()
"""
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


async def test_probes_decide_when_container_has_started_and_is_ready(
    m: Machine, tmp_path: Path
) -> None:
    headers = [{"name": "Token", "value": "x"}]
    request = {"path": "/", "port": "web", "httpHeaders": headers}
    probe = {"httpGet": request, "periodSeconds": 1, "timeoutSeconds": 60, "failureThreshold": 1}
    startup = {**probe, "failureThreshold": 1000}
    port = free_port()
    ports = [{"name": "web", "containerPort": port}]
    env = [POD_IP, {"name": "SERVE", "value": SERVE}, {"name": "PORT", "value": str(port)}]
    probes = {"readinessProbe": probe, "startupProbe": startup}
    fields = {**probes, "env": env, "ports": ports, **shared(tmp_path)}
    m.pod("web", 'exec python3 -c "$SERVE"', **fields)
    refused = "Startup probe failed: HTTP probe failed with statuscode: 503"
    await until(lambda: refused in m.events("Unhealthy"))
    assert not m.container("web")["started"]

    (tmp_path / "up").touch()
    await until(lambda: m.container("web")["ready"])
    assert m.container("web")["started"]
    assert conditions(m.status("web"))["Ready"] == ("True", "")

    (tmp_path / "up").unlink()
    await until(lambda: not m.container("web")["ready"])


async def test_liveness_probe_that_fails_restarts_container(m: Machine) -> None:
    request = {"path": "/", "port": free_port()}
    probe = {"httpGet": request, "periodSeconds": 1, "failureThreshold": 2}
    m.pod("dead", "exec sleep 60", restartPolicy="Always", livenessProbe=probe)
    await until(lambda: "Container main failed liveness probe" in m.events("Killing"))
    await until(lambda: m.container("dead")["restartCount"] == 1)
