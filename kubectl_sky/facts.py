"""What the world told us before anything was decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kubectl_sky.users import User


@dataclass(frozen=True)
class Machine:
    """A node of the cluster: its labels, and what it gives to pods as Kubernetes quantities."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """The user, the namespace, the claims of the user's volume names, and the cluster's nodes.

    `claims` maps a volume name to the name of its PersistentVolumeClaim; a name that is not in it
    is taken as a claim's own name. `machines` is empty where the nodes are not known.
    """

    user: User
    namespace: str
    claims: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    machines: tuple[Machine, ...] = ()
