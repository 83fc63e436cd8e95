"""Explain why no cluster node accepts a node of the task."""

from collections.abc import Mapping

from kubectl_sky.observe import machines
from kubectl_sky.observe.findings import Detail, Rule, Stage
from kubectl_sky.observe.symptoms import Source

_DETAILS: Mapping[str, Detail] = {
    "insufficient": machines.insufficient,
    "tainted": machines.taints,
    "labels": machines.labels,
}
# Name, scheduler message, meaning, action; `about` is the count of cluster nodes (`2/3`).
_ROWS = (
    (
        "too-many-pods",
        r"Too many pods",
        "on {about} machines there are as many pods as they may have",
        "wait until others end, or ask for a larger cluster",
    ),
    (
        "insufficient",
        r"^Insufficient (?P<resource>\S+)",
        "{about} machines have too little {resource}: a node asks for {asked}{have}",
        "{advice}",
    ),
    (
        "not-ready",
        r"untolerated taint.*node\.kubernetes\.io/(?:not-ready|unreachable)",
        "{about} machines are not ready",
        "`kubectl get nodes`; tell who runs the cluster",
    ),
    (
        "tainted",
        r"had untolerated taint",
        "{about} machines have taints that keep the task away{taints}",
        "tolerate them with config.kubernetes.pod_config, if you may use these machines",
    ),
    (
        "cordoned",
        r"were unschedulable",
        "{about} machines are cordoned",
        "`kubectl get nodes`; tell who runs the cluster",
    ),
    (
        "labels",
        r"didn't (?:match|satisfy) (?:Pod's|plugin.*) ?node (?:affinity|selector)",
        "{about} machines lack the labels that the task asks for{wanted}{have}",
        "`kubectl sky gpus` shows the names of the cluster's GPUs; ask for one of them",
    ),
    (
        "pod-affinity",
        r"didn't (?:match|satisfy) (?:existing pods )?(?:pod )?(?:pods )?(?:anti-)?affinity",
        "{about} machines do not fit what config.kubernetes.pod_config says of pod affinity",
        "loosen it: preferred instead of required",
    ),
    (
        "spread",
        r"pod topology spread constraints",
        "{about} machines do not fit the topology spread constraints: {message}",
        "loosen them: ScheduleAnyway instead of DoNotSchedule",
    ),
    (
        "host-port",
        r"free ports for the requested pod ports",
        "on {about} machines another pod has the host port that the task asks for",
        "remove hostPort from config.kubernetes.pod_config; a Service needs none",
    ),
    (
        "volume-zone",
        r"volume node affinity conflict|available volume zone|didn't match PersistentVolume's",
        "{about} machines cannot reach the volume: it lives in another zone or on another machine",
        "`kubectl get pv` shows where; use a volume of ReadWriteMany, or ask for machines there",
    ),
    (
        "volume-count",
        r"exceed max volume count",
        "{about} machines have as many volumes as they can attach",
        "wait until others end",
    ),
    (
        "volume-exclusive",
        r"ReadWriteOncePod",
        "a volume is ReadWriteOncePod, and another pod has it",
        "wait until that pod ends; `kubectl sky volumes list` shows volumes",
    ),
    (
        "claim-missing",
        r'persistentvolumeclaim "(?P<claim>[^"]+)" not found',
        "the volume {claim} is not there in namespace {namespace}",
        "`kubectl sky volumes list`; `kubectl sky volumes create` makes one",
    ),
    (
        "claim-ending",
        r'persistentvolumeclaim "(?P<claim>[^"]+)" is being deleted',
        "the volume {claim} is being deleted",
        "use another volume",
    ),
    (
        "claim-unbound",
        r"unbound immediate PersistentVolumeClaims",
        "a volume has no storage yet",
        "`kubectl sky volumes list`; see below why",
    ),
    (
        "resource-claim",
        r"[Rr]esource ?[Cc]laim",
        "a device that the task claims is not there: {message}",
        "`kubectl get resourceclaims -n {namespace}`",
    ),
    (
        "no-machines",
        r"no nodes available|^0/0 nodes",
        "the cluster has no machine that could run anything",
        "tell who runs the cluster, or wait for its autoscaler",
    ),
    (
        "gated",
        r"non-empty scheduling gates",
        "something holds its pods back with a scheduling gate",
        "`kubectl get pods -n {namespace} -l task-id={id} -o yaml` names it in schedulingGates",
    ),
)

SCHEDULING = (
    Rule(
        "no-scheduler",
        Stage.SCHEDULING,
        Source.SCHEDULER,
        "the scheduler {message} has not looked at its pods",
        "{advice}",
        reason="Unseen",
        detail=machines.unseen,
        mere=True,
    ),
    *(
        Rule(
            name,
            Stage.SCHEDULING,
            Source.SCHEDULER,
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
        Source.SCHEDULER,
        "{about} machines do not fit: {message}",
        "ask for less, or for what the cluster has",
    ),
    Rule(
        "preempted",
        Stage.SCHEDULING,
        Source.POD,
        "the scheduler stopped its pods for others of a higher priority",
        "submit it again, with a higher resources.priority_class if you may",
        reason="PreemptionByScheduler",
    ),
)
