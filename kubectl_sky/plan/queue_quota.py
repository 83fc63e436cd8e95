"""What a workload asks of the quota of its Kueue queue."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from kubectl_sky.plan.pod_resources import Amounts, Object, PodResources, amounts, shown
from kubectl_sky.plan.resource_quota import Pods


def exceeded(
    pods: Iterable[Pods], cluster_queue: Object, limit_ranges: Sequence[Object]
) -> Iterator[str]:
    """Yield a message for each resource of which a workload requests more than it can ever have.

    All its pods are admitted together. Each of its templates gets one flavor of the resource.
    """
    requested: list[Amounts] = []
    for group in pods:
        requests = PodResources(group.spec, limit_ranges).total("requests")
        requested.append({name: size * group.count for name, size in requests.items()})
    for resource, sizes in _capacities(cluster_queue).items():
        total = sum((amount.get(resource, Fraction(0)) for amount in requested), Fraction(0))
        largest = max((amount.get(resource, Fraction(0)) for amount in requested), default=total)
        for request, capacity in ((largest, max(sizes)), (total, sum(sizes, Fraction(0)))):
            if request > capacity:
                numbers = shown(resource, request), shown(resource, capacity)
                yield "{}: requested {}, at most {}".format(resource, *numbers)
                break


def _capacities(cluster_queue: Object) -> dict[str, list[Fraction]]:
    """Return the capacity of each flavor by resource, without resources of unknown capacity."""
    spec = cluster_queue.get("spec") or {}
    borrows = bool(spec.get("cohortName") or spec.get("cohort"))
    capacities: dict[str, list[Fraction]] = {}
    unknown = set()
    for group in spec.get("resourceGroups") or ():
        for resource in (item for flavor in group["flavors"] for item in flavor["resources"]):
            quota = amounts(resource)
            if "nominalQuota" not in quota or (borrows and "borrowingLimit" not in quota):
                unknown.add(resource["name"])  # a cohort without a limit may lend any amount
            else:
                borrowed = quota["borrowingLimit"] if borrows else Fraction(0)
                size = quota["nominalQuota"] + borrowed
                capacities.setdefault(resource["name"], []).append(size)
    return {name: sizes for name, sizes in capacities.items() if name not in unknown}
