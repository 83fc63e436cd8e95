"""What a test needs to know of the cluster, whoever made it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import yaml

Json = dict[str, Any]

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
        _, user = selected(yaml.safe_load(self.kubeconfig.read_text()), context)
        return str(user["token"])

    @classmethod
    def load(cls, line: str) -> Self:
        """Read what `dump` returned."""
        read = json.loads(line)
        kubectl = Path(read["kubectl"]) if read["kubectl"] else None
        return cls(Path(read["kubeconfig"]), kubectl, read["driver"], read["users"])


def selected(config: Json, context: str = "") -> tuple[Json, Json]:
    """Return cluster and user of a context of a kubeconfig, by default of the current one."""

    def entry(kind: str, name: str) -> Json:
        found: list[Json] = [item[kind] for item in config[f"{kind}s"] if item["name"] == name]
        (only,) = found
        return only

    chosen = entry("context", context or config["current-context"])
    return entry("cluster", chosen["cluster"]), entry("user", chosen["user"])
