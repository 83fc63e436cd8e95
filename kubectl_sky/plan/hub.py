"""Variables for the container that downloads from the Hugging Face Hub."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kubectl_sky.plan import environment
from kubectl_sky.plan.secret_env import SecretEnvVar
from kubectl_sky.spec import hub
from kubectl_sky.spec.task import Task

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # as read by the Hub's own tools
_PASSED_VARIABLES = ("HF_ENDPOINT", *TOKENS)


def env(text: str, task: Task, store: Mapping[str, Any]) -> dict[str, str]:
    """Return the Hub's URL paths for a repository or bucket: file list and downloads."""
    location = hub.hub_path(text)
    if location is None:  # the task file's validation already rejects it
        raise ValueError(f"no place on the Hub: {text}")
    site = location.name if location.kind == "models" else f"{location.kind}/{location.name}"
    revision = "" if location.kind == hub.BUCKETS else f"/{quote(location.revision, safe='')}"
    variables = {
        "KUBECTL_SKY_TREE": f"/api/{location.kind}/{location.name}/tree{revision}",
        "KUBECTL_SKY_RESOLVE": f"/{site}/resolve{revision}",
        "KUBECTL_SKY_PREFIX": environment.literal(location.path),
    }
    if store.get("endpoint"):
        variables["HF_ENDPOINT"] = environment.literal(store["endpoint"])
    user_values = environment.without_reserved(task.envs)
    secret_names = {*task.secrets, *(reference.key for reference in task.existing_secrets)}
    return variables | {
        name: environment.literal(user_values[name])
        for name in _PASSED_VARIABLES
        if name in user_values and name not in secret_names
    }


def tokens(variables: Sequence[SecretEnvVar], store: Mapping[str, Any]) -> tuple[SecretEnvVar, ...]:
    """Return the secret variables that authenticate the task to the Hub."""
    names = () if store.get("anonymous") else TOKENS
    return tuple(variable for variable in variables if variable.name in names)
