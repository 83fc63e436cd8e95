"""What the user's settings add to a task that is silent."""

from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import DEFAULT_IMAGE, Settings
from kubectl_sky.spec import quantity

_CPUS = 2
_CPUS_OF_A_GPU = 4
_GIB_OF_A_CPU = {False: 1, True: 4}  # with GPUs there is more memory to each CPU


def sizes(placement: Placement, settings: Settings) -> dict[str, str]:
    """Return SkyPilot's own requests for what the task names no size of, if they are asked for.

    They are no limits, as in SkyPilot (clouds/kubernetes.py): who says nothing is not held to it.
    """
    if settings.defaults != "skypilot":
        return {}
    resources = placement.resources
    gpus = placement.device.count if placement.device else 0
    cpus = quantity.quantity(resources.cpus or str(gpus * _CPUS_OF_A_GPU or _CPUS))
    memory = quantity.memory(float(cpus * _GIB_OF_A_CPU[gpus > 0]))
    known = {"cpu": resources.cpus, "memory": resources.memory}
    asked = {"cpu": quantity.cpus(float(cpus)), "memory": memory}
    return {name: size for name, size in asked.items() if known[name] is None}


def notes(placement: Placement, settings: Settings) -> tuple[str, ...]:
    """Say what the settings add."""
    requested = [f"{name} {size}" for name, size in sizes(placement, settings).items()]
    found = (
        [f"settings: defaults: skypilot requests {' and '.join(requested)}"] if requested else []
    )
    if placement.resources.image is None and settings.image != DEFAULT_IMAGE:
        found.append(f"settings: the image is {settings.image}")
    return tuple(found)
