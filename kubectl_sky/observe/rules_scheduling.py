"""Explain why no cluster node accepts a node of the task."""

from collections.abc import Mapping

from kubectl_sky.observe import capacity
from kubectl_sky.observe.findings import Detail, Rule, Stage
from kubectl_sky.observe.signals import CLAIM_MISSING, Signal, SignalSource, TaskSnapshot


def _deletion(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    waits = snapshot.deletions.get(groups["claim"])
    return {"deletion": f": {waits}" if waits else ""}


def _missing_claim(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return whether a volume of this name came after the task, and what to do."""
    claim = groups["claim"]
    later = snapshot.volumes.get(claim)
    if later:
        words = f'; volume "{claim}" came after the task: its PVC is "{later}"'
        return {"later": words, "advice": "stop the task and submit it again, to mount the volume"}
    command = f"kubectl sky volumes create {claim} SIZE --pvc-name {claim}"
    return {"later": "", "advice": f"create it: `{command}`"}


_DETAILS: Mapping[str, Detail] = {
    "claim-missing": _missing_claim,
    "claim-ending": _deletion,
    "insufficient": capacity.insufficient,
    "tainted": capacity.taints,
    "labels": capacity.labels,
    "resource-claim": capacity.devices,
}
# Name, scheduler message, meaning, action; `about` is the count of cluster nodes (`2/3`).
_ROWS = (
    (
        "too-many-pods",
        r"Too many pods",
        "{about} cluster nodes have reached their maximum number of pods",
        "wait until other workloads finish, or ask a cluster admin for more cluster nodes",
    ),
    (
        "insufficient",
        r"^Insufficient (?P<resources>.+)",
        "{about} cluster nodes have insufficient {resources}|: a node requests {asked}||{have}",
        "{advice}",
    ),
    (
        "being-removed",
        r"untolerated taint[^}]{,300}(?:ByClusterAutoscaler|karpenter\.sh/disrupt"
        r"|node\.kubernetes\.io/out-of-service|aws-node-termination-handler)",
        "{about} cluster nodes are being removed",
        "wait for other cluster nodes",
    ),
    (
        "not-ready",
        r"untolerated taint[^}]{,300}"
        r"(?:node\.kubernetes\.io/(?:not-ready|unreachable|network-unavailable)"
        r"|cloudprovider\.kubernetes\.io/uninitialized)",
        "{about} cluster nodes are not ready",
        "see `kubectl get nodes`, or ask a cluster admin",
    ),
    (
        "under-pressure",
        r"untolerated taint[^}]{,300}node\.kubernetes\.io/(?P<what>disk|memory|pid)-pressure",
        "{about} cluster nodes are short of {what}, and take no pods now",
        "wait, or ask a cluster admin",
    ),
    (
        "tainted",
        r"had untolerated taint",
        "{about} cluster nodes have taints that the task does not tolerate|{taints}",
        "add tolerations with config.kubernetes.pod_config, if you may use these cluster nodes",
    ),
    (
        "cordoned",
        r"were unschedulable",
        "{about} cluster nodes are cordoned",
        "see `kubectl get nodes`, or ask a cluster admin",
    ),
    (
        "labels",
        r"didn't (?:match|satisfy) (?:Pod's|plugin.*) ?node (?:affinity|selector)",
        "{lacks}|{wanted}||{have}",
        "{advice}",
    ),
    (
        "exclusive-pods",
        r"(?:didn't|did not) satisfy existing pods anti-affinity",
        "{about} cluster nodes run pods that allow no others there",
        "wait until they finish",
    ),
    (
        "pod-anti-affinity",
        r"didn't (?:match|satisfy) (?:pod )?(?:pods )?anti-affinity",
        "{about} cluster nodes run pods that the pod anti-affinity of the task excludes",
        "wait until they finish; --exclusive or config.kubernetes.pod_config excludes them",
    ),
    (
        "pod-affinity",
        r"didn't (?:match|satisfy) (?:pod )?(?:pods )?(?:anti-)?affinity",
        "{about} cluster nodes do not match the pod affinity of config.kubernetes.pod_config",
        "use preferred instead of required affinity",
    ),
    (
        "spread",
        r"pod topology spread constraints",
        "{about} cluster nodes do not match the topology spread constraints|: {message}",
        "use ScheduleAnyway instead of DoNotSchedule",
    ),
    (
        "host-port",
        r"free ports for the requested pod ports",
        "on {about} cluster nodes another pod uses the requested host port",
        "remove hostPort from config.kubernetes.pod_config; a Service needs none",
    ),
    (
        "volume-zone",
        r"volume node affinity conflict|available volume zone|didn't match PersistentVolume's",
        "{about} cluster nodes cannot mount the volume, which is in another zone or node",
        "see `kubectl get pv`; use a ReadWriteMany volume, or cluster nodes in its zone",
    ),
    (
        "volume-missing",
        r"bound to non-existent|non-existent pv",
        "the PersistentVolume of a PVC does not exist any more",
        "see `kubectl sky volumes list`; delete the volume and create it again",
    ),
    (
        "volume-unavailable",
        r"find available persistent volumes",
        "{about} cluster nodes have no PersistentVolume that fits the PVC, and none is made",
        "create the volume with a --storage-class that provisions, or ask a cluster admin",
    ),
    (
        "volume-count",
        r"exceed max volume count",
        "{about} cluster nodes have reached their maximum number of volumes",
        "wait until other workloads finish",
    ),
    (
        "volume-room",
        r"did not have enough free storage",
        "{about} cluster nodes have too little free storage for the volume",
        "create a smaller volume, or use another --storage-class",
    ),
    (
        "volume-slow",
        r"binding volumes: .*deadline exceeded",
        "a volume was not bound in time",
        "see `kubectl sky volumes list`; it is tried again",
    ),
    (
        "volume-exclusive",
        r"ReadWriteOncePod",
        "a volume is ReadWriteOncePod and used by another pod",
        "wait until that pod finishes; see `kubectl sky volumes list`",
    ),
    (
        "claim-missing",
        r'(?:persistentvolumeclaim "|could not find v1\.PersistentVolumeClaim "[^/"]+/)'
        r'(?P<claim>[^"]+)"(?: not found|$)',
        'PVC "{claim}" not found in namespace "{namespace}"||{later}',
        "{advice}",
    ),
    (
        "claim-ending",
        r'persistentvolumeclaim "(?P<claim>[^"]+)" is being deleted',
        'PVC "{claim}" is being deleted|{deletion}',
        "use another volume, or wait until it is deleted and create it again",
    ),
    (
        "claim-unbound",
        r"unbound immediate PersistentVolumeClaims",
        "a PVC is not bound yet",
        "see `kubectl sky volumes list`",
    ),
    (
        "resource-claim",
        r"[Rr]esource ?[Cc]laim|cannot allocate all claims|resource driver"
        r"|device class (?P<class>\S+) does not",
        "{devices}|{numbers}||{have}",
        "{advice}",
    ),
    (
        "no-cluster-nodes",
        r"no nodes available|^0/0 nodes",
        "the cluster has no nodes that run pods",
        "wait for the autoscaler, or ask a cluster admin",
    ),
    (
        "gpu-share",
        r"node unregister|^Card[A-Z]|Insufficient\w*Card|Cards\w*Insufficient|NodeUnfit",
        "HAMi finds no GPU for it on {about} cluster nodes|: {message}",
        "request less GPU memory, or ask a cluster admin whether HAMi's device plugin runs",
    ),
    (
        "gang-unschedulable",
        r"gang unschedulable|pod group is not ready",
        "its nodes start together, and there is no room for all|: {message}",
        "wait, or request fewer or smaller nodes",
    ),
    (
        "gated",
        r"non-empty scheduling gates",
        "its pods have scheduling gates",
        "see schedulingGates in `kubectl get pods -n {namespace} -l task-id={id} -o yaml`",
    ),
)

SCHEDULING: tuple[Rule, ...] = (
    Rule(
        "resource-claim-missing",
        Stage.SCHEDULING,
        SignalSource.SCHEDULER,
        'ResourceClaim "{message}" not found',
        "create it, or correct resourceClaims in config.kubernetes.pod_config;"
        " see `kubectl get resourceclaims -n {namespace}`",
        reason=CLAIM_MISSING,
    ),
    Rule(
        "no-scheduler",
        Stage.SCHEDULING,
        SignalSource.SCHEDULER,
        'scheduler "{message}" has not handled its pods',
        "{advice}",
        reason="Unseen",
        detail=capacity.idle_scheduler,
        mere=True,
    ),
    *(
        Rule(
            name,
            Stage.SCHEDULING,
            SignalSource.SCHEDULER,
            what,
            then,
            message=message,
            detail=_DETAILS.get(name),
            mere=name == "claim-unbound",
        )
        for name, message, what, then in _ROWS
    ),
    Rule(
        "unschedulable",
        Stage.SCHEDULING,
        SignalSource.SCHEDULER,
        "{about} cluster nodes do not match|: {message}",
        "request less, or what the cluster has; or ask a cluster admin",
    ),
    Rule(
        "autoscaler-refuses",
        Stage.SCHEDULING,
        SignalSource.POD_EVENT,
        "the autoscaler adds no cluster node for it|: {why}",
        "request what its node groups have, or ask a cluster admin",
        reason="NotTriggerScaleUp",
        message=r"(?:didn't|did not) trigger scale-up:? ?(?P<why>.*)",
        mere=True,
    ),
    Rule(
        "autoscaler-fails",
        Stage.SCHEDULING,
        SignalSource.POD_EVENT,
        "the autoscaler could not add a cluster node|: {message}",
        "wait: it tries again; or request another GPU or zone",
        reason="FailedScaleUp|FailedToScaleUpGroup",
    ),
    Rule(
        "autoscaler-adds",
        Stage.SCHEDULING,
        SignalSource.POD_EVENT,
        "the autoscaler is adding a cluster node for it",
        "wait",
        reason="TriggeredScaleUp",
        mere=True,
    ),
    Rule(
        "preempted",
        Stage.SCHEDULING,
        SignalSource.POD,
        "the scheduler preempted its pods for pods with a higher priority",
        "submit the task again, with a higher resources.priority_class if you have one",
        reason="PreemptionByScheduler",
    ),
)
