"""A cluster with one task, for tests: Jobs, pods and Services that users and kubelets change."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubectl_sky import names
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.ownership import Ownership
from kubectl_sky.observe.signals import Snapshot
from tests.builders import ID, make_controller, make_job, make_pod, make_service, terminated

Json = dict[str, Any]

LABELS = make_job()["metadata"]["labels"]
LISTED = (names.TASK, names.USERNAME)  # the labels by which `list` selects
BY_ID = (names.TASK, names.TASK_ID)  # `status`, `logs` and `wait`
WATCHED = (names.TASK_ID,)  # `doctor`, and all that watch
REMOVABLE = (names.TASK, names.TASK_ID, names.USERNAME, names.NODE_IDX)


@dataclass
class World:
    """The objects of a task of `nodes` nodes whose Jobs allow `limit` failures each."""

    nodes: int
    limit: int = 0
    jobs: dict[int, Json] = field(default_factory=dict)
    pods: dict[int, Json] = field(default_factory=dict)
    services: list[Json] = field(default_factory=list)
    clock: int = 0
    lost: set[int] = field(default_factory=set)  # ranks whose Job was deleted or lost its labels

    @classmethod
    def submitted(cls, nodes: int, limit: int = 0) -> "World":
        """Return a world in which submit has finished and all nodes run."""
        world = cls(nodes, limit)
        for rank in range(nodes):
            world.jobs[rank] = make_job(rank, nodes)
            world.jobs[rank]["spec"]["backoffLimit"] = limit
            world.start(rank)
        world.services = [make_service(*world.jobs.values())]
        return world

    def start(self, rank: int) -> None:
        """Create a running pod for a node."""
        self.clock += 1
        pod = make_pod(rank, state={"running": {"startedAt": self.now}})
        name = f"train-{ID}-node-{rank}-{self.clock}"
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": self.now}
        pod["metadata"]["ownerReferences"] = make_controller(f"train-{ID}-node-{rank}")
        self.pods[rank] = pod

    @property
    def now(self) -> str:
        """The current time."""
        return f"2026-01-01T00:{self.clock // 60:02}:{self.clock % 60:02}Z"

    # Events, each on one node; they do nothing if the node has no such object.

    def delete_job(self, rank: int) -> None:
        """Delete the Job, and with it its pod, as `kubectl delete job` does."""
        if self.jobs.pop(rank, None):
            self.lost.add(rank)
            self.pods.pop(rank, None)

    def relabel_job(self, rank: int, label: str = names.TASK_ID) -> None:
        """Remove a label of the Job; its pod goes on and has its labels from the template."""
        if rank in self.jobs and self.jobs[rank]["metadata"]["labels"].pop(label, None):
            self.lost.add(rank)

    def relabel_pod(self, rank: int, label: str = names.TASK_ID) -> None:
        """Remove a label of the pod; only its Job still knows it."""
        labels = self.pods[rank]["metadata"]["labels"] if rank in self.pods else {}
        if labels.pop(label, None) and rank in self.jobs and not self._final(rank):
            self.jobs[rank]["status"] |= {"active": 1, "ready": 1}

    def delete_pod(self, rank: int) -> None:
        """Delete the pod, as `kubectl delete pod` does."""
        if self.pods.pop(rank, None):
            self._failed(rank)

    def terminate(self, rank: int) -> None:
        """Begin to delete the pod; it still runs."""
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

    def fail(self, rank: int) -> None:
        """Let the container exit with code 3."""
        self._exit(rank, 3)

    def complete(self, rank: int) -> None:
        """Let the container exit with code 0."""
        self._exit(rank, 0)

    def _exit(self, rank: int, code: int) -> None:
        if rank not in self.pods or self._final(rank):
            return
        self.clock += 1
        status = self.pods[rank]["status"]
        if status["phase"] != "Running":
            return
        status["phase"] = "Failed" if code else "Succeeded"
        status["containerStatuses"][1]["state"] = terminated(code, at=self.now)
        if code:
            self._failed(rank)
        elif rank in self.jobs:
            self._end(rank, "Complete")

    def _failed(self, rank: int) -> None:
        """Apply the rules of the Job controller."""
        if rank not in self.jobs or self._final(rank):
            return
        counts = self.jobs[rank]["status"]
        counts["failed"] = counts.get("failed", 0) + 1
        if counts["failed"] > self.limit:
            self._end(rank, "Failed")
        else:
            self.start(rank)

    def _final(self, rank: int) -> bool:
        return rank in self.jobs and bool(self.jobs[rank]["status"]["conditions"])

    def _end(self, rank: int, kind: str) -> None:
        counts = {key: self.jobs[rank]["status"].get(key, 0) for key in ("failed",)}
        self.jobs[rank]["status"] = make_job(rank, self.nodes, kind)["status"] | counts

    # What commands read

    def owned(self, *labels: str) -> Ownership:
        """Return the objects of the task, as a command decides that selects by these labels."""
        chosen = labels or BY_ID

        def selected(items: dict[int, Json]) -> list[Json]:
            return [
                item
                for item in items.values()
                if all(item["metadata"]["labels"].get(label) == LABELS[label] for label in chosen)
            ]

        decided = ownership.decide(selected(self.jobs), selected(self.pods))
        return ownership.explained(decided, self.services)

    def snapshot(self) -> Snapshot:
        """Return what `doctor` reads."""
        (task,) = status.folded(self.owned(*WATCHED)).tasks
        objects = {"Job": tuple(self.jobs.values()), "Pod": tuple(self.pods.values())}
        return Snapshot(ID, "default", objects, {}, task)


EVENTS = (
    World.delete_job,
    *(partial(World.relabel_job, label=label) for label in REMOVABLE),
    *(partial(World.relabel_pod, label=label) for label in REMOVABLE[:3]),
    World.delete_pod,
    World.terminate,
    World.evict,
    World.fail,
    World.complete,
)
