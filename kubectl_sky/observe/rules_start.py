"""Explain why a node's container does not start: configuration, runtime, network, rejection."""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from kubectl_sky.observe.findings import Rule, Stage, find_host
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot

_CONFIG = "CreateContainerConfigError"
_FAULT = (
    r"no space left on device|cannot allocate memory|too many open files|input/output error"
    r"|[Rr]esource temporarily unavailable|[Rr]ead-only file system|device or resource busy"
)
_WRAPPERS = re.compile(
    r"(?:\(combined from similar events\): |Failed to create pod sandbox: "
    r"|rpc error: code = \w+ desc = |OCI runtime create failed: "
    r"|failed to create (?:containerd|shim) task: |runc create failed: "
    r"|unable to start container process: |error during container init: )+"
)
_START = "RunContainerError|CreateContainerError|StartError.*|ContainerCannotRun.*"


def _config(name: str, reason: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, SignalSource.WAITING, what, then, reason=reason, message=message)


def _ended(name: str, message: str, what: str, then: str) -> Rule:
    source = SignalSource.ENDED
    return Rule(
        name, Stage.START, source, what, then, _START, message=message, detail=_host_and_text
    )


def _host_and_text(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the cluster node, and the message without what each layer puts before it."""
    wrapped = _WRAPPERS.match(signal.message)
    text = signal.message[wrapped.end() :] if wrapped else signal.message
    return {**find_host(snapshot, signal, groups), "text": text}


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
        detail=_host_and_text,
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
        detail=_host_and_text,
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
        r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?:\S+/)?(?P<name>\S+)",
        '{kind} "{name}" has no key "{key}"',
        "see `kubectl describe {kind} {name} -n {namespace}`",
    ),
    _config(
        "config-key-of-volume",
        _CONFIG,
        r"(?P<kind>secret|configmap) references non-existent \w+ key: (?P<key>\S+)",
        'a {kind} that is mounted has no key "{key}"',
        "see `kubectl describe {kind} -n {namespace}`; correct `items` in pod_config",
    ),
    _config(
        "config-unread",
        _CONFIG,
        r"(?P<why>failed to sync \w+ cache|services have not yet been read at least once)",
        "the kubelet has not read what the container needs from the API server|: {why}",
        "wait: it tries again",
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
    *_starts(
        "sub-path",
        r"(?<!/)subPath(?!/)|volume-subpaths|^stat \S+: no such file",
        "a subPath of a volume cannot be used|: {text}",
        "create the folder on the volume first, or correct the path",
    ),
    *_starts(
        "mount-stale",
        r"[Ss]tale (?:NFS )?file handle",
        "a mount of cluster node {host} is dead: its storage server has changed",
        "submit it with --exclude-node {host}; ask a cluster admin to mount it again",
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
        "gpu-files-in-image",
        r"file creation failed: (?:\S*/(?:merged|rootfs|fs))?(?P<file>/\S+): file exists",
        "the image has a file of the GPU driver, which the cluster node brings: {file}",
        "use an image without the driver: it needs the CUDA libraries alone",
    ),
    *_starts(
        "gpu-runtime",
        r"nvidia-container-cli: |nvidia-(?:container-runtime|cdi-hook|ctk)",
        "NVIDIA's container runtime fails on cluster node {host}|: {why}",
        "submit it with --exclude-node {host}; ask a cluster admin to look at that cluster node",
    ),
    *_starts(
        "memory-to-start",
        r"OOM-killed|container init was OOM|memory limit too low|write init-p: broken pipe",
        "the memory limit is too small for the container to start",
        "request more with resources.memory or --memory",
    ),
    *_starts(
        "cpu-limit-refused",
        r"cpu\.(?:cfs_quota_us|max|weight|shares): invalid argument",
        "cluster node {host} cannot give the container its CPU limit",
        "request fewer cpus, or submit it with --exclude-node {host}",
    ),
    *_starts(
        "mount-shape",
        r'rootfs at "(?P<path>[^"]+)".*(?:onto a file|[Nn]ot a directory)',
        'a folder is mounted on a file, or a file on a folder: "{path}"',
        "correct mountPath or subPath: a file of a ConfigMap or Secret needs its subPath",
    ),
    *_starts(
        "mount-read-only",
        r'rootfs at "(?P<path>[^"]+)".*read-only file system',
        'the mount "{path}" lies in a folder that is mounted read-only',
        "move one of the mounts, or remove readOnly in config.kubernetes.pod_config",
    ),
    *_starts(
        "folder-missing",
        r'(?:chdir to cwd \("|mkdir )(?P<folder>/[^":]*)(?:"\)[^:]*)?:'
        r" (?P<why>(?:not a directory|read-only|permission denied|no such file)[^:\"]*)",
        'the working directory "{folder}" of the image cannot be used|: {why}',
        "correct workingDir in config.kubernetes.pod_config, or the image's WORKDIR",
    ),
    *_starts(
        "program-refused",
        r'exec:? \\?"?(?P<program>[^":\s\\]+)\\?"?: (?:permission denied|operation not permitted)',
        '{about} cannot start: "{program}" is not executable for its user',
        "make it executable in the image, or change the securityContext of pod_config",
    ),
    *_starts(
        "user-missing",
        r"unable to find (?P<what>user|group) (?P<name>[^:\"]+)",
        'the image has no {what} "{name}"',
        "set runAsUser to a number in config.kubernetes.pod_config, or correct USER of the image",
    ),
    *_starts(
        "mount-propagation",
        r'path "(?P<path>[^"]+)" is mounted on "[^"]*" but it is not a shared',
        '"{path}" of cluster node {host} cannot be mounted with mountPropagation',
        "remove mountPropagation from config.kubernetes.pod_config, or ask a cluster admin",
    ),
    *_starts(
        "sysctl",
        r"sysctl key (?P<key>[\w.]+)",
        'sysctl "{key}" cannot be set in the pod',
        "remove it from config.kubernetes.pod_config; one of the host needs a cluster admin",
    ),
    *_starts(
        "device-missing",
        r'(?:l?stat|symlink|open|device) "?(?P<device>/dev/[^":\s]+)"?.*no such (?:file|device)',
        'cluster node {host} has no device "{device}"',
        "submit it with --exclude-node {host}, or choose cluster nodes that have it",
    ),
    *_starts(
        "security-profile",
        r"(?<!/)(?:apparmor|AppArmor|seccomp|SELinux|selinux)(?!/)",
        "a security profile cannot be used on cluster node {host}|: {why}",
        "remove it from the securityContext of pod_config, or ask a cluster admin",
    ),
    *_starts(
        "no-command",
        r"[Nn]o command specified",
        "{about} has no command, and its image has none",
        "set command for it in config.kubernetes.pod_config",
    ),
    *_starts(
        "volume-undeclared",
        r'cannot find volume "(?P<volume>[^"]+)" to mount',
        'volume "{volume}" is not mounted in the pod any more',
        "submit the task again; if it stays so, correct volumeMounts in pod_config",
    ),
    *_starts(
        "image-gone",
        r'failed to get image|image "[^"]*": not found|[Nn]o such image',
        "its image is no longer on cluster node {host}",
        "wait: the kubelet pulls it again; if it stays so, submit with --exclude-node {host}",
    ),
    *_starts(
        "host-fault",
        f"(?P<why>{_FAULT})",
        "the container cannot start on cluster node {host}: {why}",
        "submit it with --exclude-node {host}; ask a cluster admin to look at that cluster node",
    ),
    *_starts(
        "runtime-slow",
        r"context deadline exceeded|context canceled|operation timeout|name .*is reserved"
        r"|(?:containerd|crio|dockerd?|cri-dockerd)\.sock|transport is closing|ttrpc: closed"
        r"|namespace path: lstat /proc",
        "the container runtime of the cluster node is slow or restarts|: {text}",
        "wait: the kubelet tries again; if it stays so, add --exclude-node {host}",
    ),
    *_starts(
        "shell-missing",
        r'exec: \\?"(?P<program>(?:/bin/)?sh)\\?"',
        "the image has no shell ({program})",
        "use an image with /bin/sh, which runs setup and run",
    ),
    *_starts(
        "command-lacks-program",
        r'exec: \\?"(?P<argument>-[^"]*?)\\?"',
        'the image has no entrypoint, so "{argument}" was taken for the program',
        "set command besides args in config.kubernetes.pod_config",
    ),
    *_starts(
        "program-missing",
        r'(?:exec: \\?"|executable file [`"])(?P<program>[^"`]+?)\\?["`]'
        r".*(?:no such file|not found)",
        '{about} cannot start: "{program}" not found in the image',
        "use an image that has it",
    ),
    *_starts(
        "program-format",
        r"exec format error",
        "the image, or a program in it, is for another CPU architecture than the cluster node's",
        "use an image for that platform",
    ),
    _ended(
        "start-failed",
        "",
        "the container cannot start|: {text}",
        "check the image and pod_config; if they are right, submit it with --exclude-node {host}",
    ),
    Rule(
        "container-refused",
        Stage.START,
        SignalSource.WAITING,
        "the container cannot start|: {text}",
        "check the image and pod_config; if they are right, submit it with --exclude-node {host}",
        f"{_CONFIG}|{_START}",
        detail=_host_and_text,
    ),
    *(
        Rule(
            "post-start-failed",
            Stage.START,
            source,
            "a postStart hook failed|: {message}",
            "correct `lifecycle` in config.kubernetes.pod_config",
            reason=reason,
        )
        for source, reason in (
            (SignalSource.WAITING, "PostStartHookError"),
            (SignalSource.POD_EVENT, "FailedPostStartHook"),
        )
    ),
    _sandbox(
        "runtime-missing",
        r'no runtime for "(?P<handler>[^"]+)" is configured|RuntimeHandler "(?P<other>[^"]+)"',
        'the cluster node has no container runtime "{handler}{other}"||, of a RuntimeClass',
        "ask a cluster admin to install it, or remove runtimeClassName from pod_config",
    ),
    _sandbox(
        "sandbox-image",
        r'failed to (?:get sandbox image|pull image) "(?P<image>[^"]+)"',
        'the cluster node cannot pull its own image "{image}"|: {text}',
        "ask a cluster admin: pods cannot start on that cluster node",
    ),
    _sandbox(
        "pod-addresses",
        r"no (?:IP addresses|addresses|free IP|more IPs?)[^:]*available|no IP addresses"
        r"|failed to assign an IP address|InsufficientCidrBlocks|range is full|No available IP"
        r"|no available IPs?|AllocateIPConfig|IPAM\b.*?[Ff]ailed"
        r"|all [^:]{,80}addresses [^:]{,80}(?:in use|allocated)",
        "the network of the cluster node has no free address for the pod|: {text}",
        "ask a cluster admin, or add --exclude-node {host}",
    ),
    _sandbox(
        "network-missing",
        r'network-attachment-definitions?\S* "(?P<network>[^"]+)" not found',
        'NetworkAttachmentDefinition "{network}" not found',
        "correct the annotation k8s.v1.cni.cncf.io/networks in config.kubernetes.pod_config",
    ),
    _sandbox(
        "network-device",
        r"VF pci addr is required|device ?ID is required",
        "the pod requests no device for its second network|: {text}",
        "request what the NetworkAttachmentDefinition names in resourceName, with pod_config",
    ),
    _sandbox(
        "network-not-ready",
        r"cni plugin not initialized|cni config uninitialized|network plugin is not ready"
        r"|NetworkPluginNotReady|stat /var/lib/calico/nodename|no networks found in /etc/cni"
        r"|cilium.*(?:connection refused|no such file)|connect: connection refused"
        r"|subnet\.env|[Uu]nauthorized|unable to create endpoint|TooManyRequests"
        r"|timed out waiting for|failed to find plugin|no such network interface|cni0"
        r"|ClusterInformation|netplugin failed|i/o timeout|already exists for an interface",
        "the network of the cluster node is not ready|: {text}",
        "wait; if it stays so, add --exclude-node {host} and ask a cluster admin",
    ),
    _sandbox(
        "sandbox-fault",
        f"(?P<why>{_FAULT})",
        "the pod cannot start on cluster node {host}: {why}",
        "submit with --exclude-node {host}; ask a cluster admin to look at that cluster node",
    ),
    _sandbox(
        "sandbox-slow",
        r"deadline exceeded|context canceled|name \S+ is reserved for|\.sock\b",
        "the container runtime of the cluster node is slow or restarts|: {why}",
        "wait: the kubelet tries again; if it stays so, submit with --exclude-node {host}",
    ),
    _sandbox(
        "sandbox-failed",
        "",
        "the cluster node cannot create the pod's sandbox or network|: {text}",
        "submit with --exclude-node {host}, and ask a cluster admin",
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
    Rule(
        "rejected-cpus",
        Stage.START,
        SignalSource.POD,
        "cluster node {host} gives whole CPU cores only|: {message}",
        "request a multiple of that number with --cpus",
        "SMTAlignmentError",
        detail=find_host,
    ),
    _rejected(
        "rejected-disk",
        "UnexpectedAdmissionError",
        ": its disk is full",
        "(?=.*no space left)(?:Pod was rejected: )?",
    ),
    Rule(
        "preempted-for-critical",
        Stage.START,
        SignalSource.POD,
        "cluster node {host} stopped the pod for one of the cluster itself|: {message}",
        "submit the task again{more}",
        "Preempting",
        detail=_host_and_retries,
    ),
    Rule(
        "rejected-settings",
        Stage.START,
        SignalSource.POD,
        "cluster node {host} does not allow what the pod sets|: {text}",
        "submit it with --exclude-node {host}, or remove that from config.kubernetes.pod_config",
        r"AppArmor|\w+Forbidden",
        r"^(?:Pod was rejected: )?(?P<text>.*)",
        detail=find_host,
    ),
    Rule(
        "devices-not-prepared",
        Stage.START,
        SignalSource.POD_EVENT,
        "cluster node {host} cannot prepare the devices of its ResourceClaims|: {message}",
        "wait; if it stays so, submit with --exclude-node {host}, and ask a cluster admin",
        "FailedPrepareDynamicResources",
        detail=find_host,
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
