"""Runs Jobs: makes their pods, counts how they end, and says when a Job is over."""

import copy
import time
from collections.abc import Iterator

from kubectl_sky.practice import job_view
from kubectl_sky.practice.api import Api, Deletion, now
from kubectl_sky.practice.controller import Controller, record_event
from kubectl_sky.practice.job_pods import new, surplus
from kubectl_sky.practice.job_view import FINALIZER, IGNORED, End, View
from kubectl_sky.practice.problems import Problem
from kubectl_sky.practice.state import Change, Json, Key
from kubectl_sky.practice.state import key as key_of

_SOURCE = "job-controller"
_MANAGER = "kubernetes.io/job-controller"
_AT_ONCE = 500  # pods made or deleted in one go
_FINAL = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


def _owner(pod: Json) -> Json:
    for one in pod["metadata"].get("ownerReferences") or ():
        if one.get("controller") and (one["kind"], one["apiVersion"]) == ("Job", "batch/v1"):
            return dict(one)
    return {}


class Jobs(Controller):
    """The Job controller."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._pods: dict[Key, dict[str, Json]] = {}  # by the key of their Job, by name
        self._failures: dict[str, tuple[int, float]] = {}  # by uid: how many since when
        self._refusals: dict[Key, tuple[int, float]] = {}  # how often, and until when to wait
        self.replay("pods", "jobs.batch")

    def keys(self, change: Change) -> Iterator[Key]:
        """A Job, or the Job of a pod; the more pods it has, the more changes are taken together."""
        if change.storage == "jobs.batch":
            yield change.key
        owner = _owner(change.object) if change.storage == "pods" else {}
        if owner:
            namespace, name = change.key
            key = (namespace, owner["name"])
            pods = self._pods.setdefault(key, {})
            pods[name] = change.object
            if change.type == "DELETED" or job_view.phase(change.object) in job_view.OVER:
                self._refusals.pop(key, None)  # there may be room again
            if change.type == "DELETED":
                del pods[name]
            if len(pods) < 20:
                yield key
            else:
                self.enqueue_after(key, min(len(pods) / 1000, 1))

    def reconcile(self, key: Key) -> float | None:
        """Bring a Job nearer to its end."""
        job = self.api.state.get("jobs.batch", *key)
        uid = job["metadata"]["uid"] if job else ""
        if job and job["spec"].get("managedBy", _MANAGER) != _MANAGER:
            return None
        over = not job or any(job_view.condition(job, kind) for kind in _FINAL.values())
        for pod in list(self._pods.get(key, {}).values()):
            if over or _owner(pod)["uid"] != uid:
                self._release(pod)
        if not self._pods.get(key):
            self._pods.pop(key, None)
        if job and not over:
            return self._sync(job)
        self._failures.pop(uid, None)
        self._refusals.pop(key, None)
        return self._expire(job) if job else None

    def _expire(self, job: Json) -> float | None:
        limit = job["spec"].get("ttlSecondsAfterFinished")
        if limit is None or "deletionTimestamp" in job["metadata"]:
            return None
        last = next(one for one in job["status"]["conditions"] if one["type"] in _FINAL.values())
        left = job_view.moment(last["lastTransitionTime"]) + float(limit) - time.time()
        if left <= 0:
            self.api.delete("jobs.batch", key_of(job), Deletion("Foreground"))
        return max(left, 0.0)

    def _view(self, job: Json) -> View:
        uid = job["metadata"]["uid"]
        pods = self._pods.get(key_of(job), {}).values()
        mine = [pod for pod in pods if _owner(pod)["uid"] == uid]
        return View(
            job, sorted(mine, key=lambda pod: (job_view.index(pod), pod["metadata"]["name"]))
        )

    def _sync(self, job: Json) -> float | None:
        status = {"uncountedTerminatedPods": {}, **copy.deepcopy(job["status"])}
        if not status.get("startTime") and not job["spec"]["suspend"]:
            status["startTime"] = now()
        view = self._view({**job, "status": status})
        self._count_failures(view)
        end, again = view.end(), view.time_left()
        if end:
            for pod in view.active:
                self._delete(job, pod)
        elif "deletionTimestamp" not in job["metadata"]:
            again = min(again, self._manage(view))
            end = self._complete(view)
            if not end:
                self._suspended(view, status)
        self._track(view, status, end)
        return None if again == float("inf") else again

    def _count_failures(self, view: View) -> None:
        """Remember how many pods failed since the last success, for the back-off."""
        uid = view.job["metadata"]["uid"]
        count, last = self._failures.get(uid, (0, 0.0))
        if view.succeeded:
            count, last = 0, max(map(job_view.ended, view.succeeded))
        times = [when for when in map(job_view.ended, view.failed) if count or when > last]
        if view.succeeded or times:
            self._failures[uid] = (count + len(times), max(times, default=0.0))

    def _manage(self, view: View) -> float:
        """Make or delete pods; return after how many seconds to try again."""
        job, spec, active = view.job, view.spec, view.active
        wanted = 0
        if not spec["suspend"]:
            wanted = spec["parallelism"]
            if spec.get("completions") is not None:
                wanted = max(0, min(wanted, spec["completions"] - view.successes))
            elif view.successes:
                wanted = len(active)
        too_many = surplus(view, max(0, len(active) - wanted))
        for pod in too_many[:_AT_ONCE]:
            self._release(pod)
            self._delete(job, pod)
        missing = wanted - len(active) - (len(view.terminating) if view.only_failed else 0)
        if too_many or missing <= 0:
            return float("inf")
        indexes = [-1] * missing
        if view.indexed:
            taken = view.done | view.given_up | {job_view.index(pod) for pod in active}
            if view.only_failed:
                taken |= {job_view.index(pod) for pod in view.terminating}
            indexes = [one for one in range(spec["completions"]) if one not in taken][:missing]
        return self._make(view, indexes[:_AT_ONCE])

    def _make(self, view: View, indexes: list[int]) -> float:
        job, key = view.job, key_of(view.job)
        count, until = self._refusals.get(key, (0, 0.0))
        if until > time.time():
            return until - time.time()
        waits = {one: self._wait(view, one) for one in set(indexes)}
        ready = [one for one in indexes if not waits[one]]
        if not ready:
            return min(waits.values(), default=float("inf"))
        for one in ready:
            try:
                pod = self.api.create("pods", new(view, one), key[0])
            except Problem as problem:
                pause = min(2.0**count, 60.0)
                self._refusals[key] = count + 1, time.time() + pause
                if "is being terminated" not in problem.message:
                    text = f"Error creating: {problem.message}"
                    record_event(self.api, job, _SOURCE, "FailedCreate", text, "Warning")
                return pause
            self._refusals.pop(key, None)
            self._say(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        return float("inf")

    def _wait(self, view: View, index: int) -> float:
        if view.spec.get("backoffLimitPerIndex") is None:
            return job_view.wait(*self._failures.get(view.job["metadata"]["uid"], (0, 0.0)))
        pod = view.awaited.get(index)
        if not pod:
            return 0.0
        count = job_view.failures(pod) + job_view.failures(pod, IGNORED) + 1
        return job_view.wait(count, job_view.ended(pod))

    def _complete(self, view: View) -> End | None:
        left = self._view(view.job).active
        enough = view.spec.get("completions")
        if left or view.successes < (1 if enough is None else enough):
            return None
        return (
            "SuccessCriteriaMet",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )

    def _suspended(self, view: View, status: Json) -> None:
        suspend = view.spec["suspend"]
        word, verdict = ("Suspended", "True") if suspend else ("Resumed", "False")
        old = [one for one in status.get("conditions") or () if one["type"] == "Suspended"]
        if bool(old and old[0]["status"] == "True") == suspend:
            return
        new = _condition("Suspended", f"Job{word}", f"Job {word.lower()}", verdict)
        others = [one for one in status.get("conditions") or () if one not in old]
        status["conditions"] = [*others, new]
        status.pop("startTime", None)
        if not suspend:
            status["startTime"] = now()
        self._say(view.job, word, new["message"])

    def _track(self, view: View, status: Json, end: End | None) -> None:
        """Count the pods that ended, let go of them, and write the status."""
        failing = bool(end and end[0] == "FailureTarget")
        lost = view.tracked if failing else view.failed
        kept = [] if end else [pod["metadata"]["uid"] for pod in view.awaited.values()]
        failed = [
            pod
            for pod in lost
            if pod not in view.succeeded
            and pod["metadata"]["uid"] not in kept
            and view.judge(pod)[0] != "Ignore"
        ]
        everything = bool(end) or "deletionTimestamp" in view.job["metadata"]
        for pod in view.pods if everything else [*view.succeeded, *view.failed]:
            if pod["metadata"]["uid"] not in kept:
                self._release(pod)
        now = self._view(view.job)
        status |= {
            "active": len(now.active),
            "ready": sum(bool(job_view.condition(pod, "Ready")) for pod in now.active),
            "terminating": len(now.terminating),
            "succeeded": view.successes,
            "failed": status.get("failed", 0) + len(failed),
        }
        if view.indexed:
            status["completedIndexes"] = job_view.written(view.done)
        for name in ("active", "succeeded", "failed", "completedIndexes"):
            if not status.get(name):
                status.pop(name, None)
        if view.spec.get("backoffLimitPerIndex") is not None:
            status["failedIndexes"] = job_view.written(view.given_up)
        over = _finish(status, end)
        self.api.change("jobs.batch", key_of(view.job), lambda job: job.update(status=status))
        if over and end:
            self._report(view.job, end)

    def _report(self, job: Json, end: End) -> None:
        if end[0] == "SuccessCriteriaMet":
            self._say(job, "Completed", "Job completed")
        else:
            record_event(self.api, job, _SOURCE, *end[1:], "Warning")

    def _release(self, pod: Json) -> None:
        if FINALIZER in (pod["metadata"].get("finalizers") or ()):
            self.remove_finalizer("pods", key_of(pod), FINALIZER)

    def _delete(self, job: Json, pod: Json) -> None:
        if self.api.state.get("pods", *key_of(pod)):
            self.api.delete("pods", key_of(pod))
        self._say(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _say(self, job: Json, reason: str, message: str) -> None:
        record_event(self.api, job, _SOURCE, reason, message)


def _condition(kind: str, reason: str, message: str, status: str = "True") -> Json:
    times = dict.fromkeys(("lastProbeTime", "lastTransitionTime"), now())
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def _finish(status: Json, end: End | None) -> bool:
    """Write into a status how its Job ends; say whether it is over."""
    if not end:
        return False
    found = status.setdefault("conditions", [])
    if not any(one["type"] == end[0] for one in found):
        found.append(_condition(*end))
    if status["terminating"]:
        return False
    found.append(_condition(_FINAL[end[0]], *end[1:]))
    if end[0] == "SuccessCriteriaMet":
        status["completionTime"] = found[-1]["lastTransitionTime"]
    return True
