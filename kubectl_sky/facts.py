"""What the world told us before anything was decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kubectl_sky.users import User


@dataclass(frozen=True)
class Facts:
    """The user, the namespace, and the claims that the user's volume names stand for.

    `claims` maps a volume name to the name of its PersistentVolumeClaim; a name that is not in it
    is taken as a claim's own name.
    """

    user: User
    namespace: str
    claims: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
