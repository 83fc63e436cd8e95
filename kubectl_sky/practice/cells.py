"""The cells of the tables that `kubectl get` prints: of each kind's columns."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kubectl_sky.practice.resources import Json

Cell = Callable[[Json], Any]

_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def at(obj: Any, path: str) -> Any:
    """Return what stands at a path such as `.status.phase` or `.spec.ports[0].port`."""
    for part in path.replace("[", ".[").strip(".").split("."):
        if part.startswith("["):
            index = part.strip("[]")
            many = isinstance(obj, list) and index.isdigit() and int(index) < len(obj)
            obj = obj[int(index)] if many else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def duration(seconds: float) -> str:
    """Write a time span as kubectl does: 42s, 5m30s, 3h, 4d."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    for limit, major, minor, rest in (
        (120, f"{whole}s", "", 0),
        (600, f"{minutes}m", "s", whole % 60),
        (180 * 60, f"{minutes}m", "", 0),
        (8 * 3600, f"{hours}h", "m", minutes % 60),
        (48 * 3600, f"{hours}h", "", 0),
        (8 * 86400, f"{days}d", "h", hours % 24),
        (730 * 86400, f"{days}d", "", 0),
    ):
        if whole < limit:
            return f"{major}{rest}{minor}" if rest else major
    return f"{days // 365}y"


def age(timestamp: str | None) -> str:
    """Return how long ago a time was."""
    if not timestamp:
        return "<unknown>"
    return duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())


def value(path: str, empty: str = "") -> Cell:
    """Return a cell with what stands at a path."""

    def cell(obj: Json) -> Any:
        found = at(obj, path)
        if isinstance(found, list):
            return ",".join(map(str, found)) or empty
        return empty if found is None or found == "" else found

    return cell


def ago(path: str) -> Cell:
    """Return a cell with how long ago the time at a path was."""
    return lambda obj: age(at(obj, path))


def count(path: str) -> Cell:
    """Return a cell with how much there is at a path."""
    return lambda obj: len(at(obj, path) or ())


def labels_of(path: str) -> Cell:
    """Return a cell with the labels at a path."""

    def cell(obj: Json) -> str:
        found = at(obj, path) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or "<none>"

    return cell


def _statuses(pod: Json) -> list[Json]:
    return at(pod, ".status.containerStatuses") or []


def _sidecars(pod: Json) -> list[Json]:
    """The states of init containers that go on beside the others."""
    starting = pod["spec"].get("initContainers") or ()
    names = {one["name"] for one in starting if one.get("restartPolicy") == "Always"}
    found = at(pod, ".status.initContainerStatuses") or ()
    return [one for one in found if one["name"] in names]


def pod_ready(pod: Json) -> str:
    """Return how many containers of a pod are ready, and how many it has."""
    running = [one for one in _statuses(pod) if at(one, ".state.running")]
    started = [one for one in _sidecars(pod) if one.get("started")]
    ready = sum(one.get("ready", False) for one in (*running, *started))
    return f"{ready}/{len(pod['spec']['containers']) + len(_sidecars(pod))}"


def pod_status(pod: Json) -> str:
    """Return in one word what a pod is doing."""
    phase = at(pod, ".status.phase")
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    reason = at(pod, ".status.reason") or phase
    for one in at(pod, ".status.conditions") or ():
        if one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    return _starting(pod) or _running(pod, reason)


def _starting(pod: Json) -> str:
    """Say which init container a pod is at; nothing when they have done their work."""
    if _is_true(pod, "Initialized"):
        return ""
    starting = at(pod, ".status.initContainerStatuses") or ()
    sidecars = [one["name"] for one in _sidecars(pod)]
    for index, one in enumerate(starting):
        done = at(one, ".state.terminated.exitCode") == 0
        if done or (one["name"] in sidecars and one.get("started")):
            continue
        why = at(one, ".state.terminated.reason") or at(one, ".state.waiting.reason")
        if why in (None, "PodInitializing"):
            return f"Init:{index}/{len(pod['spec']['initContainers'])}"
        return f"Init:{why}"
    return ""


def _running(pod: Json, reason: str) -> str:
    going, wrong = False, ""
    for one in reversed(_statuses(pod)):
        reason = at(one, ".state.waiting.reason") or at(one, ".state.terminated.reason") or reason
        if at(one, ".state.terminated.exitCode"):
            wrong = reason
        going = going or bool(one.get("ready") and at(one, ".state.running"))
    if reason != "Completed":
        return reason
    if going and _is_true(pod, "Ready"):
        return "Running"
    return wrong or ("NotReady" if going else reason)


def _is_true(pod: Json, condition: str) -> bool:
    found = at(pod, ".status.conditions") or ()
    return any((one["type"], one["status"]) == (condition, "True") for one in found)


def pod_restarts(pod: Json) -> str:
    """Return how often the containers of a pod began anew."""
    counted = [*_statuses(pod), *_sidecars(pod)]
    if _starting(pod):
        counted = at(pod, ".status.initContainerStatuses")
    restarts = sum(one.get("restartCount", 0) for one in counted)
    ends = [at(one, ".lastState.terminated.finishedAt") for one in counted]
    last = max(filter(None, ends), default=None)
    return f"{restarts} ({age(last)} ago)" if restarts and last else str(restarts)


def job_status(job: Json) -> str:
    """Return what has become of a Job."""
    true = {one["type"] for one in at(job, ".status.conditions") or () if one["status"] == "True"}
    for found in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if found in true:
            return found
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def job_completions(job: Json) -> str:
    """Return how many pods of a Job have succeeded, and how many have to."""
    done = at(job, ".status.succeeded") or 0
    wanted, parallel = at(job, ".spec.completions"), at(job, ".spec.parallelism") or 0
    if wanted is None:
        wanted = f"1 of {parallel}" if parallel > 1 else 1
    return f"{done}/{wanted}"


def job_duration(job: Json) -> str:
    """Return how long a Job has run."""
    begun, ended = at(job, ".status.startTime"), at(job, ".status.completionTime")
    if not begun:
        return ""
    end = datetime.fromisoformat(ended) if ended else datetime.now(UTC)
    return duration((end - datetime.fromisoformat(begun)).total_seconds())


def node_status(node: Json) -> str:
    """Return whether a node is ready."""
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"]
    )
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    )


def modes(obj: Json) -> str:
    """Return the access modes of a volume or claim in short."""
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX"}
    short["ReadWriteOncePod"] = "RWOP"
    return ",".join(short.get(one, one) for one in at(obj, ".spec.accessModes") or ())


def ports(service: Json) -> str:
    """Return the ports of a Service."""
    ports = at(service, ".spec.ports") or ()
    return ",".join(f"{one['port']}/{one.get('protocol', 'TCP')}" for one in ports) or "<none>"


def about(event: Json) -> str:
    """Return what an event is about, as kind and name."""
    return f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}"


def containers(path: str) -> tuple[tuple[str, Cell, int], ...]:
    """Return the columns with the names and images of the containers at a path."""

    def cell(field: str) -> Cell:
        return lambda obj: ",".join(one[field] for one in at(obj, path) or ())

    return (("Containers", cell("name"), 1), ("Images", cell("image"), 1))


def used(kind: str) -> Cell:
    """Return a cell with what is used of a quota, of its requests or limits."""

    def cell(quota: Json) -> str:
        hard, used = at(quota, ".status.hard") or {}, at(quota, ".status.used") or {}
        mine = [name for name in sorted(hard) if ("limits." in name) == (kind == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in mine)

    return cell


def phase(obj: Json) -> str:
    """Return the phase of an object that may be on its way out."""
    leaving = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if leaving else at(obj, ".status.phase") or ""


def subjects(kind: str) -> Cell:
    """Return a cell with the subjects of a role binding that are of a kind."""

    def cell(binding: Json) -> str:
        mine = [one for one in binding.get("subjects") or () if one["kind"] == kind]
        names = ((one.get("namespace", ""), one["name"]) for one in mine)
        return ", ".join("/".join(filter(None, name)) for name in names)

    return cell


def storage_class(obj: Json) -> str:
    """Return the name of a StorageClass, and whether it is the one to take."""
    chosen = (obj["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true"
    return str(obj["metadata"]["name"]) + " (default)" * chosen
