"""What a backend is: how a plan becomes objects of the cluster, and what those say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from kubectl_sky import counts, names
from kubectl_sky.facts import Facts
from kubectl_sky.kinds import Kind
from kubectl_sky.plan.plan import Node, Plan

Object = Mapping[str, Any]

STOPPED = "Stopped"  # the reason of nodes that the cluster stopped because another one failed
SUSPEND = ("spec", "suspend")  # the field by which most objects are held
QUEUED = "Queued"  # the reason of what a queue has not let in yet


class Phase(StrEnum):
    """What an object says of a node, or of the whole task."""

    ACTIVE = "active"  # nothing is decided: it runs, or will, and a pod that ended may be replaced
    HELD = "held"  # it waits for somebody to let it begin
    PODS = "pods"  # it says nothing itself; how the node's pod ended is how the node ended
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """A phase, why, and when (RFC 3339 in UTC; empty where nothing has ended)."""

    phase: Phase
    reason: str = ""
    message: str = ""
    at: str = ""


class Workload(Protocol):
    """One backend. The first block has to be said, the others have the usual value."""

    name: str  # as `--backend` takes it and as the objects' annotation says it
    kind: Kind  # of the objects that run the task, and that own what it needs
    template: str  # makes one such object out of `plan` and `node`
    first: Mapping[str, str]  # the label that rank 0's pod has and no other of the task

    requires: str = ""  # what has to be installed; empty: every cluster has all that it takes
    beside: Kind | None = None  # of an object of the task beside them, which comes with `requires`
    beside_template: str = ""  # makes that object out of `plan`
    named: bool = True  # whether a user names it; else the task asks for it in another way
    gang: bool = False  # whether all nodes start or none
    own_queues: bool = False  # whether a queue is one of its own, and not of Kueue
    apart: bool = False  # whether the nodes are tasks of their own: all run, whichever fails
    together: bool = False  # whether the cluster stops the other nodes when one fails for good
    hosts: bool = False  # whether the pods have the host names that the plan gives them
    hold: tuple[str, ...] = ()  # the field of an object by which it is held; empty: there is none
    again_together: bool = False  # whether all nodes start again when one does
    propagation: Literal["Background", "Foreground"] = "Background"  # how it is deleted
    grace: int | None = None  # seconds its pods have at the end; None: what they say themselves
    between: str = ""  # the label by which Jobs that a controller made of an object name it

    @property
    def foreign(self) -> Kind | None:
        """The kind that not every cluster has."""
        return (self.beside or self.kind) if self.requires else None

    def adapted(self, plan: Plan) -> Plan:
        """Return a plan with what only this backend makes of it."""
        return plan

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """Return one entry for each object to render: the name, and what its pods are told."""
        ...

    def node(self, item: Object, rank: int) -> Verdict:
        """Return what an object says of one of its nodes."""
        ...

    def ranks(self, item: Object) -> Sequence[int]:
        """Return the ranks of the nodes that an object runs."""
        ...

    def rank(self, pod: Object) -> int:
        """Return the rank of a pod of the task."""
        ...

    def attempts(self, item: Object) -> int:
        """Return how many pods an object knows that its node has had; 0 where it does not say."""
        return 0

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """Say whether a node's newest pod has failed, and by its object's rules another follows.

        The pods are in the order in which they were made.
        """
        return False

    def fits(self, plan: Plan, facts: Facts) -> str:
        """Return why the backend cannot run a plan; empty where it can."""
        return ""

    def notes(self, plan: Plan) -> Sequence[str]:
        """Return what the user should know of how the backend runs a plan."""
        if not plan.recovers or len(plan.nodes) == 1:
            return ()
        alone = "a node that starts again does so alone"
        return (f"job_recovery: {alone}, and waits until all nodes have started again",)

    def stopping(self, failed: str) -> dict[str, Any]:
        """Return the merge patch that ends an object because a node failed; that is its title.

        Empty where the cluster does so, or nobody is to.
        """
        return {}

    def title(self, rank: int) -> str:
        """Return what people call a node: in notes, and before the lines of its log."""
        return f"node-{rank}"

    def maker(self, name: str) -> str:
        """Return the name of what makes an object's pods; its events say why there are none."""
        return name

    def templates(self, item: Object) -> Sequence[Object]:
        """Return the pod templates of a manifest, so that the cluster can be asked about them."""
        return (item["spec"]["template"],)


def condition(item: Object, *types: str) -> Object | None:
    """Return the first true condition of these types; position means nothing."""
    for found in item.get("status", {}).get("conditions", ()):
        if found.get("type") in types and found.get("status") == "True":
            return dict(found)
    return None


def ended(phase: Phase, found: Object) -> Verdict:
    """Return the verdict that a final condition tells."""
    said = {"reason": found.get("reason") or "", "message": found.get("message") or ""}
    return Verdict(phase, at=found.get("lastTransitionTime") or "", **said)


def whole(item: Object, failed: str, failing: str = "") -> Verdict:
    """Return what an object that fails as a whole says of a node that has not completed.

    `failed` and `failing` are its conditions: that it has ended so, and that it is about to.
    """
    found = condition(item, failed)
    if found:
        why = f"{found.get('reason') or failed}: {found.get('message') or ''}"
        return Verdict(Phase.FAILED, STOPPED, why, found.get("lastTransitionTime") or "")
    if condition(item, failing):
        return Verdict(Phase.PODS, STOPPED)
    return waiting(item)


def field(item: Object, path: Sequence[str]) -> Any:  # noqa: ANN401 -- JSON
    """Return a field of an object; None where it has none, or the path is empty."""
    value: Any = item if path else None
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def waiting(item: Object, suspended: Sequence[str] = SUSPEND) -> Verdict:
    """Return what an object says of nodes while nothing has ended.

    `suspended` is the field by which it is held.
    """
    if field(item, suspended):
        queue = item["metadata"].get("labels", {}).get(names.QUEUE)
        if queue:
            return Verdict(Phase.HELD, QUEUED, f"in the queue {queue}")
        return Verdict(Phase.HELD, "Suspended", f"the {item['kind']} is suspended")
    return Verdict(Phase.ACTIVE)


def number(item: Object, label: str) -> int:
    """Return the number that a label of an object says; 0 where it says none."""
    return counts.whole(item["metadata"].get("labels", {}).get(label))


def node_index(item: Object) -> int:
    """Return the rank that our own label says."""
    return number(item, names.NODE_IDX)
