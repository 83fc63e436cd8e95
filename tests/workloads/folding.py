"""The status of the task of one object."""

from typing import Any

from kubectl_sky.observe.status import TaskStatus, tasks


def fold(item: dict[str, Any], *pods: dict[str, Any]) -> TaskStatus:
    (task,) = tasks([item], pods)
    return task
