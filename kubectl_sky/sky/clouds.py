"""Providers, for `Resources(cloud=…)`: tasks run on Kubernetes, whatever it says."""

from collections.abc import Callable
from functools import partial

NAMES = (
    *("AWS", "Azure", "Cudo", "Fluidstack", "GCP", "Hyperbolic", "IBM", "Kubernetes", "Lambda"),
    *("Nebius", "OCI", "Paperspace", "PrimeIntellect", "RunPod", "SCP", "SSH", "Seeweb"),
    *("Shadeform", "Vast", "Vsphere"),
)


def __getattr__(name: str) -> Callable[[], str]:
    if name in NAMES:
        return partial(str, name)  # a provider is its name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CLOUD_REGISTRY:  # noqa: N801 -- SkyPilot's name
    """Providers by name."""

    from_str = str
