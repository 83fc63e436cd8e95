"""The environment of a task's containers: SkyPilot's variables beside the user's own."""

import re
from collections.abc import Mapping

from kubectl_sky.facts import Facts
from kubectl_sky.spec.task import Task

# Set by the entry script at run time, when the addresses are known.
AT_RUN_TIME = ("SKYPILOT_NODE_IPS", "MASTER_ADDR", "POD_IP")
# Differ between nodes; written by the pod template.
PER_NODE = ("NODE_RANK", "SKYPILOT_NODE_RANK")


def variables(task: Task, name: str, task_id: str, facts: Facts) -> Mapping[str, str]:
    """Return the variables that are the same on every node, the user's own last.

    SkyPilot's meaning: a name that the task's placement decides is ours, whatever the user wrote.
    """
    gpus = task.resources.accelerator.count if task.resources.accelerator else 0
    fixed = {
        "NUM_NODES": str(task.num_nodes),
        "SKYPILOT_NUM_NODES": str(task.num_nodes),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus),
        "SKYPILOT_TASK_ID": f"{name}-{task_id}",
        "SKYPILOT_USER": facts.user.name,
    }
    own = {
        key: value
        for key, value in task.envs.items()
        if value is not None and key not in fixed and key not in PER_NODE
    }
    return fixed | own


def literal(value: str) -> str:
    """Escape a value so that Kubernetes does not expand `$(NAME)` in it.

    Kubernetes reads `$$` as `$` (kubernetes/third_party/forked/golang/expansion).
    """
    return re.sub(r"\$(?=[$(])", "$$", value)
