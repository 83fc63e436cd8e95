"""The state of a Job that follows from its pods: counts, indexes, and whether it ends."""

import time
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from kubectl_sky_practice.state import Json

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
OVER = ("Succeeded", "Failed")
End = tuple[str, str, str]  # type, reason and message of the condition with which a Job ends


def timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def condition(obj: Json, kind: str) -> Json | None:
    for entry in obj.get("status", {}).get("conditions") or ():
        if (entry["type"], entry["status"]) == (kind, "True"):
            return dict(entry)
    return None


def phase(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def end_time(pod: Json) -> float:
    states = [entry["state"] for entry in pod["status"].get("containerStatuses") or ()]
    times = [str((state.get("terminated") or {}).get("finishedAt", "")) for state in states]
    if times and all(times):
        return max(map(timestamp, times))
    metadata = pod["metadata"]
    return timestamp(metadata.get("deletionTimestamp") or metadata["creationTimestamp"])


def backoff(failures: int, last: float) -> float:
    """Return the seconds until the next try: 10, 20, 40 … up to 600 after the last failure."""
    if not failures:
        return 0.0
    return max(0.0, last + min(10 * 2.0 ** (min(failures, 9) - 1), 600) - time.time())


def index(pod: Json) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isdigit() else -1


def failures(pod: Json) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(FAILURES, "0"))


def parse_indexes(text: str, completions: int) -> set[int]:
    """Read `1,3-5`."""
    parsed: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        parsed |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return parsed


def format_indexes(numbers: set[int]) -> str:
    """Write `1,3-5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join(("," if run[-1] == run[0] + 1 else "-").join(map(str, run)) for run in runs)


def _apply_policy(pod: Json, policy: Json | None) -> tuple[str, str]:
    name = "{namespace}/{name}".format(**pod["metadata"])
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule["action"]
        matching = f"matching {action} rule at index {position}"
        if rule.get("onExitCodes") and (status := _matching_exit(pod, rule["onExitCodes"])):
            code = status["state"]["terminated"]["exitCode"]
            what = f"Container {status['name']} for pod {name} failed with exit code {code}"
            return action, f"{what} {matching}"
        patterns = {(entry["type"], entry["status"]) for entry in rule.get("onPodConditions") or ()}
        for entry in pod["status"].get("conditions") or ():
            if (entry["type"], entry["status"]) in patterns:
                return action, f"Pod {name} has condition {entry['type']} {matching}"
    return "Count", ""


def _matching_exit(pod: Json, requirement: Json) -> Json | None:
    for status in _container_statuses(pod):
        code = (status["state"].get("terminated") or {}).get("exitCode", 0)
        concerned = requirement.get("containerName") in (None, status["name"])
        listed = code in requirement["values"]
        if code and concerned and listed == (requirement["operator"] == "In"):
            return status
    return None


def _container_statuses(pod: Json) -> list[Json]:
    fields = ("containerStatuses", "initContainerStatuses")
    return [status for field in fields for status in pod["status"].get(field) or ()]


@dataclass(frozen=True)
class JobState:
    job: Json
    pods: list[Json]

    @cached_property
    def spec(self) -> Json:
        return dict(self.job["spec"])

    @cached_property
    def is_indexed(self) -> bool:
        return bool(self.spec["completionMode"] == "Indexed")

    @cached_property
    def active(self) -> list[Json]:
        return [pod for pod in self._unfinished if "deletionTimestamp" not in pod["metadata"]]

    @cached_property
    def terminating(self) -> list[Json]:
        return [pod for pod in self._unfinished if "deletionTimestamp" in pod["metadata"]]

    @property
    def unreplaced(self) -> list[Json]:
        """The pods that no new pod replaces yet."""
        return self._unfinished if self._waits_for_end else self.active

    @property
    def _waits_for_end(self) -> bool:
        return bool(self.spec["podReplacementPolicy"] == "Failed")

    @cached_property
    def _unfinished(self) -> list[Json]:
        return [pod for pod in self.pods if phase(pod) not in OVER]

    @cached_property
    def tracked(self) -> list[Json]:
        """The pods that are not counted in the status yet."""
        pods = [pod for pod in self.pods if FINALIZER in (pod["metadata"].get("finalizers") or ())]
        if self.is_indexed:
            return [pod for pod in pods if 0 <= index(pod) < self.spec["completions"]]
        return pods

    @cached_property
    def succeeded(self) -> list[Json]:
        return [pod for pod in self.tracked if phase(pod) == "Succeeded"]

    def is_failed(self, pod: Json) -> bool:
        ends_itself = self._waits_for_end and "nodeName" in pod["spec"]
        if phase(pod) in OVER or ends_itself:
            return phase(pod) == "Failed"
        return "deletionTimestamp" in pod["metadata"]

    @cached_property
    def failed(self) -> list[Json]:
        return [pod for pod in self.tracked if self.is_failed(pod)]

    def judge(self, pod: Json) -> tuple[str, str]:
        return _apply_policy(pod, self.spec.get("podFailurePolicy"))

    @cached_property
    def done(self) -> set[int]:
        before = self.job["status"].get("completedIndexes", "")
        return parse_indexes(before, self.spec["completions"]) | {
            index(pod) for pod in self.succeeded
        }

    @cached_property
    def given_up(self) -> set[int]:
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is None:
            return set()
        failed = self.job["status"].get("failedIndexes", "")
        given_up = parse_indexes(failed, self.spec["completions"])
        for pod in self.failed:
            action = self.judge(pod)[0]
            if action == "FailIndex" or (action != "Ignore" and failures(pod) >= limit):
                given_up.add(index(pod))
        return given_up

    @cached_property
    def awaited(self) -> dict[int, Json]:
        """By index, the failed pod that is kept until its successor knows how many failed."""
        if self.spec.get("backoffLimitPerIndex") is None:
            return {}
        settled = self.done | self.given_up | {index(pod) for pod in self.active}
        ordered = sorted(self.failed, key=lambda pod: (failures(pod), end_time(pod)))
        return {index(pod): pod for pod in ordered if index(pod) not in settled}

    @cached_property
    def successes(self) -> int:
        if self.is_indexed:
            return len(self.done)
        return int(self.job["status"].get("succeeded", 0)) + len(self.succeeded)

    def end(self) -> End | None:
        """Return how the Job ends, if not by its completions."""
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            if current := condition(self.job, kind):
                return kind, current["reason"], current["message"]
        for pod in self.pods:
            if self.is_failed(pod):
                action, message = self.judge(pod)
                if action == "FailJob":
                    return "FailureTarget", "PodFailurePolicy", message
        reason = self._limits() or (self._index_limits() if self.is_indexed else None)
        return ("FailureTarget", *reason) if reason else None

    def _limits(self) -> tuple[str, str] | None:
        counted = [pod for pod in self.failed if self.judge(pod)[0] != "Ignore"]
        failed = int(self.job["status"].get("failed", 0)) + len(counted)
        limit = self.spec["backoffLimit"]
        restarts = self._restarts()
        if failed > limit or (restarts and restarts >= limit):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if self.time_left() <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _restarts(self) -> int:
        if self.spec["template"]["spec"]["restartPolicy"] != "OnFailure":
            return 0
        statuses = [status for pod in self._unfinished for status in _container_statuses(pod)]
        return sum(status.get("restartCount", 0) for status in statuses)

    def time_left(self) -> float:
        limit = self.spec.get("activeDeadlineSeconds")
        start = self.job["status"].get("startTime")
        if limit is None or not start or self.spec["suspend"]:
            return float("inf")
        return timestamp(start) + float(limit) - time.time()

    def _index_limits(self) -> tuple[str, str] | None:
        if self.given_up and len(self.given_up) + len(self.done) >= self.spec["completions"]:
            return "FailedIndexes", "Job has failed indexes"
        return None
