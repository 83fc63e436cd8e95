"""What programs of ours in a cluster have in common: a namespace, an image and labels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubectl_sky import __version__
from kubectl_sky.errors import UserError
from kubectl_sky.words import names
from kubectl_sky.words.names import CONTROLLERS_NAMESPACE, standard_labels

DEFAULT_NAMESPACE = CONTROLLERS_NAMESPACE
CONTROLLERS = {name: f"kubectl-sky-controller-{name}" for name in ("tasks", "ray", "fairshare")}
SERVER = "kubectl-sky-api"
PROGRAMS = frozenset((*CONTROLLERS.values(), SERVER))  # and their ServiceAccounts
DEFAULT_IMAGE = f"kubectl-sky:{__version__}"

# A name and a tag, or a digest, which nobody can move to another image.
_IMAGE = re.compile(r"[^\s@-][^\s@]{0,1000}(@sha256:[0-9a-f]{64})?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_namespace(name: str) -> str:
    """Return the name of a namespace. Raises UserError for an invalid one."""
    if not _LABEL.fullmatch(name):
        raise UserError(f'"{name}" is not a valid namespace')
    return name


@dataclass(frozen=True)
class Install:
    """The values that the objects of a program share."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE

    def __post_init__(self) -> None:
        """Raise UserError for an invalid namespace or image."""
        check_namespace(self.namespace)
        if not _IMAGE.fullmatch(self.image):
            hint = "use NAME:TAG, or NAME@sha256: and 64 hexadecimal digits"
            raise UserError(f'"{self.image}" is not a valid image', hint)

    @property
    def ingress_ports(self) -> Sequence[int]:
        """The ports that other pods may reach."""
        return ()

    @property
    def reaches_sources(self) -> bool:
        """Whether the pods reach more than DNS and the API server."""
        return False

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of all objects: none."""
        return {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of all objects."""
        return standard_labels(self.name, self.name)

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that select the pods.

        A task may have the same name, but not the same instance.
        """
        return {names.APP_NAME: self.name, names.INSTANCE: self.name}

    @property
    def pod_security(self) -> Mapping[str, object]:
        """The security context of pods at the Pod Security level restricted."""
        return {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }

    @property
    def container_security(self) -> Mapping[str, object]:
        """The security context of containers at the Pod Security level restricted."""
        return {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
