"""The environment of a task's containers: SkyPilot's variables, the user's, and secrets."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from kubectl_sky.plan.placement import Placement
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.pipeline import seconds
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import REGISTRY, RESERVED, SecretReference
from kubectl_sky.words import names
from kubectl_sky.words.expansion import literal
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.secret import Secret, reveal
from kubectl_sky.words.settings import Settings

Value = TypeVar("Value")

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def variables(
    task: Task,
    object_name: str,
    placement: Placement,
    facts: Facts,
    links: Mapping[str, str],
    settings: Settings,
) -> Mapping[str, str]:
    """Return the variables that are the same on every node, the user's last.

    Reserved variables override the user's. A name that is also a secret gets the secret's value.
    The pod template writes the variables that differ between nodes. The scripts set those that are
    the same for all tasks of one node, or for all that are no array.
    """
    gpus = placement.device.count if placement.device else 0
    nodes = {"NUM_NODES": str(task.num_nodes)} if task.num_nodes > 1 else {}
    jobs = {"SKYPILOT_NUM_JOBS": str(task.array.count)} if task.array else {}
    # Kubernetes has no regions or zones.
    info = {"cluster_name": object_name, "cloud": "Kubernetes", "region": None, "zone": None}
    fixed = {
        **nodes,
        "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus),
        "SKYPILOT_TASK_ID": object_name,
        "SKYPILOT_USER": facts.user.name,
        "SKYPILOT_CLUSTER_INFO": literal(json.dumps(info)),
        **jobs,
    }
    if task.on_hang and task.on_hang.ends:
        fixed["KUBECTL_SKY_ON_HANG"] = str(task.on_hang)
    if task.hold:
        fixed["KUBECTL_SKY_HOLD"] = f"{seconds(task.hold)} {task.hold}"
    if task.slurm:
        fixed["KUBECTL_SKY_SLURM"] = task.slurm
    if settings.start_directory == "image" and not task.fills_workdir:
        fixed["KUBECTL_SKY_START_DIRECTORY"] = "."
    secret_names = {
        *task.secrets,
        *(reference.key for reference in task.existing_secrets if not reference.path),
    }
    provided = {
        key: value for key, value in fixed.items() if key in RESERVED or key not in secret_names
    }
    user_values = {
        key: value for key, value in without_reserved(task.envs).items() if key not in secret_names
    }
    if (path := user_values.get("PATH")) and "/bin" not in path.split(":"):
        user_values["PATH"] = f"{path}:{_SYSTEM_PATH}"  # without it, no script of ours can start
    result = provided | {key: literal(value) for key, value in user_values.items()}
    if links:
        lines = [f"{target} {path}" for path, target in links.items()]
        result["KUBECTL_SKY_LINKS"] = literal("\n".join(lines))
    return result


def without_reserved(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """Return the user's values, without reserved names."""
    return {
        key: value for key, value in values.items() if value is not None and key not in RESERVED
    }


class SecretEnvVar(Struct, frozen=True):
    """A variable whose value is a key of a Secret."""

    name: str
    secret: str
    key: str


def secret_values(task: Task, facts: Facts) -> dict[str, Secret]:
    """Return the data of the task's Secret: the user's values and the nodes' token."""
    token = {names.TOKEN: facts.token} if task.num_nodes > 1 else {}
    return without_reserved(task.secrets) | token


def secret_variables(task: Task, facts: Facts, object_name: str) -> tuple[SecretEnvVar, ...]:
    """Return the secret variables; `object_name` is the name of the task's own Secret.

    Raises FieldError for an existing Secret that lacks the key.
    """
    from_task = [SecretEnvVar(name, object_name, name) for name in secret_values(task, facts)]
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


_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_HUB_KEY = "https://index.docker.io/v1/"  # key of Docker Hub's login in a Docker config


class RegistryLogin(Struct, frozen=True):
    """The credentials for an image registry, and the name of their Secret."""

    secret: str
    server: str
    username: Secret
    password: Secret

    @property
    def config(self) -> Secret:
        """The content of a Secret of type kubernetes.io/dockerconfigjson."""
        username = reveal(self.username).decode()
        password = reveal(self.password).decode()
        auth = base64.b64encode(f"{username}:{password}".encode()).decode()
        login = {"username": username, "password": password, "auth": auth}
        key = _HUB_KEY if address(self.server) in _HUB else self.server
        return Secret(json.dumps({"auths": {key: login}}))


def find_login(task: Task, object_name: str) -> RegistryLogin | None:
    """Return the login of a task.

    The server is not a secret: it is an address and becomes a part of the image name.
    """
    username, password, server = (task.secrets.get(name) for name in REGISTRY)
    if not server or username is None or password is None:
        return None
    return RegistryLogin(
        f"{object_name}-registry", reveal(server).decode().strip(), username, password
    )


def full_image(name: str | None, login: RegistryLogin | None) -> str | None:
    """Return the image to pull; the login's server is the default registry."""
    if name is None or login is None:
        return name
    first, slash, _ = name.partition("/")
    has_registry = slash and (set(first) & set(".:") or first == "localhost")
    server = address(login.server)
    return name if has_registry or server in _HUB else f"{server}/{name}"


def address(server: str) -> str:
    """Return the registry part of image names: `https://ghcr.io/v2/` is ghcr.io."""
    return re.sub(r"^[a-z]+://|(/v[12])?/*$", "", server.lower())
