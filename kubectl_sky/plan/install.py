"""What programs of ours in a cluster have in common: a namespace, an image and labels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_sky import __version__, names
from kubectl_sky.errors import UserError
from kubectl_sky.names import CONTROLLERS_NAMESPACE
from kubectl_sky.plan.labels import standard_labels

DEFAULT_NAMESPACE = CONTROLLERS_NAMESPACE
DEFAULT_IMAGE = f"kubectl-sky:{__version__}"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Install:
    """The values that the objects of a program share."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE

    def __post_init__(self) -> None:
        """Raise UserError for an invalid namespace or image."""
        if not _LABEL.fullmatch(self.namespace):
            raise UserError(f'"{self.namespace}" is not a valid namespace')
        if not re.fullmatch(r"[^\s-][^\s]{0,1000}", self.image):
            raise UserError(f'"{self.image}" is not a valid image')

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
