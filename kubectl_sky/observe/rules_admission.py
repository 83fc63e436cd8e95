"""Explain why a task waits in a queue, or why the cluster rejects its pods."""

from kubectl_sky.observe.findings import Rule, Stage
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.symptoms import Source

_QUOTA = (
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?),"
    r" limited: (?P<limit>.+)"
)
_LIMIT = r"(?P<which>maximum|minimum) (?P<what>\S+) usage per (?P<per>\w+) is (?P<limit>[^,]+)"
_NEEDED = r"but (?:request|limit) is (?P<asked>[^.\],]+)|No (?:request|limit) is specified"

QUEUE = (
    Rule(
        "queue-missing",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue {queue} is not there in namespace {namespace}",
        "use one of `kubectl sky queues list -n {namespace}`, with --queue",
        message=r"LocalQueue (?P<queue>\S+) doesn't exist",
    ),
    Rule(
        "cluster-queue-missing",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue belongs to ClusterQueue {queue}, which is not there",
        "tell who runs the cluster; `kubectl get clusterqueues` shows those there are",
        message=r"ClusterQueue (?P<queue>\S+) doesn't exist",
    ),
    Rule(
        "queue-stopped",
        Stage.QUEUE,
        Source.QUEUE,
        "{kind} {queue} is stopped or not ready, and admits nothing",
        "`kubectl describe {kind} {queue}` says why; tell who runs the cluster",
        message=r"(?P<kind>LocalQueue|ClusterQueue) (?P<queue>\S+) is (?:inactive|stopped)",
    ),
    Rule(
        "queue-never",
        Stage.QUEUE,
        Source.QUEUE,
        "the task asks for more {resource} than its queue can ever give: {numbers}",
        "ask for less, or use a queue with a larger quota",
        message=r"insufficient quota for (?P<resource>\S+) in flavor \S+,.*?\((?P<numbers>[^)]*)\)",
    ),
    Rule(
        "queue-full",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue's quota is in use: {more} more {resource} needed",
        "it starts when others end; ask for less to start sooner",
        message=r"insufficient unused quota for (?P<resource>\S+) in flavor \S+?,"
        r" (?P<more>\S+) more needed",
    ),
    Rule(
        "queue-preempts",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue makes room for it: {message}",
        "wait: others are being stopped",
        message=r"[Pp]ending the preemption",
    ),
    Rule(
        "queue-preempted",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue has stopped the task for another: {message}",
        "it starts again when there is room; a higher priority class keeps its place",
        reason="Preempted|.*[Pp]reempt.*",
    ),
    Rule(
        "queue-checks",
        Stage.QUEUE,
        Source.QUEUE,
        "an admission check of the queue has not said yes: {message}",
        "`kubectl describe workloads -n {namespace}` shows which",
        message=r"[Aa]dmission ?[Cc]heck",
    ),
    Rule(
        "queue-waits",
        Stage.QUEUE,
        Source.QUEUE,
        "the queue has not admitted the task: {message}",
        "`kubectl describe workloads -n {namespace}` says more",
    ),
    Rule(
        "gang-queued",
        Stage.QUEUE,
        Source.GANG,
        "Volcano's queue {queue} has not let the task in{why}",
        "`kubectl describe queues.scheduling.volcano.sh {queue}` shows what it has;"
        " the task starts when there is room",
        reason="Queued",
        message=r"'s queue (?P<queue>[^:\s]+)(?P<why>.*)",
    ),
    Rule(
        "gang-waits",
        Stage.SCHEDULING,
        Source.GANG,
        "Volcano finds no room for all nodes at once{why}",
        "it starts when others end; ask for less, or for fewer nodes",
        reason="Unschedulable",
        message=r"'s queue [^:\s]+(?P<why>.*)",
    ),
    Rule(
        "gang-unseen",
        Stage.QUEUE,
        Source.GANG,
        "{message}",
        "it does not run, or is not called volcano; submit with another --backend",
        reason="Unseen",
    ),
    Rule(
        "queue-nobody",
        Stage.QUEUE,
        Source.WORKLOAD,
        "the task waits in the queue {queue}, and nothing here admits it",
        "Kueue is not installed, or does not look at this namespace; submit without --queue",
        reason="Suspended",
        message=r"^(?P<queue>.+)$",
        mere=True,
    ),
    Rule(
        "suspended",
        Stage.QUEUE,
        Source.WORKLOAD,
        "its Jobs are suspended, and no queue will resume them",
        "`kubectl get jobs -n {namespace} -l task-id={id}` shows them;"
        " a stage of a pipeline waits for the one before",
        reason="Suspended|JobSuspended",
        mere=True,
    ),
)

ADMISSION = (
    Rule(
        "not-submitted",
        Stage.ADMISSION,
        Source.NODE,
        "{message}; submit was interrupted or is still running",
        "run the same submit again with --id {id}, or delete the task: `kubectl sky stop {id}`",
        reason=str(Missing.NOT_SUBMITTED),
    ),
    Rule(
        "nodes-not-found",
        Stage.ADMISSION,
        Source.NODE,
        "{message}; the other nodes were deleted or not submitted",
        "run the same submit again with --id {id}, or delete the task: `kubectl sky stop {id}`",
        reason="not found",
    ),
    Rule(
        "quota-exceeded",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the quota {quota} is full: a node asks for {asked}, and {used} of {limit} are in use",
        "`kubectl describe quota {quota} -n {namespace}`; stop a task, or ask for less",
        message=_QUOTA,
    ),
    Rule(
        "quota-unsized",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the quota {quota} wants every pod to say its {fields}",
        "give cpus and memory in resources, or --cpus and --memory",
        message=r"failed quota: (?P<quota>[^:]+): must specify (?P<fields>.+?)(?: for: .*)?$",
    ),
    Rule(
        "limit-range",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "a LimitRange allows a {which} of {limit} {what} in a {per}; the task asks for {asked}",
        "`kubectl describe limitrange -n {namespace}`; change cpus, memory or the limits",
        message=rf"{_LIMIT}, {_NEEDED}",
    ),
    Rule(
        "limit-ratio",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "a LimitRange bounds how far limits may be above requests: {message}",
        "`kubectl describe limitrange -n {namespace}`",
        message=r"max limit to request ratio",
    ),
    Rule(
        "pod-security",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the namespace's Pod Security level {level} does not allow such pods: {rest}",
        "set a securityContext with config.kubernetes.pod_config, or use another namespace",
        message=r'violates PodSecurity "(?P<level>[^"]+)": (?P<rest>.*)',
    ),
    Rule(
        "webhook-denied",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the admission webhook {webhook} says no: {rest}",
        "do what it says, or ask who runs it",
        message=r'admission webhook "(?P<webhook>[^"]+)" denied the request:? ?(?P<rest>.*)',
    ),
    Rule(
        "webhook-broken",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the admission webhook {webhook} does not answer: {rest}",
        "tell who runs the cluster: no pod can be made meanwhile",
        message=r'failed calling webhook "(?P<webhook>[^"]+)": (?P<rest>.*)',
    ),
    Rule(
        "policy-denied",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the policy {policy} says no: {rest}",
        "do what it says, or ask who wrote it",
        message=r"ValidatingAdmissionPolicy '(?P<policy>[^']+)'.*? denied request: (?P<rest>.*)",
    ),
    Rule(
        "account-missing",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the service account {account} is not there in namespace {namespace}",
        "`kubectl get serviceaccounts -n {namespace}` shows those there are",
        message=r'serviceaccount "(?P<account>[^"]+)" not found',
    ),
    Rule(
        "priority-missing",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the priority class {name} is not there",
        "use one of `kubectl get priorityclasses` in resources.priority_class",
        message=r"no PriorityClass with name (?P<name>\S+) was found",
    ),
    Rule(
        "namespace-ending",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the namespace {namespace} is being deleted",
        "use another namespace with -n",
        message=r"because it is being terminated",
    ),
    Rule(
        "pods-refused",
        Stage.ADMISSION,
        Source.WORKLOAD_EVENT,
        "the cluster refuses its pods: {message}",
        "do what it says",
        reason="FailedCreate",
    ),
)
