"""An MPIJob: `run` on rank 0, which reaches all nodes by mpirun."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from kubectl_sky import assets, counts, kinds
from kubectl_sky.facts import Facts
from kubectl_sky.plan.hidden import TOKEN
from kubectl_sky.plan.mpi import Mpi
from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads import recovery
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    Object,
    Phase,
    Verdict,
    condition,
    ended,
    number,
    waiting,
    whole,
)

_RANK = "training.kubeflow.org/replica-index"  # the launcher's is 0 where it is a node, too
_KEYS = "/etc/kubectl-sky-ssh"
_SCRIPTS = ("mpi.sh", "session.sh")
_OTHERS = ("barrier.py",)  # by which nodes meet that have no ssh


class MPIJob(AllNodes):
    """Rank 0 is the launcher, and the other nodes are its workers."""

    name = "mpijob"
    kind = kinds.MPI_JOB
    template = "mpijob.yaml.j2"
    first: Mapping[str, str] = MappingProxyType({_RANK: "0"})
    requires = "the MPI operator"
    again_together = True
    between = "app"  # of the launcher; the workers are the MPIJob's own
    hold = ("spec", "runPolicy", "suspend")
    propagation = "Foreground"
    grace = 5
    field = f"metadata.labels['{_RANK}']"

    def adapted(self, plan: Plan) -> Plan:
        """The operator makes the Service, and ssh is how the nodes meet."""
        scripts = {name: text for name, text in plan.scripts.items() if name not in _OTHERS}
        gpus = int(plan.env["SKYPILOT_NUM_GPUS_PER_NODE"])
        return replace(
            plan,
            mpi=Mpi(
                slots=gpus or 1,
                workers=len(plan.nodes) - 1,
                restart="OnFailure" if plan.recovers else "Never",
                keys=_KEYS,
            ),
            scripts=scripts | {name: assets.read("runtime", name) for name in _SCRIPTS},
            secrets={name: value for name, value in plan.secrets.items() if name != TOKEN},
            secret_variables=tuple(one for one in plan.secret_variables if one.name != TOKEN),
            service=None,
        )

    def told(self, plan: Plan) -> Mapping[str, str]:
        """By which names the nodes find each other, and the keys for it."""
        return {"KUBECTL_SKY_SERVICE": plan.name, "KUBECTL_SKY_KEYS": _KEYS}

    def fits(self, plan: Plan, facts: Facts) -> str:
        """Its failures are all counted."""
        return recovery.uncounted(plan)

    def notes(self, plan: Plan) -> Sequence[str]:
        """Where `run` runs, and what is otherwise than with Jobs."""
        found = []
        if len(plan.nodes) > 1:
            found.append("mpijob: `run` runs on rank 0 alone; mpirun starts programs on all nodes")
        if plan.recovers:
            again = f"`run` starts again on rank 0, whatever ended it, {plan.restarts} times"
            found.append(f"job_recovery: {again}")
        if plan.linger is not None:
            found.append("autostop: the pods are deleted, and the MPIJob stays until `stop`")
        return found

    def ranks(self, item: Object) -> Sequence[int]:
        """The launcher, and the workers after it."""
        workers = item.get("spec", {}).get("mpiReplicaSpecs", {}).get("Worker") or {}
        return range(1 + counts.whole(workers.get("replicas")))

    def rank(self, pod: Object) -> int:
        """The operator writes it on the pods."""
        return number(pod, _RANK)

    def node(self, item: Object, rank: int) -> Verdict:
        """All end with rank 0."""
        succeeded = condition(item, "Succeeded")
        if succeeded:
            return ended(Phase.COMPLETED, succeeded)
        verdict = whole(item, "Failed")
        return waiting(item, self.hold) if verdict.phase is Phase.ACTIVE else verdict

    def attempts(self, item: Object) -> int:
        """As many as the launcher has had pods."""
        return sum(_launcher(item).get(kind) or 0 for kind in ("active", "failed", "succeeded"))

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """By the limit of the launcher's Job."""
        limit = item.get("spec", {}).get("runPolicy", {}).get("backoffLimit") or 0
        return recovery.follows(item, pods, limit, _launcher(item).get("failed") or 0)

    def maker(self, name: str) -> str:
        """The launcher's Job."""
        return f"{name}-launcher"

    def templates(self, item: Object) -> Sequence[Object]:
        """The pod of the launcher, and those of the workers."""
        return tuple(one["template"] for one in item["spec"]["mpiReplicaSpecs"].values())


def _launcher(item: Object) -> Object:
    found: Object = item.get("status", {}).get("replicaStatuses", {}).get("Launcher") or {}
    return found
