"""What a node requests, and what it may not exceed."""

from collections.abc import Mapping
from fractions import Fraction

from kubectl_sky.plan import defaults
from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import Settings
from kubectl_sky.spec import quantity

_STEPS = {"cpu": Fraction(1, 1000)}  # of bytes there are no parts
_DISK = "ephemeral-storage"


def requests(placement: Placement, settings: Settings) -> dict[str, str]:
    """Return what the task asks for, and what the settings add; GPUs are limits only."""
    resources = placement.resources
    asked = {"cpu": resources.cpus, "memory": resources.memory, _DISK: resources.disk}
    said = {name: size for name, size in asked.items() if size is not None}
    return said | defaults.sizes(placement, settings)


def limits(
    placement: Placement, requested: Mapping[str, str], factor: Fraction | None
) -> dict[str, str]:
    """Return the limits: a multiple of what is requested, 0 for none of them.

    Without a factor they are what the task itself says of CPU and memory; a pod that writes more
    than its disk is not killed for it. GPUs are always limits (Kubernetes copies them).
    """
    device = placement.device
    resources = placement.resources
    if factor is None:
        said = {"cpu": resources.cpus, "memory": resources.memory}
        found = {name: size for name, size in said.items() if size is not None}
    else:
        found = {
            name: quantity.multiple(size, factor, _STEPS.get(name, Fraction(1)))
            for name, size in requested.items()
            if factor
        }
    return found | ({device.resource: str(device.count)} if device else {})
