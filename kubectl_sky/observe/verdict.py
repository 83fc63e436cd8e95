"""Diagnose a task: how far it has come, and what stops it."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec.structs import replace

from kubectl_sky.observe import queues, record
from kubectl_sky.observe.explain import (
    Surroundings,
    explain,
    find_latest,
    pods_by_key,
    read_topologies,
)
from kubectl_sky.observe.findings import BEING_DELETED, Cause, Stage, diagnose
from kubectl_sky.observe.findings import Diagnosis as DiagnosisDocument
from kubectl_sky.observe.hangs import describe_look
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import SignalSource, TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds
from kubectl_sky.words.documents import Part
from kubectl_sky.words.notice import Notice
from kubectl_sky.workloads.workload import STOPPED

_WORDLESS = (  # sources that quote the cluster, and no program
    SignalSource.WORKLOAD,
    SignalSource.WORKLOAD_EVENT,
    SignalSource.SCHEDULER,
    SignalSource.CLAIM,
    SignalSource.BARRIER,
    SignalSource.QUEUE,
    SignalSource.GANG,
)


class StageResult(StrEnum):
    """The result of one stage."""

    PASSED = "ok"
    PROBLEM = "problem"
    AHEAD = "not reached"


class Diagnosis(Part, frozen=True):
    """The result of each stage, and what is wrong."""

    task: TaskStatus
    stages: tuple[tuple[Stage, StageResult], ...]
    findings: tuple[Cause, ...]  # in stage order
    unread: tuple[str, ...]  # kinds that the user may not read: their problems are not detected
    ranks: tuple[RankActivity, ...] = ()  # nodes of a running task, if several
    looked: str = ""  # what was seen of these, if none hangs

    def __repr__(self) -> str:
        """Return what a Python shell shows, on one line."""
        return f"<Diagnosis {self.headline}>"

    @property
    def cause(self) -> Cause | None:
        """The first finding; in a failed task, that of the node that failed first, if known.

        That the task is being deleted comes first, unless it has failed.
        """
        node = self.task.first_failure
        failed = self.task.state is State.FAILED
        for it in sorted(self.findings, key=lambda it: (it.rule == BEING_DELETED) is failed):
            if not node or not it.ranks or node.index in it.ranks or node.reason == STOPPED:
                return it
        return None

    @property
    def summary(self) -> str:
        cause = self.cause
        if cause or self.task.note:
            return cause.headline if cause else self.task.note
        looked = f": {self.looked}" if self.looked else ""
        return f"{_SUMMARIES[self.task.state]}{looked}"

    @property
    def headline(self) -> str:
        state = "failed" if self.task.state is State.FAILED else f"is {self.task.state}"
        return f"task/{self.task.id} ({self.task.name}) {state}: {self.summary}"

    @property
    def without_words(self) -> "Diagnosis":
        """The same for those who may not read logs: it quotes no program."""
        told = (
            it if it.source in _WORDLESS else replace(it, what=it.notice, headline=it.notice)
            for it in self.findings
        )
        ranks = tuple(
            replace(it, last_line="", position="", flight_recorder="") for it in self.ranks
        )
        task = record.of(self.task).status
        return replace(self, task=task, findings=tuple(told), ranks=ranks)

    @property
    def document(self) -> DiagnosisDocument:
        return DiagnosisDocument(
            task_id=self.task.id,
            name=self.task.name,
            status=self.task.state,
            summary=self.summary,
            stages={str(stage): str(step) for stage, step in self.stages},
            findings=[cause.finding for cause in self.findings],
            not_readable=self.unread,
            ranks=self.ranks,
        )


_SUMMARIES = {
    State.PENDING: "no cause found; it may still be starting",
    State.RUNNING: "no problem seen",
    State.COMPLETED: "no problem seen",
    State.FAILED: "no cause found",
}


def judge(task: TaskStatus, snapshot: TaskSnapshot, unread: Sequence[str] = ()) -> Diagnosis:
    """Return how far a task has come and what stops it."""
    seen = read_surroundings(snapshot)
    task = explain(task, seen)
    if snapshot.status:
        snapshot = replace(snapshot, task=explain(snapshot.status, seen))
    findings = tuple(diagnose(snapshot, RULES))
    if not findings and task.state is State.FAILED:
        findings = (_admit_unknown(task),)
    reached = _find_reached(task, snapshot, findings)
    problem_stages = {finding.stage for finding in findings}
    stages = []
    for index, stage in enumerate(Stage):
        if stage in problem_stages:
            stages.append((stage, StageResult.PROBLEM))
        elif index <= reached:
            stages.append((stage, StageResult.PASSED))
        else:
            stages.append((stage, StageResult.AHEAD))
    ranks = snapshot.activity
    looked = describe_look(ranks, snapshot.now, task.on_hang)
    return Diagnosis(task, tuple(stages), findings, tuple(unread), ranks, looked)


def _admit_unknown(task: TaskStatus) -> Cause:
    """Return how a task failed that no rule explains, and where to see more."""
    node = task.first_failure
    what = task.note or _SUMMARIES[State.FAILED]
    then = f"see `kubectl get events -n {task.namespace}`"
    stage = Stage.START if node and node.pod and not node.started_at else Stage.RUN
    ranks = (node.index,) if node else ()
    notice = Notice(node.end if node else what)
    return Cause("not-explained", stage, what, then, ranks, headline=what, notice=notice, mere=True)


def read_surroundings(snapshot: TaskSnapshot) -> Surroundings:
    """Return what a snapshot has for `explain`."""
    warnings = (event for event in snapshot.of(kinds.EVENT) if event.type == "Warning")
    return Surroundings(
        pods=pods_by_key(snapshot.of(kinds.POD)),
        queued=queues.waiting(snapshot.of(kinds.QUEUED_WORKLOAD)),
        groups=snapshot.of(kinds.POD_GROUP),
        topologies=read_topologies(snapshot.of(kinds.GANG)),
        cluster_nodes=snapshot.of(kinds.NODE),
        running=pods_by_key(snapshot.running or ()),
        warnings=find_latest(warnings),
    )


_RECENT = 10  # failures
_MANY = 3


def find_bad_node(task: TaskStatus, tasks: Collection[TaskStatus]) -> Cause | None:
    """Return that most of the last failures were on the cluster node of this one.

    Only the first failed node of each task counts: it stops the others. A cluster node that all
    pods run on is no worse than others.
    """
    failures = [it.first_failure for it in sorted(tasks, key=TaskStatus.position, reverse=True)]
    hosts = [node.host for node in failures if node and node.host][:_RECENT]
    host = task.first_failure.host if task.first_failure else ""
    count = hosts.count(host)
    used = {node.host for it in tasks for node in it.nodes if node.host}
    if not host or count < max(_MANY, len(hosts) // 2 + 1) or used == {host}:
        return None
    what = f"{count} of the last {len(hosts)} failed nodes of your tasks ran on {host}"
    return Cause("bad-cluster-node", Stage.RUN, what, f"submit with --exclude-node {host}")


def _find_reached(task: TaskStatus, snapshot: TaskSnapshot, findings: Sequence[Cause]) -> int:
    """Return the index of the last stage that the task has reached."""
    order = list(Stage)
    if findings:
        return min(order.index(finding.stage) for finding in findings)
    started = [node for node in task.nodes if node.started]
    if any(not (node.awaits_files or node.awaits_nodes) for node in started):
        return order.index(Stage.RUN)
    if started:
        return order.index(Stage.IMAGE)
    scheduled = any(pod.spec.node_name for pod in snapshot.pods.values())
    if scheduled:
        return order.index(Stage.SCHEDULING)
    return order.index(Stage.ADMISSION if snapshot.pods else Stage.QUEUE)
