"""Explain why a task waits in a queue, or why the cluster rejects its pods."""

from collections.abc import Mapping

from kubectl_sky.observe import capacity
from kubectl_sky.observe.findings import Detail, Rule, Stage
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot

_QUOTA = (
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?),"
    r" limited: (?P<limit>.+)"
)
_LIMIT = r"(?P<which>maximum|minimum) (?P<what>\S+) usage per (?P<per>\w+) is (?P<limit>[^,]+)"
_NEEDED = r"but (?:request|limit) is (?P<asked>[^.\],]+)|No (?:request|limit) is specified"
# Since Kueue 0.14 with the podsets of the workload apart.
_BEYOND = (
    r"(?:request|previously considered podsets requests \((?P<others>[^)]*)\)"
    r" \+ current podset request \((?P<asked>[^)]*)\)) > maximum capacity"
    r" \((?:(?P<total>\S+) > )?(?P<most>[^)]*)\)"
)


def _suspended(state: TaskSnapshot, _signal: Signal, _groups: Mapping[str, str]) -> dict[str, str]:
    """Return why Jobs in no queue are suspended, and what resumes those of a pipeline's stage."""
    member = state.task.member if state.task else None

    if state.lost:
        return {
            "cause": f"it does not start: {state.lost}",
            "advice": f"run `kubectl sky stop {state.task_id}`, and submit it again",
        }
    leaving = [node.leaving for node in state.task.nodes if node.leaving] if state.task else []
    if leaving:
        return {
            "cause": f"suspended for a moment: cluster node {leaving[0]} rejected its pods",
            "advice": f"if no client follows it, run `kubectl sky wait {state.task_id} --continue`",
        }
    if state.task and state.task.predecessor:
        predecessor = state.task.predecessor
        due = f"suspended, although {predecessor} has succeeded"
        return {
            "cause": due if state.is_due else f"suspended until {predecessor} has succeeded",
            "advice": f"if no client follows it, run `kubectl sky wait {state.task_id} --continue`",
        }
    if member is None or not member.suspended:
        return {
            "cause": "its Jobs are suspended and in no queue",
            "advice": f"see `kubectl get jobs -n {state.namespace} -l task-id={state.task_id}`",
        }
    return {
        "cause": f"stage {member.stage} is suspended",
        "more": f"; resumed after stage {member.stage - 1}",
        "advice": f"if no client follows it, run `kubectl sky wait {member.id} --continue`",
    }


def _unsized(state: TaskSnapshot, signal: Signal, groups: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that a quota requires, without the containers that lack them."""
    fields = (part.partition(" for: ")[0].strip() for part in groups["listed"].split(";"))
    return {"fields": ", ".join(fields)}


def _queue(
    name: str,
    what: str,
    then: str,
    message: str = "",
    reason: str = ".*",
    detail: Detail | None = None,
) -> Rule:
    return Rule(name, Stage.QUEUE, SignalSource.QUEUE, what, then, reason, message, detail)


QUEUE: tuple[Rule, ...] = (
    _queue(
        "queue-missing",
        'queue "{queue}" not found in namespace "{namespace}"',
        "set --queue to one of `kubectl sky queues list -n {namespace}`",
        message=r"LocalQueue (?P<queue>\S+) doesn't exist",
    ),
    _queue(
        "cluster-queue-missing",
        'ClusterQueue "{queue}" of the queue not found',
        "ask a cluster admin; `kubectl get clusterqueues` lists the existing ones",
        message=r"ClusterQueue (?P<queue>\S+) doesn't exist",
    ),
    _queue(
        "queue-stopped",
        '{kind} "{queue}" is stopped or not ready and admits nothing',
        "see `kubectl describe {kind} {queue}`, or ask a cluster admin",
        message=r"(?P<kind>LocalQueue|ClusterQueue) (?P<queue>\S+) is (?:inactive|stopped)",
    ),
    _queue(
        "queue-never",
        "the task requests more {resource} than the queue can ever admit|: {numbers}",
        "request less, or use a queue with a larger quota",
        message=rf"insufficient quota for (?P<resource>\S+) in flavor \S+?, {_BEYOND}",
        detail=capacity.beyond_quota,
    ),
    _queue(
        "queue-lacks",
        "the queue has no quota for {resource}",
        "use another queue of `kubectl sky queues list -n {namespace}`, or ask a cluster admin",
        message=r"resource (?P<resource>\S+) unavailable in ClusterQueue",
    ),
    _queue(
        "queue-topology",
        'no cluster nodes with the label "{level}" fit',
        "check `topology` and the node selector; ask a cluster admin for the labels",
        message=r"no topology domains at level: (?P<level>\S+)",
    ),
    _queue(
        "queue-full",
        "the queue's quota is in use|: {more} more {resource} needed",
        "wait until other workloads finish, or request less",
        message=r"insufficient unused quota for (?P<resource>\S+) in flavor \S+?,"
        r" (?P<more>\S+) more needed",
    ),
    _queue(
        "queue-preempts",
        "the queue is preempting other workloads|: {message}",
        "wait until they have stopped",
        message=r"[Pp]ending the preemption",
    ),
    _queue(
        "queue-preempted",
        "the queue preempted the task|: {why}",
        "it restarts when quota is free; a higher priority class prevents preemption",
        reason="Preempted|.*[Pp]reempt.*",
        message=r"^(?:Preempted to accommodate a workload \([^)]*\) due to )?(?P<why>.*)",
    ),
    _queue(
        "queue-checks",
        "an admission check of the queue is not ready|: {message}",
        "see `kubectl get workloads -n {namespace} -o yaml`",
        message=r"[Aa]dmission ?[Cc]heck",
    ),
    _queue(
        "queue-waits",
        "the queue has not admitted the task|: {message}",
        "see `kubectl get workloads -n {namespace} -o yaml`",
    ),
    Rule(
        "gang-queued",
        Stage.QUEUE,
        SignalSource.GANG,
        "Volcano's queue {queue} has not admitted the task|{why}",
        "see `kubectl describe queues.scheduling.volcano.sh {queue}`;"
        " the task starts when the queue has capacity",
        reason="Queued",
        message=r"'s queue (?P<queue>[^:\s]+)(?P<why>.*)",
    ),
    Rule(
        "gang-waits",
        Stage.SCHEDULING,
        SignalSource.GANG,
        "{gang}|{room}||{why}",
        "{advice}",
        reason="Unschedulable",
        message=r"^(?:.*?'s queue [^:\s]+(?P<why>.*))?",
        detail=capacity.gang_words,
    ),
    Rule(
        "gang-incomplete",
        Stage.SCHEDULING,
        SignalSource.GANG,
        "all {about} nodes start together, and only {message} of their pods exist",
        "see why the others are missing; a node that restarts waits for those that have completed:"
        " use --gang off, or a backend that restarts all nodes together",
        reason="Incomplete",
        mere=True,
    ),
    Rule(
        "gang-unseen",
        Stage.QUEUE,
        SignalSource.GANG,
        "{message}",
        "check that Volcano runs with the scheduler name volcano, or use another --backend",
        reason="Unseen",
    ),
    Rule(
        "queue-nobody",
        Stage.QUEUE,
        SignalSource.WORKLOAD,
        'the task is suspended for queue "{queue}", and no controller admits it',
        "check that Kueue is installed and manages this namespace, or submit without --queue",
        reason="Suspended",
        message=r"^(?P<queue>.+)$",
        mere=True,
    ),
    Rule(
        "suspended",
        Stage.QUEUE,
        SignalSource.WORKLOAD,
        "{cause}||{more}",
        "{advice}",
        reason="Suspended|JobSuspended",
        detail=_suspended,
        mere=True,
    ),
)


def _event(name: str, what: str, then: str, message: str, reason: str = ".*") -> Rule:
    source = SignalSource.WORKLOAD_EVENT
    return Rule(name, Stage.ADMISSION, source, what, then, reason, message)


ADMISSION: tuple[Rule, ...] = (
    Rule(
        "not-submitted",
        Stage.ADMISSION,
        SignalSource.NODE,
        "{message}||; submit was interrupted or is still running",
        "run the same submit again with --id {id}, or delete the task: `kubectl sky stop {id}`",
        reason=str(Missing.NOT_SUBMITTED),
    ),
    Rule(
        "nodes-not-found",
        Stage.ADMISSION,
        SignalSource.NODE,
        "{message}||; the Jobs of the other nodes were deleted or lost their labels",
        "run `kubectl sky stop {id}`, then submit the task again",
        reason="not found",
    ),
    _event(
        "quota-exceeded",
        'quota "{quota}" exceeded|: a node requests {asked}, and {used} of {limit} are in use',
        "see `kubectl get quota -n {namespace}`; stop a task, or request less",
        message=_QUOTA,
    ),
    Rule(
        "quota-unsized",
        Stage.ADMISSION,
        SignalSource.WORKLOAD_EVENT,
        'quota "{quota}" requires every pod to set {fields}',
        "set cpus and memory in resources, or --cpus and --memory",
        message=r"failed quota: (?P<quota>[^:]+): must specify (?P<listed>.+)",
        detail=_unsized,
    ),
    _event(
        "limit-range",
        "a LimitRange allows a {which} of {limit} {what} per {per}||; the task requests {asked}",
        "see `kubectl get limitrange -n {namespace} -o yaml`; change cpus or memory",
        message=rf"{_LIMIT}, {_NEEDED}",
    ),
    _event(
        "limit-ratio",
        "a LimitRange restricts the ratio of limits to requests|: {message}",
        "see `kubectl get limitrange -n {namespace} -o yaml`",
        message=r"max limit to request ratio",
    ),
    _event(
        "pod-security",
        'Pod Security level "{level}" of the namespace rejects the pod|: {rest}',
        "set a securityContext with config.kubernetes.pod_config, or use another namespace",
        message=r'violates PodSecurity "(?P<level>[^"]+)": (?P<rest>.*)',
    ),
    _event(
        "webhook-denied",
        'admission webhook "{webhook}" denied the pod|: {rest}',
        "change the task accordingly, or ask a cluster admin",
        message=r'admission webhook "(?P<webhook>[^"]+)" denied the request:? ?(?P<rest>.*)',
    ),
    _event(
        "webhook-broken",
        'admission webhook "{webhook}" failed|: {rest}',
        "ask a cluster admin; no pods can be created until it works",
        message=r'failed calling webhook "(?P<webhook>[^"]+)": (?P<rest>.*)',
    ),
    _event(
        "policy-denied",
        'admission policy "{policy}" denied the pod|: {rest}',
        "change the task accordingly, or ask a cluster admin",
        message=r"ValidatingAdmissionPolicy '(?P<policy>[^']+)'.*? denied request: (?P<rest>.*)",
    ),
    _event(
        "account-missing",
        'service account "{account}" not found in namespace "{namespace}"',
        "`kubectl get serviceaccounts -n {namespace}` lists the existing ones",
        message=r'serviceaccount "(?P<account>[^"]+)" not found',
    ),
    _event(
        "priority-missing",
        'priority class "{name}" not found',
        "ask a cluster admin which ones there are: `kubectl get priorityclasses` lists them",
        message=r"no PriorityClass with name (?P<name>\S+) was found",
    ),
    _event(
        "namespace-ending",
        'namespace "{namespace}" is being deleted',
        "use another namespace with -n",
        message=r"because it is being terminated",
    ),
    _event(
        "security-constraint",
        "no security context constraint of the namespace admits the pod|: {rest}",
        "ask a cluster admin for one, or use an image that runs as any user",
        message=r"unable to validate against any security context constraint:? ?(?P<rest>.*)",
    ),
    _event(
        "priority-quota",
        "the namespace has no quota for the priority class of the task|: {rest}",
        "use another resources.priority_class, or ask a cluster admin",
        message=r"insufficient quota to match these scopes:? ?(?P<rest>.*)",
    ),
    _event(
        "runtime-class-missing",
        'RuntimeClass "{name}" not found',
        "correct runtimeClassName in pod_config: `kubectl get runtimeclasses` lists them",
        message=r'RuntimeClass "(?P<name>[^"]+)" not found',
    ),
    _event(
        "namespace-selector",
        "the namespace allows its pods on certain cluster nodes only|: {rest}",
        "remove nodeSelector and --infra from the task, or ask a cluster admin",
        message=r"(?P<rest>pod node label selector \w+ with its namespace.*)",
    ),
    _event(
        "namespace-tolerations",
        "the namespace allows its pods certain tolerations only|: {rest}",
        "remove tolerations from config.kubernetes.pod_config, or ask a cluster admin",
        message=r"(?P<rest>pod tolerations .*namespace.*)",
    ),
    _event(
        "api-server-busy",
        "the API server cannot create its pods at the moment|: {rest}",
        "wait: they are tried again",
        message=r"(?P<rest>resource quota evaluation timed out"
        r"|admission plugin .* failed to complete"
        r"|etcdserver: (?:request timed out|leader changed|too many requests).*"
        r"|context deadline exceeded|the server is currently unable to handle the request"
        r"|the object has been modified.*|[Uu]nauthorized$|connect: connection refused"
        r"|http2: .*|unexpected EOF|too many requests.*|i/o timeout)",
    ),
    _event(
        "etcd-full",
        "the database of the cluster is full",
        "ask a cluster admin; nothing can be created until it is compacted",
        message=r"mvcc: database space exceeded",
    ),
    _event(
        "controller-denied",
        "the controller that creates its pods lacks a right|: {rest}",
        "ask a cluster admin",
        message=r'(?P<rest>User "system:serviceaccount:[^"]+" cannot .*)',
    ),
    _event(
        "pod-invalid",
        "the API server finds its pod invalid|: {rest}",
        "correct resources or config.kubernetes.pod_config",
        message=r'(?:Pod|pods?) "[^"]*" is invalid: (?P<rest>.*)',
        reason="FailedCreate",
    ),
    _event(
        "pod-priority",
        "pod_config sets a priority that is not that of its priority class|: {rest}",
        "remove priority from config.kubernetes.pod_config",
        message=r"(?P<rest>the integer value of priority .*)",
    ),
    _event(
        "pods-refused",
        "the API server rejects its pods|: {rest}",
        "change the task accordingly, or ask a cluster admin",
        reason="FailedCreate",
        message=r'^(?:Error creating: )?(?:pods (?:"[^"]*" )?is forbidden: )?(?P<rest>.*)',
    ),
)
