"""The status of a pod as the kubelet derives it from its containers."""

from collections.abc import Sequence

from kubectl_sky_practice.api import now
from kubectl_sky_practice.resources import Json

ADDRESS = "127.0.0.1"  # of every node
_FINISHED = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
_UNIX_EPOCH = "1970-01-01T00:00:00Z"


def waiting(container: Json, reason: str) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "started": False,
        "state": {"waiting": {"reason": reason}},
    }


def terminated(status: Json, code: int, reason: str = "", message: str = "") -> Json:
    started = status["state"].get("running", {}).get("startedAt", _UNIX_EPOCH)
    state = {
        "containerID": status.get("containerID", ""),
        "exitCode": code,
        "finishedAt": now(),
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": started,
    }
    return {"terminated": state | ({"message": message} if message else {})}


def set_state(status: Json, state: Json) -> None:
    (kind,) = state
    if kind != "terminated" and "terminated" in status["state"]:
        status["lastState"] = status["state"]
    status |= {"state": state, "started": kind == "running", "ready": kind == "running"}


def _is_initialized(container: Json, status: Json) -> bool:
    if container.get("restartPolicy") == "Always":
        return bool(status["started"])
    return bool(status["state"].get("terminated", {}).get("exitCode", 1) == 0)


def phase(pod: Json, init: Sequence[Json], main: Sequence[Json], *, ended: bool) -> str:
    policy = "Never" if ended else pod["spec"]["restartPolicy"]

    for container, status in zip(pod["spec"].get("initContainers") or (), init, strict=True):
        is_sidecar = container.get("restartPolicy") == "Always"
        if not is_sidecar and not _is_initialized(container, status):
            failed = status["state"].get("terminated", {}).get("exitCode")
            return "Failed" if policy == "Never" and (failed or ended) else "Pending"

    states = [(status["state"], status["lastState"]) for status in main]
    ends = [state.get("terminated") or last.get("terminated") for state, last in states]
    running = [status for status in (*init, *main) if "running" in status["state"]]

    if any(not end and status not in running for end, status in zip(ends, main, strict=True)):
        return "Failed" if ended else "Pending"
    if running or policy == "Always":
        return "Running"
    if not any(end["exitCode"] for end in ends if end):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def conditions(pod: Json, phase: str, init: Sequence[Json], main: Sequence[Json]) -> list[Json]:
    pairs = zip(pod["spec"].get("initContainers") or (), init, strict=True)
    incomplete = [spec["name"] for spec, status in pairs if not _is_initialized(spec, status)]
    unready = [status["name"] for status in main if not status["ready"]]
    has_sandbox = bool(pod["status"].get("podIP")) and phase not in _FINISHED
    ready = _condition("ContainersNotReady", "unready", unready)

    new = {
        "PodReadyToStartContainers": {"status": str(has_sandbox)},
        "Initialized": _condition("ContainersNotInitialized", "incomplete", incomplete),
        "Ready": ready,
        "ContainersReady": ready,
    }

    if phase in _FINISHED:
        finished = {"status": "False", "reason": _FINISHED[phase]}
        new |= {"Ready": finished, "ContainersReady": finished}
    if phase == "Succeeded":
        new["Initialized"]["reason"] = _FINISHED[phase]

    old = {condition["type"]: condition for condition in pod["status"].get("conditions") or ()}
    return [
        *(_with_times(old.get(kind), {"type": kind, **body}, pod) for kind, body in new.items()),
        *(condition for kind, condition in old.items() if kind not in new),
    ]


def _condition(reason: str, adjective: str, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {"status": "True"}
    message = f"containers with {adjective} status: [{' '.join(names)}]"
    return {"status": "False", "reason": reason, "message": message}


def _with_times(old: Json | None, condition: Json, pod: Json) -> Json:
    unchanged = old and old["status"] == condition["status"]
    return condition | {
        "lastProbeTime": None,
        "lastTransitionTime": old["lastTransitionTime"] if old and unchanged else now(),
        "observedGeneration": pod["metadata"].get("generation", 1),
    }
