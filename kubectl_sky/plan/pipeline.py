"""A task's place among the tasks of its file: what it is called, and what it is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubectl_sky import counts, names
from kubectl_sky.plan.plan import Group, Plan
from kubectl_sky.spec.pipeline import Pipeline
from kubectl_sky.spec.task import Task

PARALLEL = "parallel"
_STAGES = 10_000  # that are believed of an object
_DELAY = 366 * 86_400  # seconds
_LATER = {names.QUEUE: names.LATER_QUEUE, names.QUEUE_CLASS: names.LATER_CLASS}


@dataclass(frozen=True)
class Member:
    """A task's place: `stage` counts from 1 to `stages`; `id` and `title` are those of the whole.

    `auxiliary` are the stages of a group that end some time after the others, `delay` the seconds
    that such a task has then. `all_tasks` are the
    SKYPILOT_TASK_IDs in order. `queueing` are the labels by which it gets into a queue when it is
    released.
    """

    id: str
    title: str
    stage: int
    stages: int
    parallel: bool = False
    auxiliary: tuple[int, ...] = ()
    delay: int = 0
    all_tasks: tuple[str, ...] = ()
    service: str | None = None
    queueing: Mapping[str, str] = field(default_factory=dict)

    @property
    def suspended(self) -> bool:
        """Whether it waits until the task before it has succeeded."""
        return not self.parallel and self.stage > 1

    @property
    def awaited(self) -> bool:
        """Whether a later task waits for how this one ends."""
        return not self.parallel and self.stage < self.stages

    @property
    def labels(self) -> dict[str, str]:
        """By which all tasks of the whole are found."""
        return {names.PIPELINE: self.id, names.STAGE: str(self.stage)}

    @property
    def annotations(self) -> dict[str, str]:
        """What else `member_of` reads back."""
        said = {
            names.PIPELINE_NAME: self.title,
            names.STAGES: str(self.stages),
            names.EXECUTION: PARALLEL if self.parallel else "serial",
        }
        if self.auxiliary:
            said[names.AUXILIARY] = ",".join(map(str, self.auxiliary))
        if self.stage in self.auxiliary:
            said[names.DELAY] = str(self.delay)
        return said

    @property
    def env(self) -> Mapping[str, str]:
        """What SkyPilot tells each task of a managed job with several."""
        told = {
            "SKYPILOT_MANAGED_JOB_ID": self.id,
            "SKYPILOT_TASK_ID": self.all_tasks[self.stage - 1],
            "SKYPILOT_TASK_IDS": "\n".join(self.all_tasks),
        }
        if not self.parallel:
            return told
        return told | {
            "SKYPILOT_JOBGROUP_NAME": self.service or self.title,
            "SKYPILOT_ROOT_JOB_ID": self.id,
        }


def member_of(metadata: Mapping[str, Any]) -> Member | None:
    """Return the place that an object's metadata says; None for a task that stands alone."""
    labels, said = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if names.PIPELINE not in labels:
        return None
    auxiliary = str(said.get(names.AUXILIARY, "")).split(",")[:_STAGES]
    return Member(
        id=labels[names.PIPELINE],
        title=said.get(names.PIPELINE_NAME) or labels[names.PIPELINE],
        stage=counts.whole(labels.get(names.STAGE)),
        stages=counts.whole(said.get(names.STAGES), _STAGES),
        parallel=said.get(names.EXECUTION) == PARALLEL,
        auxiliary=tuple(counts.whole(stage) for stage in auxiliary if stage),
        delay=counts.whole(said.get(names.DELAY), _DELAY),
        queueing={key: said[later] for key, later in _LATER.items() if later in said},
    )


def named(tasks: Sequence[Task], title: str) -> tuple[Task, ...]:
    """Return the tasks, each with a name: SkyPilot numbers those that have none from 0."""
    return tuple(
        task if task.name else replace(task, name=f"{title}-{index}")
        for index, task in enumerate(tasks)
    )


def members(pipeline: Pipeline, pipeline_id: str, tasks: Sequence[Task]) -> tuple[Member, ...]:
    """Return the place of each task; they all have names."""
    title = title_of(pipeline, pipeline_id)
    titles = [task.name or "" for task in tasks]
    ids = tuple(
        names.task_object(names.dns_label(name), names.part_id(pipeline_id, stage))
        for stage, name in enumerate(titles, 1)
    )
    meet = pipeline.parallel and pipeline.connected
    service = names.task_object(names.dns_label(title, "group"), pipeline_id) if meet else None
    delays = [pipeline.delay(name) for name in titles]
    return tuple(
        Member(
            id=pipeline_id,
            title=title,
            stage=stage,
            stages=len(tasks),
            parallel=pipeline.parallel,
            auxiliary=tuple(n for n, given in enumerate(delays, 1) if given is not None),
            delay=delay or 0,
            all_tasks=ids,
            service=service,
        )
        for stage, delay in enumerate(delays, 1)
    )


def joined(plan: Plan, member: Member) -> Plan:
    """Return the plan of a task in its place."""
    fresh = tuple(
        replace(claim, labels={**claim.labels, **member.labels}) for claim in plan.storage.fresh
    )
    found = replace(
        plan,
        labels={**plan.labels, **member.labels},
        annotations={**plan.annotations, **member.annotations},
        nodes=tuple(replace(node, labels={**node.labels, **member.labels}) for node in plan.nodes),
        env={**plan.env, **member.env},
        secrets={key: value for key, value in plan.secrets.items() if key not in member.env},
        storage=replace(plan.storage, fresh=fresh),
        suspended=member.suspended,
        linger=None if member.awaited else plan.linger,  # else nobody would know how it ended
    )
    return _connected(found, member) if member.service else found


def queued_later(plan: Plan) -> Plan:
    """Return the plan of a task that is in no queue before it is released.

    Else its queue would let it begin before the one before it has succeeded.
    """
    if not plan.suspended or not plan.queue:
        return plan
    later = {_LATER[key]: value for key, value in plan.queueing.items()}
    return replace(
        plan,
        annotations={**plan.annotations, **later},
        custom=replace(plan.custom, queue=None, queueing={}),
    )


def _connected(plan: Plan, member: Member) -> Plan:
    """Return the plan of a task of a group: its pods are hosts `TASK-RANK` of the one Service."""
    host = f"{names.dns_label(plan.title)}-"
    nodes = tuple(
        replace(node, hostname=f"{host}{node.index}", told={**node.told, "KUBECTL_SKY_HOSTS": host})
        for node in plan.nodes
    )
    own = (names.TASK, names.PIPELINE, names.USERNAME)
    kept = (names.ORIGINAL_USER, names.PIPELINE_NAME)
    group = Group(
        namespace=plan.namespace,
        labels={key: plan.labels[key] for key in own},
        annotations={key: plan.annotations[key] for key in kept},
        selector={key: plan.labels[key] for key in own[:2]},
    )
    return replace(plan, nodes=nodes, service=member.service, group=group)


def title_of(pipeline: Pipeline, pipeline_id: str) -> str:
    """Return the name of the whole; one without a name is called by its id."""
    return pipeline.name or f"{'group' if pipeline.parallel else 'pipeline'}-{pipeline_id}"
