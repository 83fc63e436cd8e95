"""Texts of runtimes, registries, kubelets and networks, each with its cause and next step."""

from typing import NamedTuple

import pytest

from kubectl_sky.observe.findings import find_cause
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from tests.builders import ID, make_job, make_pod

IMAGE = "registry.example.com/team/train:2"
PULL = f'failed to pull and unpack image "{IMAGE}": '
RESOLVE = f'{PULL}failed to resolve reference "{IMAGE}": '
DOCKER = "Error response from daemon: "
CRIO = f"initializing source docker://{IMAGE}: "
OCI = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
    " create failed: unable to start container process: "
)
HOOK = f"{OCI}error during container init: error running hook #0: exit status 1, stderr: "
AUTO = "Auto-detected mode as 'legacy'\nnvidia-container-cli: "
CNI = 'failed to setup network for sandbox "0f1": plugin type='
HOST = f'{RESOLVE}failed to do request: Head "https://registry.example.com/v2/team/train": '


class Text(NamedTuple):
    """A text, the rule that has to explain it, and words of the cause or the next step."""

    rule: str
    message: str
    says: str = ""


PULLS = (
    Text("image-missing", f"{RESOLVE}{IMAGE}: not found", f'"{IMAGE}" not found'),
    Text("image-missing", f"{CRIO}reading manifest 2 in x: manifest unknown", f'"{IMAGE}"'),
    Text("image-missing", f"{DOCKER}manifest for x:2 not found: manifest unknown", "not found"),
    Text("image-missing", f"{CRIO}name unknown: repository name not known to registry"),
    Text("image-missing", "rpc error: code = NotFound desc = no such image", f'"{IMAGE}"'),
    Text("image-platform", f"{PULL}no match for platform in manifest: not found", "platform"),
    Text("image-platform", f"{DOCKER}no matching manifest for linux/arm64/v8 in the manifest list"),
    Text("image-platform", 'choosing an image: no image found in image index for architecture "s"'),
    Text("image-platform", f"{DOCKER}image operating system windows cannot be used on linux"),
    Text("image-access", f"{RESOLVE}pull access denied, repository does not exist or may require"),
    Text("image-access", f"{RESOLVE}authorization failed: no basic auth credentials"),
    Text("image-access", f"{RESOLVE}failed to authorize: failed to fetch anonymous token: 401"),
    Text("image-access", f"{RESOLVE}unexpected status from HEAD request to https: 403 Forbidden"),
    Text("image-access", f"{CRIO}unauthorized: authentication required", "SKYPILOT_DOCKER"),
    Text("image-access", f"{CRIO}requested access to the resource is denied", "private image"),
    Text("image-access", f"{RESOLVE}insufficient_scope: authorization failed"),
    Text("image-access", f"{DOCKER}Your authorization token has expired. Reauthenticate"),
    Text(
        "image-rate", f"{RESOLVE}429 Too Many Requests - toomanyrequests: pull rate limit", "mirror"
    ),
    Text("image-rate", f"{CRIO}too many requests to registry: You have reached your limit"),
    Text("image-queue", "pull QPS exceeded", "wait"),
    Text("image-space", f"{PULL}write /var/lib/x: no space left on device", "disk"),
    Text("image-space", f"{PULL}failed to extract layer: no space left on device: unknown", "full"),
    Text("image-format", f"{PULL}media type x.manifest.v1+prettyjws is no longer supported"),
    Text("image-format", f"{CRIO}unsupported MIME type for layer", "again"),
    Text(
        "registry-untrusted",
        f"{HOST}tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "x509",
    ),
    Text("registry-untrusted", f"{HOST}x509: certificate has expired or is not yet valid", "CA"),
    Text("registry-untrusted", f"{HOST}x509: certificate is valid for a, not registry.example.com"),
    Text("registry-untrusted", f"{HOST}x509: certificate relies on legacy Common Name field"),
    Text("registry-http", f"{HOST}http: server gave HTTP response to HTTPS client", "TLS"),
    Text("registry-unreachable", f"{HOST}dial tcp: lookup registry.example.com: no such host"),
    Text("registry-unreachable", f"{HOST}dial tcp 10.0.0.9:443: i/o timeout", "i/o timeout"),
    Text("registry-unreachable", f"{HOST}dial tcp 10.0.0.9:443: connect: connection refused"),
    Text("registry-unreachable", f"{HOST}dial tcp 10.0.0.9:443: connect: no route to host"),
    Text("registry-unreachable", f"{HOST}net/http: TLS handshake timeout", "handshake"),
    Text("registry-unreachable", f"{HOST}read tcp: connection reset by peer", "reset"),
    Text("registry-unreachable", f"{HOST}proxyconnect tcp: dial tcp 10.1.1.1:3128: timeout"),
    Text("registry-unreachable", f"{PULL}failed to copy: httpReadSeeker: failed open: EOF"),
    Text(
        "registry-unreachable",
        f"{HOST}lookup registry.example.com on 10.96.0.10:53: server misbehaving",
    ),
    Text("registry-unreachable", f"{CRIO}net/http: request canceled (Client.Timeout exceeded)"),
    Text(
        "registry-failed", f"{RESOLVE}unexpected status from HEAD request: 503 Service Unavailable"
    ),
    Text("registry-failed", f"{CRIO}received unexpected HTTP status: 500 Internal Server Error"),
    Text(
        "registry-failed", f"{RESOLVE}unexpected status code https://x/v2: 502 Bad Gateway", "wait"
    ),
    Text(
        "image-damaged", f"{PULL}failed to extract layer sha256:1: archive/tar: invalid tar header"
    ),
    Text("image-damaged", f"{PULL}unexpected commit digest sha256:1, expected sha256:2", "push"),
    Text("image-damaged", f"{DOCKER}filesystem layer verification failed for digest sha256:1"),
    Text("image-failed", f"{PULL}something that nobody has seen", "nobody"),
)
UNSIGNED = (
    Text(
        "image-unsigned",
        f"Source image rejected: A signature was required, but no signature exists: {IMAGE}",
        "signed",
    ),
)
CONFIGS = (
    Text(
        "runs-as-named-user",
        "container has runAsNonRoot and image has non-numeric user (appuser),"
        " cannot verify user is non-root",
        "appuser",
    ),
    Text("runs-as-root", "container has runAsNonRoot and image will run as root (pod: x)", "root"),
    Text("runs-as-user-0", "container's runAsUser breaks non-root policy (pod: x)", "runAsUser 0"),
    Text("config-missing", 'secret "wandb" not found', '"wandb"'),
    Text("config-key", "couldn't find key TOKEN in Secret default/wandb", "TOKEN"),
    Text(
        "sub-path", 'failed to prepare subPath for volumeMount "data" of container "main"', "path"
    ),
)
STARTS = (
    Text(
        "gpu-driver",
        f"{HOOK}{AUTO}initialization error: nvml error: driver/library version mismatch",
        "--exclude-node gpu-7",
    ),
    Text("gpu-driver", f"{HOOK}{AUTO}initialization error: driver rpc error: timed out", "driver"),
    Text(
        "gpu-driver",
        f"{HOOK}{AUTO}initialization error: load library failed: libnvidia-ml.so.1:"
        " cannot open shared object file",
        "driver",
    ),
    Text(
        "gpu-cuda",
        f"{HOOK}{AUTO}requirement error: unsatisfied condition: cuda>=12.8, please"
        " update your driver to a newer version",
        "cuda>=12.8",
    ),
    Text("gpu-device", f"{HOOK}{AUTO}device error: GPU-5f: unknown device: unknown", "unknown"),
    Text(
        "gpu-device", f"{OCI}failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu"
    ),
    Text("memory-to-start", f"{OCI}container init was OOM-killed (memory limit too low?): unknown"),
    Text(
        "folder-missing",
        f'{OCI}error during container init: chdir to cwd ("/app") set in'
        " config.json failed: no such file or directory",
        '"/app"',
    ),
    Text("program-refused", f'{OCI}exec: "/app/run.sh": permission denied: unknown', "executable"),
    Text(
        "shell-missing", f'{OCI}exec: "/bin/sh": stat /bin/sh: no such file or directory', "shell"
    ),
    Text("program-missing", f'{OCI}exec: "tini": executable file not found in $PATH', '"tini"'),
    Text("program-format", f"{OCI}exec /bin/sh: exec format error", "CPU"),
    Text("runtime-slow", "context deadline exceeded", "slow"),
    Text("start-failed", f"{OCI}something new", "something new"),
)
SANDBOXES = (
    Text(
        "runtime-missing",
        'failed to get sandbox runtime: no runtime for "nvidia" is configured',
        '"nvidia"',
    ),
    Text(
        "pod-addresses",
        f'{CNI}"aws-cni" failed (add): add cmd: failed to assign an IP address to container',
        "address",
    ),
    Text(
        "pod-addresses", f'{CNI}"host-local" failed (add): no IP addresses available in range set'
    ),
    Text("pod-addresses", f'{CNI}"azure-vnet": Failed to allocate pool: No available IPs'),
    Text(
        "network-not-ready",
        f'{CNI}"calico" failed (add): stat /var/lib/calico/nodename: no such file or directory',
        "network",
    ),
    Text("network-not-ready", "cni plugin not initialized", "not ready"),
    Text(
        "network-not-ready",
        f'{CNI}"cilium-cni": unable to connect to Cilium agent: connection refused',
    ),
    Text(
        "sandbox-image",
        'failed to get sandbox image "registry.k8s.io/pause:3.10": failed to pull',
        "pause",
    ),
    Text("sandbox-failed", "something new", "something new"),
)
PODS = {
    "UnexpectedAdmissionError": Text(
        "rejected-devices",
        "Pod was rejected: Allocate failed due to"
        " no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
        "devices",
    ),
    "OutOfnvidia.com/gpu": Text(
        "rejected-full",
        "Pod was rejected: Node didn't have enough"
        " resource: nvidia.com/gpu, requested: 8, used: 8, capacity: 8",
        "room",
    ),
    "OutOfcpu": Text("rejected-full", "Node didn't have enough resource: cpu", "room"),
    "NodeAffinity": Text("rejected-affinity", "Predicate NodeAffinity failed", "labels"),
    "TopologyAffinityError": Text(
        "rejected-affinity", "Resources cannot be allocated with Topology locality", "NUMA"
    ),
}
EVICTIONS = (
    Text(
        "evicted-own-volume", 'Usage of EmptyDir volume "dshm" exceeds the limit "64Mi". ', "64Mi"
    ),
    Text(
        "evicted-own-disk",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        "1Gi",
    ),
    Text(
        "evicted-own-disk",
        'Container main exceeded its local ephemeral storage limit "2Gi". ',
        "2Gi",
    ),
    Text(
        "evicted-disk",
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1",
        "disk",
    ),
    Text(
        "evicted-memory",
        "The node was low on resource: memory. Container main was using 9Gi",
        "memory",
    ),
)


TEXTS = (*PULLS, *UNSIGNED, *CONFIGS, *STARTS, *SANDBOXES, *PODS.values(), *EVICTIONS)


def make_snapshot() -> TaskSnapshot:
    pod = make_pod(0, "Pending")
    containers = [{"name": "main", "image": IMAGE}]
    pod |= {"spec": pod.get("spec", {}) | {"containers": containers, "nodeName": "gpu-7"}}
    return TaskSnapshot(ID, "default", {"Job": (make_job(0),), "Pod": (pod,)})


def check(source: SignalSource, reason: str, text: Text) -> None:
    signal = Signal(source, reason, text.message, ranks=(0,), about="main")
    cause = find_cause(make_snapshot(), signal, RULES)
    assert cause, text
    assert cause.rule == text.rule, cause
    assert text.says in f"{cause.what} {cause.then}", cause
    assert '""' not in cause.what and "{" not in cause.then, cause


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
@pytest.mark.parametrize("text", PULLS, ids=lambda text: text.message[-40:])
def test_text_of_a_pull_has_its_cause_and_image(text: Text, reason: str) -> None:
    if reason == "ImagePullBackOff":
        text = text._replace(
            message=f'Back-off pulling image "{IMAGE}": ErrImagePull: {text.message}'
        )
    check(SignalSource.WAITING, reason, text)


@pytest.mark.parametrize("text", UNSIGNED, ids=lambda text: text.message[-40:])
def test_text_of_a_refused_signature_has_its_cause(text: Text) -> None:
    check(SignalSource.WAITING, "SignatureValidationFailed", text)


@pytest.mark.parametrize("text", CONFIGS, ids=lambda text: text.message[-40:])
def test_text_of_a_wrong_configuration_has_its_cause(text: Text) -> None:
    check(SignalSource.WAITING, "CreateContainerConfigError", text)


@pytest.mark.parametrize("text", STARTS, ids=lambda text: text.message[-40:])
def test_text_of_a_container_that_does_not_start_has_its_cause(text: Text) -> None:
    check(SignalSource.ENDED, "StartError 128", text)


@pytest.mark.parametrize("text", SANDBOXES, ids=lambda text: text.message[-40:])
def test_text_of_a_pod_without_network_has_its_cause(text: Text) -> None:
    check(SignalSource.POD_EVENT, "FailedCreatePodSandBox", text)


@pytest.mark.parametrize(("reason", "text"), PODS.items())
def test_text_of_a_pod_that_the_kubelet_refuses_has_its_cause(reason: str, text: Text) -> None:
    check(SignalSource.POD, reason, text)


@pytest.mark.parametrize("text", EVICTIONS, ids=lambda text: text.message[-40:])
def test_text_of_an_eviction_has_its_cause(text: Text) -> None:
    check(SignalSource.POD, "Evicted", text)
