"""Map each secret variable of a task to a key of a Secret."""

from collections.abc import Iterator
from dataclasses import dataclass

from kubectl_sky.facts import Facts
from kubectl_sky.plan import environment
from kubectl_sky.secret import Secret
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.secret import SecretReference
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import RESERVED

TOKEN = "KUBECTL_SKY_TOKEN"  # authenticates the nodes of a task to each other; see barrier.py


@dataclass(frozen=True)
class SecretEnvVar:
    """A variable whose value is a key of a Secret."""

    name: str
    secret: str
    key: str


def values(task: Task, facts: Facts) -> dict[str, Secret]:
    """Return the data of the task's Secret: the user's values and the nodes' token."""
    token = {TOKEN: Secret(facts.token)} if task.num_nodes > 1 else {}
    return environment.without_reserved(task.secrets) | token


def variables(task: Task, facts: Facts, object_name: str) -> tuple[SecretEnvVar, ...]:
    """Return the secret variables; `object_name` is the name of the task's own Secret.

    Raises FieldError for an existing Secret that lacks the key.
    """
    from_task = [SecretEnvVar(name, object_name, name) for name in values(task, facts)]
    existing = [
        SecretEnvVar(reference.key, reference.name, find_key(reference, facts))
        for reference in task.existing_secrets
        if not reference.path and reference.key not in RESERVED
    ]
    by_name = {variable.name: variable for variable in (*existing, *from_task)}
    return tuple(by_name.values())


def find_key(reference: SecretReference, facts: Facts) -> str:
    """Return the key that holds a secret: the same name, or the Secret's only key.

    Raises FieldError if there are several other keys, or none.
    """
    keys = (facts.secret_keys or {}).get(reference.name)
    if keys is None or reference.key in keys:
        return reference.key
    if len(keys) == 1:
        return keys[0]
    raise FieldError(
        (reference.field, reference.key),
        f'Secret "{reference.name}" has no key "{reference.key}";'
        f" its keys: {', '.join(keys) or 'none'}",
        f'rename one of its keys to "{reference.key}"',
    )


def missing_secrets(task: Task, facts: Facts) -> Iterator[str]:
    """Yield which Secrets do not exist, and how to create them."""
    for secret in task.existing_secrets:
        if facts.secret_keys is not None and secret.name not in facts.secret_keys:
            yield (
                f'{secret.field}.{secret.key}: Secret "{secret.name}" not found in namespace'
                f' "{facts.namespace}"; to create it, run "kubectl create secret generic'
                f' {secret.name} --namespace {facts.namespace} --from-file={secret.key}=FILE"'
            )
