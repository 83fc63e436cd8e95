"""The table of fields that reach beyond the task.

A field reaches beyond the task if it touches the cluster node, other Secrets, an identity, an
untrusted URL or the user's own files. The table mirrors the Pod Security Standards
(https://kubernetes.io/docs/concepts/security/pod-security-standards/) and adds what they lack.
"""

import re
from collections.abc import Callable
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


# Returns what the message quotes of a value, "" for nothing; None if the value is harmless.
Detect = Callable[[Data], str | None]


class Row(Struct, frozen=True):
    """A row of the table: fields of one class with one message.

    `names` are paths in a task; for fields of pods the name alone, or with the field around it
    (`capabilities.add`). `{}` in the message stands for what `detect` returns.
    """

    danger_class: DangerClass
    names: tuple[str, ...]
    message: str
    detect: Detect

    def text(self, value: str) -> str:
        """Return the message about a value."""
        return self.message.replace("{}", value)


def _set(value: Data) -> str | None:
    return None if value in (None, False, "", 0) else ""


def _true(value: Data) -> str | None:
    """Detect anything but false, as a wrong type is not harmless."""
    return None if value is None or value is False else ""


def _true_or_removed(value: Data) -> str | None:
    """Detect anything but false; null removes the default from the pod."""
    return None if value is False else ""


def _removed(value: Data) -> str | None:
    return "" if value is None else None


def _text(value: Data) -> str | None:
    return printable(str(value), 100) if value not in (None, "") else None


def _account(value: Data) -> str | None:
    return None if value == "default" else _text(value)


def _zero(value: Data) -> str | None:
    return "" if value == 0 and value is not False else None


def _items(value: Data) -> str | None:
    """Return the items of a list, or their names."""
    if not value:
        return None
    items = value if isinstance(value, list) else [value]
    return ", ".join(_name(item) for item in items[:5]) + (", …" if len(items) > 5 else "")


def _name(value: Data) -> str:
    if isinstance(value, dict):
        value = value.get("name") or value.get("secretName") or value.get("path") or ""
    return printable(str(value), 100)


def _reference(value: Data) -> str | None:
    """Return the name in a reference such as {name: x}.

    A mapping without a name is reported too.
    """
    return _name(value) if isinstance(value, dict | str) and value else None


def _equal(*values: str) -> Detect:
    return lambda value: printable(str(value)) if str(value).lower() in values else None


def _prefix(prefix: str) -> Detect:
    return lambda value: printable(str(value)) if str(value).startswith(prefix) else None


def _selinux(value: Data) -> str | None:
    return None if value in (None, "", *_SELINUX_TYPES) else printable(str(value))


def _tolerations(value: Data) -> str | None:
    items = value if isinstance(value, list) else []
    keys = [item.get("key") or "" for item in items if isinstance(item, dict)]
    return "" if any(key in _CONTROL_PLANE for key in keys) else None


_SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_CONTROL_PLANE = (  # a toleration without a key tolerates every taint
    "",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
_NODE_STORAGE = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
_UNCONFINED_ANNOTATIONS = (
    "annotations.container.apparmor.security.beta.kubernetes.io/*",
    "annotations.container.seccomp.security.alpha.kubernetes.io/*",
    "annotations.seccomp.security.alpha.kubernetes.io/*",
    "annotations.seccomp-profile.kubernetes.cri-o.io",
    "annotations.seccomp-profile.kubernetes.cri-o.io/*",
)
_RUNTIME_ANNOTATIONS = (  # only some container runtimes and their plugins use these
    "annotations.io.kubernetes.cri-o.*",
    "annotations.io.katacontainers.*",
    "annotations.cdi.k8s.io/*",
    *(
        f"annotations.{plugin}.nri.io{containers}"
        for plugin in ("devices", "mounts", "cdi-devices")
        for containers in ("", "/*")
    ),
)
_NETWORK_ANNOTATIONS = ("annotations.k8s.v1.cni.cncf.io/*", "annotations.v1.multus-cni.io/*")
_PRIVILEGED, _HOST, _SECRETS = DangerClass.PRIVILEGED, DangerClass.HOST, DangerClass.SECRETS
_IDENTITY, _URLS, _LOCAL = DangerClass.IDENTITY, DangerClass.URLS, DangerClass.LOCAL_FILES

# Fields of config.kubernetes, matched by name at any depth.
POD_FIELDS: tuple[Row, ...] = (
    Row(_PRIVILEGED, ("privileged",), "gives full access to the cluster node", _true),
    Row(
        _PRIVILEGED,
        ("allowPrivilegeEscalation",),
        "allows processes to gain privileges",
        _true_or_removed,
    ),
    Row(
        _PRIVILEGED,
        (
            "securityContext",
            "seccompProfile",
            "appArmorProfile",
            "capabilities",
            "capabilities.drop",
        ),
        "removes the default security settings",
        _removed,
    ),
    Row(_PRIVILEGED, ("capabilities.add",), "adds Linux capabilities: {}", _items),
    Row(
        _PRIVILEGED,
        _RUNTIME_ANNOTATIONS,
        "asks the container runtime for devices, mounts or settings of the cluster node",
        _set,
    ),
    Row(_PRIVILEGED, ("procMount",), "uncovers the kernel's files in /proc", _equal("unmasked")),
    Row(
        _PRIVILEGED,
        ("seccompProfile.type", "appArmorProfile.type", *_UNCONFINED_ANNOTATIONS),
        "turns a filter of system calls or file access off",
        _equal("unconfined"),
    ),
    Row(_PRIVILEGED, ("seLinuxOptions.type",), 'runs with the SELinux type "{}"', _selinux),
    Row(
        _PRIVILEGED,
        ("seLinuxOptions.user", "seLinuxOptions.role"),
        'runs with the SELinux user or role "{}"',
        _text,
    ),
    Row(_PRIVILEGED, ("runAsUser",), "runs as root, even if the image does not", _zero),
    Row(_PRIVILEGED, ("sysctls",), "sets kernel parameters: {}", _items),
    Row(_PRIVILEGED, ("hostProcess",), "runs on the cluster node, outside containers", _true),
    Row(
        _PRIVILEGED,
        ("mountPropagation",),
        "mounts of the container appear on the cluster node",
        _equal("bidirectional"),
    ),
    Row(_HOST, ("hostPath",), 'mounts "{}" of the cluster node', _reference),
    Row(_HOST, ("hostPID",), "sees and signals all processes of the cluster node", _true),
    Row(_HOST, ("hostNetwork",), "shares the cluster node's network", _true),
    Row(_HOST, ("hostIPC",), "shares memory with processes of the cluster node", _true),
    Row(_HOST, ("hostUsers",), "shares the cluster node's user IDs", _true),
    Row(_HOST, ("hostPort",), "opens a port of the cluster node", _set),
    Row(_HOST, ("nodeName",), 'bypasses the scheduler, to cluster node "{}"', _text),
    Row(_HOST, ("tolerations",), "allows control plane nodes", _tolerations),
    Row(
        _HOST,
        ("priorityClassName",),
        'may evict pods of the cluster itself: "{}"',
        _prefix("system-"),
    ),
    Row(_HOST, ("httpGet.host", "tcpSocket.host"), 'the cluster node connects to "{}"', _text),
    Row(_HOST, _NETWORK_ANNOTATIONS, 'joins another network of the cluster node: "{}"', _text),
    Row(_HOST, ("gitRepo",), "runs git on the cluster node", _set),
    Row(_HOST, _NODE_STORAGE, "the cluster node mounts storage that is not a PVC", _set),
    Row(
        _SECRETS,
        (
            "secretKeyRef",
            "secretRef",
            "nodePublishSecretRef",
            "secret",
            "azureFile.secretName",
            "volumeAttributes.secretName",
        ),
        'reads the existing Secret "{}"',
        _reference,
    ),
    Row(_SECRETS, ("imagePullSecrets",), "pulls with the existing Secrets: {}", _items),
    Row(
        _SECRETS,
        ("volumeAttributes.secretProviderClass",),
        'mounts secrets of the SecretProviderClass "{}"',
        _text,
    ),
    Row(
        _SECRETS,
        ("annotations.vault.hashicorp.com/agent-inject",),
        "lets a Vault agent add secrets to the pods",
        _true,
    ),
    Row(
        _IDENTITY,
        ("serviceAccountName", "serviceAccount"),
        'the pods act as the service account "{}"',
        _account,
    ),
    Row(
        _IDENTITY,
        ("automountServiceAccountToken",),
        "gives the pods a token of their service account",
        _true_or_removed,
    ),
    Row(_IDENTITY, ("serviceAccountToken",), "gives the pods a service account's token", _set),
    Row(_IDENTITY, ("podCertificate",), "gives the pods a client certificate", _set),
    Row(
        _IDENTITY,
        ("gmsaCredentialSpec", "gmsaCredentialSpecName"),
        "gives the pods a Windows identity",
        _set,
    ),
    Row(
        _IDENTITY,
        (
            "annotations.iam.amazonaws.com/role",
            "labels.azure.workload.identity/use",
            "labels.aadpodidbinding",
        ),
        'gives the pods a cloud identity: "{}"',
        _text,
    ),
)


def _given_account(value: Data) -> str | None:
    is_account = isinstance(value, str) and value.upper() not in NOBODY
    return _account(value) if is_account else None


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
        _equal("best"),
    ),
    Row(_HOST, ("volumes.*.host_path",), 'mounts "{}" of the cluster node', _text),
    Row(
        _HOST,
        tuple(f"{resources}.priority_class" for resources in _RESOURCES),
        'may evict pods of the cluster itself: "{}"',
        _prefix("system-"),
    ),
    Row(
        _IDENTITY,
        ("config.kubernetes.remote_identity", "config.kubernetes.remote_identity.*"),
        'the pods act as the service account "{}"',
        _given_account,
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
FIELDS = (*POD_FIELDS, *TASK_FIELDS, EXISTING_SECRETS, OUTSIDE, CREDENTIALS, VARIABLE_FILES)
