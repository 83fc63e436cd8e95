"""The status of tasks, folded from their Jobs and pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubectl_sky import names
from kubectl_sky.observe.nodes import NodeStatus, Object, State, container, index_of, node


@dataclass(frozen=True)
class TaskStatus:
    """A task as the cluster shows it. Times are RFC 3339 in UTC, as Kubernetes writes them."""

    id: str
    name: str
    namespace: str
    user: str
    created_at: str
    updated_at: str
    nodes: tuple[NodeStatus, ...]
    num_nodes: int  # what the task asked for; more than `nodes` when a submit was cut short
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """Failed when any node failed, completed when all succeeded, running when one has begun."""
        states = [node.state for node in self.nodes]
        if State.FAILED in states:
            return State.FAILED
        if len(states) >= self.num_nodes and all(state is State.COMPLETED for state in states):
            return State.COMPLETED
        if State.RUNNING in states or State.COMPLETED in states:
            return State.RUNNING
        return State.PENDING

    @property
    def over(self) -> bool:
        """Whether every node has ended; a task may be failed while other nodes still run."""
        return all(node.state.ended for node in self.nodes)

    def count(self, state: State) -> int:
        """Return how many nodes are in a state."""
        return sum(node.state is state for node in self.nodes)

    @property
    def first_failure(self) -> NodeStatus | None:
        """Return the node that failed first; nodes without a known time come last."""
        failed = [node for node in self.nodes if node.state is State.FAILED]
        return min(
            failed, key=lambda node: (not node.ended_at, node.ended_at, node.index), default=None
        )

    def as_json(self) -> dict[str, object]:
        """The task for programs, in the seed's shape with the nodes beside it."""
        return {
            "task_id": self.id,
            "name": self.name,
            "status": str(self.state),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "username": self.user,
            "metadata": {
                "job_name": self.nodes[0].job,
                "namespace": self.namespace,
                "num_nodes": self.num_nodes,
                "node_jobs": [node.job for node in self.nodes],
                "succeeded_nodes": self.count(State.COMPLETED),
                "failed_nodes": self.count(State.FAILED),
                "running_nodes": self.count(State.RUNNING),
                "pending_nodes": self.count(State.PENDING),
                "note": self.note,
                "nodes": [node.as_json() for node in self.nodes],
            },
        }

    @property
    def note(self) -> str:
        """What a person should know beside the state: why it waits, how it failed."""
        failure = self.first_failure
        if failure:
            code = "" if failure.exit_code is None else f" (exit code {failure.exit_code})"
            return f"node-{failure.index}: {failure.reason}{code}"
        if len(self.nodes) < self.num_nodes:
            return f"incomplete: {len(self.nodes)} of {self.num_nodes} nodes were submitted"
        waiting = [node for node in self.nodes if node.state is State.PENDING and node.reason]
        return f"node-{waiting[0].index}: {waiting[0].reason}" if waiting else ""


def tasks(jobs: Iterable[Object], pods: Iterable[Object]) -> list[TaskStatus]:
    """Fold Jobs and pods of any number of tasks, newest first."""
    pods_of: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for pod in pods:
        pods_of[_key(pod)].append(pod)
    jobs_of: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for job in jobs:
        jobs_of[_key(job)[:2]].append(job)
    folded = [_task(members, pods_of) for members in jobs_of.values()]
    return sorted(folded, key=lambda task: (task.created_at, task.id), reverse=True)


def _key(item: Object) -> tuple[str, str, str]:
    metadata = item["metadata"]
    labels = metadata.get("labels", {})
    return (
        metadata.get("namespace", ""),
        labels.get(names.TASK_ID, ""),
        labels.get(names.NODE_IDX, ""),
    )


def _task(jobs: list[Object], pods_of: Mapping[tuple[str, str, str], list[Object]]) -> TaskStatus:
    jobs = sorted(jobs, key=index_of)
    metadata = jobs[0]["metadata"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    found = [(job, pods_of.get(_key(job), [])) for job in jobs]
    asked = annotations.get(names.NUM_NODES, "")
    return TaskStatus(
        id=labels.get(names.TASK_ID, ""),
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.TASK_NAME, ""),
        namespace=metadata.get("namespace", ""),
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        created_at=min(job["metadata"].get("creationTimestamp", "") for job in jobs),
        updated_at=max(time for job, pods in found for time in _times(job, pods)),
        nodes=tuple(node(job, pods) for job, pods in found),
        num_nodes=int(asked) if asked.isdecimal() else len(jobs),
        labels=labels,
    )


def _times(job: Object, pods: list[Object]) -> list[str]:
    """Every time at which something is known to have happened; RFC 3339 in UTC sorts as text."""
    status = job.get("status", {})
    times = [job["metadata"].get("creationTimestamp", ""), status.get("startTime", "")]
    times += [item.get("lastTransitionTime") or "" for item in status.get("conditions", ())]
    for pod in pods:
        times += [
            item.get("lastTransitionTime") or ""
            for item in pod.get("status", {}).get("conditions", ())
        ]
        for state in container(pod).get("state", {}).values():
            times += [state.get("startedAt") or "", state.get("finishedAt") or ""]
    return times
