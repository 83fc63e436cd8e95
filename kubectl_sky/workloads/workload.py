"""The backend interface: render plans into objects, and read the objects' status."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.words import bounded, names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.objects import Condition, Object, find_true
from kubectl_sky.words.pod_objects import Pod, PodTemplate
from kubectl_sky.words.scheduled_objects import PodGroup, VolcanoQueue
from kubectl_sky.words.task_objects import TaskObject

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Node, Plan
    from kubectl_sky.spec.task import Task

Manifest = Mapping[str, Any]  # of an object that is sent

LATE = "DeadlineExceeded"  # reason of an object that ran longer than it may
LATE_JOB_SET = "FailJobSetFailurePolicyAction"  # the same, of a JobSet
STOPPED = "Stopped"  # reason of nodes that were stopped because another node failed
SUSPEND = ("spec", "suspend")  # the field that suspends most kinds
FINAL = ("Complete", "Completed", "Succeeded", "Failed")  # conditions of finished objects
MEETS_NOBODY = "MeetsNobody"  # reason of a node that started after another one had completed
QUEUED = "Queued"  # reason of objects that the queue has not admitted yet


class Phase(StrEnum):
    """The phase that an object reports for a node, or for the whole task."""

    ACTIVE = "active"  # not final: pending or running; a finished pod may be replaced
    SUSPENDED = "suspended"  # suspended until a client or a queue resumes it
    PODS = "pods"  # the object reports nothing itself; the result of the node's pod decides
    COMPLETED = "completed"
    FAILED = "failed"


class PhaseDetails(Struct, frozen=True):
    """A phase with its reason, message and time (RFC 3339, UTC; empty if unfinished).

    `pod_completes` is whether the node of an active object has completed once its pod has.
    """

    phase: Phase
    reason: str = ""
    message: str = ""
    at: str = ""
    pod_completes: bool = False


class Workload(ABC):
    """One backend. The first attributes are required; the others have defaults."""

    name: str  # value of `--backend` and of the objects' annotation
    kind: ReadKind[TaskObject]  # kind of the objects that run the task and own its other objects
    template: str  # renders one such object from `plan` and `node`
    rank0_selector: Mapping[str, str]  # label that selects the task's pod of rank 0

    requires: str = ""  # what must be installed in the cluster; empty: nothing
    companion_kind: ReadKind[PodGroup] | None = (
        None  # additional object of the task; `requires` provides it
    )
    companion_template: str = ""  # renders that object from `plan`
    selectable: bool = True  # users select it by name; if not, a field of the task does
    queue_kind: ReadKind[VolcanoQueue] | None = (
        None  # kind of its own queues; None: `queue` names one of Kueue
    )
    merit: str = ""  # why `--backend auto` chooses it for several nodes; empty: it does not
    native_gang: bool = False  # the cluster's own scheduler can start all nodes together
    independent_nodes: bool = False  # a failed node does not stop the others
    fail_fast: bool = False  # the cluster stops the other nodes after a final failure
    stable_hostnames: bool = False  # pods have the host names of the plan
    suspend_path: tuple[str, ...] = ()  # field that suspends an object; empty: not supported
    restarts_all_nodes: bool = False  # all nodes restart when one does
    grace_period: int | None = None  # termination grace period in seconds; None: the pods'
    owner_label: str = ""  # label of controller-made Jobs that names the owning object

    @property
    def required_kind(self) -> Kind | None:
        """The kind that not every cluster serves; None if all do."""
        return (self.companion_kind or self.kind) if self.requires else None

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Return the plan with the changes and extras that this backend needs.

        Raises UserError or FieldError if it cannot run the task.
        """
        return plan

    def template_values(self, plan: "Plan") -> Mapping[str, object]:
        """Return what the backend's own templates need in addition to the plan: `backend.KEY`."""
        return {}

    @abstractmethod
    def pods(self, plan: "Plan") -> "tuple[Node, ...]":
        """Return one entry per object to render: its name and the variables of its pods."""

    @abstractmethod
    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """Return the verdict of an object on one of its nodes."""

    @abstractmethod
    def ranks(self, item: TaskObject) -> Sequence[int]:
        """Return the ranks of the nodes that an object runs."""

    @abstractmethod
    def rank(self, pod: Pod) -> int:
        """Return the rank of a pod of the task."""

    def is_suspended(self, item: TaskObject) -> bool:
        return bool(item.spec.suspend)

    def started_at(self, item: TaskObject) -> str:
        """Return when an object began to create pods, or was last resumed; empty before that."""
        may_wait = self.suspend_path and self.is_suspended(item)
        suspended = may_wait and not self.ended_at(item)
        return "" if suspended else item.status.start_time or ""

    def ended_at(self, item: TaskObject) -> str:
        """Return when an object finished; empty if it has not."""
        final = condition(item, *FINAL)
        return (final and final.last_transition_time) or ""

    def recovers(self, item: TaskObject) -> bool:
        """Return whether nodes that the cluster takes away start again."""
        return item.spec.pod_failure_policy is not None

    def attempts(self, item: TaskObject) -> int:
        """Return how many pods an object created for its node; 0 if unknown."""
        return 0

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """Return whether a node's newest pod failed and the object will replace it.

        The pods are in the order of creation.
        """
        return False

    def is_gang(self, plan: "Plan") -> bool:
        return bool(plan.gang and plan.gang.members) or plan.pod_options.has_own_group

    def fits(self, plan: "Plan") -> str:
        """Return why the backend cannot run a plan; empty if it can."""
        return ""

    def notes(self, plan: "Plan") -> Sequence[str]:
        if not plan.recovers or len(plan.nodes) == 1:
            return ()
        restart = "a node that starts again does so alone"
        return (f"job_recovery: {restart}, and waits until all nodes have started again",)

    def stopping(self, failed: str) -> dict[str, Any]:
        """Return the merge patch that stops an object after a node failed.

        `failed` is the title of the failed node. The patch is empty if the cluster stops the
        object, or if it should keep running.
        """
        return {}

    def resuming(self, queueing: Mapping[str, str]) -> dict[str, Any]:
        """Return the merge patch that resumes an object; empty if it cannot be suspended.

        With `queueing` labels, the patch puts the object into the queue instead, and the queue
        resumes it.
        """
        if queueing:
            return {"metadata": {"labels": dict(queueing)}}
        patch: dict[str, Any] = {}
        for step in reversed(self.suspend_path):
            patch = {step: patch or False}
        return patch

    def title(self, rank: int) -> str:
        """Return the display name of a node, for notes and log prefixes."""
        return f"node-{rank}"

    def pod_owner_name(self, name: str) -> str:
        """Return the direct owner of an object's pods; its events explain missing pods."""
        return name

    def templates(self, manifest: Manifest) -> Sequence[Manifest]:
        """Return the pod templates of a manifest, for checks against the cluster."""
        return (manifest["spec"]["template"],)

    def pod_templates(self, item: TaskObject) -> Sequence[PodTemplate]:
        """Return what is read of the pod templates of an object."""
        return (item.spec.template,)

    def pod_counts(self, item: TaskObject) -> Sequence[int]:
        """Return how many pods of each template have to run at the same time."""
        return (len(self.ranks(item)),)


def condition(item: TaskObject | Pod, *types: str) -> Condition | None:
    """Return the first true condition of these types, in the order of the status."""
    return find_true(item.status.conditions, *types)


def end(phase: Phase, found: Condition) -> PhaseDetails:
    """Return the verdict of a final condition."""
    reason = found.reason
    message = found.message
    return PhaseDetails(phase, reason, message, at=found.last_transition_time or "")


def judge_unfinished(item: TaskObject, failed: str, failing: str = "") -> PhaseDetails:
    """Return the verdict on an unfinished node of an object that fails as a whole.

    `failed` is the condition type of a failed object, `failing` that of one that is about to fail.
    """
    final = condition(item, failed)
    if final and final.reason in (LATE, LATE_JOB_SET):
        return replace(end(Phase.FAILED, final), reason=LATE)
    if final:
        message = f"{final.reason or failed}: {final.message}"
        return PhaseDetails(Phase.FAILED, STOPPED, message, final.last_transition_time or "")
    ending = condition(item, failing)
    if ending and ending.reason != LATE:
        return PhaseDetails(Phase.PODS, STOPPED)
    return waiting(item)


def field(manifest: Manifest, path: Sequence[str]) -> Any:
    """Return a field of a manifest; None if it is not set or the path is empty."""
    value: Any = manifest if path else None
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def waiting(item: TaskObject) -> PhaseDetails:
    """Return the verdict on the nodes of an object that is not finished."""
    if item.spec.suspend or item.spec.run_policy.suspend:
        queue = item.metadata.labels.get(names.QUEUE)
        if queue:
            return PhaseDetails(Phase.SUSPENDED, QUEUED, f"in the queue {queue}")
        return PhaseDetails(Phase.SUSPENDED, "Suspended", f"the {item.kind} is suspended")
    return PhaseDetails(Phase.ACTIVE)


def number(item: Object, label: str) -> int:
    """Return the number in a label of an object; 0 if it is not set."""
    return bounded.integer(item.metadata.labels.get(label))


def node_index(item: Object) -> int:
    """Return the rank from our node index label."""
    return number(item, names.NODE_IDX)
