"""Explain why the volumes of a node are not there: claims, provisioning, mounts."""

from kubectl_sky.observe.findings import Rule, Stage, find_host
from kubectl_sky.observe.signals import SignalSource


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
        detail=find_host,
        mere=mere,
    )


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
        "check that its provisioner runs: `kubectl events --for pvc/{about} -n {namespace}`",
        mere=True,
    ),
    _provision(
        "storage-quota",
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>[^,]+)",
        'quota "{quota}" exceeded: PVC "{about}" requests {asked}',
        "see `kubectl get quota -n {namespace}`; request less, or delete a volume",
    ),
    _provision(
        "storage-secret",
        r'secrets? "(?P<name>[^"]+)" not found',
        'Secret "{name}", which the StorageClass of PVC "{about}" names, not found',
        "ask a cluster admin to create it, or use another --storage-class",
    ),
    _provision(
        "storage-limit",
        r"[Qq]uota\b[^:]{,80}exceeded|QuotaExceeded|LimitExceeded|exceeded [^:]{,80}limit",
        'the storage quota of the cloud has no room for PVC "{about}"|: {why}',
        "create a smaller volume, delete one, or ask a cluster admin for more quota",
    ),
    _provision(
        "storage-size",
        r"less than (?:the )?minimum|minimum (?:\w+ )?size|OutOfRange"
        r"|must be (?:at least|between|a multiple)|too small",
        'the StorageClass of PVC "{about}" takes no volume of this size|: {why}',
        "create the volume again with another SIZE or --storage-class",
    ),
    _provision(
        "storage-denied",
        r"[Uu]nauthorized|not authorized|PermissionDenied|[Ff]orbidden|AccessDenied|(?<=[ (])403\b",
        'the provisioner of PVC "{about}" may not create a disk|: {why}',
        "ask a cluster admin: the rights of the storage provisioner are missing",
    ),
    _provision(
        "access-mode",
        r"unsupported access mode|MULTI_NODE|[Vv]olume capabilit|access ?mode",
        'the StorageClass of PVC "{about}" does not support its access mode|: {why}',
        "create the volume again with another access mode or --storage-class",
    ),
    _provision(
        "storage-full",
        r"insufficient capacity|ResourceExhausted|not enough (?:free )?space"
        r"|no space left|out of space|OutOfSpace",
        'the storage has no room for PVC "{about}"|: {why}',
        "create a smaller volume, or use another --storage-class",
    ),
    _provision(
        "storage-topology",
        r"no available topology found|error generating accessibility requirements",
        'no cluster node can use the storage of PVC "{about}"|: {why}',
        "ask a cluster admin whether the CSI driver runs on the cluster nodes",
    ),
    _provision(
        "provisioning-host-gone",
        r'nodes? "[^"]+" not found',
        'the cluster node for which PVC "{about}" was made is gone|: {why}',
        "wait: its pod is scheduled again; if it stays so, create the volume again",
    ),
    _provision(
        "provisioning-slow",
        r"[Dd]eadline ?[Ee]xceeded|context canceled|operation with the given [Vv]olume"
        r"|timed out waiting|\bUnavailable\b",
        'the storage for PVC "{about}" is not ready yet|: {why}',
        "wait; if it stays so, see `kubectl events --for pvc/{about} -n {namespace}`",
    ),
    _provision(
        "storage-parameters",
        r"code = InvalidArgument desc = (?P<why>.*)",
        'the provisioner refuses what PVC "{about}" or its StorageClass asks|: {why}',
        "use another --storage-class, or ask a cluster admin",
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
        "see `kubectl events --for pvc/{about} -n {namespace}`; another --storage-class may work",
        reason="ProvisioningFailed",
    ),
    _volume(
        "claim-pending",
        SignalSource.CLAIM,
        "",
        'PVC "{about}" is not bound|: {reason} {message}',
        "see `kubectl events --for pvc/{about} -n {namespace}`",
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
    _mount(
        "mount-account",
        r'serviceaccounts? "(?P<account>[^"]+)" not found',
        'service account "{account}" not found in namespace "{namespace}"',
        "`kubectl get serviceaccounts -n {namespace}` lists the existing ones",
    ),
    _mount(
        "provider-class-missing",
        r'SecretProviderClass\S* "(?P<name>[^"]+)" not found',
        'SecretProviderClass "{name}" of a volume not found',
        "create it in namespace {namespace}, or correct its name in pod_config",
    ),
    _mount(
        "mount-key",
        r"references non-existent \w+ key: (?P<key>\S+)",
        'a Secret or ConfigMap that is mounted has no key "{key}"',
        "see `kubectl get secrets,configmaps -n {namespace}`; correct `items` in pod_config",
    ),
    _mount(
        "mount-unread",
        r"object \S+ not registered|failed to sync \w+ cache|failed to fetch token",
        "the kubelet has not read what the volume needs from the API server|: {why}",
        "wait: it tries again",
        mere=True,
    ),
    _mount(
        "attach-limit",
        r"limit of attachable|attachable volumes|AttachmentLimitExceeded"
        r"|[Mm]ax(?:imum)? number of (?:data )?(?:disks|volumes)",
        "the cluster node has reached its maximum number of volumes",
        "submit with --exclude-node {host}, or wait until other workloads finish",
    ),
    Rule(
        "multi-attach",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        "a ReadWriteOnce volume is attached to another cluster node",
        "wait until its pods finish, or use a ReadWriteMany volume",
        reason="FailedAttachVolume|FailedMount",
        message=r"Multi-Attach|VolumeInUse|already (?:exclusively )?attached to|still attached"
        r"|(?:already|still) being used"
        r"|attached to (?:a )?(?:different|another)"
        r"|RESOURCE_IN_USE_BY_ANOTHER",
    ),
    _mount(
        "driver-silent",
        r"plugins/(?P<driver>[^/]+)/\S*\.sock",
        'the CSI driver "{driver}" does not run on cluster node {host}',
        "wait; if it stays so, submit with --exclude-node {host}, and ask a cluster admin",
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
        "host-path",
        r'hostPath type check failed|path "[^"]+" does not exist',
        "a directory of the cluster node cannot be mounted|: {why}",
        "correct the path, or let a cluster admin create it on the cluster nodes",
    ),
    _mount(
        "bucket-missing",
        r"bucket \S+: (?:[^:]{,60}: ){,2}[^:]{,80}does not exist|bucket does not exist"
        r"|NoSuchBucket",
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
        r"[Aa]ccess [Dd]enied|[Pp]ermission ?[Dd]enied|AccessDenied|not authorized|(?<=[ (])403\b"
        r"|Unauthenticated|No signing credentials",
        "the storage refuses the mount|: {why}",
        "ask a cluster admin: the export, or the access of the service account, must allow it",
    ),
    _mount(
        "secrets-store",
        r"failed to mount secrets store objects",
        "the secret store does not give the secrets of a volume|: {why}",
        "check the names in its SecretProviderClass, and the access of the service account",
    ),
    _mount(
        "mount-folder",
        r"reason given by server|MGS specification|mount error\(2\)"
        r"|mount\.\w+: [^:]{,200}No such file or directory",
        "the storage server has no such folder|: {why}",
        "correct the path of the volume, see `kubectl get pv -o yaml`, or ask a cluster admin",
    ),
    _mount(
        "storage-unreachable",
        r"[Cc]onnection timed out|[Cc]onnection refused|[Nn]o route to host"
        r"|[Nn]etwork is unreachable|Name or service not known|Failed to resolve "
        r"|Is the MGS running|[Hh]ost is down|i/o timeout|no such host|mount error\(11[0-9]\)",
        "the cluster node cannot reach the storage server|: {why}",
        "check the server of the volume in `kubectl get pv -o wide`, or ask a cluster admin",
    ),
    _mount(
        "mount-helper",
        r"wrong fs type|helper program|unknown filesystem type|modprobe|No such device"
        r"|fuse failed to start|Protocol family not supported",
        "the cluster node lacks the program that mounts the volume, such as that of NFS",
        "ask a cluster admin to install it; meanwhile submit with --exclude-node {host}",
    ),
    _mount(
        "mount-options",
        r"Protocol not supported|requested NFS version|(?:incorrect|unknown) mount option"
        r"|Invalid argument",
        "the storage server does not take the mount options of the volume|: {why}",
        "correct mountOptions of the PersistentVolume or StorageClass, or ask a cluster admin",
    ),
    _mount(
        "volume-damaged",
        r"\bfsck\b|superblock|[Ss]tructure needs cleaning|input/output error|[Bb]ad message",
        "the file system of the volume is damaged|: {why}",
        "ask a cluster admin to check and repair it",
    ),
    _mount(
        "mount-stale",
        r"[Ss]tale (?:NFS )?file handle",
        "a mount of cluster node {host} is dead: its storage server has changed",
        "submit with --exclude-node {host}; ask a cluster admin to mount it again",
    ),
    _mount(
        "mount-fault",
        r"(?P<why>signal: killed|[Cc]annot allocate memory|too many open files"
        r"|no space left on device|[Rr]esource temporarily unavailable)",
        "a volume cannot be mounted on cluster node {host}: {why}",
        "submit with --exclude-node {host}; ask a cluster admin to look at that cluster node",
    ),
    _mount(
        "attach-zone",
        r"not in zone|in (?:a )?different zone|[Zz]one ?[Mm]ismatch|same availability zone",
        "the disk of the volume is in another zone than its cluster node",
        "see `kubectl get pv`; use a ReadWriteMany volume, or cluster nodes in its zone",
    ),
    _mount(
        "attach-host",
        r"(?:(?:[Ii]nstance|[Nn]ode|VM|server) \"?[^\s\"]+\"?|[Ii]nstance)"
        r" (?:not found|does not exist)",
        "the storage does not know cluster node {host}|: {why}",
        "submit with --exclude-node {host}, and ask a cluster admin",
    ),
    _mount(
        "disk-missing",
        r"\b(?:[Vv]olume|[Dd]isk)\b[^:]{,100}(?:not found|does not exist)|InvalidVolume\.NotFound"
        r"|code = NotFound desc = [^:]{,100}\b(?:vol-|pvc-|disks?/|[Vv]olume)",
        "the disk of the volume is not found|: {why}",
        "ask a cluster admin; if it was deleted, its data is lost: create the volume again",
    ),
    _mount(
        "mount-unbound",
        r"PVC is not bound|[Pp]ersistent[Vv]olume[Cc]laim is not bound",
        "the PVC of a volume is not bound yet",
        "see `kubectl sky volumes list`",
        mere=True,
    ),
    _mount(
        "mount-slow",
        r"timed out waiting|being (?:attached|detached)|attachment is being deleted"
        r"|expected device to be attached|allotted time|not attached to node"
        r"|[Dd]eadline ?[Ee]xceeded|context deadline|operation with the given [Vv]olume",
        "a volume is not mounted yet|: {message}",
        "wait; if it stays so, see `kubectl get events -n {namespace}`",
        mere=True,
    ),
    Rule(
        "mount-failed",
        Stage.VOLUMES,
        SignalSource.POD_EVENT,
        "mounting a volume failed|: {message}",
        "see `kubectl sky volumes list`; if only cluster node {host} fails, add --exclude-node",
        reason="FailedMount|FailedAttachVolume|FailedMapVolume",
        detail=find_host,
    ),
)
