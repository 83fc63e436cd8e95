"""What a test needs to know of the cluster, whoever made it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import yaml

ADMIN = "test"
OTHERS = ("alice", "bob")


@dataclass(frozen=True)
class Cluster:
    """A cluster that is ready.

    Its kubeconfig has the contexts `test` (the administrator, and the current one), `alice` and
    `bob`, who may do nothing until a test lets them: `users` has their names for RBAC, by context.
    No kubectl is there where none can be had, which only the practice cluster can do without.
    """

    kubeconfig: Path
    kubectl: Path | None
    driver: str
    users: dict[str, str]

    def dump(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self), default=str)

    def token(self, context: str = ADMIN) -> str:
        """Return the token of a context's user."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        contexts = {entry["name"]: entry["context"] for entry in config["contexts"]}
        users = {entry["name"]: entry["user"] for entry in config["users"]}
        return str(users[contexts[context]["user"]]["token"])

    @classmethod
    def load(cls, line: str) -> Self:
        """Read what `dump` returned."""
        read = json.loads(line)
        kubectl = Path(read["kubectl"]) if read["kubectl"] else None
        return cls(Path(read["kubeconfig"]), kubectl, read["driver"], read["users"])
