"""Compute the status of tasks from their objects and pods."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from msgspec.structs import replace

from kubectl_sky.observe import ownership, reasons
from kubectl_sky.observe.deletion import NOT_DELETED, Deletion, deletion_of
from kubectl_sky.observe.documents import Task, TaskMetadata
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.mounts import BucketMount, Mount
from kubectl_sky.observe.nodes import (
    NodeStatus,
    State,
    container,
    find_rejecting,
    kept_by,
    lost,
    node,
    not_found,
    outlived_by,
    read_detailed_status_of_task,
    ready,
    retrying,
)
from kubectl_sky.observe.ownership import Missing, TaskObjects
from kubectl_sky.observe.reasons import (
    JOB_NOT_FOUND,
    NODE_LOST,
    RETRYING,
    TERMINATING,
    DetailedStatus,
)
from kubectl_sky.observe.requested import Requested, requested
from kubectl_sky.observe.uses import UsesRecord, read_uses
from kubectl_sky.plan.pipeline import PipelineMember, deferred_queueing, member_of
from kubectl_sky.spec.sweep import Sweep, read_sweep
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.documents import Part
from kubectl_sky.words.notice import Notice
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import (
    LATE,
    MEETS_NOBODY,
    STOPPED,
    Phase,
    PhaseDetails,
    Workload,
    condition,
)


class TaskStatus(Part, frozen=True, dict=True):
    """A task as the cluster shows it. Times are RFC 3339 in UTC, as in Kubernetes."""

    id: str
    name: str
    namespace: str
    user: str
    created_at: str
    updated_at: str
    nodes: tuple[NodeStatus, ...]
    num_nodes: int  # requested; more than `nodes` if the task is incomplete or nodes have expired
    labels: Mapping[str, str] = {}
    backend: str = names.DEFAULT_BACKEND
    member: PipelineMember | None = None  # its stage, if the file has several tasks
    uids: Mapping[str, str] = {}  # uids of its objects, by name
    missing: Missing = Missing.UNKNOWN  # why it has fewer `nodes` than requested, if it does
    recovers: bool = False  # whether nodes that the cluster takes away start again
    step_regex: str = ""  # which lines of its log are steps; empty: those of usual trainers
    on_hang: str = ""  # what is done when a node hangs, and after how long: `fail 10m`
    has_setup: bool = False  # whether its nodes run a setup script
    interactive: bool = False  # whether its nodes stay up until it is stopped
    logs: str = ""  # PVC:PATH, the folder to which nodes also write their logs
    requested: Requested = Requested()  # what each of its nodes requests
    buckets: tuple[BucketMount, ...] = ()  # with its pod template: not for records
    after: str = ""  # id and name of the task that must have succeeded before
    lost: str = ""  # why that can no longer succeed
    is_due: bool = False  # whether that has succeeded
    queueing: Mapping[str, str] = {}  # labels for its queue, to set when it is resumed
    silence: str = ""  # which of its running nodes has printed nothing for long
    causes: Mapping[str, str] = {}  # what the reasons of nodes mean, in the words of doctor
    deletion: Deletion = NOT_DELETED  # since when it is being deleted, and what that waits for
    notices: Mapping[str, Notice] = {}  # the same, for those who may not read logs
    files: Mapping[str, str] = {}  # its local files, by target path: how many, and their hash
    revisions: Mapping[str, str] = {}  # the git commits of these
    sweep: Sweep | None = None  # the values of its indexes, if it is an array with a sweep
    goodput: UsesRecord | None = None  # what its time went into, recorded when it had ended

    def __repr__(self) -> str:
        """Return what a Python shell shows, on one line."""
        note = f", {self.note}" if self.note else ""
        nodes = f"{self.ready}/{self.num_nodes} nodes"
        return f"<TaskStatus {self.id} ({self.name}): {self.state}, {nodes}{note}>"

    def identity(self, name: str) -> dict[str, str]:
        """Return the name, namespace and uid of an object that runs the task."""
        return {"name": name, "namespace": self.namespace, "uid": self.uids[name]}

    @cached_property
    def state(self) -> State:
        """The state of the task, from the states of its nodes.

        Failed if any node failed, completed if all completed, running if any node has started. If
        the nodes are independent, the task is failed only when all have finished.
        """
        states = [node.state for node in self.nodes]
        if State.FAILED in states:
            return (
                State.FAILED if self.over or not self.workload.independent_nodes else State.RUNNING
            )
        if not self.incomplete and all(state is State.COMPLETED for state in states):
            return State.COMPLETED
        if State.RUNNING in states or State.COMPLETED in states:
            return State.RUNNING
        return State.PENDING

    @property
    def detailed_status(self) -> DetailedStatus:
        """The state, or a more specific word such as queued."""
        return read_detailed_status_of_task(self.state, self.nodes, self.first_failure)

    @property
    def workload(self) -> Workload:
        return registry.find(self.backend)

    def title(self, rank: int) -> str:
        """Return the display name of a node."""
        return _title(self.workload, self.sweep, rank)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of its file; those of a sweep have all values, separated by commas."""
        swept = self.sweep.variables if self.sweep else {}
        return {**self.requested.envs, **{name: ",".join(swept[name]) for name in swept}}

    def position(self) -> tuple[str, str, str]:
        """Return the position in lists, which are newest first; no two tasks have the same."""
        return self.created_at, self.id, self.namespace

    @property
    def over(self) -> bool:
        """Whether every node has finished; other nodes of a failed task may still run."""
        return all(node.state.ended for node in self.nodes)

    @property
    def finished(self) -> bool:
        """Whether the task has ended with all its nodes: nothing changes any more."""
        return self.over and self.state.ended

    @property
    def surviving_jobs(self) -> tuple[str, ...]:
        """The objects of nodes that still run after a failure and that the cluster does not stop.

        Objects that are already being stopped are left out.
        """
        failed = self.first_failure
        backend = self.workload
        if failed is None or backend.fail_fast or not backend.stopping(failed.name):
            return ()
        nodes = [
            node
            for node in self.nodes
            if not node.stopped_for and (not node.state.ended or node.reason == MEETS_NOBODY)
        ]
        return tuple(dict.fromkeys(node.job for node in nodes))

    @property
    def stopping(self) -> bool:
        """Whether the remaining nodes are being stopped after a failure."""
        failed = self.first_failure
        backend = self.workload
        if failed is None or backend.fail_fast:
            return failed is not None
        return bool(backend.stopping(failed.name)) and not (self.over or self.surviving_jobs)

    @property
    def kept(self) -> tuple[NodeStatus, ...]:
        """The nodes whose pods other containers keep after `main` has ended."""
        return tuple(node for node in self.nodes if node.kept_by)

    @property
    def held(self) -> tuple[NodeStatus, ...]:
        """The nodes whose containers have failed and are held, the last one to end first."""
        held = (node for node in self.nodes if node.held_until)
        return tuple(sorted(held, key=lambda node: node.held_until, reverse=True))

    def state_at(self, now: datetime) -> str:
        """Return the state, and how long the task is being deleted, held or in setup."""
        if since := age.parse(self.deletion.since):
            return f"{self.state} (deleting {age.duration(now - since)})"
        until = age.parse(self.held[0].held_until) if self.held else None
        if until:
            return f"{self.state} (held {age.duration(until - now)})"
        since = self._in_setup_since
        return f"{self.state} (setup {age.duration(now - since)})" if since else str(self.state)

    @property
    def _in_setup_since(self) -> datetime | None:
        """Since when nodes are in setup, if no node has come further."""
        started = [node for node in self.nodes if node.state is not State.PENDING]
        begins = [age.parse(node.setup_since) for node in started]
        return min(filter(None, begins), default=None) if all(begins) else None

    @property
    def suspended(self) -> bool:
        """Whether a node is suspended, as in a later stage of a pipeline."""
        waiting = [node for node in self.nodes if node.state is State.PENDING and not node.pod]
        return any(node.reason == "Suspended" for node in waiting)

    @property
    def predecessor(self) -> str:
        """The name and id of the task that a suspended one waits for; empty without one."""
        task_id, _, name = self.after.partition(" ")
        return f"{name} ({task_id})" if self.after and self.suspended else ""

    @property
    def predecessor_id(self) -> str:
        """The id of the task or pipeline that a suspended task waits for; empty without one."""
        return self.after.split()[0] if self.predecessor else ""

    @property
    def incomplete(self) -> bool:
        """Whether nodes are missing, and it is not known that they have run."""
        return len(self.nodes) < self.num_nodes and self.missing is not Missing.EXPIRED

    @property
    def mounts(self) -> Sequence[Mount]:
        """Where its nodes have volumes and buckets."""
        return (*self.requested.mounts, *self.buckets)

    @property
    def results(self) -> Mount | None:
        """The first volume or bucket that it could write to."""
        return next((mount for mount in self.mounts if not mount.read_only), None)

    @property
    def results_step(self) -> str:
        """How to copy what it has written to a volume or bucket; empty without one."""
        if not self.results:
            return ""
        return shlex.join(["kubectl", "sky", "cp", f"{self.id}:{self.results.path}", "."])

    @property
    def submitted_id(self) -> str:
        """The id for submit and wait: that of the pipeline or group, if there is one."""
        return self.member.id if self.member else self.id

    @property
    def next_step(self) -> str:
        """How to go on with a due, incomplete, held or interactive task; empty for others."""
        if self.deletion.since:
            return ""
        if self.is_due and not self.incomplete:
            return f"kubectl sky wait {self.submitted_id} --continue"
        if held := next(iter(self.held), None):
            rank = f" --rank {held.index}" if held.index else ""
            return f"kubectl sky exec {self.id}{rank} -it -- bash"
        if not self.incomplete:
            running = self.interactive and self.state is State.RUNNING
            return f"kubectl sky exec {self.id} -it -- bash" if running else ""
        if self.missing is not Missing.NOT_SUBMITTED:  # a Job without labels is not sent again
            return f"run `kubectl sky stop {self.id}`, then submit it again"
        stop = f"kubectl sky stop {self.id}"
        return f"submit it again with --id {self.submitted_id}, or run `{stop}`"

    @property
    def awaits_files(self) -> bool:
        """Whether a node waits until a client has uploaded its local files."""
        return any(node.awaits_files for node in self.nodes)

    def count(self, state: State) -> int:
        """Return how many nodes are in a state; those that have expired were completed."""
        missing = self.num_nodes - len(self.nodes)
        expired = missing if state is State.COMPLETED and not self.incomplete else 0
        return sum(node.state is state for node in self.nodes) + expired

    @property
    def ready(self) -> int:
        """How many nodes run or have completed; of independent nodes, how many have completed."""
        completed = self.count(State.COMPLETED)
        return (
            completed if self.workload.independent_nodes else completed + self.count(State.RUNNING)
        )

    @property
    def restarts(self) -> int:
        """The number of node restarts; counts once if all nodes restart together."""
        counts = [node.restarts for node in self.nodes]
        return max(counts) if self.workload.restarts_all_nodes else sum(counts)

    @property
    def first_failure(self) -> NodeStatus | None:
        """The node that failed first.

        A node whose Job is not found comes before all others: it may have caused their failures.
        Nodes without an end time come later, and nodes stopped for another failure come last. Of
        nodes that failed in the same second, one that a client was stopping was not the first. Of
        nodes that ended alike, it is the one that the client reported when it stopped the others.
        """
        failed = [node for node in self.nodes if node.state is State.FAILED]
        first = min(
            failed,
            key=lambda node: (
                node.reason != JOB_NOT_FOUND,
                node.reason == STOPPED,
                not node.ended_at,
                node.ended_at,
                bool(node.stopped_for),
                node.index,
            ),
            default=None,
        )

        reported = (
            node
            for node in failed
            if first and node.name == first.stopped_for and node.end == first.end
        )
        return next(reported, first)

    @property
    def goodput_percent(self) -> float | None:
        """How much of its time went into new steps; None if that is not recorded."""
        return round(self.goodput.percent, 1) if self.goodput else None

    @property
    def document(self) -> Task:
        member = self.member
        pipeline = member.id if member else ""
        pipeline_name = member.title if member else None
        stage = member.stage if member else None

        metadata = TaskMetadata(
            detailed_status=self.detailed_status,
            job_name=self.nodes[0].job,
            namespace=self.namespace,
            backend=self.backend,
            num_nodes=self.num_nodes,
            image=self.requested.image,
            resources=self.requested.resources,
            node_jobs=[node.job for node in self.nodes],
            succeeded_nodes=self.count(State.COMPLETED),
            failed_nodes=self.count(State.FAILED),
            running_nodes=self.count(State.RUNNING),
            pending_nodes=self.count(State.PENDING),
            restarts=self.restarts,
            note=plain(self.note),
            nodes=[node.document for node in self.nodes],
            logs=self.logs,
            envs=self.variables,
            files=self.files,
            revisions=self.revisions,
            volumes=self.requested.mounts,
            goodput_percent=self.goodput_percent,
            pipeline=pipeline,
            pipeline_name=pipeline_name,
            stage=stage,
            labels={
                key: text
                for key, text in self.labels.items()
                if not names.is_ours(key) and key not in names.COMMON
            },
        )

        return Task(
            task_id=self.id,
            name=self.name,
            status=self.state,
            created_at=self.created_at,
            updated_at=self.updated_at,
            username=self.user,
            metadata=metadata,
        )

    @property
    def note(self) -> str:
        """A short explanation of the state: why the task is pending or failed, or is deleted."""
        parts = (str(self.deletion), self._cause, self.silence, self.kept_note, self._held_note)
        return "; ".join(filter(None, parts))

    @property
    def _held_note(self) -> str:
        """What held containers keep; empty for none."""
        if not self.held:
            return ""
        devices = self.requested.resources.accelerators
        subject = f"{len(self.held)} containers are" if self.held[1:] else "the container is"
        keeps = f", with {devices}{' each' if self.held[1:] else ''}" if devices else ""
        return f"{subject} held until {self.held[0].held_until}{keeps}"

    @property
    def kept_note(self) -> str:
        """Which containers keep pods although `main` has ended; empty for none."""
        containers = sorted({name for node in self.kept for name in node.kept_by.split(", ")})
        if not containers:
            return ""
        subject = "containers {} keep" if containers[1:] else "container {} keeps"
        pods = f"{len(self.kept)} pods" if self.kept[1:] else "the pod"
        return f"{subject.format(', '.join(containers))} {pods}"

    @property
    def _cause(self) -> str:
        failure = self.first_failure
        if failure and failure.reason == STOPPED and not failure.pod:
            why = self.causes.get(STOPPED) or failure.message  # it is not known which node failed
            return f"pods deleted: {why}" if why else "pods deleted"

        if failure:
            failed_count = f"{self.count(State.FAILED)} of {self.num_nodes} failed, first "
            prefix = failed_count if self.workload.independent_nodes else ""
            cause = f": {text}" if (text := self.causes.get(failure.reason)) else ""
            together = self.workload.restarts_all_nodes
            restarts = _count_restarts(self.restarts if together else failure.restarts)
            after = f" after {restarts}" if restarts else ""
            return f"{prefix}{failure.name}: {failure.end}{after}{cause}"

        if self.incomplete and not self.deletion.since:
            word = "submitted" if self.missing is Missing.NOT_SUBMITTED else "found"
            return f"incomplete: {len(self.nodes)} of {self.num_nodes} nodes {word}"

        waiting = sorted(self._waiting, key=lambda node: node.awaits_nodes)
        lacking = next((item for item in waiting if item.awaits_files), None)
        if lacking:
            waits = f"{lacking.name}: waits for files"
            return "; ".join(filter(None, (waits, lacking.message)))
        if not waiting:
            return _count_restarts(self.restarts)

        return self._suspension or f"{waiting[0].name}: {self.reason(waiting[0])}"

    @property
    def _suspension(self) -> str:
        """What resumes the task; empty if it is not suspended."""
        if self.predecessor and self.lost:
            return f"it does not start: {self.lost}"
        if self.predecessor and self.is_due:
            return f"suspended, although {self.predecessor} has succeeded"
        if self.predecessor:
            return f"suspended until {self.predecessor} has succeeded"
        if self.member and self.member.suspended and self.suspended:
            return f"suspended; resumed after stage {self.member.stage - 1}"
        return ""

    @property
    def _waiting(self) -> list[NodeStatus]:
        """The nodes that wait for something that the deletion of the task does not say."""
        said = ("", TERMINATING) if self.deletion.since else ("",)
        return [
            node
            for node in self.nodes
            if node.reason not in said
            and (node.state is State.PENDING or reasons.find(node.reason).is_told)
        ]

    def reason(self, node: NodeStatus) -> str:
        """Return why a node does not run, in the words of doctor if they are known."""
        if node.reason == MEETS_NOBODY:
            return node.message
        if node.awaits_nodes:
            return f"waits to meet {node.message or 'the other nodes'}"
        if node.reason == RETRYING:
            cause = f": {text}" if (text := self.causes.get(RETRYING)) else ""
            return f"{node.message}{cause}"
        is_silent = node.reason in (NODE_LOST, TERMINATING) and node.message
        silent = f": {node.message}" if is_silent else ""
        return self.causes.get(node.reason) or f"{node.reason}{silent}"


def _count_restarts(count: int) -> str:
    """Return `2 restarts`; empty without restarts."""
    return f"{count} restart{'s' if count > 1 else ''}" if count else ""


def tasks(items: Iterable[TaskObject], pods: Iterable[Pod]) -> list[TaskStatus]:
    return fold(ownership.decide(items, pods))


def fold(tasks: Iterable[TaskObjects]) -> list[TaskStatus]:
    return sorted(map(of, tasks), key=TaskStatus.position, reverse=True)


def of(task: TaskObjects) -> TaskStatus:
    items = task.items
    pods = task.all_pods
    backend = registry.of(items[0])
    metadata = items[0].metadata
    sweep = _sweep(items[0])
    deletion = deletion_of(items, pods, lambda pod: _title(backend, sweep, backend.rank(pod)))

    nodes = tuple(_without_stop(node, deletion.since) for node in _nodes(task))
    if len(nodes) > 1 and not (backend.independent_nodes or backend.restarts_all_nodes):
        nodes = _find_late(nodes, bool(backend.stopping(nodes[0].name)))
    if task.missing is Missing.DELETED and not deletion.since:
        stem = metadata.name.rpartition("-node-")[0]
        lost = [
            not_found(NodeStatus(rank, backend.title(rank), f"{stem}-node-{rank}"))
            for rank in task.absent
        ]
        nodes = tuple(sorted((*nodes, *lost), key=lambda node: node.index))

    labels = metadata.labels
    annotations = metadata.annotations
    limit = annotations.get(names.MAX_DURATION)
    causes = {LATE: Notice(f"it ran longer than max_duration {limit}")} if limit else {}
    requests, buckets = requested(items[0])

    return TaskStatus(
        id=labels.get(names.TASK_ID, ""),
        name=name_of(items[0]),
        namespace=metadata.namespace,
        user=user_of(items[0]),
        created_at=min(item.metadata.creation_timestamp for item in items),
        updated_at=max(_times(items, pods)),
        nodes=tuple(replace(node, message=causes.get(node.reason, node.message)) for node in nodes),
        num_nodes=task.num_nodes,
        labels=labels,
        backend=backend.name,
        member=member_of(labels, annotations),
        uids={item.metadata.name: item.metadata.uid for item in items},
        missing=task.missing,
        recovers=backend.recovers(items[0]),
        step_regex=annotations.get(names.STEP_REGEX, ""),
        on_hang=annotations.get(names.ON_HANG, ""),
        has_setup=names.SETUP in annotations,
        interactive=names.INTERACTIVE in annotations,
        logs=annotations.get(names.LOGS, ""),
        requested=requests,
        buckets=buckets,
        after=annotations.get(names.AFTER, ""),
        queueing=deferred_queueing(annotations),
        causes=causes,
        deletion=deletion,
        notices=causes,
        files=_by_path(annotations.get(names.LOCAL_FILES, "")),
        revisions=_by_path(annotations.get(names.REVISION, "")),
        sweep=sweep,
        goodput=read_uses(annotations.get(names.GOODPUT, "")),
    )


def _by_path(text: str) -> dict[str, str]:
    """Return the lines of an annotation about local files."""
    parts = (line.partition(": ") for line in text.splitlines())
    return {path: about for path, _, about in parts if about}


def _sweep(item: Object) -> Sweep | None:
    return read_sweep(item.metadata.annotations.get(names.SWEEP, ""))


def _title(backend: Workload, sweep: Sweep | None, rank: int) -> str:
    return sweep.title(rank) if sweep else backend.title(rank)


def _without_stop(node: NodeStatus, since: str) -> NodeStatus:
    """Return a node that ended because its task is being deleted as one that is still stopping."""
    if not since or node.state is not State.FAILED or node.ended_at < since:
        return node
    return replace(node, state=State.RUNNING, reason=TERMINATING, exit_code=None, ended_at="")


def _find_late(nodes: tuple[NodeStatus, ...], may_stop: bool) -> tuple[NodeStatus, ...]:
    """Return the nodes; those that wait at the start for one that has completed have that reason.

    A node that starts again meets all others before its program runs. It has failed if its startup
    probe says that it waits, and if a client may stop it.
    """
    ended = [node for node in nodes if node.state is State.COMPLETED and node.ended_at]
    first = min(ended, key=lambda node: node.ended_at, default=None)
    if first is None:
        return nodes
    message = f"waits for {first.name}, which has completed"

    def mark(node: NodeStatus) -> NodeStatus:
        runs = node.state is State.RUNNING and node.exit_code is None and not node.reason
        if node.started_at <= first.ended_at or not (runs or node.awaits_nodes):
            return node
        state = State.FAILED if node.awaits_nodes and may_stop else State.RUNNING
        return replace(node, state=state, reason=MEETS_NOBODY, message=message)

    return tuple(map(mark, nodes))


def name_of(item: Object) -> str:
    return _original(item, names.ORIGINAL_NAME, names.TASK_NAME)


def user_of(item: Object) -> str:
    return _original(item, names.ORIGINAL_USER, names.USERNAME)


def _original(item: Object, annotation: str, label: str) -> str:
    metadata = item.metadata
    text = metadata.annotations.get(annotation)
    return text or metadata.labels.get(label, "")


def _nodes(task: TaskObjects) -> tuple[NodeStatus, ...]:
    entries = []
    for item in task.items:
        backend = registry.of(item)
        ranks = backend.ranks(item)
        pods_of: dict[int, list[Pod]] = defaultdict(list)
        for pod in task.pods.get(item.metadata.uid, ()):
            pods_of[ranks[0] if len(ranks) == 1 else backend.rank(pod)].append(pod)
        entries += [(rank, item, pods_of[rank]) for rank in ranks]
    entries.sort(key=lambda node: node[0])
    return tuple(_node(registry.of(item), item, rank, pods) for rank, item, pods in entries)


def _node(backend: Workload, item: TaskObject, rank: int, pods: list[Pod]) -> NodeStatus:
    pods = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)
    annotations = item.metadata.annotations
    sweep = _sweep(item)
    values = sweep.values(rank) if sweep else {}
    base = NodeStatus(
        index=rank,
        name=_title(backend, sweep, rank),
        job=item.metadata.name,
        restarts=max(len(pods), backend.attempts(item), 1) - 1,
        stopped_for=annotations.get(names.STOPPED_FOR, ""),
        leaving=annotations.get(names.LEAVES, ""),
        sweep=values,
    )
    verdict = backend.node(item, rank)
    # When `main` of all nodes had succeeded, before their pods were ended for others.
    if ended := annotations.get(names.MAIN_ENDED):
        verdict = PhaseDetails(Phase.COMPLETED, at=ended)
    status = node(base, verdict, pods)
    # Such a Job is marked as failed when the last of its pods is gone, which may be never.
    if status.lost_since and status.reason == TERMINATING and condition(item, "FailureTarget"):
        return lost(status, pods[-1])
    if pods and outlived_by(pods[-1]):
        return _outlived(backend, item, replace(status, kept_by=kept_by(pods[-1])), pods)
    ready_pods = item.status.ready
    if not pods and not status.state.ended and ready_pods:
        if item.spec.managed_by == names.MULTIKUEUE:
            all_run = ready_pods >= len(backend.ranks(item))
            status = replace(status, state=State.RUNNING) if all_run else status
        elif len(backend.ranks(item)) == 1:
            status = ready(status)
    if status.state.ended or not backend.will_retry(item, pods):
        return status
    return replace(retrying(status), rejected_by=_find_rejecting(backend, item, pods))


def _find_rejecting(backend: Workload, item: TaskObject, pods: Sequence[Pod]) -> str:
    """Return the cluster node that rejects the pods of a Job that can be moved.

    One of several nodes, or one that a queue suspends and resumes, cannot.
    """
    is_alone = backend.kind is kinds.JOB and len(backend.ranks(item)) == 1
    is_queued = names.QUEUE in item.metadata.labels
    return find_rejecting(pods) if is_alone and not is_queued else ""


def _outlived(
    backend: Workload, item: TaskObject, status: NodeStatus, pods: list[Pod]
) -> NodeStatus:
    """Return a node whose `main` ended before other containers: it has ended, unless retried."""
    if status.state.ended:
        return status
    if status.exit_code == 0:
        return replace(status, state=State.COMPLETED)
    failed = replace(pods[-1], status=replace(pods[-1].status, phase="Failed"))
    may_restart = backend.restarts_all_nodes and (
        backend.node(item, status.index).phase is not Phase.PODS
    )
    if may_restart or backend.will_retry(item, [*pods[:-1], failed]):
        return status
    return replace(status, state=State.FAILED)


def _times(items: Sequence[TaskObject], pods: Sequence[Pod]) -> list[str]:
    """Return all times of known changes; RFC 3339 in UTC sorts as text."""
    times: list[str] = []
    for item in items:
        status = item.status
        times += [item.metadata.creation_timestamp, status.start_time or ""]
        times += [condition.last_transition_time or "" for condition in status.conditions]

    for pod in pods:
        times += [condition.last_transition_time or "" for condition in pod.status.conditions]
        state = container(pod).state
        if state.running:
            times.append(state.running.started_at or "")
        if state.terminated:
            times += [state.terminated.started_at or "", state.terminated.finished_at or ""]
    return times
