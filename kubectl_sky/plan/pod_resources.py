"""The requests and limits of pods, as ResourceQuotas and LimitRanges count them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kubectl_sky.spec.quantity import multiple, quantity

Object = Mapping[str, Any]
Amounts = dict[str, Fraction]

_PARTS = (("requests", "defaultRequest"), ("limits", "default"))
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# Quotas on these names require the request or limit of every container.
_REQUIRED = {
    f"{prefix}{resource}": (part, resource)
    for resource in ("cpu", "memory")
    for prefix, part in (("", "requests"), ("requests.", "requests"), ("limits.", "limits"))
}
_IN_BYTES = ("memory", "storage")
_THOUSANDTH = Fraction(1, 1000)


def amounts(sizes: Mapping[str, Any] | None) -> Amounts:
    """Return quantities as numbers; those that are not quantities are left out."""
    result: Amounts = {}
    for name, size in (sizes or {}).items():
        try:
            result[name] = quantity(str(size))
        except ValueError:  # the API server reports it
            continue
    return result


def shown(resource: str, amount: Fraction) -> str:
    """Return an amount of a resource as a quantity: 500m, 8Gi, 1024."""
    if resource.endswith("cpu"):
        return multiple("1", amount, _THOUSANDTH)
    if resource.endswith(_IN_BYTES) or "hugepages" in resource:
        return multiple("1", amount, Fraction(1))
    return str(-(-amount.numerator // amount.denominator))


def readable(resource: str, amount: str) -> str:
    """Return a quantity of bytes in the largest binary unit, with at most one decimal: 204.8Mi."""
    if not resource.endswith(_IN_BYTES):
        return amount
    try:
        size = quantity(amount)
    except ValueError:
        return amount
    units = [(unit, 1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)]
    unit, factor = next((pair for pair in reversed(units) if size >= pair[1]), ("", 1))
    return f"{float(round(size / factor, 1)):g}{unit}"


class PodResources:
    """The requests and limits of a pod, with the defaults of the LimitRanges of its namespace."""

    def __init__(self, spec: Object, limit_ranges: Sequence[Object] = ()) -> None:
        self.spec = spec
        defaults = [item for item in limit_items(limit_ranges) if item.get("type") == "Container"]
        self.containers = [_resources(entry, defaults) for entry in spec.get("containers") or ()]
        entries = spec.get("initContainers") or ()
        self._init = [(_is_sidecar(entry), _resources(entry, defaults)) for entry in entries]
        self.all_containers = [*self.containers, *(item for _, item in self._init)]

    def total(self, part: str) -> Amounts:
        """Return the sum of `requests` or `limits`.

        Init containers run one at a time, beside the sidecars before them. A resource of the pod
        replaces the sum; its limit is the default of a request that no container sets.
        """
        sidecars: Amounts = {}
        peak: Amounts = {}
        for is_sidecar, resources in self._init:
            running = _combined(sum, sidecars, resources[part])
            peak = _combined(max, peak, running)
            sidecars = running if is_sidecar else sidecars
        main = _combined(sum, sidecars, *(resources[part] for resources in self.containers))
        levels = self._pod_level
        return levels["limits"] | _combined(max, peak, main) | levels[part]

    @property
    def _pod_level(self) -> dict[str, Amounts]:
        resources = self.spec.get("resources") or {}
        return {part: amounts(resources.get(part)) for part, _ in _PARTS}

    @property
    def quota_usage(self) -> Amounts:
        """What the pod uses, by the names in ResourceQuotas."""
        usage: Amounts = {"pods": Fraction(1)}
        for name, amount in self.total("requests").items():
            usage[f"requests.{name}"] = amount
            if name in _COMPUTE or name.startswith("hugepages-"):
                usage[name] = amount
        return usage | {f"limits.{name}": size for name, size in self.total("limits").items()}

    def missing(self, hard: Iterable[str]) -> list[str]:
        """Return the names in a quota that every container must set, and one does not.

        Containers of a pod with pod-level resources need not set any.
        """
        if any(self._pod_level.values()):
            return []
        required = {name: _REQUIRED[name] for name in sorted(hard) if name in _REQUIRED}
        return [
            name
            for name, (part, resource) in required.items()
            if any(resource not in resources[part] for resources in self.all_containers)
        ]

    @property
    def is_best_effort(self) -> bool:
        """Whether no container requests or limits CPU or memory; pod-level resources go first."""
        pod_level = self._pod_level
        return not any(
            name in _REQUIRED
            for resources in ([pod_level] if any(pod_level.values()) else self.all_containers)
            for part in ("requests", "limits")
            for name in resources[part]
        )


def limit_items(limit_ranges: Iterable[Object]) -> Iterator[Object]:
    """Yield the limits of all LimitRanges."""
    for limit_range in limit_ranges:
        yield from (limit_range.get("spec") or {}).get("limits") or ()


def _combined(combine: Callable[[Iterable[Fraction]], Fraction | int], *parts: Amounts) -> Amounts:
    """Return the sum or maximum of each resource."""
    names = {name for part in parts for name in part}
    return {
        name: Fraction(combine(part.get(name, Fraction(0)) for part in parts)) for name in names
    }


def _is_sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _resources(container: Object, defaults: Sequence[Object]) -> dict[str, Amounts]:
    """Return requests and limits by part; the API server copies a limit without a request."""
    resources = container.get("resources") or {}
    limits = amounts(resources.get("limits"))
    parts = {"requests": limits | amounts(resources.get("requests")), "limits": limits}
    for item in defaults:
        for part, field in _PARTS:
            parts[part] = amounts(item.get(field)) | parts[part]
    return parts
