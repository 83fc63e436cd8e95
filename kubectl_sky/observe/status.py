"""The status of tasks, folded from their objects and pods."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kubectl_sky import counts, names
from kubectl_sky.observe import ownership
from kubectl_sky.observe.jobstatus import JobStatus, of_node, of_task
from kubectl_sky.observe.nodes import NodeStatus, Object, State, container, node, retrying
from kubectl_sky.observe.ownership import Ownership, TaskObjects
from kubectl_sky.plan.pipeline import Member, member_of
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import STOPPED, Workload


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
    backend: str = names.DEFAULT_BACKEND
    member: Member | None = None  # its place, where it is one of several tasks of a file
    uids: Mapping[str, str] = field(default_factory=dict)  # of the objects that run it, by name
    rivals: tuple[str, ...] = ()  # objects of which nothing tells whether they are the task

    def identity(self, name: str) -> dict[str, str]:
        """Return name, namespace and uid of an object that runs the task."""
        return {"name": name, "namespace": self.namespace, "uid": self.uids[name]}

    @cached_property
    def state(self) -> State:
        """Failed when any node failed, completed when all succeeded, running when one has begun.

        Where nodes are tasks of their own, failed only when all have ended.
        """
        states = [node.state for node in self.nodes]
        if State.FAILED in states:
            return State.FAILED if self.over or not self.workload.apart else State.RUNNING
        if len(states) >= self.num_nodes and all(state is State.COMPLETED for state in states):
            return State.COMPLETED
        if State.RUNNING in states or State.COMPLETED in states:
            return State.RUNNING
        return State.PENDING

    @property
    def job_status(self) -> JobStatus:
        """The state in SkyPilot's words."""
        return of_task(self.state, self.nodes, self.first_failure)

    @property
    def workload(self) -> Workload:
        """The backend that runs it."""
        return registry.named(self.backend)

    @property
    def over(self) -> bool:
        """Whether every node has ended; a task may be failed while other nodes still run."""
        return all(node.state.ended for node in self.nodes)

    @property
    def held(self) -> bool:
        """Whether it waits for somebody to let it begin, as a later stage of a pipeline does."""
        waiting = [node for node in self.nodes if node.state is State.PENDING and not node.pod]
        return any(node.reason == "Suspended" for node in waiting)

    def count(self, state: State) -> int:
        """Return how many nodes are in a state."""
        return sum(node.state is state for node in self.nodes)

    @property
    def restarts(self) -> int:
        """Return how often nodes have started again; once for all where all do together."""
        counts = [node.restarts for node in self.nodes]
        return max(counts) if self.workload.again_together else sum(counts)

    @property
    def first_failure(self) -> NodeStatus | None:
        """Return the node that failed first; those stopped for it and without a time come last."""
        failed = [node for node in self.nodes if node.state is State.FAILED]
        return min(
            failed,
            key=lambda node: (
                node.reason == STOPPED,
                not node.ended_at,
                node.ended_at,
                node.index,
            ),
            default=None,
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
                "job_status": str(self.job_status),
                "job_name": self.nodes[0].job,
                "namespace": self.namespace,
                "backend": self.backend,
                "num_nodes": self.num_nodes,
                "node_jobs": [node.job for node in self.nodes],
                "succeeded_nodes": self.count(State.COMPLETED),
                "failed_nodes": self.count(State.FAILED),
                "running_nodes": self.count(State.RUNNING),
                "pending_nodes": self.count(State.PENDING),
                "restarts": self.restarts,
                "note": self.note,
                "nodes": [
                    node.as_json() | {"job_status": str(of_node(node))} for node in self.nodes
                ],
            }
            | self._place(),
        }

    def _place(self) -> dict[str, object]:
        member = self.member
        if member is None:
            return {}
        return {"pipeline": member.id, "pipeline_name": member.title, "stage": member.stage}

    @property
    def note(self) -> str:
        """What a person should know beside the state: why it waits, how it failed."""
        failure = self.first_failure
        if failure:
            code = "" if failure.exit_code is None else f" (exit code {failure.exit_code})"
            many = f"{self.count(State.FAILED)} of {self.num_nodes} failed, first "
            first = many if self.workload.apart else ""
            return f"{first}{failure.name}: {failure.reason}{code}{self._again(' after ')}"
        if len(self.nodes) < self.num_nodes:
            return f"incomplete: {len(self.nodes)} of {self.num_nodes} nodes were submitted"
        waiting = [node for node in self.nodes if node.state is State.PENDING and node.reason]
        return f"{waiting[0].name}: {waiting[0].reason}" if waiting else self._again()

    def _again(self, before: str = "") -> str:
        """`2 restarts`; nothing where there were none."""
        many = "s" if self.restarts > 1 else ""
        return f"{before}{self.restarts} restart{many}" if self.restarts else ""


@dataclass(frozen=True)
class Folded:
    """Tasks, newest first, and what only claims to belong to them."""

    tasks: list[TaskStatus]
    ignored: tuple[str, ...]


def tasks(items: Iterable[Object], pods: Iterable[Object]) -> list[TaskStatus]:
    """Fold the objects and pods of any number of tasks, newest first."""
    return folded(ownership.decide(items, pods)).tasks


def folded(owned: Ownership) -> Folded:
    """Fold what belongs to tasks."""
    return Folded(newest(map(of, owned.tasks)), owned.ignored)


def newest(tasks: Iterable[TaskStatus]) -> list[TaskStatus]:
    """Return tasks in order, the newest first."""
    return sorted(tasks, key=lambda task: (task.created_at, task.id), reverse=True)


def of(task: TaskObjects) -> TaskStatus:
    """Fold the objects and pods of one task."""
    items, pods = task.items, task.all_pods
    backend = registry.of(items[0])
    nodes = _nodes(backend, task)
    metadata = items[0]["metadata"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    return TaskStatus(
        id=labels.get(names.TASK_ID, ""),
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.TASK_NAME, ""),
        namespace=metadata.get("namespace", ""),
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        created_at=min(item["metadata"].get("creationTimestamp", "") for item in items),
        updated_at=max(_times(items, pods)),
        nodes=nodes,
        num_nodes=max(counts.whole(annotations.get(names.NUM_NODES)), len(nodes)),
        labels=labels,
        backend=backend.name,
        member=member_of(metadata),
        uids={item["metadata"]["name"]: item["metadata"].get("uid", "") for item in items},
        rivals=task.rivals,
    )


def _nodes(backend: Workload, task: TaskObjects) -> tuple[NodeStatus, ...]:
    """The nodes of a task's objects, in the order of their ranks."""
    found = []
    for item in task.items:
        ranks = backend.ranks(item)
        pods_of: dict[int, list[Object]] = defaultdict(list)
        for pod in task.pods.get(item["metadata"].get("uid", ""), ()):
            pods_of[ranks[0] if len(ranks) == 1 else backend.rank(pod)].append(pod)
        found += [(rank, item, pods_of[rank]) for rank in ranks]
    found.sort(key=lambda node: node[0])
    return tuple(_node(backend, item, rank, pods) for rank, item, pods in found)


def _node(backend: Workload, item: Object, rank: int, pods: list[Object]) -> NodeStatus:
    pods = _in_turn(sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))))
    base = NodeStatus(
        index=rank,
        name=backend.title(rank),
        job=item["metadata"]["name"],
        restarts=max(len(pods), backend.attempts(item), 1) - 1,
    )
    seen = node(base, backend.node(item, rank), pods)
    return retrying(seen) if not seen.state.ended and backend.follows(item, pods) else seen


def _in_turn(pods: list[Object]) -> list[Object]:
    """Return the pods up to the first that runs or succeeded: no controller makes another then."""
    for at, pod in enumerate(pods, 1):
        failed = pod.get("status", {}).get("phase") == "Failed"
        if not failed and not pod["metadata"].get("deletionTimestamp"):
            return pods[:at]
    return pods


def _times(items: Sequence[Object], pods: Sequence[Object]) -> list[str]:
    """Every time at which something is known to have happened; RFC 3339 in UTC sorts as text."""
    times: list[str] = []
    for item in items:
        status = item.get("status", {})
        times += [item["metadata"].get("creationTimestamp", ""), status.get("startTime", "")]
        times += [found.get("lastTransitionTime") or "" for found in status.get("conditions", ())]
    for pod in pods:
        times += [
            found.get("lastTransitionTime") or ""
            for found in pod.get("status", {}).get("conditions", ())
        ]
        for state in container(pod).get("state", {}).values():
            times += [state.get("startedAt") or "", state.get("finishedAt") or ""]
    return times
