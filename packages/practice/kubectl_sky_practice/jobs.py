"""The Job controller: creates pods, counts how they end, and finishes Jobs."""

import copy
import time
from collections.abc import Iterator

from kubectl_sky_practice import job_status
from kubectl_sky_practice.api import Api, Deletion, now
from kubectl_sky_practice.controller import (
    Controller,
    find_controller,
    owner_reference,
    record_event,
)
from kubectl_sky_practice.job_status import FAILURES, FINALIZER, INDEX, End, JobState
from kubectl_sky_practice.problems import Problem
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

_SOURCE = "job-controller"
_RETRY_SECONDS = 2.0  # after a refused pod, unless another pod ends before
_BATCH_SIZE = 500  # pods created or deleted at a time
_GENERATE_NAME_LENGTH = 58
_FINAL_CONDITIONS = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
_COMPLETED = (
    "SuccessCriteriaMet",
    "CompletionsReached",
    "Reached expected number of succeeded pods",
)


class Jobs(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._pods: dict[Key, dict[str, Json]] = {}  # by the key of their Job, by name
        self._failures: dict[str, tuple[int, float]] = {}  # by uid: number, and time of the last
        self._retry_times: dict[Key, float] = {}  # of refused pods
        self.replay("pods", "jobs.batch")

    def keys(self, change: Change) -> Iterator[Key]:
        if change.storage == "jobs.batch":
            yield change.key

        owner = find_controller(change.object, "Job") if change.storage == "pods" else {}
        if owner:
            namespace, name = change.key
            key = (namespace, owner["name"])
            pods = self._pods.setdefault(key, {})
            pods[name] = change.object
            if change.type == "DELETED" or job_status.phase(change.object) in job_status.OVER:
                self._retry_times.pop(key, None)  # the quota may allow another pod now
            if change.type == "DELETED":
                del pods[name]
            if len(pods) < 20:
                yield key
            else:
                self.enqueue_after(key, min(len(pods) / 1000, 1))

    def reconcile(self, key: Key) -> float | None:
        job = self.api.state.get("jobs.batch", *key)
        uid = job["metadata"]["uid"] if job else ""
        conditions = _FINAL_CONDITIONS.values()
        finished = not job or any(job_status.condition(job, kind) for kind in conditions)
        for pod in list(self._pods.get(key, {}).values()):
            if finished or find_controller(pod, "Job")["uid"] != uid:
                self._release(pod)
        if not self._pods.get(key):
            self._pods.pop(key, None)
        if job and not finished:
            return self._sync(job)
        self._failures.pop(uid, None)
        self._retry_times.pop(key, None)
        return self._expire(job) if job else None

    def _expire(self, job: Json) -> float | None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job["metadata"]:
            return None
        conditions = [job_status.condition(job, kind) for kind in _FINAL_CONDITIONS.values()]
        finished = next(condition for condition in conditions if condition)
        end = job_status.timestamp(finished["lastTransitionTime"])
        left = end + float(ttl) - time.time()
        if left <= 0:
            self.api.delete("jobs.batch", key_of(job), Deletion("Foreground"))
        return max(left, 0.0)

    def _state(self, job: Json) -> JobState:
        uid = job["metadata"]["uid"]
        pods = self._pods.get(key_of(job), {}).values()
        owned = [pod for pod in pods if find_controller(pod, "Job")["uid"] == uid]
        owned.sort(key=lambda pod: (job_status.index(pod), pod["metadata"]["name"]))
        return JobState(job, owned)

    def _sync(self, job: Json) -> float | None:
        status = {"uncountedTerminatedPods": {}, **copy.deepcopy(job["status"])}
        if not status.get("startTime") and not job["spec"]["suspend"]:
            status["startTime"] = now()

        state = self._state({**job, "status": status})
        self._count_failures(state)
        end = state.end()
        delay = state.time_left()

        if end:
            for pod in state.active:
                self._delete(job, pod)
        elif "deletionTimestamp" not in job["metadata"]:
            delay = min(delay, self._scale(state))
            completions = state.spec.get("completions")
            needed = 1 if completions is None else completions
            if state.successes >= needed and not self._state(job).active:
                end = _COMPLETED
            else:
                self._set_suspended(state, status)

        self._update_status(state, status, end)
        return None if delay == float("inf") else delay

    def _count_failures(self, state: JobState) -> None:
        uid = state.job["metadata"]["uid"]
        count, last = self._failures.get(uid, (0, 0.0))
        if state.succeeded:
            count = 0
            last = max(map(job_status.end_time, state.succeeded))
        times = [end for end in map(job_status.end_time, state.failed) if count or end > last]
        if state.succeeded or times:
            self._failures[uid] = (count + len(times), max(times, default=0.0))

    def _scale(self, state: JobState) -> float:
        """Create or delete pods; return the seconds until the next try."""
        job = state.job
        spec = state.spec
        active = state.active
        wanted = 0 if spec["suspend"] else spec["parallelism"]
        if spec.get("completions") is not None:
            wanted = max(0, min(wanted, spec["completions"] - state.successes))

        surplus = active[wanted:]
        for pod in surplus[:_BATCH_SIZE]:
            self._release(pod)
            self._delete(job, pod)

        missing = wanted - len(state.unreplaced)
        if surplus or missing <= 0:
            return float("inf")

        indexes = [-1] * missing
        if state.is_indexed:
            taken = (
                state.done | state.given_up | {job_status.index(pod) for pod in state.unreplaced}
            )
            indexes = [at for at in range(spec["completions"]) if at not in taken][:missing]
        return self._create_pods(state, indexes[:_BATCH_SIZE])

    def _create_pods(self, state: JobState, indexes: list[int]) -> float:
        job = state.job
        key = key_of(state.job)
        if (left := self._retry_times.get(key, 0) - time.time()) > 0:
            return left

        delays = {index: self._backoff(state, index) for index in set(indexes)}
        ready = [index for index in indexes if not delays[index]]
        if not ready:
            return min(delays.values(), default=float("inf"))

        for index in ready:
            try:
                pod = self.api.create("pods", _new_pod(state, index), key[0])
            except Problem as problem:
                if "is being terminated" not in problem.message:
                    text = f"Error creating: {problem.message}"
                    self._record(job, "FailedCreate", text, "Warning")
                self._retry_times[key] = time.time() + _RETRY_SECONDS
                return _RETRY_SECONDS
            self._record(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        return float("inf")

    def _backoff(self, state: JobState, index: int) -> float:
        if state.spec.get("backoffLimitPerIndex") is None:
            return job_status.backoff(*self._failures.get(state.job["metadata"]["uid"], (0, 0.0)))
        pod = state.awaited.get(index)
        if not pod:
            return 0.0
        return job_status.backoff(job_status.failures(pod) + 1, job_status.end_time(pod))

    def _set_suspended(self, state: JobState, status: Json) -> None:
        suspend = state.spec["suspend"]
        word, value = ("Suspended", "True") if suspend else ("Resumed", "False")
        if suspend == bool(job_status.condition({"status": status}, "Suspended")):
            return
        kept = [entry for entry in status.get("conditions") or () if entry["type"] != "Suspended"]
        new = _condition("Suspended", f"Job{word}", f"Job {word.lower()}", value)
        status["conditions"] = [*kept, new]
        status.pop("startTime", None)
        if not suspend:
            status["startTime"] = now()
        self._record(state.job, word, new["message"])

    def _update_status(self, state: JobState, status: Json, end: End | None) -> None:
        failing = bool(end and end[0] == "FailureTarget")
        kept = [] if end else [pod["metadata"]["uid"] for pod in state.awaited.values()]
        failed = [
            pod
            for pod in (state.tracked if failing else state.failed)
            if pod not in state.succeeded
            and pod["metadata"]["uid"] not in kept
            and state.judge(pod)[0] != "Ignore"
        ]

        all_pods = bool(end) or "deletionTimestamp" in state.job["metadata"]
        for pod in state.pods if all_pods else [*state.succeeded, *state.failed]:
            if pod["metadata"]["uid"] not in kept:
                self._release(pod)

        current = self._state(state.job)
        status |= {
            "active": len(current.active),
            "ready": sum(bool(job_status.condition(pod, "Ready")) for pod in current.active),
            "terminating": len(current.terminating),
            "succeeded": state.successes,
            "failed": status.get("failed", 0) + len(failed),
        }

        if state.is_indexed:
            status["completedIndexes"] = job_status.format_indexes(state.done)
        for name in ("active", "succeeded", "failed", "completedIndexes"):
            if not status.get(name):
                status.pop(name, None)
        if state.spec.get("backoffLimitPerIndex") is not None:
            status["failedIndexes"] = job_status.format_indexes(state.given_up)

        finished = _finish(status, end)
        self.api.change("jobs.batch", key_of(state.job), lambda job: job.update(status=status))
        if finished and end:
            self._record_end(state.job, end)

    def _record_end(self, job: Json, end: End) -> None:
        if end[0] == "SuccessCriteriaMet":
            self._record(job, "Completed", "Job completed")
        else:
            self._record(job, *end[1:], "Warning")

    def _release(self, pod: Json) -> None:
        if FINALIZER in (pod["metadata"].get("finalizers") or ()):
            self.remove_finalizer("pods", key_of(pod), FINALIZER)

    def _delete(self, job: Json, pod: Json) -> None:
        if self.api.state.get("pods", *key_of(pod)):
            self.api.delete("pods", key_of(pod))
        self._record(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _record(self, job: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, job, _SOURCE, reason, message, kind)


def _condition(kind: str, reason: str, message: str, status: str = "True") -> Json:
    times = dict.fromkeys(("lastProbeTime", "lastTransitionTime"), now())
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def _finish(status: Json, end: End | None) -> bool:
    """Add the conditions with which a Job ends; return whether it has finished."""
    if not end:
        return False
    conditions = status.setdefault("conditions", [])
    if not any(condition["type"] == end[0] for condition in conditions):
        conditions.append(_condition(*end))
    if status["terminating"]:
        return False
    conditions.append(_condition(_FINAL_CONDITIONS[end[0]], *end[1:]))
    if end[0] == "SuccessCriteriaMet":
        status["completionTime"] = conditions[-1]["lastTransitionTime"]
    return True


def _new_pod(state: JobState, index: int) -> Json:
    """Return a new pod; without an index if it is -1."""
    job = state.job["metadata"]
    template = state.spec["template"]
    metadata: Json = {
        "generateName": f"{job['name']}-"[:_GENERATE_NAME_LENGTH],
        "labels": template["metadata"].get("labels") or {},
        "annotations": template["metadata"].get("annotations") or {},
        "finalizers": [*(template["metadata"].get("finalizers") or ()), FINALIZER],
        "ownerReferences": [owner_reference(state.job)],
    }

    if index == -1:
        if not metadata["annotations"]:
            del metadata["annotations"]
        return {"metadata": metadata, "spec": template["spec"]}

    suffix = f"-{index}-"
    metadata["generateName"] = job["name"][: _GENERATE_NAME_LENGTH - len(suffix)] + suffix
    metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
    indexed = {INDEX: str(index), **_failure_count(state, index)}
    metadata["annotations"] = {**metadata["annotations"], **indexed}

    spec = copy.deepcopy(template["spec"])
    spec["hostname"] = f"{job['name']}-{index}"
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        variables = container.setdefault("env", [])
        if not any(variable["name"] == "JOB_COMPLETION_INDEX" for variable in variables):
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": spec}


def _failure_count(state: JobState, index: int) -> dict[str, str]:
    if state.spec.get("backoffLimitPerIndex") is None:
        return {}
    last = state.awaited.get(index)
    counts = last and state.judge(last)[0] != "Ignore"
    return {FAILURES: str((job_status.failures(last) if last else 0) + bool(counts))}
