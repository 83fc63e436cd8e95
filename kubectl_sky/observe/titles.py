"""What distinguishes tasks that are shown together."""

from collections import Counter
from collections.abc import Sequence

from kubectl_sky.observe.status import TaskStatus


def titles(tasks: Sequence[TaskStatus]) -> dict[str, str]:
    """Return a title for each task by its id: its name, with the id if others have the same."""
    counts = Counter(task.name for task in tasks)
    return {
        task.id: task.name if counts[task.name] == 1 else f"{task.name} {task.id}" for task in tasks
    }
