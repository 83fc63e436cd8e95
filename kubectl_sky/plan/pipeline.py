"""A task's position in a pipeline or group: names, labels and variables."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan import runtime
from kubectl_sky.plan.plan import TaskGroup
from kubectl_sky.words import bounded, names
from kubectl_sky.words.names import standard_labels

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.pipeline import Pipeline
    from kubectl_sky.spec.task import Task
    from kubectl_sky.words.facts import Predecessor

PARALLEL = "parallel"
MAX_STAGES = 10_000  # upper limit for stage counts read from an object
_MAX_DELAY_SECONDS = 366 * 86_400  # seconds
_DEFERRED_QUEUE_ANNOTATIONS = {
    names.QUEUE: names.LATER_QUEUE,
    names.QUEUE_CLASS: names.LATER_CLASS,
    names.MAX_EXEC: names.LATER_MAX_EXEC,
}


class PipelineMember(Struct, frozen=True):
    """The position of a task in a pipeline or group."""

    id: str  # of the pipeline or group
    title: str  # its name
    stage: int  # from 1
    stages: int  # how many there are
    parallel: bool = False  # whether it is a group
    auxiliary: tuple[int, ...] = ()  # stages that are stopped after the other tasks finish
    delay: int = 0  # seconds until then
    task_names: tuple[str, ...] = ()  # of all tasks, in order
    all_tasks: tuple[str, ...] = ()  # their SKYPILOT_TASK_IDs
    service: str | None = None  # the headless Service of a group

    @property
    def suspended(self) -> bool:
        """Whether the task starts suspended until the previous task has succeeded."""
        return not self.parallel and self.stage > 1

    @property
    def awaited(self) -> bool:
        """Whether a later task depends on the result of this one."""
        return not self.parallel and self.stage < self.stages

    @property
    def labels(self) -> dict[str, str]:
        """The labels that select all tasks of the pipeline or group, and the stage."""
        return {names.PIPELINE: self.id, names.STAGE: str(self.stage)}

    @property
    def annotations(self) -> dict[str, str]:
        """The remaining fields that `member_of` reads back."""
        values = {
            names.PIPELINE_NAME: self.title,
            names.STAGES: str(self.stages),
            names.STAGE_NAMES: ",".join(name.replace(",", " ") for name in self.task_names),
            names.EXECUTION: PARALLEL if self.parallel else "serial",
        }
        if self.auxiliary:
            values[names.AUXILIARY] = ",".join(map(str, self.auxiliary))
        if self.stage in self.auxiliary:
            values[names.DELAY] = str(self.delay)
        return values

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that SkyPilot sets for tasks of a managed job with several."""
        variables = {
            "SKYPILOT_MANAGED_JOB_ID": self.id,
            "SKYPILOT_TASK_ID": self.all_tasks[self.stage - 1],
            "SKYPILOT_TASK_IDS": "\n".join(self.all_tasks),
        }
        if not self.parallel:
            return variables
        return variables | {
            "SKYPILOT_JOBGROUP_NAME": self.service or self.title,
            "SKYPILOT_ROOT_JOB_ID": self.id,
        }


def member_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> PipelineMember | None:
    """Return the position that an object's metadata has; None for a standalone task."""
    if names.PIPELINE not in labels:
        return None

    auxiliary = str(annotations.get(names.AUXILIARY, "")).split(",")[:MAX_STAGES]
    return PipelineMember(
        id=labels[names.PIPELINE],
        title=annotations.get(names.PIPELINE_NAME) or labels[names.PIPELINE],
        stage=bounded.integer(labels.get(names.STAGE)),
        stages=bounded.integer(annotations.get(names.STAGES), MAX_STAGES),
        parallel=annotations.get(names.EXECUTION) == PARALLEL,
        auxiliary=tuple(bounded.integer(stage) for stage in auxiliary if stage),
        delay=bounded.integer(annotations.get(names.DELAY), _MAX_DELAY_SECONDS),
        task_names=tuple(
            filter(None, annotations.get(names.STAGE_NAMES, "").split(",")[:MAX_STAGES])
        ),
    )


def deferred_queueing(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that put a task into a queue when it is resumed."""
    return {
        key: annotations[deferred]
        for key, deferred in _DEFERRED_QUEUE_ANNOTATIONS.items()
        if deferred in annotations
    }


def with_names(tasks: "Sequence[Task]", title: str) -> "tuple[Task, ...]":
    """Return the tasks, all with names: SkyPilot numbers unnamed ones from 0.

    Those without run end after setup.
    """
    return tuple(
        runtime.exit_after_setup(task if task.name else replace(task, name=f"{title}-{index}"))
        for index, task in enumerate(tasks)
    )


def members(
    pipeline: "Pipeline", pipeline_id: str, tasks: "Sequence[Task]"
) -> tuple[PipelineMember, ...]:
    """Return the position of each task; all tasks must have names."""
    title = title_of(pipeline, pipeline_id)
    titles = [task.name or "" for task in tasks]

    task_ids = tuple(
        names.task_object(names.dns_label(name), names.part_id(pipeline_id, stage))
        for stage, name in enumerate(titles, 1)
    )

    shares_service = pipeline.parallel and pipeline.connected
    service = (
        names.task_object(names.dns_label(title, "group"), pipeline_id) if shares_service else None
    )

    delays = [pipeline.delay(name) for name in titles]
    return tuple(
        PipelineMember(
            id=pipeline_id,
            title=title,
            stage=stage,
            stages=len(tasks),
            parallel=pipeline.parallel,
            auxiliary=tuple(
                number for number, seconds in enumerate(delays, 1) if seconds is not None
            ),
            delay=delay or 0,
            task_names=tuple(titles),
            all_tasks=task_ids,
            service=service,
        )
        for stage, delay in enumerate(delays, 1)
    )


def with_member(plan: "Plan", member: PipelineMember) -> "Plan":
    pvcs = tuple(
        replace(pvc, labels={**pvc.labels, **member.labels}) for pvc in plan.storage.new_pvcs
    )
    # Later tasks need the result of an awaited one.
    ttl_seconds = None if member.awaited else plan.ttl_seconds
    updated = replace(
        plan,
        labels={**plan.labels, **member.labels},
        annotations={**plan.annotations, **member.annotations},
        nodes=tuple(replace(node, labels={**node.labels, **member.labels}) for node in plan.nodes),
        env={**plan.env, **member.env},
        secrets={key: value for key, value in plan.secrets.items() if key not in member.env},
        secret_env=tuple(item for item in plan.secret_env if item.name not in member.env),
        storage=replace(plan.storage, new_pvcs=pvcs),
        suspended=member.suspended,
        ttl_seconds=ttl_seconds,
    )
    return _with_group_service(updated, member) if member.service else updated


def with_predecessor(plan: "Plan", after: "Predecessor | None") -> "Plan":
    """Return the plan of a task that is suspended until another task has succeeded.

    A later stage waits for the one before it.
    """
    if after is None or plan.suspended:
        return plan
    annotations = {**plan.annotations, names.AFTER: f"{after.id} {after.name}"}
    return replace(plan, suspended=not after.succeeded, annotations=annotations)


def without_queue_until_resumed(plan: "Plan") -> "Plan":
    """Return a suspended task's plan without its queue until the task is resumed.

    Otherwise the queue would start the task before the previous one has succeeded.
    """
    if not plan.suspended or not plan.queue:
        return plan
    deferred = {_DEFERRED_QUEUE_ANNOTATIONS[key]: value for key, value in plan.queueing.items()}
    return replace(
        plan,
        annotations={**plan.annotations, **deferred},
        pod_options=replace(plan.pod_options, queueing={}),
    )


def _with_group_service(plan: "Plan", member: PipelineMember) -> "Plan":
    """Return the plan of a task in a group.

    Its pods get host names `TASK-RANK` in the shared Service.
    """
    host = f"{names.dns_label(plan.title)}-"
    nodes = tuple(
        replace(node, hostname=f"{host}{node.index}", env={**node.env, "KUBECTL_SKY_HOSTS": host})
        for node in plan.nodes
    )

    label_keys = (names.TASK, names.PIPELINE, names.USERNAME)
    annotation_keys = (names.ORIGINAL_USER, names.PIPELINE_NAME)
    group = TaskGroup(
        namespace=plan.namespace,
        labels=standard_labels(member.title, str(member.service))
        | {key: plan.labels[key] for key in label_keys},
        annotations={
            key: plan.annotations[key] for key in annotation_keys if key in plan.annotations
        },
        selector={key: plan.labels[key] for key in label_keys[:2]},
    )

    return replace(plan, nodes=nodes, service=member.service, group=group)


def title_of(pipeline: "Pipeline", pipeline_id: str) -> str:
    """Return the name of a pipeline or group; the default contains its id."""
    return pipeline.name or f"{'group' if pipeline.parallel else 'pipeline'}-{pipeline_id}"
