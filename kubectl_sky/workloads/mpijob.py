"""MPIJob backend: `run` starts on rank 0 and uses mpirun to reach all nodes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.plan.plan import Extras
from kubectl_sky.words import bounded, kinds, names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.pod_objects import Pod, PodTemplate
from kubectl_sky.words.task_objects import ReplicaStatus, TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    Manifest,
    Phase,
    PhaseDetails,
    condition,
    end,
    judge_unfinished,
    number,
    waiting,
)

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.task import Task

_RANK = "training.kubeflow.org/replica-index"  # 0 for the launcher if it is also a node
_KEYS = "/etc/kubectl-sky-ssh"


class MPIJob(AllNodes):
    """Rank 0 is the launcher; the other nodes are the workers."""

    name = "mpijob"
    kind = kinds.MPI_JOB
    template = "mpijob.yaml.j2"
    rank0_selector: Mapping[str, str] = MappingProxyType({_RANK: "0"})
    requires = "the MPI operator"
    restarts_all_nodes = True
    owner_label = "app"  # of the launcher's Job; the MPIJob owns the workers directly
    suspend_path = ("spec", "runPolicy", "suspend")
    grace_period = 5
    field = f"metadata.labels['{_RANK}']"

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """The operator creates the Service, and nodes connect by SSH."""
        return replace(
            plan,
            extras=Extras(
                scripts=("mpi.sh", "session.sh"),
                may_drop_capabilities=False,  # the sshd of such images may have a file capability
            ),
            secrets={name: value for name, value in plan.secrets.items() if name != names.TOKEN},
            secret_env=tuple(item for item in plan.secret_env if item.name != names.TOKEN),
            service=None,
        )

    def template_values(self, plan: "Plan") -> Mapping[str, object]:
        """Return the MPI ranks per node, and the nodes in addition to rank 0."""
        return {
            "slots": int(plan.env["SKYPILOT_NUM_GPUS_PER_NODE"]) or 1,
            "workers": len(plan.nodes) - 1,
            "worker_restart": "OnFailure" if plan.recovers else "Never",
            "ssh_keys": _KEYS,
        }

    def env(self, plan: "Plan") -> Mapping[str, str]:
        """Return the Service that resolves the nodes' host names, and the SSH key folder."""
        return {"KUBECTL_SKY_SERVICE": plan.name, "KUBECTL_SKY_KEYS": _KEYS}

    def fits(self, plan: "Plan") -> str:
        """It counts every failure, and mpirun starts the programs of the nodes."""
        if names.ON_HANG in plan.annotations:
            return "its nodes but rank 0 run no program that on_hang could stop"
        return job_status.needs_restart_limit(plan)

    def notes(self, plan: "Plan") -> Sequence[str]:
        """Return notes on where `run` runs and on the differences from Jobs."""
        messages = []
        if len(plan.nodes) > 1:
            messages.append(
                "mpijob: `run` runs on rank 0 alone; mpirun starts programs on all nodes"
            )
        if plan.recovers:
            restarts = f"`run` starts again on rank 0, whatever ended it, {plan.restarts} times"
            messages.append(f"job_recovery: {restarts}")
        if plan.ttl_seconds is not None:
            messages.append("autostop: the pods are deleted, and the MPIJob stays until `stop`")
        return messages

    def ranks(self, item: TaskObject) -> Sequence[int]:
        workers = item.spec.mpi_replica_specs.get("Worker")
        return range(1 + bounded.integer(workers and workers.replicas))

    def rank(self, pod: Pod) -> int:
        return number(pod, _RANK)

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """All nodes finish with rank 0."""
        succeeded = condition(item, "Succeeded")
        if succeeded:
            return end(Phase.COMPLETED, succeeded)
        verdict = judge_unfinished(item, "Failed")
        return waiting(item) if verdict.phase is Phase.ACTIVE else verdict

    def attempts(self, item: TaskObject) -> int:
        launcher = _launcher(item)
        return launcher.active + launcher.failed + launcher.succeeded

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """Apply the backoff limit of the launcher's Job."""
        limit = item.spec.run_policy.backoff_limit or 0
        return job_status.will_retry(item, pods, limit, _launcher(item).failed)

    def pod_owner_name(self, name: str) -> str:
        return f"{name}-launcher"

    def is_suspended(self, item: TaskObject) -> bool:
        return bool(item.spec.run_policy.suspend)

    def templates(self, manifest: Manifest) -> Sequence[Manifest]:
        replicas = manifest["spec"]["mpiReplicaSpecs"].values()
        return tuple(replica["template"] for replica in replicas)

    def pod_templates(self, item: TaskObject) -> Sequence[PodTemplate]:
        return tuple(replica.template for replica in item.spec.mpi_replica_specs.values())

    def pod_counts(self, item: TaskObject) -> Sequence[int]:
        replicas = item.spec.mpi_replica_specs.values()
        return tuple(bounded.integer(replica.replicas) for replica in replicas)


def _launcher(item: TaskObject) -> ReplicaStatus:
    return item.status.replica_statuses.get("Launcher") or ReplicaStatus()
