"""An AppWrapper around one Indexed Job: let in by Kueue as a whole, and started again as one."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kubectl_sky import counts, kinds
from kubectl_sky.facts import Facts
from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads import recovery
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    STOPPED,
    Object,
    Phase,
    Verdict,
    condition,
    waiting,
)

_PREFIX = "workload.codeflare.dev.appwrapper/"
_LIMIT = f"{_PREFIX}retryLimit"
_OWN = MappingProxyType(
    {
        f"{_PREFIX}retryPausePeriodDuration": "10s",  # as a Job before its first restart
        f"{_PREFIX}failureGracePeriodDuration": "0s",  # only a restart mends a node that failed
        f"{_PREFIX}warmupGracePeriodDuration": "1h",  # images may be large
        f"{_PREFIX}deletionOnFailureGracePeriodDuration": "1h",  # else its logs go at once
    }
)
_SUCCESS = f"{_PREFIX}successTTLDuration"
# What is said of the wrapper when a node of it failed; its pod says how.
_A_NODE = ("FailedComponent", "FoundFailedPods")
_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "CreateFailed": "the AppWrapper controller may not create it, or the cluster refuses it",
        "InsufficientPodsReady": "the nodes did not all start in time",
        "MissingComponent": "somebody deleted its Job",
    }
)


class AppWrapper(AllNodes):
    """Every node is an index of the one Job that is wrapped, so that Kueue takes all or none."""

    name = "appwrapper"
    kind = kinds.APP_WRAPPER
    template = "appwrapper.yaml.j2"
    requires = "AppWrapper"
    again_together = True
    between = "workload.codeflare.dev/appwrapper"

    def annotations(self, plan: Plan) -> Mapping[str, str]:
        """How often and how soon it starts again, and how long it stays."""
        lingers = {} if plan.linger is None else {_SUCCESS: f"{plan.linger}s"}
        return {_LIMIT: str(plan.restarts)} | _OWN | lingers

    def job(self, item: Object) -> Object:
        """The Job that is wrapped, which has the wrapper's name."""
        components: Sequence[Object] = item.get("spec", {}).get("components") or ({},)
        template: Object = components[0].get("template") or {}
        return template

    def fits(self, plan: Plan, facts: Facts) -> str:
        """It counts every failure, so it has to be told how many there may be."""
        return recovery.uncounted(plan)

    def notes(self, plan: Plan) -> Sequence[str]:
        """What is counted, and for how long a failed task keeps its place."""
        kept = "appwrapper: a failed task keeps its logs and its quota for an hour, or until `stop`"
        counted = f"all nodes start again together, whatever ended one, {plan.restarts} times"
        return (kept, f"job_recovery: {counted}") if plan.recovers else (kept,)

    def node(self, item: Object, rank: int) -> Verdict:
        """Done or failed with the wrapper, by its phase."""
        phase = _phase(item)
        if phase == "Succeeded":
            return Verdict(Phase.COMPLETED, at=_since(item, "ResourcesDeployed"))
        if phase == "Failed":
            return _failed(item)
        if phase == "Suspending":
            return Verdict(Phase.HELD, phase, "Kueue has taken its place away")
        return waiting(item)

    def attempts(self, item: Object) -> int:
        """All nodes have started again as often as the wrapper was reset."""
        return _resets(item) + 1

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """All nodes start again while the wrapper may be reset once more."""
        if not pods or pods[-1].get("status", {}).get("phase") != "Failed":
            return False
        limit = counts.whole(item["metadata"].get("annotations", {}).get(_LIMIT))
        left = limit - _resets(item)
        return _phase(item) == "Resetting" or (_phase(item) == "Running" and left > 0)


def _failed(item: Object) -> Verdict:
    why = condition(item, "Unhealthy") or {}
    reason, said = why.get("reason") or "Failed", why.get("message") or ""
    at = why.get("lastTransitionTime") or ""
    if reason in _A_NODE:
        return Verdict(Phase.FAILED, STOPPED, f"{reason}: {said}", at)
    message = ": ".join(filter(None, (_ADVICE.get(reason), said)))
    return Verdict(Phase.FAILED, reason, message, at)


def _phase(item: Object) -> str:
    return str(item.get("status", {}).get("phase") or "")


def _resets(item: Object) -> int:
    return item.get("status", {}).get("resettingCount") or 0


def _since(item: Object, name: str) -> str:
    return str((condition(item, name) or {}).get("lastTransitionTime") or "")
