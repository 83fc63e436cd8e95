"""What a user has to be allowed to do, as a table, and as a Role that allows just that."""

from collections.abc import Collection, Iterable, Sequence

from kubectl_sky import kinds
from kubectl_sky.kinds import Kind
from kubectl_sky.values import dataclass


@dataclass(frozen=True)
class Right:
    """One verb on one kind or subresource, and the commands that need it.

    What is `optional` makes an answer better, and nothing fails without it.
    """

    verb: str
    kind: Kind
    commands: str
    optional: bool = False
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As RBAC writes it: `pods/log`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def __str__(self) -> str:
        """`create jobs.batch`."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.kind.resource}{sub}"


def _rights(kind: Kind, verbs: str, commands: str, optional: bool = False) -> Iterable[Right]:
    return (Right(verb, kind, commands, optional) for verb in verbs.split())


RIGHTS: tuple[Right, ...] = (
    *_rights(kinds.JOB, "list watch", "list, status, logs, wait"),
    *_rights(kinds.JOB, "create patch", "submit"),
    *_rights(kinds.JOB, "delete", "stop"),
    *_rights(kinds.JOB, "deletecollection", "stop, in one request", optional=True),
    *_rights(kinds.POD, "get list watch", "list, status, logs, wait"),
    *_rights(kinds.POD, "create", "submit, to try the cluster's rules first", optional=True),
    Right("get", kinds.POD, "logs", subresource="log"),
    Right("get", kinds.POD, "exec", subresource="exec"),
    Right("create", kinds.POD, "exec", subresource="exec"),
    *_rights(kinds.CONFIG_MAP, "list create patch delete", "submit, clean"),
    *_rights(kinds.SECRET, "create patch delete", "submit of a task with secrets or several nodes"),
    *_rights(kinds.SECRET, "list", "clean", optional=True),
    Right("get", kinds.POD, "port-forward", subresource="portforward"),
    Right("create", kinds.POD, "port-forward", subresource="portforward"),
    *_rights(kinds.SERVICE, "list", "submit, ports"),
    *_rights(kinds.SERVICE, "create patch delete", "submit of several nodes, or with ports"),
    *_rights(kinds.PVC, "list", "submit of a task with volumes"),
    *_rights(kinds.PVC, "create patch delete", "volumes"),
    *_rights(kinds.EVENT, "list", "status, doctor: why a task waits", optional=True),
    *_rights(kinds.NODE, "list", "submit, doctor, gpus: what the machines have", optional=True),
    *_rights(kinds.POD_METRICS, "list", "top", optional=True),
    *_rights(kinds.RESOURCE_QUOTA, "list", "submit of several nodes: what may be", optional=True),
    *_rights(kinds.STORAGE_CLASS, "list", "doctor", optional=True),
)

_RUNNING = (kinds.JOB_SET, kinds.MPI_JOB, kinds.APP_WRAPPER)
# What is needed of kinds that not every cluster has; nothing fails without it as long as nobody
# asks for what needs it.
_ADDED: tuple[Right, ...] = (
    *(
        right
        for kind in _RUNNING
        for right in (
            *_rights(kind, "list watch", f"list, status, logs, wait of {kind.plural}", True),
            *_rights(kind, "create patch delete deletecollection", f"{kind.plural}", True),
        )
    ),
    *_rights(kinds.POD_GROUP, "list create patch delete", "submit --backend volcano", True),
    *_rights(kinds.LOCAL_QUEUE, "list", "submit --queue, queues", optional=True),
    *_rights(kinds.QUEUED_WORKLOAD, "list", "status of a task in a queue, queues", optional=True),
    *_rights(kinds.CLUSTER_QUEUE, "list", "queues: what they may give", optional=True),
    *_rights(kinds.QUEUE_PRIORITY, "list", "submit --queue with a priority class", optional=True),
    *_rights(kinds.VOLCANO_QUEUE, "list", "submit --backend volcano --queue", optional=True),
)


def served(groups: Collection[str]) -> tuple[Right, ...]:
    """Return what commands need in a cluster with these API groups."""
    return (*RIGHTS, *(right for right in _ADDED if right.kind.group in groups))


def role(namespace: str, user: str, rights: Sequence[Right]) -> list[dict[str, object]]:
    """Return a Role with the rights inside a namespace, and the binding that gives it to a user."""
    metadata = {"name": "kubectl-sky", "namespace": namespace}
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        if right.kind.namespaced:
            verbs.setdefault((right.kind.group, right.resource), []).append(right.verb)
    for (group, resource), found in verbs.items():
        groups.setdefault((group, tuple(dict.fromkeys(found))), []).append(resource)
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in groups.items()
    ]
    api = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "kubectl-sky"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        },
    ]
