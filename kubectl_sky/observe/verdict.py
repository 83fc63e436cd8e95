"""Diagnose a task: how far it has come, and what stops it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.findings import Finding, Rule, Stage, diagnose
from kubectl_sky.observe.nodes import UNSCHEDULABLE, NodeStatus, State
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.observe.rules_admission import ADMISSION, QUEUE
from kubectl_sky.observe.rules_run import RUN
from kubectl_sky.observe.rules_scheduling import SCHEDULING
from kubectl_sky.observe.rules_start import IMAGE, START, VOLUMES
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds, names, notebook

if TYPE_CHECKING:
    from kubectl_sky.words import models

RULES: tuple[Rule, ...] = (*QUEUE, *ADMISSION, *SCHEDULING, *VOLUMES, *IMAGE, *START, *RUN)


class StageResult(StrEnum):
    """The result of one stage."""

    PASSED = "ok"
    PROBLEM = "problem"
    AHEAD = "not reached"


class Diagnosis(Struct, frozen=True):
    """The result of each stage, and the findings in stage order.

    `unread` lists the kinds that the user may not read, so their problems are not detected.
    """

    task: TaskStatus
    stages: tuple[tuple[Stage, StageResult], ...]
    findings: tuple[Finding, ...]
    unread: tuple[str, ...]

    def __repr__(self) -> str:
        """Return what a notebook shows, on one line."""
        return f"<Diagnosis {self.headline}>"

    def _repr_html_(self) -> str:
        causes = (
            {
                "stage": finding.stage,
                "cause": finding.cause(self.task.num_nodes),
                "next": finding.then,
            }
            for finding in self.findings
        )
        return notebook.table(causes, self.headline)

    @property
    def cause(self) -> Finding | None:
        """The first finding; in a failed task, that of the node that failed first."""
        node = self.task.first_failure
        causes = (finding for finding in self.findings if not node or _explains(finding, node))
        return next(causes, None)

    @property
    def summary(self) -> str:
        """The verdict in one short sentence."""
        cause = self.cause
        return cause.headline if cause else self.task.note or _SUMMARIES[self.task.state]

    @property
    def headline(self) -> str:
        """The task, its state and the summary."""
        state = "failed" if self.task.state is State.FAILED else f"is {self.task.state}"
        return f"task/{self.task.id} ({self.task.name}) {state}: {self.summary}"

    def as_json(self) -> "models.Diagnosis":
        """Return the verdict as JSON values."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": "Diagnosis",
            "task_id": self.task.id,
            "name": self.task.name,
            "status": str(self.task.state),
            "summary": self.summary,
            "stages": {str(stage): str(step) for stage, step in self.stages},
            "findings": [finding.as_json() for finding in self.findings],
            "not_readable": list(self.unread),
        }


_SUMMARIES = {
    State.PENDING: "no cause found; it may still be starting",
    State.RUNNING: "no problem found",
    State.COMPLETED: "no problem found",
    State.FAILED: "no cause found",
}


def _explains(finding: Finding, failure: NodeStatus) -> bool:
    return not finding.ranks or failure.index in finding.ranks


def judge(task: TaskStatus, snapshot: TaskSnapshot, unread: Sequence[str] = ()) -> Diagnosis:
    """Return how far a task has come and what stops it."""
    findings = tuple(diagnose(snapshot, RULES))
    reached = _reached(task, snapshot, findings)
    problem_stages = {finding.stage for finding in findings}
    stages = []
    for index, stage in enumerate(Stage):
        if stage in problem_stages:
            stages.append((stage, StageResult.PROBLEM))
        elif index <= reached:
            stages.append((stage, StageResult.PASSED))
        else:
            stages.append((stage, StageResult.AHEAD))
    return Diagnosis(task, tuple(stages), findings, tuple(unread))


def explain_unschedulable(task: TaskStatus, owned: TaskObjects) -> TaskStatus:
    """Return the task with why no cluster node fits its first such pod, in the words of doctor.

    Reads the pod alone, so that the tasks of a list need no further request.
    """
    node = next((node for node in task.nodes if node.reason == UNSCHEDULABLE), None)
    if not node:
        return task
    pod = next(pod for pod in owned.all_pods if pod["metadata"]["name"] == node.pod)
    snapshot = TaskSnapshot(task.id, task.namespace, {kinds.POD.kind: (pod,)}, task=task)
    causes = diagnose(snapshot, SCHEDULING)
    return replace(task, unschedulable=causes[0].headline) if causes else task


def _reached(task: TaskStatus, snapshot: TaskSnapshot, findings: Sequence[Finding]) -> int:
    """Return the index of the last stage that the task has reached."""
    order = list(Stage)
    if findings:
        return min(order.index(finding.stage) for finding in findings)
    if any(node.started for node in task.nodes):
        return order.index(Stage.RUN)
    scheduled = any(pod.get("spec", {}).get("nodeName") for pod in snapshot.pods.values())
    if scheduled:
        return order.index(Stage.SCHEDULING)
    return order.index(Stage.ADMISSION if snapshot.pods else Stage.QUEUE)
