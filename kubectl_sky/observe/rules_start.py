"""Explain why a node's container does not start: volumes, image, configuration."""

from collections.abc import Mapping

from msgspec.structs import replace

from kubectl_sky.observe.findings import Rule, Stage
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import NO_POD

_PULL = "ErrImagePull|ImagePullBackOff|RegistryUnavailable"
_CONFIG = "CreateContainerConfigError"
_START = "RunContainerError|CreateContainerError|StartError.*|ContainerCannotRun.*"


def _volume(
    name: str, source: SignalSource, message: str, what: str, then: str, mere: bool = False
) -> Rule:
    return Rule(name, Stage.VOLUMES, source, what, then, message=message, mere=mere)


def _provision(name: str, message: str, what: str, then: str) -> Rule:
    source = SignalSource.CLAIM
    return Rule(name, Stage.VOLUMES, source, what, then, "ProvisioningFailed", message)


def _mount(name: str, message: str, what: str, then: str, mere: bool = False) -> Rule:
    return Rule(
        name,
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        what,
        then,
        reason="FailedMount|FailedAttachVolume|FailedMapVolume",
        message=message,
        detail=_host,
        mere=mere,
    )


def _host(snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cluster node of the first affected node."""
    pods = (snapshot.pods[rank] for rank in signal.ranks if rank in snapshot.pods)
    hosts = (pod.spec.node_name for pod in pods)
    return {"host": next(filter(None, hosts), "HOST")}


VOLUMES: tuple[Rule, ...] = (
    _volume(
        "no-storage-class",
        SignalSource.CLAIM,
        r"no storage class is set",
        'PVC "{about}" sets no StorageClass, and the cluster has no default',
        "see `kubectl get storageclass`; create the volume again with --storage-class",
    ),
    _volume(
        "storage-class-missing",
        SignalSource.CLAIM,
        r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found',
        'StorageClass "{name}" of PVC "{about}" not found',
        "see `kubectl get storageclass`; create the volume again with one of them",
    ),
    _volume(
        "waits-for-consumer",
        SignalSource.CLAIM,
        r"waiting for (?:first consumer|pod .* to be scheduled)",
        'PVC "{about}" is bound when a pod is scheduled',
        "wait",
        mere=True,
    ),
    _volume(
        "provisioner-silent",
        SignalSource.CLAIM,
        r"[Ww]aiting for a volume to be created",
        'no storage is provisioned for PVC "{about}" yet',
        "check that its provisioner runs: `kubectl describe pvc {about} -n {namespace}`",
        mere=True,
    ),
    _provision(
        "storage-quota",
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>[^,]+)",
        'quota "{quota}" exceeded: PVC "{about}" requests {asked}',
        "see `kubectl describe quota {quota} -n {namespace}`; request less, or delete a volume",
    ),
    _provision(
        "storage-denied",
        r"(?P<why>[^:]*(?:[Uu]nauthorized|not authorized|PermissionDenied|[Ff]orbidden"
        r"|AccessDenied|\b403\b).*)",
        'the provisioner of PVC "{about}" may not create a disk|: {why}',
        "ask a cluster admin: the rights of the storage provisioner are missing",
    ),
    _provision(
        "access-mode",
        r"(?P<why>[^:]*(?:unsupported access mode|MULTI_NODE|[Vv]olume capabilit|access ?mode).*)",
        'the StorageClass of PVC "{about}" does not support its access mode|: {why}',
        "create the volume again with another access mode or --storage-class",
    ),
    _provision(
        "storage-full",
        r"(?P<why>[^:]*(?:insufficient capacity|ResourceExhausted|not enough (?:free )?space"
        r"|no space left|out of space|OutOfSpace|QuotaExceeded).*)",
        'the storage has no room for PVC "{about}"|: {why}',
        "create a smaller volume, or use another --storage-class",
    ),
    _provision(
        "storage-topology",
        r"(?P<why>no available topology found|error generating accessibility requirements.*)",
        'no cluster node can use the storage of PVC "{about}"|: {why}',
        "ask a cluster admin whether the CSI driver runs on the cluster nodes",
    ),
    Rule(
        "claim-lost",
        Stage.VOLUMES,
        SignalSource.CLAIM,
        'PVC "{about}" has lost its PersistentVolume',
        "delete the volume and create it again; its data is lost",
        reason="Lost|ClaimLost",
    ),
    Rule(
        "provisioning-failed",
        Stage.VOLUMES,
        SignalSource.CLAIM,
        'provisioning of PVC "{about}" failed|: {message}',
        "see `kubectl describe pvc {about} -n {namespace}`",
        reason="ProvisioningFailed",
    ),
    _volume(
        "claim-pending",
        SignalSource.CLAIM,
        "",
        'PVC "{about}" is not bound|: {reason} {message}',
        "see `kubectl describe pvc {about} -n {namespace}`",
        mere=True,
    ),
    Rule(
        "mount-missing",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        '{kind} "{name}" of a volume not found',
        "see `kubectl get {kind} -n {namespace}`; submit the task again if it was deleted",
        reason="FailedMount",
        message=r'(?P<kind>configmap|secret) "(?P<name>[^"]+)" not found',
    ),
    Rule(
        "multi-attach",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        "a ReadWriteOnce volume is attached to another cluster node",
        "wait until its pods finish, or use a ReadWriteMany volume",
        reason="FailedAttachVolume",
        message=r"Multi-Attach",
    ),
    Rule(
        "driver-missing",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        'the cluster node has no CSI driver "{driver}" for the volume',
        "ask a cluster admin to install the CSI driver",
        reason="FailedMount|FailedAttachVolume",
        message=r"(?:driver name |does not contain driver )(?P<driver>\S+?)(?: not found|$)",
    ),
    _mount(
        "mount-account",
        r'serviceaccounts? "(?P<account>[^"]+)" not found',
        'service account "{account}" not found in namespace "{namespace}"',
        "`kubectl get serviceaccounts -n {namespace}` lists the existing ones",
    ),
    _mount(
        "host-path",
        r"hostPath type check failed: (?P<why>.*)",
        "a directory of the cluster node cannot be mounted|: {why}",
        "correct the path, or let a cluster admin create it on the cluster nodes",
    ),
    _mount(
        "bucket-missing",
        r"(?P<why>(?:bucket \S+: (?:[^:]+: ){0,2})?[^:]*\bbucket does not exist|NoSuchBucket)",
        "the bucket of a volume not found|: {why}",
        "correct its name in `file_mounts`, or create it",
    ),
    _mount(
        "bucket-sidecar",
        r"(?:find|inject) the sidecar container",
        "the pod has no sidecar container that mounts its bucket",
        'check that the store\'s `annotations` in the settings have `gke-gcsfuse/volumes: "true"`',
    ),
    _mount(
        "mount-denied",
        r"(?P<why>(?:[\w.]*: )?(?:[Aa]ccess [Dd]enied|[Pp]ermission ?[Dd]enied|AccessDenied"
        r"|[^:]*not authorized|[^:]*\b403\b|Unauthenticated|No signing credentials).*)",
        "the storage refuses the mount|: {why}",
        "ask a cluster admin: the export, or the access of the service account, must allow it",
    ),
    _mount(
        "storage-unreachable",
        r"(?P<why>[Cc]onnection timed out|[Cc]onnection refused|[Nn]o route to host"
        r"|[Nn]etwork is unreachable|Name or service not known|Failed to resolve server[^:]*)",
        "the cluster node cannot reach the storage server|: {why}",
        "check the server of the volume in `kubectl get pv -o wide`, or ask a cluster admin",
    ),
    _mount(
        "mount-helper",
        r"wrong fs type|helper program|unknown filesystem type",
        "the cluster node lacks the program that mounts the volume, such as that of NFS",
        "ask a cluster admin to install it; meanwhile submit with --exclude-node {host}",
    ),
    _mount(
        "attach-zone",
        r"not in zone|in (?:a )?different zone|zone mismatch",
        "the disk of the volume is in another zone than its cluster node",
        "see `kubectl get pv`; use a ReadWriteMany volume, or cluster nodes in its zone",
    ),
    _mount(
        "attach-limit",
        r"limit of attachable|attachable volumes|[Mm]aximum number of (?:data )?(?:disks|volumes)"
        r"|AttachmentLimitExceeded",
        "the cluster node has reached its maximum number of volumes",
        "submit with --exclude-node {host}, or wait until other workloads finish",
    ),
    _mount(
        "disk-missing",
        r"code = NotFound desc = (?!.*bucket)|[Vv]olume \S+ (?:not found|does not exist)"
        r"|InvalidVolume\.NotFound",
        "the disk of the volume does not exist any more",
        "delete the volume and create it again; its data is lost",
    ),
    _mount(
        "mount-slow",
        r"timed out waiting for the condition|[Dd]eadline ?[Ee]xceeded|context deadline"
        r"|operation with the given [Vv]olume",
        "a volume is not mounted yet|: {message}",
        "wait; if it stays so, see `kubectl describe pvc -n {namespace}`",
        mere=True,
    ),
    Rule(
        "mount-failed",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        "mounting a volume failed|: {message}",
        "see `kubectl sky volumes list`",
        reason="FailedMount|FailedAttachVolume|FailedMapVolume",
    ),
)


def _image(name: str, message: str, what: str, then: str, reason: str = _PULL) -> Rule:
    return Rule(
        name,
        Stage.IMAGE,
        SignalSource.WAITING,
        what,
        then,
        reason=reason,
        message=message,
        detail=_image_of_pod,
    )


def _image_of_pod(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the image, which not each message quotes: then that of the main container."""
    if image := groups.get("image"):
        return {"image": image}
    pod = next((snapshot.pods[rank] for rank in signal.ranks if rank in snapshot.pods), NO_POD)
    containers = pod.spec.containers
    images = {item.name: item.image for item in containers}
    return {"image": images.get(names.CONTAINER) or next(iter(images.values()), "")}


# The order matters: a text that says more stands before one that is a part of others.
_WHICH = r'^(?:.*?image "(?P<image>[^"]+)")?.*?'
IMAGE: tuple[Rule, ...] = (
    _image(
        "image-name",
        r'name "(?P<image>[^"]+)": (?P<rest>.*)',
        'invalid image name "{image}"|: {rest}',
        "correct resources.image_id or --image",
        "InvalidImageName",
    ),
    _image(
        "image-never",
        r'image "(?P<image>[^"]+)"',
        'image "{image}" is not on the cluster node, and imagePullPolicy is Never',
        "load it onto the cluster nodes, or change imagePullPolicy",
        "ErrImageNeverPull",
    ),
    _image(
        "image-unsigned",
        _WHICH + r"(?P<why>(?:[Ss]ource image rejected|[Ss]ignature|.*signature).*)",
        'the cluster node accepts signed images only, and refuses image "{image}"|: {why}',
        "sign the image, or ask a cluster admin which images are allowed",
        f"{_PULL}|SignatureValidationFailed",
    ),
    _image(
        "image-rate",
        _WHICH + r"(?:toomanyrequests|rate limit|\b429\b|too many requests)",
        'registry rate limit reached for image "{image}"',
        "log in with SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER, or use a mirror",
    ),
    _image(
        "image-queue",
        _WHICH + r"pull QPS exceeded",
        'the cluster node pulls many images; image "{image}" waits',
        "wait: the kubelet tries again",
    ),
    _image(
        "image-space",
        _WHICH + r"(?:no space left on device|disk quota exceeded)",
        'the disk of the cluster node is full||; cannot pull image "{image}"',
        "ask a cluster admin, or use a smaller image",
    ),
    _image(
        "image-platform",
        _WHICH + r"(?:no match for platform|no matching manifest for|no image found in .*for arch"
        r"|does not match the specified platform|image operating system \S+ cannot be used)",
        'image "{image}" does not support the platform of the cluster node||: its CPU architecture'
        " or operating system",
        "use a multi-platform image, or other cluster nodes",
    ),
    _image(
        "image-format",
        _WHICH + r"(?:schema ?1|manifest\.v1\+|[Mm]edia type .*(?:no longer|not) supported"
        r"|unsupported (?:MIME|media) ?type|mediaType in manifest)",
        'image "{image}" has a format that the container runtime does not support',
        "build and push it again with a current tool",
    ),
    _image(
        "registry-untrusted",
        _WHICH + r"(?P<why>x509: certificate.*|certificate (?:signed by|has expired|is valid).*"
        r"|tls: failed to verify certificate.*|self[- ]signed certificate.*|x509: .*)",
        'the cluster node does not trust the registry of image "{image}"|: {why}',
        "ask a cluster admin to add the registry's CA to the container runtime, or to renew it",
    ),
    _image(
        "registry-http",
        _WHICH + r"server gave HTTP response to HTTPS client",
        'the registry of image "{image}" has no TLS, and the container runtime requires it',
        "use a registry with TLS, or ask a cluster admin to allow this one without",
    ),
    _image(
        "image-access",
        _WHICH + r"(?:unauthorized|denied|authorization failed|authentication required"
        r"|no basic auth credentials|insufficient_scope|authorization token has expired"
        r"|\b403\b|\b401\b|[Ff]orbidden|failed to fetch (?:oauth|anonymous) token)",
        'no permission to pull image "{image}"||, or it does not exist',
        "check the name; for a private image set SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER",
    ),
    _image(
        "registry-unreachable",
        _WHICH + r"(?P<why>no such host|connection refused|connection reset by peer|i/o timeout"
        r"|TLS handshake timeout|no route to host|network is unreachable|server misbehaving"
        r"|proxyconnect tcp[^\"]*|connect: connection timed out|Client\.Timeout[^\"]*"
        r"|deadline exceeded|unexpected EOF|EOF)",
        'the cluster node cannot reach the registry of image "{image}"|: {why}',
        "check the registry's name; the kubelet tries again; ask a cluster admin if it stays so",
    ),
    _image(
        "registry-failed",
        _WHICH + r"(?P<why>(?:unexpected status\S*.*|received unexpected HTTP status: )?\b50[0-9]\b"
        r"[^\"]*|RegistryUnavailable)",
        'the registry of image "{image}" fails|: {why}',
        "wait: the kubelet tries again; see the status of the registry",
    ),
    _image(
        "image-damaged",
        _WHICH + r"(?P<why>failed to extract layer.*|failed to register layer.*"
        r"|(?:unexpected|failed) (?:commit digest|size validation|digest).*"
        r"|invalid tar header.*|archive/tar.*|filesystem layer verification failed.*)",
        'image "{image}" cannot be unpacked on the cluster node|: {why}',
        "push the image again; if only one cluster node has it, add --exclude-node",
    ),
    _image(
        "image-missing",
        _WHICH + r"(?:: not found|manifest unknown|NotFound|does not exist|name unknown"
        r"|not found: does not exist|repository \S+ not found|[Nn]o such image)",
        'image "{image}" not found in the registry',
        "check name and tag in resources.image_id or --image",
    ),
    _image(
        "image-failed",
        _WHICH,
        'pulling image "{image}" failed|: {message}',
        "check resources.image_id or --image",
        f"{_PULL}|SignatureValidationFailed|ImageInspectError",
    ),
)


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
        detail=_host,
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
    return {**_host(snapshot, signal, groups), "more": more}


def _sandbox(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(
        name,
        Stage.START,
        SignalSource.POD_EVENT,
        what,
        then,
        reason="FailedCreatePodSandBox|NetworkNotReady",
        message=message,
        detail=_host,
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
