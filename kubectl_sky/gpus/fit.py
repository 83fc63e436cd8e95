"""`gpus --fit`: whether the GPUs of a task are free now, and with which other model they are."""

from collections.abc import Iterator, Sequence

from kubectl_sky.gpus.model import AcceleratorNode, places
from kubectl_sky.plan import accelerators
from kubectl_sky.spec.task import Task


def describe(task: Task, machines: Sequence[AcceleratorNode]) -> Iterator[str]:
    """Yield a line for each choice of GPUs of a task, and one for other models that are free."""
    wanted = [item.accelerator for item in task.candidates if item.accelerator]
    nodes = f" on each of {task.num_nodes} nodes" if task.num_nodes > 1 else ""
    counted = [machine for machine in machines if machine.used is not None]
    found = False

    for gpus in wanted:
        models = [model.name for model in accelerators.models(gpus.name)] if gpus.name else []
        names = places(counted, models, gpus.count, task.num_nodes)
        what = f"{task.name or 'task'}: {gpus.name or 'GPUs'}:{gpus.count}{nodes}"
        yield f"{what} fits now on {', '.join(names)}" if names else f"{what} does not fit now"
        found = found or bool(names)

    for name in sorted({machine.model for machine in counted if machine.model}):
        if wanted and not found and places(counted, [name], wanted[0].count, task.num_nodes):
            yield f"with {name}:{wanted[0].count} it would fit now"

    if not wanted:
        yield f"{task.name or 'task'} requests no GPUs"
