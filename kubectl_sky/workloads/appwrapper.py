"""AppWrapper backend: one Indexed Job, admitted and restarted as a whole."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kubectl_sky.words import age, bounded, kinds
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.objects import NO_CONDITION
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import JobSpec, JobTemplate, TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    LATE,
    STOPPED,
    Manifest,
    Phase,
    PhaseDetails,
    condition,
    waiting,
)

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan

_PREFIX = "workload.codeflare.dev.appwrapper/"
_LIMIT = f"{_PREFIX}retryLimit"
_OWN = {
    f"{_PREFIX}retryPausePeriodDuration": "10s",  # the initial restart delay of a Job
    f"{_PREFIX}failureGracePeriodDuration": "0s",  # a failed node needs a restart
    f"{_PREFIX}warmupGracePeriodDuration": "1h",  # allows for large images
    f"{_PREFIX}deletionOnFailureGracePeriodDuration": "1h",  # keeps the logs for a while
}
_SUCCESS = f"{_PREFIX}successTTLDuration"
# Reasons of the wrapper after a node failed; the node's pod has the details.
_A_NODE = ("FailedComponent", "FoundFailedPods")
_ADVICE = {
    "CreateFailed": "the AppWrapper controller may not create it, or the cluster refuses it",
    "InsufficientPodsReady": "the nodes did not all start in time",
    "MissingComponent": "a user deleted its Job",
}


class AppWrapper(AllNodes):
    """The nodes are indexes of the one wrapped Job, so Kueue admits all or none."""

    name = "appwrapper"
    kind = kinds.APP_WRAPPER
    template = "appwrapper.yaml.j2"
    requires = "AppWrapper"
    restarts_all_nodes = True
    owner_label = "workload.codeflare.dev/appwrapper"

    def annotations(self, plan: "Plan") -> Mapping[str, str]:
        """Return the restart limit and delays, and the TTL after success."""
        ttl = {} if plan.ttl_seconds is None else {_SUCCESS: f"{plan.ttl_seconds}s"}
        return {_LIMIT: str(plan.restarts)} | _OWN | ttl

    def job_spec(self, item: TaskObject) -> JobSpec:
        """Return the spec of the wrapped Job; of another object, what it has in common."""
        template = item.spec.components[0].template if item.spec.components else None
        try:
            return convert(template, JobTemplate).spec
        except ValueError:
            return JobSpec()

    def job(self, manifest: Manifest) -> Manifest:
        template: Manifest = manifest["spec"]["components"][0]["template"]
        return template

    def fits(self, plan: "Plan") -> str:
        """It counts every failure, so the task must set a limit."""
        return job_status.needs_restart_limit(plan)

    def notes(self, plan: "Plan") -> Sequence[str]:
        """Return notes on retention of failed tasks and on counted restarts."""
        retention = (
            "appwrapper: a failed task keeps its logs and its quota for an hour, or until `stop`"
        )
        restarts = f"all nodes start again together, whatever ended one, {plan.restarts} times"
        return (retention, f"job_recovery: {restarts}") if plan.recovers else (retention,)

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """Return the verdict of the wrapper's phase for all nodes.

        While they run, a node whose pod has completed has too, unless all nodes may restart.
        """
        phase = _phase(item)
        if phase == "Succeeded":
            return PhaseDetails(Phase.COMPLETED, at=self.ended_at(item))
        if phase == "Failed":
            limit = bounded.integer(self.job_spec(item).active_deadline_seconds)
            started, ended = map(age.parse, (self.started_at(item), self.ended_at(item)))
            if limit and started and ended and (ended - started).total_seconds() >= limit:
                return PhaseDetails(Phase.FAILED, LATE, at=self.ended_at(item))
            return _failed(item)
        if phase == "Suspending":
            return PhaseDetails(Phase.SUSPENDED, phase, "Kueue has evicted it")
        if phase == "Running" and not _resets_left(item):
            return PhaseDetails(Phase.ACTIVE, pod_completes=True)
        return waiting(item)

    def started_at(self, item: TaskObject) -> str:
        """Return when the wrapped Job was created; empty after it was deleted."""
        return _since(item, "ResourcesDeployed")

    def ended_at(self, item: TaskObject) -> str:
        """Return when the wrapper lost its quota after success, or became unhealthy for good."""
        if _phase(item) == "Succeeded":
            return _since(item, "QuotaReserved", "False")
        return _since(item, "Unhealthy") if _phase(item) == "Failed" else ""

    def attempts(self, item: TaskObject) -> int:
        """Every reset of the wrapper restarts all nodes."""
        return _resets(item) + 1

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """All nodes restart while the wrapper has resets left."""
        if not pods or pods[-1].status.phase != "Failed":
            return False
        phase = _phase(item)
        return phase == "Resetting" or (phase == "Running" and _resets_left(item) > 0)


def _failed(item: TaskObject) -> PhaseDetails:
    unhealthy = condition(item, "Unhealthy") or NO_CONDITION
    reason = unhealthy.reason or "Failed"
    detail = unhealthy.message
    time = unhealthy.last_transition_time or ""
    if reason in _A_NODE:
        return PhaseDetails(Phase.FAILED, STOPPED, f"{reason}: {detail}", time)
    message = ": ".join(filter(None, (_ADVICE.get(reason), detail)))
    return PhaseDetails(Phase.FAILED, reason, message, time)


def _phase(item: TaskObject) -> str:
    return item.status.phase


def _resets(item: TaskObject) -> int:
    return item.status.resetting_count


def _resets_left(item: TaskObject) -> int:
    limit = bounded.integer(item.metadata.annotations.get(_LIMIT))
    return max(limit - _resets(item), 0)


def _since(item: TaskObject, name: str, status: str = "True") -> str:
    """Return when a condition got its status; empty if it has another one."""
    for entry in item.status.conditions:
        if (entry.type, entry.status) == (name, status):
            return entry.last_transition_time or ""
    return ""
