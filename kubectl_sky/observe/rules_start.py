"""Explain why a node's container does not start: volumes, image, configuration."""

from kubectl_sky.observe.findings import Rule, Stage
from kubectl_sky.observe.symptoms import Source

_PULL = "ErrImagePull|ImagePullBackOff|RegistryUnavailable"
_CONFIG = "CreateContainerConfigError"
_START = "RunContainerError|CreateContainerError|StartError.*|ContainerCannotRun.*"


def _volume(
    name: str, source: Source, message: str, what: str, then: str, mere: bool = False
) -> Rule:
    return Rule(name, Stage.VOLUMES, source, what, then, message=message, mere=mere)


VOLUMES = (
    _volume(
        "no-storage-class",
        Source.CLAIM,
        r"no storage class is set",
        "the volume {about} names no storage class, and the cluster has no default one",
        "`kubectl get storageclass`; make it again with --storage-class",
    ),
    _volume(
        "storage-class-missing",
        Source.CLAIM,
        r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found',
        "the volume {about} wants the storage class {name}, which is not there",
        "`kubectl get storageclass`; make it again with one of them",
    ),
    _volume(
        "waits-for-consumer",
        Source.CLAIM,
        r"waiting for (?:first consumer|pod .* to be scheduled)",
        "the volume {about} gets its storage when a pod is placed",
        "wait",
        mere=True,
    ),
    _volume(
        "provisioner-silent",
        Source.CLAIM,
        r"[Ww]aiting for a volume to be created",
        "nothing has made storage for the volume {about} yet",
        "its provisioner may not run: `kubectl describe pvc {about} -n {namespace}`",
        mere=True,
    ),
    Rule(
        "claim-lost",
        Stage.VOLUMES,
        Source.CLAIM,
        "the storage behind the volume {about} is gone",
        "delete the volume and make it again; its data is lost",
        reason="Lost|ClaimLost",
    ),
    Rule(
        "provisioning-failed",
        Stage.VOLUMES,
        Source.CLAIM,
        "the storage for the volume {about} cannot be made: {message}",
        "`kubectl describe pvc {about} -n {namespace}`",
        reason="ProvisioningFailed",
    ),
    _volume(
        "claim-pending",
        Source.CLAIM,
        "",
        "the volume {about} has no storage: {reason} {message}",
        "`kubectl describe pvc {about} -n {namespace}`",
        mere=True,
    ),
    Rule(
        "mount-missing",
        Stage.VOLUMES,
        Source.POD_EVENT,
        "the {kind} {name} that a volume comes from is not there",
        "`kubectl get {kind} -n {namespace}`; submit the task again if it was deleted",
        reason="FailedMount",
        message=r'(?P<kind>configmap|secret) "(?P<name>[^"]+)" not found',
    ),
    Rule(
        "multi-attach",
        Stage.VOLUMES,
        Source.POD_EVENT,
        "a volume of ReadWriteOnce is attached to another machine",
        "wait until its pods end, or use a volume of ReadWriteMany",
        reason="FailedAttachVolume",
        message=r"Multi-Attach",
    ),
    Rule(
        "driver-missing",
        Stage.VOLUMES,
        Source.POD_EVENT,
        "the machine has no driver {driver} for the volume",
        "tell who runs the cluster: the CSI driver has to be installed",
        reason="FailedMount|FailedAttachVolume",
        message=r"driver name (?P<driver>\S+) not found",
    ),
    Rule(
        "mount-failed",
        Stage.VOLUMES,
        Source.POD_EVENT,
        "a volume cannot be mounted: {message}",
        "do what it says; `kubectl sky volumes list` shows volumes",
        reason="FailedMount|FailedAttachVolume|FailedMapVolume",
    ),
)


def _image(name: str, message: str, what: str, then: str, reason: str = _PULL) -> Rule:
    return Rule(name, Stage.IMAGE, Source.WAITING, what, then, reason=reason, message=message)


_WHICH = r'^(?:.*?image "(?P<image>[^"]+)")?.*'
IMAGE = (
    _image(
        "image-name",
        r'name "(?P<image>[^"]+)": (?P<rest>.*)',
        "the image name {image} is none: {rest}",
        "correct resources.image_id, or --image",
        "InvalidImageName",
    ),
    _image(
        "image-never",
        r'image "(?P<image>[^"]+)"',
        "the image {image} is not on the machine, and may not be pulled there",
        "load it onto the machines, or change imagePullPolicy",
        "ErrImageNeverPull",
    ),
    _image(
        "image-rate",
        _WHICH + r"(?:toomanyrequests|rate limit|429)",
        "the registry gives no more images for a while: {image}",
        "log in with SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER, or use a mirror",
    ),
    _image(
        "image-access",
        _WHICH + r"(?:unauthorized|denied|authorization failed|authentication required|403|401)",
        "the registry does not give the image {image} to this cluster",
        "check the name; private images need SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER",
    ),
    _image(
        "image-missing",
        _WHICH + r"(?:: not found|manifest unknown|NotFound|does not exist)",
        "the registry has no image {image}",
        "check name and tag in resources.image_id, or --image",
    ),
    _image(
        "image-platform",
        _WHICH + r"no match for platform",
        "the image {image} is not made for the machine's processor",
        "use an image for several platforms, or other machines",
    ),
    _image(
        "image-space",
        _WHICH + r"no space left on device",
        "the machine's disk is too full for the image {image}",
        "tell who runs the cluster; a smaller image may fit",
    ),
    _image(
        "registry-unreachable",
        _WHICH + r"(?P<why>no such host|connection refused|i/o timeout|x509[^\"]*|TLS handshake"
        r"|network is unreachable|server misbehaving|deadline exceeded|EOF)",
        "the machine cannot reach the registry of the image {image}: {why}",
        "check the name; else tell who runs the cluster",
    ),
    _image(
        "image-failed",
        _WHICH,
        "the image {image} cannot be pulled: {message}",
        "check resources.image_id, or --image",
    ),
)


def _config(name: str, reason: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, Source.WAITING, what, then, reason=reason, message=message)


def _ended(name: str, message: str, what: str, then: str) -> Rule:
    return Rule(name, Stage.START, Source.ENDED, what, then, reason=_START, message=message)


START = (
    _config(
        "config-missing",
        _CONFIG,
        r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
        "the {kind} {name} that a variable comes from is not there",
        "`kubectl get {kind} -n {namespace}`; submit the task again if it was deleted",
    ),
    _config(
        "config-key",
        _CONFIG,
        r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?P<name>\S+)",
        "the {kind} {name} has no key {key}",
        "`kubectl describe {kind} -n {namespace}` shows the keys",
    ),
    _config(
        "runs-as-root",
        _CONFIG,
        r"runAsNonRoot",
        "the image runs as root, and the pod may not",
        "set runAsUser with config.kubernetes.pod_config, or use another image",
    ),
    _ended(
        "shell-missing",
        r'exec: "(?P<program>/bin/sh)"',
        "the image has no shell: {program} is not there",
        "use an image with /bin/sh; setup and run are scripts",
    ),
    _ended(
        "program-missing",
        r'exec: "(?P<program>[^"]+)".*(?:no such file|not found)',
        "{about} cannot start: the image has no {program}",
        "use an image that has it",
    ),
    _ended(
        "program-format",
        r"exec format error",
        "the image's programs are for another processor than the machine's",
        "use an image for the machine's platform",
    ),
    _ended(
        "start-failed",
        "",
        "the container cannot start: {message}",
        "check the image and config.kubernetes.pod_config",
    ),
    _config(
        "container-refused",
        f"{_CONFIG}|{_START}",
        "",
        "the container cannot start: {message}",
        "check the image and config.kubernetes.pod_config",
    ),
    Rule(
        "sandbox-failed",
        Stage.START,
        Source.POD_EVENT,
        "the machine cannot make the pod's network or sandbox: {message}",
        "tell who runs the cluster",
        reason="FailedCreatePodSandBox",
    ),
    Rule(
        "init-failed",
        Stage.START,
        Source.INIT_ENDED,
        "{about} failed: {reason} {message}",
        "`kubectl logs -n {namespace} -l task-id={id} --all-containers` shows what it said",
    ),
)
