"""What distinguishes tasks that are shown together: their names, variables and ids."""

from collections import defaultdict
from collections.abc import Sequence

from kubectl_sky.observe.status import TaskStatus

_MAX_VARIABLES = 3  # of tasks of one name: those that differ in more are other experiments


def list_differing(tasks: Sequence[TaskStatus]) -> list[str]:
    """Return the variables in which tasks of the same name differ, if they are few.

    Those of a sweep differ within one task.
    """
    differing: dict[str, None] = {}
    for group in _group_by_name(tasks).values():
        names = dict.fromkeys(name for task in group for name in task.variables)
        several = [name for name in names if len({task.variables.get(name) for task in group}) > 1]
        if len(several) <= _MAX_VARIABLES:
            differing |= dict.fromkeys(several)
        for task in group:
            differing |= dict.fromkeys(task.sweep.variables if task.sweep else ())
    return list(differing)


def _group_by_name(tasks: Sequence[TaskStatus]) -> dict[str, list[TaskStatus]]:
    groups: dict[str, list[TaskStatus]] = defaultdict(list)
    for task in tasks:
        groups[task.name].append(task)
    return groups


def titles(tasks: Sequence[TaskStatus]) -> dict[str, str]:
    """Return a title for each task by its id.

    Tasks of one name also have the variables in which they differ, or else their ids.
    """
    result = {}
    for name, group in _group_by_name(tasks).items():
        if len(group) == 1:
            result[group[0].id] = name
            continue
        differing = list_differing(group)
        values = {
            task.id: " ".join(
                f"{key}={task.variables[key]}" for key in differing if key in task.variables
            )
            for task in group
        }
        is_enough = len(set(values.values())) == len(group) and not any(it.sweep for it in group)
        for task in group:
            result[task.id] = f"{name} {values[task.id]}" if is_enough else f"{name} {task.id}"
    return result
