"""Defaults from the user's settings for values that a task does not set."""

from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import DEFAULT_IMAGE, SKYPILOT_GPU_IMAGE, SKYPILOT_IMAGE, Settings
from kubectl_sky.spec import quantity

_CPUS = 2
_CPUS_OF_A_GPU = 4
_GIB_OF_A_CPU = {False: 1, True: 4}  # GPU tasks get more memory per CPU


def sizes(placement: Placement, settings: Settings) -> dict[str, str]:
    """Return SkyPilot's default requests for sizes that are not set, if enabled.

    They are not limits, as in SkyPilot (clouds/kubernetes.py): a task without sizes is not limited.
    """
    if settings.defaults != "skypilot":
        return {}
    resources = placement.resources
    gpus = placement.device.count if placement.device else 0
    cpus = quantity.quantity(resources.cpus or str(gpus * _CPUS_OF_A_GPU or _CPUS))
    memory = quantity.memory(float(cpus * _GIB_OF_A_CPU[gpus > 0]))
    given = {"cpu": resources.cpus, "memory": resources.memory}
    estimates = {"cpu": quantity.cpus(float(cpus)), "memory": memory}
    return {name: size for name, size in estimates.items() if given[name] is None}


def image(placement: Placement, settings: Settings) -> str:
    """Return the image of a task that sets none."""
    if settings.image:
        return settings.image
    if settings.defaults == "skypilot":
        return SKYPILOT_GPU_IMAGE if placement.device else SKYPILOT_IMAGE
    return DEFAULT_IMAGE


def notes(placement: Placement, settings: Settings) -> tuple[str, ...]:
    """Return notes on what the settings add."""
    requested = [f"{name} {size}" for name, size in sizes(placement, settings).items()]
    messages = (
        [f"settings: defaults: skypilot requests {' and '.join(requested)}"] if requested else []
    )
    default = image(placement, settings)
    if placement.resources.image is None and default != DEFAULT_IMAGE:
        messages.append(f"settings: the image is {default}")
    return tuple(messages)
