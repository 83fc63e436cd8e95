"""What a policy of fair share is worth: from the PodGroups of a class to its value. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.plan.fair_share import PER_USER
from kubectl_sky.words.settings import Settings

_MAX_VALUE = 1_000_000_000  # Kubernetes reserves higher values for system classes
_MIN_VALUE = -(2**31)


class Curve(StrEnum):
    """How the value falls with the PodGroups of a class."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    HALF_LIFE = "half-life"


class Policy(Struct, frozen=True):
    """The settings of a queue: the fields of `fair_share` in schemas/settings.json.

    The value of a class is a function of its weight: the PodGroups that run, and those counted as
    finished. `linear` and `half-life` take `penalty` off the base for each of them; `exponential`
    takes `percent` of what remains above the floor. Every `recovery_interval` (seconds) without a
    change, `recovery_step` finished PodGroups are forgotten; `half-life` forgets half of them
    every interval, also while PodGroups start and finish. Raises UserError for values that
    Kubernetes does not allow.
    """

    policy: Curve = Curve.LINEAR
    base: int = 100_000
    floor: int = 1_000
    penalty: int = 100
    percent: int = 2
    recovery_interval: int = 600
    recovery_step: int = 1
    per: str = PER_USER
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _MIN_VALUE <= self.floor <= self.base <= _MAX_VALUE:
            raise UserError(
                f"fair share: floor {self.floor} and base {self.base} are not allowed",
                f"use {_MIN_VALUE} <= floor <= base <= {_MAX_VALUE}",
            )
        if min(self.penalty, self.percent, self.recovery_interval, self.recovery_step) < 1:
            raise UserError("fair share: penalty, percent and the recovery must be at least 1")
        if self.percent > 100:
            raise UserError("fair share: percent must be at most 100")

    def value(self, weight: int, base: int | None = None) -> int:
        """Return the value of a class with this weight; `base` replaces that of the policy."""
        base = self.base if base is None else base
        floor = min(self.floor, base)
        if self.policy is not Curve.EXPONENTIAL:
            return max(floor, base - self.penalty * weight)
        above = base - floor
        for _ in range(weight):
            if not above:
                break
            above = above * (100 - self.percent) // 100
        return floor + above

    def recover(self, count: int, since: int, now: int) -> tuple[int, int]:
        """Return the count after the intervals since a time in seconds, and the end of the last."""
        since = min(since, now)  # the clock was changed
        intervals = (now - since) // self.recovery_interval
        if not count or not intervals:
            return count, since
        if self.policy is Curve.HALF_LIFE:
            count >>= min(intervals, 64)
        else:
            count = max(0, count - intervals * self.recovery_step)
        return count, since + intervals * self.recovery_interval

    def restart(self, count: int, since: int, now: int) -> int:
        """Return the time from which the interval counts after a PodGroup started or finished."""
        return since if self.policy is Curve.HALF_LIFE and count else now


def policies(settings: Settings) -> dict[str, Policy]:
    """Return the policies by Volcano queue. Raises UserError for an invalid one."""
    return {queue: policy(fields) for queue, fields in settings.fair_share.items()}


def policy(fields: Mapping[str, Any]) -> Policy:
    """Return the policy with these fields of the settings. Raises UserError."""
    values = dict(fields)
    values["policy"] = Curve(values.get("policy", Curve.LINEAR))
    values["classes"] = tuple(values.get("classes", ()))
    return Policy(**values)
