"""What the pods of a Job mean for it: which count, which indexes are done, and whether it ends."""

import time
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from kubectl_sky.practice.state import Json

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
OVER = ("Succeeded", "Failed")
End = tuple[str, str, str]  # type, reason and message of the condition that tells how it ends


def moment(text: str) -> float:
    """Return a time of an object in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def condition(obj: Json, kind: str) -> Json | None:
    """Return the condition of a type, if it is true."""
    found = obj.get("status", {}).get("conditions") or ()
    return next((one for one in found if (one["type"], one["status"]) == (kind, "True")), None)


def phase(pod: Json) -> str:
    """Return where a pod is in its life."""
    return str(pod.get("status", {}).get("phase", "Pending"))


def ended(pod: Json) -> float:
    """Return when a pod ended, as well as it can be told."""
    states = [one.get("state", {}) for one in pod["status"].get("containerStatuses") or ()]
    times = [str((state.get("terminated") or {}).get("finishedAt", "")) for state in states]
    if times and all(times):
        return max(map(moment, times))
    metadata = pod["metadata"]
    for one in pod["status"].get("conditions") or ():
        if (one["type"], one["status"]) == ("Ready", "False"):
            return moment(one["lastTransitionTime"])
    if "deletionTimestamp" in metadata:
        grace = int(metadata.get("deletionGracePeriodSeconds") or 0)
        return moment(metadata["deletionTimestamp"]) - grace
    return moment(metadata["creationTimestamp"])


def wait(failures: int, last: float) -> float:
    """Return for how many more seconds not to try again: 10, 20, 40 … up to 600 after the last."""
    return (
        max(0.0, last + min(10 * 2.0 ** (min(failures, 9) - 1), 600) - time.time())
        if failures
        else 0.0
    )


def index(pod: Json) -> int:
    """Return the completion index of a pod, or -1."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isdigit() else -1


def failures(pod: Json, name: str = FAILURES) -> int:
    """Return how many failures of its index a pod was told of."""
    return int((pod["metadata"].get("annotations") or {}).get(name, "0"))


def indexes(text: str, completions: int) -> set[int]:
    """Read `1,3-5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return found


def written(found: set[int]) -> str:
    """Write `1,3-5`."""
    runs: list[list[int]] = []
    for one in sorted(found):
        if runs and runs[-1][-1] == one - 1:
            runs[-1][1:] = [one]
        else:
            runs.append([one])
    return ",".join(("," if run[-1] == run[0] + 1 else "-").join(map(str, run)) for run in runs)


def judged(pod: Json, policy: Json | None) -> tuple[str, str]:
    """Return what a podFailurePolicy says of a failed pod, and why if it says FailJob."""
    name = "{namespace}/{name}".format(**pod["metadata"])
    for at, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule["action"]
        if rule.get("onExitCodes"):
            status = _exited(pod, rule["onExitCodes"])
            if status:
                code = status["state"]["terminated"]["exitCode"]
                what = f"Container {status['name']} for pod {name} failed with exit code {code}"
                return action, f"{what} matching {action} rule at index {at}"
        for one in pod["status"].get("conditions") or ():
            for pattern in rule.get("onPodConditions") or ():
                if (one["type"], one["status"]) == (pattern["type"], pattern["status"]):
                    what = f"Pod {name} has condition {one['type']}"
                    return action, f"{what} matching {action} rule at index {at}"
    return "Count", ""


def _exited(pod: Json, wanted: Json) -> Json | None:
    status = pod["status"]
    both = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    for one in both:
        code = (one["state"].get("terminated") or {}).get("exitCode", 0)
        right = wanted.get("containerName") in (None, one["name"])
        if code and right and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return dict(one)
    return None


@dataclass(frozen=True)
class View:
    """A Job with its pods, at one moment."""

    job: Json
    pods: list[Json]

    @cached_property
    def spec(self) -> Json:
        """What was asked for."""
        return dict(self.job["spec"])

    @cached_property
    def indexed(self) -> bool:
        """Whether each pod has an index."""
        return bool(self.spec["completionMode"] == "Indexed")

    @cached_property
    def only_failed(self) -> bool:
        """Whether pods that are only ending count neither as failed nor as gone."""
        return self.spec.get("podReplacementPolicy") == "Failed"

    @cached_property
    def active(self) -> list[Json]:
        """The pods that run or will."""
        return [pod for pod in self._open if "deletionTimestamp" not in pod["metadata"]]

    @cached_property
    def terminating(self) -> list[Json]:
        """The pods that were told to end."""
        return [pod for pod in self._open if "deletionTimestamp" in pod["metadata"]]

    @cached_property
    def _open(self) -> list[Json]:
        return [pod for pod in self.pods if phase(pod) not in OVER]

    @cached_property
    def tracked(self) -> list[Json]:
        """The pods that are not counted in the status yet."""
        found = [pod for pod in self.pods if FINALIZER in (pod["metadata"].get("finalizers") or ())]
        if self.indexed:
            return [pod for pod in found if 0 <= index(pod) < self.spec["completions"]]
        return found

    @cached_property
    def succeeded(self) -> list[Json]:
        """The pods that newly succeeded."""
        return [pod for pod in self.tracked if phase(pod) == "Succeeded"]

    def is_failed(self, pod: Json) -> bool:
        """Say whether a pod counts as failed."""
        if phase(pod) == "Failed" or self.only_failed:
            return phase(pod) == "Failed"
        return "deletionTimestamp" in pod["metadata"] and phase(pod) != "Succeeded"

    @cached_property
    def failed(self) -> list[Json]:
        """The pods that newly failed."""
        return [pod for pod in self.tracked if self.is_failed(pod)]

    def judge(self, pod: Json) -> tuple[str, str]:
        """Return what the podFailurePolicy says of a failed pod."""
        return judged(pod, self.spec.get("podFailurePolicy"))

    @cached_property
    def done(self) -> set[int]:
        """The indexes that succeeded."""
        before = self.job["status"].get("completedIndexes", "")
        return indexes(before, self.spec["completions"]) | {index(pod) for pod in self.succeeded}

    @cached_property
    def given_up(self) -> set[int]:
        """The indexes that failed for good."""
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is None:
            return set()
        found = indexes(self.job["status"].get("failedIndexes", ""), self.spec["completions"])
        for pod in self.failed:
            action = self.judge(pod)[0]
            if action == "FailIndex" or (action != "Ignore" and failures(pod) >= limit):
                found.add(index(pod))
        return found

    @cached_property
    def awaited(self) -> dict[int, Json]:
        """By index, the failed pod that is kept until its successor knows how many failed."""
        if self.spec.get("backoffLimitPerIndex") is None:
            return {}
        settled = self.done | self.given_up | {index(pod) for pod in self.active}
        ordered = sorted(
            self.failed, key=lambda pod: (failures(pod) + failures(pod, IGNORED), ended(pod))
        )
        return {index(pod): pod for pod in ordered if index(pod) not in settled}

    @cached_property
    def successes(self) -> int:
        """How many pods, or indexes, succeeded."""
        if self.indexed:
            return len(self.done)
        return int(self.job["status"].get("succeeded", 0)) + len(self.succeeded)

    def end(self) -> End | None:
        """Return how the Job ends, if it does for another reason than its completions."""
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            found = condition(self.job, kind)
            if found:
                return kind, found["reason"], found["message"]
        for pod in self.pods:
            if self.is_failed(pod):
                action, message = self.judge(pod)
                if action == "FailJob":
                    return "FailureTarget", "PodFailurePolicy", message
        why = self._limits() or (self._index_limits() if self.indexed else None)
        if why:
            return "FailureTarget", *why
        rule = self._enough()
        return ("SuccessCriteriaMet", "SuccessPolicy", rule) if rule else None

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
        parts = ("initContainerStatuses", "containerStatuses")
        found = [
            one for pod in self._open for part in parts for one in pod["status"].get(part) or ()
        ]
        return sum(one.get("restartCount", 0) for one in found)

    def time_left(self) -> float:
        """Return the seconds until the deadline; infinitely many where there is none."""
        limit, start = self.spec.get("activeDeadlineSeconds"), self.job["status"].get("startTime")
        if limit is None or not start or self.spec["suspend"]:
            return float("inf")
        return moment(start) + float(limit) - time.time()

    def _index_limits(self) -> tuple[str, str] | None:
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.given_up) > most:
            what = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", what
        if self.given_up and len(self.given_up) + len(self.done) >= self.spec["completions"]:
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _enough(self) -> str:
        """Return which rule of the successPolicy is met, if any."""
        for at, rule in enumerate((self.spec.get("successPolicy") or {}).get("rules") or ()):
            every = set(range(self.spec["completions"]))
            wanted = indexes(rule.get("succeededIndexes", ""), len(every)) or every
            needed = rule.get("succeededCount") or len(wanted)
            if self.done and len(wanted & self.done) >= needed:
                return f"Matched rules at index {at}"
        return ""
