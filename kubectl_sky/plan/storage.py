"""Which claim each of a task's volumes is."""

from collections.abc import Mapping, Sequence

from kubectl_sky.plan.plan import Mount
from kubectl_sky.spec.task import VolumeMount


def mounts(volumes: Sequence[VolumeMount], claims: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return the mounts; a name that the user has no volume of is a claim's own name."""
    named: dict[str, str] = {}
    for volume in volumes:
        claim = claims.get(volume.name, volume.name)
        named.setdefault(claim, f"volume-{len(named)}")
    return tuple(
        Mount(
            volume=named[claims.get(volume.name, volume.name)],
            claim=claims.get(volume.name, volume.name),
            path=volume.path,
            sub_path=volume.sub_path,
        )
        for volume in volumes
    )
