"""The requests and limits of a node."""

from collections.abc import Mapping
from fractions import Fraction

from kubectl_sky.plan import defaults
from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import Settings
from kubectl_sky.spec import quantity

_STEPS = {"cpu": Fraction(1, 1000)}  # bytes are whole numbers
_DISK = "ephemeral-storage"


def requests(placement: Placement, settings: Settings) -> dict[str, str]:
    """Return the task's requests and the settings' defaults; GPUs are limits only."""
    resources = placement.resources
    sizes = {"cpu": resources.cpus, "memory": resources.memory, _DISK: resources.disk}
    explicit = {name: size for name, size in sizes.items() if size is not None}
    return explicit | defaults.sizes(placement, settings)


def limits(
    placement: Placement, requested: Mapping[str, str], factor: Fraction | None
) -> dict[str, str]:
    """Return the limits: a multiple of the requests; a factor of 0 means none.

    Without a factor, the limits are the task's own CPU and memory, unless it writes them as a
    minimum (`4+`). There is no disk limit, so a pod
    that writes more than its disk size is not evicted for it. GPUs are always limits (Kubernetes
    copies them to the requests).
    """
    device = placement.device
    resources = placement.resources
    if factor is None:
        sizes = {"cpu": resources.cpus, "memory": resources.memory}
        bounds = {
            name: size
            for name, size in sizes.items()
            if size is not None and name not in resources.unlimited
        }
    else:
        bounds = {
            name: quantity.multiple(size, factor, _STEPS.get(name, Fraction(1)))
            for name, size in requested.items()
            if factor
        }
    return bounds | ({device.resource: str(device.count)} if device else {})
