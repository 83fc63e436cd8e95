"""A cluster with one task, for tests: Jobs, pods and Services that users and kubelets change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.words import names
from tests.builders import (
    ID,
    condition,
    make_indexed_pod,
    make_job,
    make_pod,
    make_service,
    make_whole,
    terminated,
)
from tests.reading import read_jobs, read_metadata, read_objects, read_pods

Json = dict[str, Any]

LABELS = make_job()["metadata"]["labels"]
LISTED = (names.TASK, names.USERNAME)  # the labels by which `list` selects
BY_ID = (names.TASK, names.TASK_ID)  # `status`, `logs` and `wait`
WATCHED = (names.TASK_ID,)  # `doctor`, and all that watch
REMOVABLE = (names.TASK, names.TASK_ID, names.USERNAME, names.NODE_IDX)


# The kinds that wrap an Indexed Job, and the field in which they do.
_WRAPPERS = {
    "appwrapper": ("AppWrapper", "components"),
    "jobset": ("JobSet", "replicatedJobs"),
}


@dataclass
class World:
    """The objects of a task of `nodes` nodes that allow `limit` failures.

    The backend jobs has a Job per node; the others have one object for all nodes.
    """

    nodes: int
    limit: int = 0
    backend: str = "jobs"
    jobs: dict[int, Json] = field(default_factory=dict)  # by rank, or the one for all nodes at 0
    pods: dict[int, Json] = field(default_factory=dict)
    services: list[Json] = field(default_factory=list)
    clock: int = 0
    lost: set[int] = field(default_factory=set)  # ranks whose Job was deleted or lost its labels
    completed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    @classmethod
    def submitted(cls, nodes: int, limit: int = 0, backend: str = "jobs") -> "World":
        """Return a world in which submit has finished and all nodes run."""
        world = cls(nodes, limit, backend)
        if world.shared:
            world.jobs[0] = make_whole(nodes, backend)
        else:
            world.jobs = {rank: make_job(rank, nodes) for rank in range(nodes)}

        for job in world.jobs.values():
            job["spec"]["backoffLimit"] = limit
        if backend in _WRAPPERS:
            kind, field = _WRAPPERS[backend]
            job = {"template": {"spec": {"completions": nodes, "template": {}}}}
            world.jobs[0] |= {"kind": kind, "status": {"phase": "Running"}, "spec": {field: [job]}}

        for rank in range(nodes):
            world.start(rank)
        world.services = [make_service(*world.jobs.values())]
        return world

    @property
    def shared(self) -> bool:
        """Whether one object runs all nodes, and fails as a whole."""
        return self.backend != "jobs"

    def start(self, rank: int) -> None:
        """Create a running pod for a node."""
        self.clock += 1
        make = make_indexed_pod if self.shared else make_pod
        pod = make(rank, state={"running": {"startedAt": self.now}})
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        name = f"{owner}-{rank}-{self.clock}"
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": self.now}
        self.pods[rank] = pod

    @property
    def now(self) -> str:
        """The current time."""
        return f"2026-01-01T00:{self.clock // 60:02}:{self.clock % 60:02}Z"

    # Events, each on one node; they do nothing if the node has no such object.

    def delete_job(self, rank: int) -> None:
        """Delete the Job, and with it its pods, as `kubectl delete job` does."""
        if self.jobs.pop(self._key(rank), None):
            for same in self._ranks(rank):
                self.lost.add(same)
                self.pods.pop(same, None)

    def relabel_job(self, rank: int, label: str = names.TASK_ID) -> None:
        """Remove a label of the Job; its pods go on and have theirs from the template."""
        job = self.jobs.get(self._key(rank))
        if job and job["metadata"]["labels"].pop(label, None):
            self.lost.update(self._ranks(rank))

    def relabel_pod(self, rank: int, label: str = names.TASK_ID) -> None:
        """Remove a label of the pod; only its Job still knows it."""
        if self.shared:
            return  # the object does not show which of its nodes run
        labels = self.pods[rank]["metadata"]["labels"] if rank in self.pods else {}
        if labels.pop(label, None) and rank in self.jobs and not self._final(rank):
            self.jobs[rank]["status"] |= {"active": 1, "ready": 1}

    def delete_pod(self, rank: int) -> None:
        """Delete the pod, as `kubectl delete pod` does."""
        if self.backend in _WRAPPERS and rank in self.completed:
            return  # only its pod shows that it has completed
        if self.pods.pop(rank, None):
            self._failed(rank)

    def terminate(self, rank: int) -> None:
        """Begin to delete the pod; it still runs."""
        if self.backend in _WRAPPERS and rank in self.completed:
            return  # only its pod shows that it has completed
        if rank in self.pods:
            times = {"deletionTimestamp": self.now, "deletionGracePeriodSeconds": 0}
            self.pods[rank]["metadata"] |= times

    def evict(self, rank: int) -> None:
        """Evict the pod, as the kubelet does if memory is short."""
        if rank in self.pods and not self._final(rank):
            self.pods[rank]["status"] = {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "memory",
            }
            self._failed(rank)

    def expire(self, rank: int) -> None:
        """Let the Job reach its deadline; its pods are killed and not gone yet."""
        key = self._key(rank)
        if key not in self.jobs or self._final(rank) or self.backend in _WRAPPERS:
            return  # wrappers do not name the deadline
        for same in self._ranks(rank):
            pod = self.pods.get(same)
            if pod and _runs(pod):
                pod["status"]["phase"] = "Failed"
                pod["status"]["containerStatuses"][1]["state"] = terminated(143, at=self.now)
                self.terminate(same)
        self.failed.add(rank)
        self._end(rank, "Failed")
        for entry in self.jobs[key]["status"]["conditions"]:
            entry["reason"] = "DeadlineExceeded"

    def fail(self, rank: int) -> None:
        """Let the container exit with code 3."""
        self._exit(rank, 3)

    def complete(self, rank: int) -> None:
        """Let the container exit with code 0."""
        self._exit(rank, 0)

    def _exit(self, rank: int, code: int) -> None:
        if rank not in self.pods or self._final(rank):
            return
        deleting = "deletionTimestamp" in self.pods[rank]["metadata"]
        if deleting and self.backend in _WRAPPERS and not code:
            return  # only its pod shows that it completes, not whether by itself
        self.clock += 1
        status = self.pods[rank]["status"]
        if status["phase"] != "Running":
            return
        status["phase"] = "Failed" if code else "Succeeded"
        status["containerStatuses"][1]["state"] = terminated(code, at=self.now)

        if code:
            self._failed(rank)
        elif self._key(rank) in self.jobs:
            self.completed.add(rank)
            if not self.shared:
                self._end(rank, "Complete")
            else:
                self._complete_index()

    def _failed(self, rank: int) -> None:
        """Apply the rules of the controller."""
        if self._key(rank) not in self.jobs or self._final(rank):
            return
        counts = self.jobs[self._key(rank)]["status"]
        counts["failed"] = counts.get("failed", 0) + 1
        if counts["failed"] <= self.limit:
            self.start(rank)
            return
        self.failed.add(rank)
        if self.shared:  # its other pods are deleted
            running = [same for same, pod in self.pods.items() if _runs(pod)]
            for same in running:
                del self.pods[same]
        self._end(rank, "Failed")

    def _key(self, rank: int) -> int:
        return 0 if self.shared else rank

    def _ranks(self, rank: int) -> Sequence[int]:
        return range(self.nodes) if self.shared else (rank,)

    def _final(self, rank: int) -> bool:
        return rank in self.completed or bool(self.failed.intersection(self._ranks(rank)))

    def _complete_index(self) -> None:
        if self.backend == "indexed":
            indexes = ",".join(map(str, sorted(self.completed)))
            self.jobs[0]["status"]["completedIndexes"] = indexes
        if len(self.completed) == self.nodes:
            self._end(0, "Complete")

    def _end(self, rank: int, kind: str) -> None:
        job = self.jobs[self._key(rank)]
        if self.backend == "appwrapper":
            phase = "Failed" if kind == "Failed" else "Succeeded"
            conditions = [condition("Unhealthy", "FoundFailedPods")] if kind == "Failed" else []
            job["status"] |= {"phase": phase, "conditions": conditions}
        elif self.backend == "jobset":
            end = "Failed" if kind == "Failed" else "Completed"
            job["status"] |= {"conditions": [condition(end, "FailedJobs")]}
        else:
            job["status"] |= {"conditions": make_job(end=kind)["status"]["conditions"]}
            job["status"] |= {"active": 0, "ready": 0}

    # What commands read

    def owned(self, *labels: str) -> list[TaskObjects]:
        """Return the objects of the task, as a command decides that selects by these labels."""
        chosen = labels or BY_ID

        def selected(items: dict[int, Json]) -> list[Json]:
            return [
                item
                for item in items.values()
                if all(item["metadata"]["labels"].get(label) == LABELS[label] for label in chosen)
            ]

        decided = ownership.decide(read_jobs(selected(self.jobs)), read_pods(selected(self.pods)))
        return ownership.explain(decided, read_metadata(self.services))

    def snapshot(self) -> TaskSnapshot:
        """Return what `doctor` reads."""
        (task,) = status.fold(self.owned(*WATCHED))
        kind, _ = _WRAPPERS.get(self.backend, ("Job", ""))
        objects = {kind: tuple(self.jobs.values()), "Pod": tuple(self.pods.values())}
        return TaskSnapshot(ID, "default", read_objects(objects), {}, task)


EVENTS = (
    World.delete_job,
    *(partial(World.relabel_job, label=label) for label in REMOVABLE),
    *(partial(World.relabel_pod, label=label) for label in REMOVABLE[:3]),
    World.delete_pod,
    World.terminate,
    World.evict,
    World.expire,
    World.fail,
    World.complete,
)


def _runs(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def described(event: Callable[..., None], rank: int) -> str:
    """Describe an event as a person writes it: `relabel_job node-1 task-id`."""
    function = event.func if isinstance(event, partial) else event
    label = event.keywords["label"] if isinstance(event, partial) else ""
    return f"{function.__name__} node-{rank} {label}".rstrip()
