"""The status of the task of one object."""

from typing import Any

from kubectl_sky.observe.status import TaskStatus, tasks
from tests.reading import read_job, read_pods


def fold(item: dict[str, Any], *pods: dict[str, Any]) -> TaskStatus:
    (task,) = tasks([read_job(item)], read_pods(pods))
    return task
