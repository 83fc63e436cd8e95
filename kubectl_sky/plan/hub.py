"""What a container that copies from Hugging Face's Hub is told."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kubectl_sky.plan import environment
from kubectl_sky.plan.hidden import SecretVariable
from kubectl_sky.spec import hub
from kubectl_sky.spec.task import Task

SCRIPT = "hub.py"
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # as the Hub's own programs read them
_TOLD = ("HF_ENDPOINT", *TOKENS)


def env(text: str, task: Task, store: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses of a place on the Hub: of the list of its files, and of the files."""
    place = hub.place(text)
    if place is None:  # it was refused when the task was read
        raise ValueError(f"no place on the Hub: {text}")
    site = place.name if place.kind == "models" else f"{place.kind}/{place.name}"
    revision = "" if place.kind == hub.BUCKETS else f"/{quote(place.revision, safe='')}"
    found = {
        "KUBECTL_SKY_TREE": f"/api/{place.kind}/{place.name}/tree{revision}",
        "KUBECTL_SKY_RESOLVE": f"/{site}/resolve{revision}",
        "KUBECTL_SKY_PREFIX": environment.literal(place.path),
    }
    if store.get("endpoint"):
        found["HF_ENDPOINT"] = environment.literal(store["endpoint"])
    given = environment.given(task.envs)
    hidden = {*task.secrets, *(one.key for one in task.kept_secrets)}
    return found | {
        name: environment.literal(given[name])
        for name in _TOLD
        if name in given and name not in hidden
    }


def tokens(
    variables: Sequence[SecretVariable], store: Mapping[str, Any]
) -> tuple[SecretVariable, ...]:
    """Return the secrets by which the task is known to the Hub."""
    known = () if store.get("anonymous") else TOKENS
    return tuple(one for one in variables if one.name in known)
