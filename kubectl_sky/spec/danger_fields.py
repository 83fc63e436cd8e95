"""The fields that reach beyond the task, and those of a pod that do not.

A field reaches beyond the task if it touches the cluster node, other Secrets, an identity, an
untrusted URL or the user's own files. Of a pod, every field is reported that is not listed as
harmless, so that those of a later Kubernetes are reported too. What is dangerous about the others
follows the Pod Security Standards
(https://kubernetes.io/docs/concepts/security/pod-security-standards/).
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from kubectl_sky.spec.document import Data, printable
from kubectl_sky.spec.files import is_url, login
from kubectl_sky.spec.kubernetes import NOBODY


class DangerClass(StrEnum):
    """The classes of dangers, as settings and JSON name them."""

    PRIVILEGED = "privileged"
    HOST = "host"
    SECRETS = "secrets"
    IDENTITY = "identity"
    URLS = "urls"
    LOCAL_FILES = "local_files"


MEANINGS = {
    DangerClass.PRIVILEGED: "weakens the isolation between the container and the cluster node",
    DangerClass.HOST: "reaches the cluster node: its files, network, processes or scheduling",
    DangerClass.SECRETS: "reads existing Secrets of the namespace, which may be another user's",
    DangerClass.IDENTITY: "gives the pods a Kubernetes or cloud identity",
    DangerClass.URLS: "fetches from a URL without TLS, or with credentials in it",
    DangerClass.LOCAL_FILES: "sends files of your machine from outside the task's folder",
}


_PRIVILEGED = DangerClass.PRIVILEGED
_HOST = DangerClass.HOST
_SECRETS = DangerClass.SECRETS
_IDENTITY = DangerClass.IDENTITY
_URLS = DangerClass.URLS
_LOCAL = DangerClass.LOCAL_FILES
UNKNOWN = "is not known to be harmless"  # of the class host

_HARMLESS_NAMES = """
    accessModes action activeDeadlineSeconds affinity annotations apiGroup apiVersion
    appArmorProfile args blockOwnerDeletion capabilities claimName claims clusterTrustBundle command
    conditionType configMap configMapKeyRef configMapRef containerName containerPort containers
    controller creationTimestamp dataSource dataSourceRef defaultMode deletionGracePeriodSeconds
    deletionTimestamp devicePath divisor dnsConfig dnsPolicy downwardAPI drop effect emptyDir
    enableServiceLinks env envFrom ephemeral ephemeralContainers exec exitCodes failureThreshold
    fieldPath fieldRef fileKeyRef finalizers fsGroup fsGroupChangePolicy generateName generation
    grpc hostAliases hostIP hostname hostnameOverride hostnames httpGet httpHeaders image
    imagePullPolicy initContainers initialDelaySeconds ip items key kind labelSelector labels level
    lifecycle limits livenessProbe localhostProfile matchExpressions matchFields matchLabelKeys
    matchLabels maxSkew medium metadata minDomains mismatchLabelKeys mode mountPath name nameservers
    namespace namespaceSelector namespaces nodeAffinity nodeAffinityPolicy nodeSelector
    nodeSelectorTerms nodeTaintsPolicy operator optional options os overhead ownerReferences path
    periodSeconds persistentVolumeClaim podAffinity podAffinityTerm podAntiAffinity podGroupName
    port ports postStart preStop preemptionPolicy preference
    preferredDuringSchedulingIgnoredDuringExecution prefix priority projected protocol pullPolicy
    readOnly readOnlyRootFilesystem readinessGates readinessProbe recursiveReadOnly reference
    request requests requiredDuringSchedulingIgnoredDuringExecution resizePolicy resource
    resourceClaimName resourceClaimTemplateName resourceClaims resourceFieldRef resourceName
    resourceVersion resources restartPolicy restartPolicyRules runAsGroup runAsNonRoot runAsUserName
    runtimeClassName schedulerName schedulingGates schedulingGroup scheme seLinuxChangePolicy
    seLinuxOptions searches seccompProfile seconds securityContext selector selfLink service
    setHostnameAsFQDN shareProcessNamespace signerName sizeLimit sleep sources spec startupProbe
    stdin stdinOnce stopSignal storageClassName subPath subPathExpr subdomain successThreshold
    supplementalGroups supplementalGroupsPolicy targetContainerName tcpSocket
    terminationGracePeriodSeconds terminationMessagePath terminationMessagePolicy timeoutSeconds
    tolerationSeconds topologyKey topologySpreadConstraints tty uid value valueFrom values
    volumeAttributesClassName volumeClaimTemplate volumeDevices volumeMode volumeMounts volumeName
    volumes weight whenUnsatisfiable windowsOptions workingDir
"""
HARMLESS = frozenset(_HARMLESS_NAMES.split())

# Fields of pods by name at any depth: why they are reported. `{}` stands for the value.
POD_FIELDS: Mapping[DangerClass, Mapping[str, str]] = {
    _PRIVILEGED: {
        "privileged": "gives full access to the cluster node",
        "allowPrivilegeEscalation": "allows processes to gain privileges",
        "add": "adds Linux capabilities: {}",
        "procMount": "uncovers the kernel's files in /proc",
        "type": 'replaces a filter of system calls or file access by "{}"',
        "user": 'runs with the SELinux user "{}"',
        "role": 'runs with the SELinux role "{}"',
        "runAsUser": "runs as root, even if the image does not",
        "sysctls": "sets kernel parameters: {}",
        "hostProcess": "runs on the cluster node, outside containers",
        "mountPropagation": "mounts of the container appear on the cluster node",
    },
    _HOST: {
        "hostPath": 'mounts "{}" of the cluster node',
        "hostPID": "sees and signals all processes of the cluster node",
        "hostNetwork": "shares the cluster node's network",
        "hostIPC": "shares memory with processes of the cluster node",
        "hostUsers": "shares the cluster node's user IDs",
        "hostPort": "opens a port of the cluster node",
        "nodeName": 'bypasses the scheduler, to cluster node "{}"',
        "tolerations": "allows control plane nodes",
        "priorityClassName": 'may evict pods of the cluster itself: "{}"',
        "host": 'the cluster node connects to "{}"',
    },
    _SECRETS: {
        "secretKeyRef": 'reads the existing Secret "{}"',
        "secretRef": 'reads the existing Secret "{}"',
        "nodePublishSecretRef": 'reads the existing Secret "{}"',
        "secret": 'reads the existing Secret "{}"',
        "secretProviderClass": 'mounts secrets of the SecretProviderClass "{}"',
        "imagePullSecrets": "pulls with the existing Secrets: {}",
    },
    _IDENTITY: {
        "serviceAccountName": 'the pods act as the service account "{}"',
        "serviceAccount": 'the pods act as the service account "{}"',
        "automountServiceAccountToken": "gives the pods a token of their service account",
        "serviceAccountToken": "gives the pods a service account's token",
        "podCertificate": "gives the pods a client certificate",
        "gmsaCredentialSpec": "gives the pods a Windows identity",
        "gmsaCredentialSpecName": "gives the pods a Windows identity",
    },
}
# Names with this meaning only in fields that are harmless themselves.
_AMBIGUOUS = ("add", "host", "role", "type", "user")
# Null removes the default from the pod.
DEFAULTS = (
    *("securityContext", "seccompProfile", "appArmorProfile", "capabilities", "drop"),
    *("allowPrivilegeEscalation", "automountServiceAccountToken"),
)
_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_CONTROL_PLANE = (  # a toleration without a key tolerates every taint
    "",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
_HARMLESS_VALUES: Mapping[str, Callable[[Data], bool]] = {
    "procMount": lambda value: value == "Default",
    "type": lambda value: value in ("RuntimeDefault", "Localhost", *_SELINUX_TYPES),
    "runAsUser": lambda value: value != 0,
    "mountPropagation": lambda value: value in ("None", "HostToContainer"),
    "tolerations": lambda value: (
        isinstance(value, list)
        and all(
            isinstance(item, dict) and (item.get("key") or "") not in _CONTROL_PLANE
            for item in value
        )
    ),
    "priorityClassName": lambda value: not str(value).startswith("system-"),
    "serviceAccountName": lambda value: value == "default",
    "serviceAccount": lambda value: value == "default",
}

# Annotations and labels on which node software, webhooks and clouds act, by their prefixes.
METADATA: Mapping[DangerClass, Mapping[tuple[str, ...], str]] = {
    _PRIVILEGED: {
        (
            *("io.kubernetes.cri-o.", "io.katacontainers.", "cdi.k8s.io/", "devices.nri.io"),
            *("mounts.nri.io", "cdi-devices.nri.io"),
        ): "asks the container runtime for devices, mounts or settings of the cluster node",
        (
            "container.apparmor.security.beta.kubernetes.io/",
            "container.seccomp.security.alpha.kubernetes.io/",
            "seccomp.security.alpha.kubernetes.io/",
            "seccomp-profile.kubernetes.cri-o.io",
        ): 'replaces a filter of system calls or file access by "{}"',
    },
    _HOST: {
        ("k8s.v1.cni.cncf.io/", "v1.multus-cni.io/"): (
            'joins another network of the cluster node: "{}"'
        )
    },
    _SECRETS: {
        ("vault.hashicorp.com/agent-inject",): "lets a Vault agent add secrets to the pods",
    },
    _IDENTITY: {
        ("iam.amazonaws.com/role", "azure.workload.identity/use", "aadpodidbinding"): (
            'gives the pods a cloud identity: "{}"'
        )
    },
}
_REASONS = {
    name: (danger_class, message)
    for danger_class, fields in POD_FIELDS.items()
    for name, message in fields.items()
}


def judge_pod_field(name: str, value: Data, known: bool) -> tuple[DangerClass, str] | None:
    """Return the class and message of a field of a pod; None if it is harmless.

    Without `known`, it is outside of pod_config or inside of a field that was reported, so that
    only a reason of its own counts.
    """
    if value is None and name in DEFAULTS:
        return _PRIVILEGED, "removes the default security settings"
    if name in HARMLESS or value in (None, False, "", [], {}):
        is_root = name == "runAsUser" and value == 0 and value is not False
        return (_PRIVILEGED, _REASONS[name][1]) if is_root else None
    if not known and (name not in _REASONS or name in _AMBIGUOUS):
        return None
    if name not in _REASONS:
        return _HOST, UNKNOWN
    is_harmless = _HARMLESS_VALUES.get(name)
    if is_harmless and is_harmless(value):
        return None
    danger_class, message = _REASONS[name]
    return danger_class, message.replace("{}", quote(value))


def judge_metadata(key: str, value: Data) -> tuple[DangerClass, str] | None:
    """Return the class and message of an annotation or label; None if it is harmless."""
    for danger_class, rows in METADATA.items():
        for prefixes, message in rows.items():
            if key.startswith(prefixes) and value not in (None, False, ""):
                return danger_class, message.replace("{}", quote(value))
    return None


def quote(value: Data) -> str:
    """Return what a message quotes of a value: its text, or the names of what it has."""
    if isinstance(value, list):
        return ", ".join(map(quote, value[:5])) + (", …" if len(value) > 5 else "")
    if isinstance(value, dict):
        value = value.get("name") or value.get("secretName") or value.get("path") or ""
    return printable(str(value), 100)


class Row(Struct, frozen=True):
    """Fields of a task of one class with one message, in which `{}` is what `detect` returns.

    That is a part of the value, or "" for nothing; None if the value is harmless.
    """

    danger_class: DangerClass
    names: tuple[str, ...]
    message: str
    detect: Callable[[Data], str | None]

    def text(self, value: str) -> str:
        return self.message.replace("{}", value)


def _text(value: Data) -> str | None:
    return printable(str(value), 100) if value not in (None, "") else None


def _find_account(value: Data) -> str | None:
    is_account = isinstance(value, str) and value.upper() not in NOBODY and value != "default"
    return _text(value) if is_account else None


def _plain_url(value: Data) -> str | None:
    scheme = _scheme(value)
    return scheme if scheme in ("http", "git") else None


def _credentials_in_url(value: Data) -> str | None:
    authority, _, rest = str(value).partition("://")[2].partition("/")
    if _scheme(value) not in ("http", "https") or login(value):  # a login by secrets' names
        return None
    return "" if "@" in authority or _SIGNED.search(f"{authority}{rest}") else None


def _scheme(value: Data) -> str:
    return value.partition("://")[0].lower() if is_url(value) else ""


_SIGNED = re.compile(r"[?&][^=&]*(token|signature|sig|secret|password|key)=", re.IGNORECASE)
_RESOURCES = ("resources", "resources.any_of.*", "resources.ordered.*")
_URL_FIELDS = ("workdir.url", "file_mounts.*", "file_mounts.*.source")

# Other fields of a task, by their paths.
TASK_FIELDS: tuple[Row, ...] = (
    Row(
        _PRIVILEGED,
        tuple(f"{resources}.network_tier" for resources in _RESOURCES),
        "may add the Linux capability IPC_LOCK",
        lambda value: "" if str(value).lower() == "best" else None,
    ),
    Row(_HOST, ("volumes.*.host_path",), 'mounts "{}" of the cluster node', _text),
    Row(
        _HOST,
        tuple(f"{resources}.priority_class" for resources in _RESOURCES),
        'may evict pods of the cluster itself: "{}"',
        lambda value: _text(value) if str(value).startswith("system-") else None,
    ),
    Row(
        _IDENTITY,
        ("config.kubernetes.remote_identity", "config.kubernetes.remote_identity.*"),
        'the pods act as the service account "{}"',
        _find_account,
    ),
    Row(
        _URLS, _URL_FIELDS, "fetches by {}://, without TLS: others can change the data", _plain_url
    ),
    Row(
        _URLS,
        _URL_FIELDS,
        "has credentials in the URL, readable in the manifests",
        _credentials_in_url,
    ),
)
# Fields that cannot be judged by their value alone.
EXISTING_SECRETS = Row(
    _SECRETS, ("secrets.*", "managed_secrets.*"), 'reads the existing Secret "{}"', _text
)
OUTSIDE = Row(_LOCAL, ("workdir", "file_mounts.*"), "sends {}, outside the task's folder", _text)
CREDENTIALS = Row(_LOCAL, ("workdir", "file_mounts.*"), "sends credentials: {}", _text)
VARIABLE_FILES = Row(
    _LOCAL, ("--env-file", "--secret-file"), "reads {}, outside the task's folder", _text
)
ROWS = (*TASK_FIELDS, EXISTING_SECRETS, OUTSIDE, CREDENTIALS, VARIABLE_FILES)
