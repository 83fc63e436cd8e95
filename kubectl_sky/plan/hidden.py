"""Which key of which Secret each secret of a task is."""

from collections.abc import Iterator
from dataclasses import dataclass

from kubectl_sky.errors import UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan import environment
from kubectl_sky.secret import Secret
from kubectl_sky.spec.secret import KeptSecret
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import RESERVED

TOKEN = "KUBECTL_SKY_TOKEN"  # by which the nodes of a task know each other; see barrier.py


@dataclass(frozen=True)
class SecretVariable:
    """A variable whose value is a key of a Secret."""

    name: str
    secret: str
    key: str


def values(task: Task, facts: Facts) -> dict[str, Secret]:
    """Return what the task's own Secret holds: the user's values, and the token of its nodes."""
    token = {TOKEN: Secret(facts.token)} if task.num_nodes > 1 else {}
    return environment.given(task.secrets) | token


def variables(task: Task, facts: Facts, whole: str) -> tuple[SecretVariable, ...]:
    """Return the variables that are secrets; `whole` is the name of the task's own Secret.

    Raises UserError for a Secret of the cluster that has no such key.
    """
    own = [SecretVariable(name, whole, name) for name in values(task, facts)]
    kept = [
        SecretVariable(one.key, one.name, key(one, facts))
        for one in task.kept_secrets
        if not one.path and one.key not in RESERVED
    ]
    named = {variable.name: variable for variable in (*kept, *own)}
    return tuple(named.values())


def key(kept: KeptSecret, facts: Facts) -> str:
    """Return the key that holds a secret: of its own name, else the only one that there is."""
    keys = (facts.secret_keys or {}).get(kept.name)
    if keys is None or kept.key in keys:
        return kept.key
    if len(keys) == 1:
        return keys[0]
    raise UserError(
        f"{kept.field}.{kept.key}: the Secret {kept.name!r} has no key {kept.key!r}; it has"
        f" {', '.join(keys) or 'none'}",
        f"call one of its keys {kept.key}",
    )


def missing(task: Task, facts: Facts) -> Iterator[str]:
    """Say which Secrets are not there, and how each is made."""
    for one in task.kept_secrets:
        if facts.secret_keys is not None and one.name not in facts.secret_keys:
            yield (
                f"{one.field}.{one.key}: there is no Secret {one.name!r} in namespace"
                f" {facts.namespace}; make it: kubectl create secret generic {one.name}"
                f" --namespace {facts.namespace} --from-file={one.key}=FILE"
            )
