"""Texts of runtimes, registries, kubelets and networks, each with its cause and next step."""

from pathlib import Path
from time import process_time
from typing import NamedTuple

import pytest
import yaml
from msgspec.structs import replace

from kubectl_sky.observe.findings import find_cause
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from tests.builders import ID, make_job, make_pod
from tests.reading import read_objects

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
    "SysctlForbidden": Text(
        "rejected-settings",
        'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted',
        "msgmax",
    ),
    "AppArmor": Text(
        "rejected-settings", "Pod was rejected: Cannot enforce AppArmor: not loaded", "AppArmor"
    ),
    "Other": Text("rejected", "Pod was rejected: something new", "something new"),
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


SETUP = 'MountVolume.SetUp failed for volume "data" : '
NFS = f"{SETUP}mount failed: exit status 32 Output: "
CSI = f"{SETUP}rpc error: code = "
S3 = (
    f'{CSI}Internal desc = Could not mount "runs" at "/var/lib/kubelet/mount": Mount failed: '
    "Error: Failed to create S3 client\n\nCaused by:\n"
    "    0: initial ListObjectsV2 failed for bucket runs in region us-east-1\n    1: Client error"
)
ATTACH = 'AttachVolume.Attach failed for volume "pvc-1" : '
MOUNTS = (
    Text("storage-unreachable", f"{NFS}mount.nfs: Connection timed out", "cannot reach"),
    Text("storage-unreachable", f"{NFS}mount.nfs: No route to host for 10.0.0.5:/data", "route"),
    Text(
        "storage-unreachable", f"{NFS}mount.nfs: Failed to resolve server nfs.example.com", "nfs."
    ),
    Text("mount-denied", f"{NFS}mount.nfs: access denied by server while mounting", "denied"),
    Text(
        "mount-denied",
        f"{CSI}Unknown desc = failed to mount secrets store objects for pod, err:"
        " AccessDeniedException: not authorized to perform: secretsmanager:GetSecretValue",
        "secretsmanager",
    ),
    Text("mount-denied", f"{CSI}PermissionDenied desc = Error 403: no storage.objects.list access"),
    Text(
        "mount-denied",
        f"{CSI}Unauthenticated desc = failed to prepare storage service: context deadline exceeded",
        "service account",
    ),
    Text("mount-denied", f"{S3}\n    2: Forbidden: Access Denied", "refuses the mount"),
    Text("mount-denied", f"{S3}\n    2: No signing credentials found", "service account"),
    Text("bucket-missing", f"{S3}\n    2: The bucket does not exist", "`file_mounts`"),
    Text(
        "bucket-missing",
        f'{CSI}NotFound desc = failed to get GCS bucket "runs": googleapi: Error 404: '
        "The specified bucket does not exist., notFound",
        '"runs"',
    ),
    Text(
        "bucket-sidecar",
        f"{CSI}FailedPrecondition desc = failed to find the sidecar container in Pod spec",
        "gke-gcsfuse/volumes",
    ),
    Text(
        "bucket-sidecar",
        f"{CSI}Internal desc = the webhook failed to inject the sidecar container into the Pod",
        "annotations",
    ),
    Text("mount-helper", f"{NFS}mount: wrong fs type, bad option, missing helper program", "NFS"),
    Text("host-path", f"{SETUP}hostPath type check failed: /data is not a directory", "/data"),
    Text(
        "mount-account",
        f'{SETUP}failed to fetch token: serviceaccounts "train" not found',
        '"train"',
    ),
    Text("mount-missing", f'{SETUP}secret "wandb" not found', '"wandb"'),
    Text("driver-missing", f"{ATTACH}CSINode n3 does not contain driver ebs.csi.aws.com", "ebs."),
    Text("driver-missing", f"{SETUP}driver name nfs.csi.k8s.io not found in the list", "nfs.csi"),
    Text("attach-zone", f"{ATTACH}Could not attach: volume is not in zone us-east-1a", "zone"),
    Text("attach-limit", f"{ATTACH}reached its limit of attachable volumes: 25", "--exclude-node"),
    Text("attach-limit", f"{ATTACH}maximum number of data disks has been reached", "volumes"),
    Text("disk-missing", f"{ATTACH}rpc error: code = NotFound desc = volume vol-1 not found"),
    Text("disk-missing", f"{ATTACH}InvalidVolume.NotFound: it does not exist", "data is lost"),
    Text(
        "mount-slow",
        "Unable to attach or mount volumes: unmounted volumes=[data]: timed out waiting for the"
        " condition",
        "not mounted yet",
    ),
    Text("mount-slow", f"{CSI}Aborted desc = An operation with the given Volume ID exists", "wait"),
    Text("multi-attach", 'Multi-Attach error for volume "pvc-1" Volume is already used', "another"),
    Text("mount-failed", f"{SETUP}something new", "something new"),
)
PROVISION = 'failed to provision volume with StorageClass "fast": rpc error: code = '
CLAIMS = (
    Text("storage-denied", f"{PROVISION}Internal desc = UnauthorizedOperation: not authorized"),
    Text("storage-denied", f"{PROVISION}PermissionDenied desc = Error 403: Forbidden", "rights"),
    Text("access-mode", f"{PROVISION}InvalidArgument desc = unsupported access mode", "mode"),
    Text("access-mode", f"{PROVISION}InvalidArgument desc = MULTI_NODE_MULTI_WRITER is not", "MUL"),
    Text("storage-full", f"{PROVISION}ResourceExhausted desc = insufficient capacity", "room"),
    Text("storage-full", f"{PROVISION}Internal desc = not enough free space on the pool", "pool"),
    Text("storage-topology", "error generating accessibility requirements: none", "CSI driver"),
    Text(
        "storage-quota",
        "exceeded quota: team, requested: requests.storage=1Ti, used: requests.storage=0,"
        " limited: requests.storage=500Gi",
        "1Ti",
    ),
    Text("provisioning-failed", f"{PROVISION}Unknown desc = something new", "something new"),
)
FORBIDDEN = 'Error creating: pods "x" is forbidden: '
REFUSALS = (
    Text(
        "webhook-denied",
        'Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: resource'
        " Pod/default/x was blocked due to the following policies require-labels",
        "require-labels",
    ),
    Text(
        "webhook-denied",
        'Error creating: admission webhook "validation.gatekeeper.sh" denied the request:'
        " [allowed-repos] container <main> has an invalid image repo",
        "allowed-repos",
    ),
    Text(
        "webhook-broken",
        'Internal error occurred: failed calling webhook "sidecar-injector.istio.io": failed to'
        ' call webhook: Post "https://istiod": dial tcp: connect: connection refused',
        "istio",
    ),
    Text(
        "security-constraint",
        f"{FORBIDDEN}unable to validate against any security context constraint: [provider"
        ' "anyuid": Forbidden: not usable by user or serviceaccount]',
        "anyuid",
    ),
    Text(
        "account-missing",
        f'{FORBIDDEN}error looking up service account default/train: serviceaccount "train" not'
        " found",
        '"train"',
    ),
    Text(
        "quota-exceeded",
        f"{FORBIDDEN}exceeded quota: gpu, requested: requests.nvidia.com/gpu=8, used:"
        " requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=8",
        "nvidia.com/gpu=4",
    ),
    Text("quota-unsized", f"{FORBIDDEN}failed quota: team: must specify limits.cpu for: main"),
    Text(
        "limit-range",
        f"{FORBIDDEN}[maximum cpu usage per Pod is 8, but limit is 16, maximum memory usage]",
        "8 cpu",
    ),
    Text(
        "pod-security",
        f'{FORBIDDEN}violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        "hostNetwork",
    ),
    Text(
        "pod-invalid",
        'Error creating: Pod "x" is invalid: spec.containers[0].resources.requests: Invalid value:'
        ' "8": must be less than or equal to cpu limit of 4',
        "cpu limit",
    ),
    Text("priority-missing", f"{FORBIDDEN}no PriorityClass with name gold was found", '"gold"'),
    Text(
        "priority-quota",
        f"{FORBIDDEN}insufficient quota to match these scopes: [{{PriorityClass In [gold]}}]",
        "gold",
    ),
    Text("api-server-busy", "Error creating: resource quota evaluation timed out", "wait"),
    Text("api-server-busy", "Error creating: etcdserver: request timed out", "wait"),
    Text("etcd-full", "Error creating: etcdserver: mvcc: database space exceeded", "full"),
    Text(
        "controller-denied",
        f'{FORBIDDEN}User "system:serviceaccount:kube-system:job-controller" cannot create resource'
        ' "pods" in the namespace',
        "job-controller",
    ),
    Text(
        "policy-denied",
        f"{FORBIDDEN}ValidatingAdmissionPolicy 'no-latest' with binding 'all' denied request: no"
        " :latest",
        "no-latest",
    ),
    Text(
        "namespace-ending",
        f"{FORBIDDEN}unable to create new content in namespace x because it is being terminated",
    ),
    Text("pods-refused", f"{FORBIDDEN}something new", "something new"),
)
TAINT = "node(s) had untolerated taint"
PLACES = (
    Text("tainted", f"{TAINT} {{nvidia.com/gpu: present}}", "tolerations"),
    Text("not-ready", f"{TAINT} {{node.kubernetes.io/unreachable: }}", "not ready"),
    Text("not-ready", f"{TAINT} {{node.kubernetes.io/network-unavailable: }}", "not ready"),
    Text("not-ready", f"{TAINT} {{node.cloudprovider.kubernetes.io/uninitialized: true}}"),
    Text("under-pressure", f"{TAINT} {{node.kubernetes.io/disk-pressure: }}", "disk"),
    Text("under-pressure", f"{TAINT} {{node.kubernetes.io/memory-pressure: }}", "memory"),
    Text("cordoned", "node(s) were unschedulable", "cordoned"),
    Text("insufficient", "Insufficient rdma/hca_shared_devices_a", "rdma/hca_shared_devices_a"),
    Text("insufficient", "Insufficient hugepages-2Mi", "hugepages-2Mi"),
    Text("too-many-pods", "Too many pods", "maximum number of pods"),
    Text("volume-zone", "node(s) had volume node affinity conflict", "zone"),
    Text("volume-count", "node(s) exceed max volume count", "volumes"),
    Text("volume-room", "node(s) did not have enough free storage", "smaller"),
    Text(
        "volume-slow",
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
        "bound",
    ),
    Text(
        "volume-exclusive",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
        " in-use by another pod",
        "another pod",
    ),
    Text("claim-unbound", "pod has unbound immediate PersistentVolumeClaims", "bound"),
    Text("claim-missing", 'persistentvolumeclaim "data" not found', '"data"'),
    Text("spread", "node(s) didn't match pod topology spread constraints (missing required label)"),
    Text("pod-affinity", "node(s) didn't match pod affinity rules", "pod_config"),
    Text("pod-anti-affinity", "node(s) didn't match pod anti-affinity rules", "--exclusive"),
    Text("exclusive-pods", "node(s) didn't satisfy existing pods anti-affinity rules", "no others"),
    Text("host-port", "node(s) didn't have free ports for the requested pod ports", "hostPort"),
    Text("no-cluster-nodes", "no nodes available to schedule pods", "no nodes"),
    Text("unschedulable", "node(s) something new", "something new"),
)
SCALED = {
    "NotTriggerScaleUp": Text(
        "autoscaler-refuses",
        "pod didn't trigger scale-up: 2 max node group size reached",
        "max node group size",
    ),
    "TriggeredScaleUp": Text(
        "autoscaler-adds", "pod triggered scale-up: [{gpu-pool 0->1 (max: 4)}]", "adding"
    ),
    "FailedScaleUp": Text(
        "autoscaler-fails", "Node scale up failed: GCE out of resources.", "out of resources"
    ),
}
CUDA = "RuntimeError: CUDA error: "
LOGS = (
    Text("gpu-out-of-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"),
    Text("gpu-architecture", f"{CUDA}no kernel image is available for execution on the device"),
    Text(
        "gpu-missing", "RuntimeError: Found no NVIDIA driver on your system. Please", "no working"
    ),
    Text("gpu-missing", "Failed to initialize NVML: Unknown Error", "--exclude-node"),
    Text("gpu-missing", f"{CUDA}no CUDA-capable device is detected", "accelerators"),
    Text("gpu-failed", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", "79"),
    Text(
        "shared-memory",
        "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible"
        " that dataloader's workers are out of shared memory.",
        "/dev/shm",
    ),
    Text("disk-full", "OSError: [Errno 122] Disk quota exceeded", "disk_size"),
    Text("read-only", "OSError: [Errno 30] Read-only file system: '/data/x'", '"/data/x"'),
    Text("not-permitted", "PermissionError: [Errno 13] Permission denied: '/checkpoints'", "owner"),
    Text("library-missing", "ImportError: libcudart.so.12: cannot open shared object file", "12"),
    Text("module-missing", "ModuleNotFoundError: No module named 'torch'", '"torch"'),
    Text("package-missing", "ERROR: No matching distribution found for torchh", '"torchh"'),
    Text("model-gated", "huggingface_hub.errors.GatedRepoError: 401 Client Error", "HF_TOKEN"),
    Text("credentials-missing", "botocore.exceptions.NoCredentialsError: Unable", "secret"),
    Text("credentials-missing", "wandb.errors.UsageError: api_key not configured (no-tty)"),
    Text(
        "name-unknown",
        "Failed to resolve 'huggingface.co' ([Errno -3] Temporary failure in name resolution)",
        "NetworkPolicy",
    ),
    Text(
        "peer-unreachable",
        "The client socket has timed out after 600s while trying to connect to (10.0.0.3, 29500).",
        "(10.0.0.3, 29500)",
    ),
    Text("peers-lost", "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error", "first"),
    Text(
        "peers-lost",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)",
        "connection",
    ),
    Text("address-in-use", "RuntimeError: Address already in use: [::]:29500", "port"),
)

REPORTED = yaml.safe_load((Path(__file__).parent / "reported_messages.yaml").read_text())
TEXTS = (
    *PULLS,
    *UNSIGNED,
    *CONFIGS,
    *STARTS,
    *SANDBOXES,
    *PODS.values(),
    *EVICTIONS,
    *MOUNTS,
    *CLAIMS,
    *REFUSALS,
    *PLACES,
    *SCALED.values(),
    *LOGS,
    *(Text(item["rule"], item["message"], item.get("says", "")) for item in REPORTED),
)


_ONE_REASON = (
    (SignalSource.WAITING, "SignatureValidationFailed", UNSIGNED),
    (SignalSource.WAITING, "CreateContainerConfigError", CONFIGS),
    (SignalSource.ENDED, "StartError 128", STARTS),
    (SignalSource.POD_EVENT, "FailedCreatePodSandBox", SANDBOXES),
    (SignalSource.POD, "Evicted", EVICTIONS),
    (SignalSource.CLAIM, "ProvisioningFailed", CLAIMS),
    (SignalSource.WORKLOAD_EVENT, "FailedCreate", REFUSALS),
    (SignalSource.SCHEDULER, "Unschedulable", PLACES),
    (SignalSource.LOG, "", LOGS),
)
SAID = (  # where each text is said, and for which reason; pulls and mounts have several
    *((source, reason, text) for source, reason, texts in _ONE_REASON for text in texts),
    *((SignalSource.POD, reason, text) for reason, text in PODS.items()),
    *((SignalSource.POD_EVENT, reason, text) for reason, text in SCALED.items()),
)


def make_snapshot() -> TaskSnapshot:
    pod = make_pod(0, "Pending")
    containers = [{"name": "main", "image": IMAGE}]
    pod |= {"spec": pod.get("spec", {}) | {"containers": containers, "nodeName": "gpu-7"}}
    return TaskSnapshot(ID, "default", read_objects({"Job": (make_job(0),), "Pod": (pod,)}))


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


@pytest.mark.parametrize("text", MOUNTS, ids=lambda text: text.message[-40:])
def test_text_of_a_mount_has_its_cause(text: Text) -> None:
    is_attached = text.message.startswith((ATTACH, "Multi-Attach"))
    reason = "FailedAttachVolume" if is_attached else "FailedMount"
    check(SignalSource.POD_EVENT, reason, text)


@pytest.mark.parametrize(("source", "reason", "text"), SAID, ids=lambda value: str(value)[-40:])
def test_text_of_a_cluster_has_its_cause(source: SignalSource, reason: str, text: Text) -> None:
    check(source, reason, text)


@pytest.mark.parametrize("item", REPORTED, ids=lambda item: item["message"][-40:])
def test_text_of_a_report_has_its_cause(item: dict[str, str]) -> None:
    text = Text(item["rule"], item["message"], item.get("says", ""))
    check(SignalSource[item["source"].upper()], item.get("reason", ""), text)


@pytest.mark.parametrize(
    "warning",
    [
        "retrying: [Errno 101] Network is unreachable",
        "wandb: WARNING SSL certificate problem, running offline",
        "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/last.pt'; starting fresh",
        "UserWarning: The NVIDIA driver on your system is too old (found version 11040).",
    ],
)
def test_error_that_a_program_survives_is_no_cause(warning: str) -> None:
    lines = f"{warning}\nTraceback (most recent call last):\nKeyError: 'labels'"
    assert find_cause(make_snapshot(), Signal(SignalSource.LOG, "", lines, (0,)), RULES) is None
    assert find_cause(make_snapshot(), Signal(SignalSource.LOG, "", warning, (0,)), RULES)


def test_refused_pull_names_secret_that_does_not_exist() -> None:
    event = {
        "metadata": {"name": "event", "namespace": "default"},
        "type": "Warning",
        "reason": "FailedToRetrieveImagePullSecret",
        "message": "Unable to retrieve some image pull secrets (regcred); attempting to pull",
    }
    seen = make_snapshot()
    seen = replace(seen, objects={**seen.objects, **read_objects({"Event": (event,)})})
    message = f"{RESOLVE}authorization failed: no basic auth credentials"
    cause = find_cause(seen, Signal(SignalSource.WAITING, "ErrImagePull", message, (0,)), RULES)
    assert cause
    assert "check the name, and the secret regcred, which does not exist;" in cause.then


def test_long_messages_are_explained_soon() -> None:
    texts = ('exec: "', "a b ", 'image "a" ', "mount: ", "all addresses ", "untolerated taint ")
    for source, reason in {(source, reason) for source, reason, _ in SAID}:
        for text in texts:
            message = (text * 8000)[:8000]
            begin = process_time()
            find_cause(make_snapshot(), Signal(source, reason, message, (0,)), RULES)
            assert process_time() - begin < 1, (source, text)


def test_corpus_is_large() -> None:
    assert len({text.message for text in TEXTS}) >= 300
