"""List the RBAC rights that each command needs, and make a Role that grants them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kubectl_sky.words import kinds
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads import registry

CLEAN = "clean"
CLUSTER = "cluster"
SERVE = "serve"
# Rights that the Role has only on request: most users do not need them.
EXTRAS = {
    CLEAN: "list Secrets, which shows their values, so that clean finds those left behind",
    CLUSTER: "read cluster nodes, storage classes and queues, in a ClusterRole",
    SERVE: "create, change and delete Deployments and autoscalers, for services",
}


class Right(Struct, frozen=True):
    """One verb on one kind or subresource, and the commands that need it.

    Without an `optional` right, a command shows less or is slower. `extra` is the key in EXTRAS
    that the user must request; all rights of an extra are optional.
    """

    verb: str
    kind: Kind
    commands: str
    optional: bool = False
    subresource: str = ""
    extra: str = ""

    @property
    def resource(self) -> str:
        """The resource as in RBAC: `pods/log`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def __str__(self) -> str:
        """Return `create jobs.batch`."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.kind.resource}{sub}"


def _rights(
    kind: Kind,
    verbs: str,
    commands: str,
    optional: bool = False,
    subresource: str = "",
    extra: str = "",
) -> Iterator[Right]:
    for verb in verbs.split():
        yield Right(verb, kind, commands, optional or bool(extra), subresource, extra)


_ANY_TASK = "list, status, logs, exec, cp, port-forward, top, wait, stop"
_WATCHERS = "submit, logs, wait, list --watch"
_VOLUMES = "submit of a task with volumes, volumes"

# Kinds that every cluster serves. Comments explain rights that are not obvious.
_BUILT_IN: tuple[Right, ...] = (
    *_rights(kinds.JOB, "list", _ANY_TASK),
    *_rights(kinds.JOB, "watch", _WATCHERS),
    *_rights(kinds.JOB, "create", "submit"),
    # Resume the stages of a pipeline, and stop the other nodes when one has failed.
    *_rights(kinds.JOB, "patch", "submit, wait --continue"),
    *_rights(kinds.JOB, "delete", "stop, stop --leftovers, submit that is undone"),
    *_rights(kinds.POD, "list", _ANY_TASK),
    *_rights(kinds.POD, "watch", _WATCHERS),
    # Check whether a container has written its last line.
    *_rights(kinds.POD, "get", "logs, submit"),
    # End pods that a container beside the task's own keeps.
    *_rights(kinds.POD, "patch", "submit, wait --continue", optional=True),
    # Replace pods of lost cluster nodes, which Kubernetes has marked for deletion.
    *_rights(kinds.POD, "delete", "submit, wait --continue", optional=True),
    # A server-side dry run: quotas and policies reject a task before it is submitted.
    *_rights(kinds.POD, "create", "submit", optional=True),
    *_rights(kinds.POD, "get", "logs, submit", subresource="log"),
    # "get" opens a WebSocket before Kubernetes 1.35; since then "create" is needed too.
    *_rights(
        kinds.POD,
        "get create",
        "exec, cp, stacks, top --gpu, submit of large files",
        subresource="exec",
    ),
    *_rights(kinds.POD, "get create", "port-forward", subresource="portforward"),
    *_rights(kinds.CONFIG_MAP, "create patch", "submit"),
    *_rights(kinds.CONFIG_MAP, "delete", "stop --leftovers, submit that is undone"),
    *_rights(kinds.CONFIG_MAP, "get", "submit"),
    *_rights(kinds.CONFIG_MAP, "list", "submit --id, stop --leftovers"),
    *_rights(kinds.SECRET, "create patch", "submit of a task with secrets or several nodes"),
    *_rights(kinds.SECRET, "delete", "stop --leftovers, submit that is undone"),
    # Compare the existing Secret of the task, by name, with the submitted one. RBAC cannot select
    # by label, so this allows reading any Secret; so does creating pods, which can mount them.
    *_rights(kinds.SECRET, "get", "submit --id of a task with secrets or several nodes"),
    *_rights(kinds.SECRET, "list", "stop --leftovers", extra=CLEAN),
    *_rights(kinds.SERVICE, "create patch", "submit of several nodes, or with ports"),
    *_rights(kinds.SERVICE, "delete", "stop --leftovers, submit that is undone"),
    *_rights(
        kinds.SERVICE,
        "list",
        "status --ports, submit --id, stop --leftovers; list if nodes are missing",
    ),
    *_rights(kinds.PVC, "list", f"{_VOLUMES}, stop --leftovers"),
    *_rights(kinds.PVC, "create patch", _VOLUMES),
    *_rights(kinds.PVC, "delete", "volumes delete, stop --leftovers, submit that is undone"),
    *_rights(kinds.EVENT, "list", "status, doctor: why a task is pending", optional=True),
    # Refuse a task over quota before anything is sent.
    *_rights(kinds.RESOURCE_QUOTA, "list", "submit, users show", optional=True),
    *_rights(kinds.LIMIT_RANGE, "list", "submit, users show", optional=True),
    *_rights(kinds.DEPLOYMENT, "get list create update delete", "serve", extra=SERVE),
    *_rights(kinds.REPLICA_SET, "list", "serve", extra=SERVE),
    *_rights(kinds.SERVICE, "get update", "serve", extra=SERVE),
    *_rights(kinds.HPA, "get list create update patch delete", "serve", extra=SERVE),
    *_rights(kinds.INGRESS, "get list create update patch delete", "serve with tls", extra=SERVE),
    *_rights(kinds.NODE, "list", "gpus, usage, submit, status --ports, doctor", extra=CLUSTER),
    *_rights(kinds.STORAGE_CLASS, "list", "doctor, volumes, submit", extra=CLUSTER),
    *_rights(
        kinds.PRIORITY_CLASS, "list", "submit --backend volcano, --dry-run=server", extra=CLUSTER
    ),
)


def _find_installed() -> Iterator[Right]:
    """Yield the rights on kinds that operators install; other tasks need none of them."""
    kind: Kind
    for kind, requires in registry.KINDS.items():
        if requires:
            yield from _rights(kind, "list watch", f"{_ANY_TASK}: {kind.plural}", optional=True)
            yield from _rights(kind, "create patch delete", f"submit, stop: {kind.plural}", True)

    for kind in (*registry.COMPANION_KINDS, kinds.GANG):
        commands = f"submit, status, stop: {kind.plural}"
        yield from _rights(kind, "list create patch delete", commands, optional=True)

    yield from _rights(kinds.POD_METRICS, "list", "top", optional=True)
    yield from _rights(kinds.LOCAL_QUEUE, "list", "queues, submit --queue", optional=True)
    yield from _rights(kinds.QUEUED_WORKLOAD, "list", "queues, status, doctor", optional=True)
    yield from _rights(kinds.CLUSTER_QUEUE, "list", "queues, submit --queue", extra=CLUSTER)
    yield from _rights(kinds.COHORT, "list", "queues, submit --queue", extra=CLUSTER)
    yield from _rights(kinds.QUEUE_PRIORITY, "list", "submit --queue", extra=CLUSTER)

    for kind in (kinds.DEVICE_CLASS, kinds.RESOURCE_CLAIM, kinds.RESOURCE_SLICE):
        yield from _rights(kind, "list", "gpus, submit, doctor: GPUs of DRA drivers", extra=CLUSTER)
    yield from _rights(kinds.RESOURCE_FLAVOR, "list", "submit --queue", extra=CLUSTER)
    of_topology = "submit --queue of a task with a topology"
    yield from _rights(kinds.TOPOLOGY, "list", of_topology, extra=CLUSTER)
    for kind in registry.QUEUE_KINDS:
        yield from _rights(kind, "list", "submit --queue", extra=CLUSTER)


_INSTALLED = tuple(_find_installed())


def list_served(groups: Mapping[str, Collection[str]]) -> tuple[Right, ...]:
    """Return the rights that commands need in a cluster with these API groups and versions."""
    gangs = not {*kinds.GANG_VERSIONS}.isdisjoint(groups.get(kinds.GANG.group, ()))
    served = (right for right in _INSTALLED if right.kind.group in groups)
    return (*_BUILT_IN, *(right for right in served if gangs or right.kind != kinds.GANG))


def role(
    namespace: str, user: str, rights: Sequence[Right], extras: Collection[str] = ()
) -> list[dict[str, object]]:
    """Return a Role with the rights in a namespace, and its binding to a user.

    A ClusterRole and its binding follow if the extras include cluster-wide rights.
    """
    selected = [right for right in rights if not right.extra or right.extra in extras]
    cluster_wide = [right for right in selected if not right.kind.namespaced]
    return [
        *_grant("Role", {"namespace": namespace}, user, list_namespaced(rights, extras)),
        *(_grant("ClusterRole", {}, user, cluster_wide) if cluster_wide else ()),
    ]


def list_namespaced(rights: Iterable[Right], extras: Collection[str] = ()) -> list[Right]:
    """Return the rights of a Role: without those in all namespaces and other extras."""
    return [
        right
        for right in rights
        if right.kind.namespaced and (not right.extra or right.extra in extras)
    ]


def list_extras(roles: Iterable[Mapping[str, Any]], rights: Iterable[Right]) -> set[str]:
    """Return the extras whose rights in a namespace are all in the rules of Roles."""
    granted = {
        (group, resource, verb)
        for item in roles
        for rule in item.get("rules") or ()
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule["verbs"]
    }
    wanted: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for right in rights:
        if right.extra and right.kind.namespaced:
            wanted[right.extra].add((right.kind.group, right.resource, right.verb))
    return {extra for extra, needed in wanted.items() if needed <= granted}


def _grant(
    kind: str, where: dict[str, str], user: str, rights: Iterable[Right]
) -> Iterator[dict[str, object]]:
    api = "rbac.authorization.k8s.io"
    name = "kubectl-sky"
    # One binding per user, to keep those of other users.
    binding = f"{name}-{re.sub('[/%]', '-', user)}"
    yield {
        "apiVersion": f"{api}/v1",
        "kind": kind,
        "metadata": {"name": name, **where},
        "rules": rules(rights),
    }
    yield {
        "apiVersion": f"{api}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": binding, **where},
        "roleRef": {"apiGroup": api, "kind": kind, "name": name},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }


def rules(rights: Iterable[Right]) -> list[dict[str, object]]:
    """Return RBAC rules; resources of a group with the same verbs share one rule."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.kind.group, right.resource), []).append(right.verb)
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in verbs.items():
        resources.setdefault((group, tuple(sorted(allowed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": names, "verbs": list(allowed)}
        for (group, allowed), names in resources.items()
    ]
