"""What a test needs to know of the cluster, whoever made it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

ADMIN = "test"
OTHERS = ("alice", "bob")


@dataclass(frozen=True)
class Cluster:
    """A cluster that is ready.

    Its kubeconfig has the contexts `test` (the administrator, and the current one), `alice` and
    `bob`, who may do nothing until a test lets them: `users` has their names for RBAC, by context.
    """

    kubeconfig: Path
    kubectl: Path
    driver: str
    users: dict[str, str]

    def dump(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def load(cls, line: str) -> Self:
        """Read what `dump` returned."""
        read = json.loads(line)
        paths = {name: Path(read[name]) for name in ("kubeconfig", "kubectl")}
        return cls(driver=read["driver"], users=read["users"], **paths)
