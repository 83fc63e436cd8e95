"""The GPUs of this machine: each container gets some that no other one has."""

from collections.abc import Iterable

from kubectl_sky_practice.environment import ConfigError
from kubectl_sky_practice.resources import Json

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpus:
    """Give GPUs to containers by UUID, until their pod ends. Without any, GPUs are simulated."""

    def __init__(self, uuids: Iterable[str] = ()) -> None:
        self._uuids = tuple(uuids)
        self._taken: dict[str, tuple[str, str]] = {}  # pod and container, by UUID

    def take(self, pod: str, container: Json) -> dict[str, str]:
        """Return the variable by which programs see the GPUs of a container, or none of them.

        Raises ConfigError while pods that are being stopped still have them.
        """
        limits = (container.get("resources") or {}).get("limits") or {}
        count = int(limits.get("nvidia.com/gpu") or 0)
        key = (pod, container["name"])
        if not self._uuids:
            return {}
        own = [uuid for uuid in self._uuids if self._taken.get(uuid) == key]
        free = [uuid for uuid in self._uuids if uuid not in self._taken]
        own += free[: count - len(own)]
        if len(own) < count:
            raise ConfigError(f"{count} GPUs requested, {len(own)} free: others are being released")
        self._taken |= dict.fromkeys(own, key)
        return {_VISIBLE: ",".join(own)}

    def release(self, pod: str) -> None:
        self._taken = {uuid: key for uuid, key in self._taken.items() if key[0] != pod}
