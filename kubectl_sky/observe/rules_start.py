"""Explain why a node's container does not start: configuration, runtime, network, rejection."""

from collections.abc import Mapping

from msgspec.structs import replace

from kubectl_sky.observe.findings import Rule, Stage, find_host
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot

_CONFIG = "CreateContainerConfigError"
_START = "RunContainerError|CreateContainerError|StartError.*|ContainerCannotRun.*"


def _config(name: str, reason: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, SignalSource.WAITING, what, then, reason=reason, message=message)


def _ended(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, SignalSource.ENDED, what, then, reason=_START, message=message)


def _starts(name: str, message: str, what: str, then: str) -> tuple[Rule, Rule]:
    """Return the rules of a text of the container runtime: while it tries again, and at the end."""
    rule = Rule(
        name,
        Stage.START,
        SignalSource.ENDED,
        what,
        then,
        reason=_START,
        message=message,
        detail=find_host,
    )
    return rule, replace(rule, source=SignalSource.WAITING, reason=f"{_START}|{_CONFIG}")


def _rejected(
    name: str, reason: str, why: str = "", start: str = "(?:Pod was rejected: )?"
) -> Rule:
    return Rule(
        name,
        Stage.START,
        SignalSource.POD,
        f"cluster node {{host}} rejected the pod{why}: {{text}}",
        "submit the task again with --exclude-node {host}{more}",
        reason,
        rf"^{start}(?P<text>.*)",
        detail=_host_and_retries,
    )


def _host_and_retries(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the cluster node, and what tries a rejected pod again if the task does not have it."""
    more = "" if snapshot.recovers else "; resources.job_recovery tries such pods again"
    return {**find_host(snapshot, signal, groups), "more": more}


def _sandbox(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(
        name,
        Stage.START,
        SignalSource.POD_EVENT,
        what,
        then,
        reason="FailedCreatePodSandBox|NetworkNotReady",
        message=message,
        detail=find_host,
    )


START: tuple[Rule, ...] = (
    _config(
        "config-missing",
        _CONFIG,
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        '{kind} "{name}" of an environment variable not found',
        "see `kubectl get {kind} -n {namespace}`; submit the task again if it was deleted",
    ),
    _config(
        "config-key",
        _CONFIG,
        r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?P<name>\S+)",
        '{kind} "{name}" has no key "{key}"',
        "see `kubectl describe {kind} -n {namespace}`",
    ),
    _config(
        "runs-as-named-user",
        _CONFIG,
        r"non-numeric user \((?P<user>[^)]*)\)",
        'the image runs as the user "{user}", and runAsNonRoot of the pod requires a number',
        "set runAsUser to the number of that user with config.kubernetes.pod_config",
    ),
    _config(
        "runs-as-user-0",
        _CONFIG,
        r"runAsUser breaks non-root policy",
        "the pod sets runAsUser 0 and runAsNonRoot",
        "remove one of them from config.kubernetes.pod_config",
    ),
    _config(
        "runs-as-root",
        _CONFIG,
        r"runAsNonRoot",
        "the image runs as root, and the pod requires runAsNonRoot",
        "set runAsUser with config.kubernetes.pod_config, or use another image",
    ),
    _config(
        "sub-path",
        f"{_CONFIG}|{_START}",
        r"subPath",
        "a subPath of a volume cannot be used|: {message}",
        "create the folder on the volume first, or correct the path",
    ),
    *_starts(
        "gpu-driver",
        r"(?P<why>driver/library version mismatch|nvidia-container-cli: initialization error"
        r"(?!.*unsatisfied).*|nvml error.*|failed to initialize NVML.*|Driver Not Loaded"
        r"|driver rpc error.*|load library failed: libnvidia\S*.*)",
        "the GPU driver of the cluster node does not work|: {why}",
        "submit it with --exclude-node {host}; ask a cluster admin to restart that cluster node",
    ),
    *_starts(
        "gpu-cuda",
        r"unsatisfied condition: (?P<needs>cuda ?>=? ?\S+?)[,\s]*(?:please|$|:|\Z|\")",
        "the image needs {needs}, which is newer than the driver of the cluster node",
        "use an image for an older CUDA, or cluster nodes with a newer driver",
    ),
    *_starts(
        "gpu-device",
        r"(?P<why>device error: [^\"]*unknown device|unknown device|no NVIDIA devices? found[^\"]*"
        r"|could not select device driver[^\"]*|unresolvable CDI devices \S+"
        r"|failed to inject CDI devices[^\"]*|no such file or directory: /dev/nvidia\S*)",
        "a GPU of the cluster node is gone or unknown to the container runtime|: {why}",
        "submit it with --exclude-node {host}; ask a cluster admin to look at that cluster node",
    ),
    *_starts(
        "memory-to-start",
        r"OOM-killed|container init was OOM|memory limit too low",
        "the memory limit is too small for the container to start",
        "request more with resources.memory or --memory",
    ),
    *_starts(
        "folder-missing",
        r'chdir to cwd \("(?P<folder>[^"]*)"\)[^:]*: (?P<why>[^:"]*)',
        'the working directory "{folder}" of the image cannot be used|: {why}',
        "correct workingDir in config.kubernetes.pod_config, or the image's WORKDIR",
    ),
    *_starts(
        "program-refused",
        r'exec: "(?P<program>[^"]+)": permission denied',
        '{about} cannot start: "{program}" is not executable for its user',
        "make it executable in the image, or set runAsUser",
    ),
    *_starts(
        "runtime-slow",
        r"context deadline exceeded|operation timeout|name .*is reserved for",
        "the container runtime of the cluster node is slow or restarts|: {message}",
        "wait: the kubelet tries again; if it stays so, add --exclude-node {host}",
    ),
    _ended(
        "shell-missing",
        r'exec: "(?P<program>/bin/sh)"',
        "the image has no shell ({program})",
        "use an image with /bin/sh, which runs setup and run",
    ),
    _ended(
        "program-missing",
        r'exec: "(?P<program>[^"]+)".*(?:no such file|not found)',
        '{about} cannot start: "{program}" not found in the image',
        "use an image that has it",
    ),
    _ended(
        "program-format",
        r"exec format error",
        "the image, or a program in it, is for another CPU architecture than the cluster node's",
        "use an image for that platform",
    ),
    _ended(
        "start-failed",
        "",
        "the container cannot start|: {message}",
        "check the image and config.kubernetes.pod_config",
    ),
    _config(
        "container-refused",
        f"{_CONFIG}|{_START}",
        "",
        "the container cannot start|: {message}",
        "check the image and config.kubernetes.pod_config",
    ),
    _sandbox(
        "runtime-missing",
        r'no runtime for "(?P<handler>[^"]+)" is configured|RuntimeHandler "(?P<other>[^"]+)"',
        'the cluster node has no container runtime "{handler}{other}"||, of a RuntimeClass',
        "ask a cluster admin to install it, or remove runtimeClassName from pod_config",
    ),
    _sandbox(
        "pod-addresses",
        r"no (?:IP addresses|addresses|free IP|more IPs?)[^:]*available|no IP addresses"
        r"|failed to assign an IP address|InsufficientCidrBlocks|range is full|No available IP"
        r"|no available IPs?|all .*addresses .*(?:in use|allocated)",
        "the network of the cluster node has no free address for the pod|: {message}",
        "ask a cluster admin, or add --exclude-node {host}",
    ),
    _sandbox(
        "network-not-ready",
        r"cni plugin not initialized|cni config uninitialized|network plugin is not ready"
        r"|NetworkPluginNotReady|stat /var/lib/calico/nodename|no networks found in /etc/cni"
        r"|cilium.*(?:connection refused|no such file)|connect: connection refused",
        "the network of the cluster node is not ready|: {message}",
        "wait; if it stays so, add --exclude-node {host} and ask a cluster admin",
    ),
    _sandbox(
        "sandbox-image",
        r'failed to (?:get sandbox image|pull image) "(?P<image>[^"]+)"',
        'the cluster node cannot pull its own image "{image}"|: {message}',
        "ask a cluster admin: pods cannot start on that cluster node",
    ),
    Rule(
        "sandbox-failed",
        Stage.START,
        SignalSource.POD_EVENT,
        "the cluster node cannot create the pod's sandbox or network|: {message}",
        "ask a cluster admin",
        reason="FailedCreatePodSandBox|NetworkNotReady",
    ),
    Rule(
        "cluster-node-not-ready",
        Stage.START,
        SignalSource.POD_EVENT,
        "its cluster node {about} is not ready",
        "wait: Kubernetes deletes the pod if it stays away; `kubectl get nodes` shows an admin why",
        reason="NodeNotReady",
    ),
    _rejected(
        "rejected-affinity",
        "NodeAffinity|TopologyAffinityError|NodeSelectorMismatching",
        ": its labels or NUMA layout do not fit",
    ),
    _rejected("rejected-devices", "UnexpectedAdmissionError", ": its devices do not work"),
    _rejected(
        "rejected-full",
        r"OutOf\S+|UnexpectedPredicateFailureType|PodResizeInfeasible",
        ": it has no room",
    ),
    _rejected("rejected", ".*", start="Pod was rejected: "),
    Rule(
        "init-failed",
        Stage.START,
        SignalSource.INIT_ENDED,
        "{about} failed|: {end}{said}",
        "see `kubectl sky logs {id} --all-containers`",
        detail=lambda _, signal, __: {"said": f": {signal.message}" if signal.message else ""},
    ),
)
