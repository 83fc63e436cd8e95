"""The status of a pod as the kubelet writes it, out of what its containers do."""

from collections.abc import Sequence

from kubectl_sky.practice.api import now
from kubectl_sky.practice.resources import Json

ADDRESS = "127.0.0.1"  # of every node
_FINISHED = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
_UNIX_EPOCH = "1970-01-01T00:00:00Z"


def waiting(container: Json, reason: str) -> Json:
    """Return the status of a container that has not been started yet."""
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
    """Return the state of a container that has ended."""
    started = status["state"].get("running", {}).get("startedAt", _UNIX_EPOCH)
    state = {
        "containerID": status.get("containerID", ""),
        "exitCode": code,
        "finishedAt": now(),
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": started,
    }
    return {"terminated": state | ({"message": message} if message else {})}


def put(status: Json, state: Json) -> None:
    """Give a container's status another state."""
    (kind,) = state
    if kind != "terminated" and "terminated" in status["state"]:
        status["lastState"] = status["state"]
    status |= {"state": state, "started": kind == "running", "ready": kind == "running"}


def complete(container: Json, status: Json) -> bool:
    """Whether an init container lets the next one start."""
    if container.get("restartPolicy") == "Always":
        return bool(status["started"])
    return bool(status["state"].get("terminated", {}).get("exitCode", 1) == 0)


def phase(pod: Json, first: Sequence[Json], main: Sequence[Json], *, ended: bool) -> str:
    """Return the phase of a pod; `ended` says that nothing of it will start again."""
    policy = "Never" if ended else pod["spec"]["restartPolicy"]
    for container, status in zip(pod["spec"].get("initContainers") or (), first, strict=True):
        if not complete(container, status) and container.get("restartPolicy") != "Always":
            failed = status["state"].get("terminated", {}).get("exitCode")
            return "Failed" if policy == "Never" and (failed or ended) else "Pending"
    ends = [(one["state"].get("terminated") or one["lastState"].get("terminated")) for one in main]
    running = [one for one in (*first, *main) if "running" in one["state"]]
    if not all(end or "running" in one["state"] for end, one in zip(ends, main, strict=True)):
        return "Failed" if ended else "Pending"
    if running or policy == "Always":
        return "Running"
    if not any(end["exitCode"] for end in ends if end):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def conditions(pod: Json, new: str, first: Sequence[Json], main: Sequence[Json]) -> list[Json]:
    """Return all conditions of a pod whose phase is `new`."""
    pairs = zip(pod["spec"].get("initContainers") or (), first, strict=True)
    incomplete = [one["name"] for one, status in pairs if not complete(one, status)]
    unready = [status["name"] for status in main if not status["ready"]]
    sandbox = bool(pod["status"].get("podIP")) and new not in _FINISHED
    initialized = ("ContainersNotInitialized", "incomplete", incomplete)
    ready: tuple[str, str, list[str]] = ("ContainersNotReady", "unready", unready)
    told = {
        "PodReadyToStartContainers": {"status": str(sandbox)},
        "Initialized": _condition(*initialized),
        "Ready": _condition(*ready),
        "ContainersReady": _condition(*ready),
    }
    if new in _FINISHED:
        told |= {kind: {"status": "False", "reason": _FINISHED[new]} for kind in list(told)[2:]}
    if new == "Succeeded":
        told["Initialized"]["reason"] = _FINISHED[new]
    before = {one["type"]: one for one in pod["status"].get("conditions") or ()}
    return [
        *(_since(before.get(kind), {"type": kind, **one}, pod) for kind, one in told.items()),
        *(one for kind, one in before.items() if kind not in told),
    ]


def _condition(reason: str, adjective: str, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {"status": "True"}
    message = f"containers with {adjective} status: [{' '.join(names)}]"
    return {"status": "False", "reason": reason, "message": message}


def _since(before: Json | None, condition: Json, pod: Json) -> Json:
    same = before and before["status"] == condition["status"]
    return condition | {
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before and same else now(),
        "observedGeneration": pod["metadata"].get("generation", 1),
    }
