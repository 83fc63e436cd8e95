"""The environment of a task's containers: SkyPilot's variables beside the user's own."""

import json
import re
from collections.abc import Mapping
from typing import TypeVar

from kubectl_sky.facts import Facts
from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Task
from kubectl_sky.spec.variables import RESERVED

Value = TypeVar("Value")
RANKS = ("NODE_RANK", "SKYPILOT_NODE_RANK")  # by what a node knows its own


def variables(
    task: Task,
    whole: str,
    placement: Placement,
    facts: Facts,
    links: Mapping[str, str],
    settings: Settings,
) -> Mapping[str, str]:
    """Return the variables that are the same on every node, the user's own last.

    A name that a node is told its own value of is ours, whatever the user wrote; a name that is a
    secret too is the secret's. What differs between nodes is written by the pod template.
    """
    gpus = placement.device.count if placement.device else 0
    fixed = {
        "NUM_NODES": str(task.num_nodes),
        "SKYPILOT_NUM_NODES": str(task.num_nodes),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus),
        "SKYPILOT_TASK_ID": whole,
        "SKYPILOT_USER": facts.user.name,
        "SKYPILOT_CLUSTER_INFO": literal(_cluster_info(whole)),
        "SKYPILOT_JOB_RANK": "0",
        "SKYPILOT_NUM_JOBS": str(task.array.count if task.array else 1),
    }
    if task.num_nodes > 1 and settings.barrier_timeout:
        fixed["KUBECTL_SKY_BARRIER_TIMEOUT"] = str(settings.barrier_timeout)
    secret = {*task.secrets, *(kept.key for kept in task.kept_secrets if not kept.path)}
    told = {key: value for key, value in fixed.items() if key in RESERVED or key not in secret}
    own = {key: value for key, value in given(task.envs).items() if key not in secret}
    return told | {key: literal(value) for key, value in own.items()} | _links(links)


def _cluster_info(whole: str) -> str:
    """What SkyPilot says of where a task runs; a cluster here has no regions."""
    found = {"cluster_name": whole, "cloud": "Kubernetes", "region": None, "zone": None}
    return json.dumps(found)


def _links(found: Mapping[str, str]) -> dict[str, str]:
    """Tell the entry script what to link into the home directory: one target and path a line."""
    lines = [f"{target} {path}" for path, target in found.items()]
    return {"KUBECTL_SKY_LINKS": literal("\n".join(lines))} if lines else {}


def given(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """Return the user's own values, without the names that are not the user's to set."""
    return {
        key: value for key, value in values.items() if value is not None and key not in RESERVED
    }


def literal(value: str) -> str:
    """Escape a value so that Kubernetes does not expand `$(NAME)` in it.

    Kubernetes reads `$$` as `$` (kubernetes/third_party/forked/golang/expansion).
    """
    return re.sub(r"\$(?=[$(])", "$$", value)
