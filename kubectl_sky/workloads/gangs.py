"""Let the scheduler start all nodes of a task together, and in one topology domain."""

from collections.abc import Sequence

from msgspec.structs import replace

from kubectl_sky.plan.plan import Gang, Plan
from kubectl_sky.spec.document import FieldError, Path
from kubectl_sky.spec.task import Task
from kubectl_sky.words import kinds, names
from kubectl_sky.words.facts import Facts, Gangs
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.workload import Workload

REQUIRED = "required"
OFF = ("off", False)
_FIELD: Path = ("config", "kubectl_sky", "gang")
_HINT = (
    "use --backend indexed where `kubectl sky doctor` shows gangs of Kubernetes, with --queue NAME,"
    " or --backend volcano"
)
_STANDARD = "topology.kubernetes.io/"  # a prefix of label keys
# Of Kubernetes 1.36, which starts the pods of an Indexed Job together unless they have a PodGroup.
_ALPHA = kinds.GANG_VERSIONS[-1]


def mode(task: Task, settings: Settings) -> str | bool:
    return settings.gang if task.gang is None else task.gang


def arrange(
    plan: Plan, backend: Workload, task: Task, facts: Facts, settings: Settings
) -> tuple[Plan, Sequence[str]]:
    """Return the plan with its PodGroup and its topology, and notes on the latter.

    Raises FieldError if a gang is required and nothing in the cluster starts nodes together.
    """
    if len(plan.nodes) == 1:
        ignored = ("topology: ignored: the task has one node",) if task.topology else ()
        is_array = backend.independent_nodes and backend.kind == kinds.JOB
        if is_array:
            plan = _let_start_alone(plan, facts)
        return plan, ignored
    gangs = _supported(plan, backend, facts)
    off = mode(task, settings) in OFF
    plan, notes = _keep_together(plan, backend, task.topology, facts, gangs)
    single = len(backend.pods(plan)) == 1
    is_gang_by_itself = single and gangs.api_version.endswith(_ALPHA)
    if gangs.api_version and (not off or plan.gang or is_gang_by_itself):
        group = plan.gang or Gang(gangs.api_version)
        members = 0 if off else len(plan.nodes)
        plan = replace(plan, gang=replace(group, members=members))
    if mode(task, settings) == REQUIRED and facts.gangs and not backend.is_gang(plan):
        raise FieldError(
            _FIELD, f'nothing starts all nodes of backend "{backend.name}" together', _HINT
        )
    return plan, notes


def _let_start_alone(plan: Plan, facts: Facts) -> Plan:
    """Return the plan of an array, whose tasks are independent: never a gang."""
    version = facts.gangs.api_version if facts.gangs else ""
    if not version.endswith(_ALPHA) or plan.pod_options.has_own_group:
        return plan
    return replace(plan, gang=Gang(version))


def _supported(plan: Plan, backend: Workload, facts: Facts) -> Gangs:
    """Return what the scheduler can do for a plan: nothing for pods with a group of their own."""
    elsewhere = plan.queue and facts.queues and facts.queues.multikueue
    usable = backend.native_gang and not plan.pod_options.has_own_group and not elsewhere
    return facts.gangs if usable and facts.gangs else Gangs()


def _keep_together(
    plan: Plan, backend: Workload, topology: str | None, facts: Facts, gangs: Gangs
) -> tuple[Plan, Sequence[str]]:
    """Keep the nodes in one domain: by Kueue, by the PodGroup, or else by pod affinity."""
    if not topology:
        return plan, ()

    queue = plan.queue or plan.annotations.get(names.LATER_QUEUE) or ""
    levels = facts.queues.topologies.get(queue, ()) if facts.queues else ()
    key = _label(topology, facts, levels)

    if key in levels and len(backend.pods(plan)) == 1:
        annotations = {**plan.pod_annotations, names.REQUIRED_TOPOLOGY: key}
        note = f"topology: Kueue starts all nodes in one {key}"
        return replace(plan, pod_annotations=annotations), (note,)

    known = not facts.cluster_nodes or any(key in node.labels for node in facts.cluster_nodes)
    missing = () if known else (f'warning: topology: no cluster node has the label "{key}"',)
    if gangs.topology:
        note = f"topology: the scheduler starts all nodes in one {key}"
        return replace(plan, gang=Gang(gangs.api_version, topology=key)), (note, *missing)

    if facts.gangs is None:
        why = "; submit asks the cluster whether its scheduler can do more"
    else:
        why = ": nothing in the cluster places all nodes of this task at once"
    note = f"topology: best effort: pod affinity prefers one {key}{why}"
    return replace(plan, near=key), (note, *missing)


def _label(topology: str, facts: Facts, levels: Sequence[str]) -> str:
    """Return the key of the label of cluster nodes that a short name such as rack stands for."""
    keys = {key for node in facts.cluster_nodes for key in node.labels} | {*levels}
    endings = (f"/{topology}", f"-{topology}")
    matches = [key for key in keys if key.endswith(endings)]
    if topology in keys or not matches:
        return topology
    return min(matches, key=lambda key: (not key.startswith(_STANDARD), key))
