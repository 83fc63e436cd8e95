"""Which claim each of a task's volumes is."""

from collections.abc import Mapping, Sequence

from kubectl_sky.plan.plan import Mount
from kubectl_sky.spec.task import VolumeMount


def mounts(
    volumes: Sequence[VolumeMount], claims: Mapping[str, str]
) -> tuple[tuple[Mount, ...], Mapping[str, str]]:
    """Return the mounts, and the claim of each volume of the pod; a claim is one volume.

    A name that the user has no volume of is a claim's own name.
    """
    named: dict[str, str] = {}
    found = []
    for volume in volumes:
        claim = claims.get(volume.name, volume.name)
        name = named.setdefault(claim, f"volume-{len(named)}")
        found.append(Mount(volume=name, path=volume.path, sub_path=volume.sub_path))
    return tuple(found), {name: claim for claim, name in named.items()}
