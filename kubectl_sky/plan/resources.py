"""The requests and limits of a task's nodes."""

from collections.abc import Mapping
from fractions import Fraction

from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec import quantity
from kubectl_sky.words.settings import DEFAULT_IMAGE, SKYPILOT_GPU_IMAGE, SKYPILOT_IMAGE, Settings

_STEPS = {"cpu": Fraction(1, 1000)}  # bytes and devices are whole numbers
_DISK = "ephemeral-storage"
# SkyPilot's defaults.
_CPUS = 2
_CPUS_OF_A_GPU = 4
_GIB_OF_A_CPU = {False: 1, True: 4}  # GPU tasks get more memory per CPU


def node_requests(placement: Placement, settings: Settings) -> dict[str, str]:
    """Return the task's requests and the settings' defaults; GPUs are limits only."""
    resources = placement.resources
    sizes = {"cpu": resources.cpus, "memory": resources.memory, _DISK: resources.disk}
    explicit = {name: size for name, size in sizes.items() if size is not None}
    return explicit | _default_requests(placement, settings)


def node_limits(
    placement: Placement, requested: Mapping[str, str], factor: Fraction | None
) -> dict[str, str]:
    """Return the limits: a multiple of the requests; a factor of 0 means none.

    Without a factor, the limits are the task's own CPU and memory, unless it writes them as a
    minimum (`4+`). There is no disk limit, so a pod that writes more than its disk size is not
    evicted for it. GPUs are always limits (Kubernetes copies them to the requests).
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


def _default_requests(placement: Placement, settings: Settings) -> dict[str, str]:
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


def default_image(placement: Placement, settings: Settings) -> str:
    """Return the image of a task that sets none."""
    if settings.image:
        return settings.image
    if settings.defaults == "skypilot":
        return SKYPILOT_GPU_IMAGE if placement.device else SKYPILOT_IMAGE
    return DEFAULT_IMAGE


def default_notes(placement: Placement, settings: Settings) -> tuple[str, ...]:
    """Return notes on what the settings add."""
    requested = [f"{name} {size}" for name, size in _default_requests(placement, settings).items()]
    messages = (
        [f"settings: defaults: skypilot requests {' and '.join(requested)}"] if requested else []
    )
    default = default_image(placement, settings)
    if placement.resources.image is None and default != DEFAULT_IMAGE:
        messages.append(f"settings: the image is {default}")
    return tuple(messages)


def total_requests(plan: Plan) -> dict[str, str]:
    """Return the nodes' total requests; empty if the pod config may change them."""
    if "containers" in (plan.pod_options.pod_config.get("spec") or {}):
        return {}
    count = Fraction(len(plan.nodes))
    return {  # Kubernetes copies a limit without a request
        name: quantity.multiple(size, count, _STEPS.get(name, Fraction(1)))
        for name, size in {**plan.limits, **plan.requests}.items()
    }
