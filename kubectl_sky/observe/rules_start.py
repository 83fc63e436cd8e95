"""Explain why a node's container does not start: volumes, image, configuration."""

from kubectl_sky.observe.findings import Rule, Stage
from kubectl_sky.observe.signals import SignalSource

_PULL = "ErrImagePull|ImagePullBackOff|RegistryUnavailable"
_CONFIG = "CreateContainerConfigError"
_START = "RunContainerError|CreateContainerError|StartError.*|ContainerCannotRun.*"


def _volume(
    name: str, source: SignalSource, message: str, what: str, then: str, mere: bool = False
) -> Rule:
    return Rule(name, Stage.VOLUMES, source, what, then, message=message, mere=mere)


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
        message=r"driver name (?P<driver>\S+) not found",
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
    return Rule(name, Stage.IMAGE, SignalSource.WAITING, what, then, reason=reason, message=message)


_WHICH = r'^(?:.*?image "(?P<image>[^"]+)")?.*'
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
        "image-rate",
        _WHICH + r"(?:toomanyrequests|rate limit|429)",
        'registry rate limit reached for image "{image}"',
        "log in with SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER, or use a mirror",
    ),
    _image(
        "image-access",
        _WHICH + r"(?:unauthorized|denied|authorization failed|authentication required|403|401)",
        'no permission to pull image "{image}"',
        "check the name; for a private image set SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER",
    ),
    _image(
        "image-missing",
        _WHICH + r"(?:: not found|manifest unknown|NotFound|does not exist)",
        'image "{image}" not found in the registry',
        "check name and tag in resources.image_id or --image",
    ),
    _image(
        "image-platform",
        _WHICH + r"no match for platform",
        'image "{image}" does not support the CPU architecture of the cluster node',
        "use a multi-platform image, or other cluster nodes",
    ),
    _image(
        "image-space",
        _WHICH + r"no space left on device",
        'the disk of the cluster node is full||; cannot pull image "{image}"',
        "ask a cluster admin, or use a smaller image",
    ),
    _image(
        "registry-unreachable",
        _WHICH + r"(?P<why>no such host|connection refused|i/o timeout|x509[^\"]*|TLS handshake"
        r"|network is unreachable|server misbehaving|deadline exceeded|EOF)",
        'the cluster node cannot reach the registry of image "{image}"|: {why}',
        "check the name, or ask a cluster admin",
    ),
    _image(
        "image-failed",
        _WHICH,
        'pulling image "{image}" failed|: {message}',
        "check resources.image_id or --image",
    ),
)


def _config(name: str, reason: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, SignalSource.WAITING, what, then, reason=reason, message=message)


def _ended(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, SignalSource.ENDED, what, then, reason=_START, message=message)


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
        "runs-as-root",
        _CONFIG,
        r"runAsNonRoot",
        "the image runs as root, and the pod requires runAsNonRoot",
        "set runAsUser with config.kubernetes.pod_config, or use another image",
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
        "the image does not support the CPU architecture of the cluster node",
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
    Rule(
        "sandbox-failed",
        Stage.START,
        SignalSource.POD_EVENT,
        "the cluster node cannot create the pod's sandbox or network|: {message}",
        "ask a cluster admin",
        reason="FailedCreatePodSandBox",
    ),
    Rule(
        "cluster-node-not-ready",
        Stage.START,
        SignalSource.POD_EVENT,
        "its cluster node {about} is not ready",
        "see `kubectl get nodes`; Kubernetes deletes the pod if the cluster node stays away",
        reason="NodeNotReady",
    ),
    Rule(
        "init-failed",
        Stage.START,
        SignalSource.INIT_ENDED,
        "{about} failed|: {end}{said}",
        "see `kubectl logs -n {namespace} -l task-id={id} --all-containers`",
        detail=lambda _, signal, __: {"said": f": {signal.message}" if signal.message else ""},
    ),
)
