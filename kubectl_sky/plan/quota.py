"""Check a submit against the ResourceQuotas, LimitRanges and Kueue quotas of its namespace."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Refused
from kubectl_sky.plan.resources import Amounts, Object, PodResources, amounts, cpus, show

_HINT = (
    "run `kubectl sky users show -n {}` to see what is used; stop a task, request less, or ask a"
    " cluster admin for a larger quota"
)


class Pods(Struct, frozen=True):
    """Pods with the same spec that run at the same time."""

    spec: Object
    count: int


class PodStep(Struct, frozen=True):
    """The pods that run at the same time; those of a later step start when it has finished.

    `starts_now` is whether nothing else has to happen before: no queue admits them, and they follow
    no other step.
    """

    pods: tuple[Pods, ...]
    starts_now: bool = True


class Demand(Struct, frozen=True):
    """What a submit creates: the steps of its pods, and counts and sizes of other objects.

    `objects` are amounts by the names in ResourceQuotas. `claims` are the requests of new PVCs.
    """

    steps: tuple[PodStep, ...]
    objects: Amounts = {}
    claims: tuple[Amounts, ...] = ()


def check(
    demand: Demand,
    quotas: Sequence[Object],
    limit_ranges: Sequence[Object] | None = (),
    *,
    is_new: bool = True,
    freed: Demand | None = None,
) -> None:
    """Refuse a submit that a quota or LimitRange does not allow, with a line for each resource.

    `limit_ranges` are None if the user may not list them: requests may have unknown defaults. A
    submit that is not new uses some of the quota itself, so only the limits count. `freed` is what
    is used now and will be deleted first. Raises Refused.
    """
    steps = [
        [(PodResources(pods.spec, limit_ranges or ()), pods.count) for pods in step.pods]
        for step in demand.steps
    ]

    lines: list[str] = []
    for item in sorted(quotas, key=lambda item: str(item["metadata"]["name"])):
        quota = _Quota(item, counts_used=is_new)
        if freed:
            quota.release(freed, limit_ranges or ())
        lines += sorted(_find_exceeded(demand, steps, quota))
        lines += _unset(steps, quota) if limit_ranges is not None else ()

    if lines:
        raise Refused(
            "\n".join(lines), _HINT.format(quotas[0]["metadata"].get("namespace", "default"))
        )

    pods = [pod for step in steps for pod, _ in step]
    lines = [line for item in limit_ranges or () for line in _violations(demand, pods, item)]
    if lines:
        raise Refused(
            "\n".join(dict.fromkeys(lines)),
            "change the resources of the task; see `kubectl describe limitrange`",
        )


class _Quota:
    """A ResourceQuota; `counts_used` is whether the current use counts."""

    def __init__(self, item: Object, counts_used: bool) -> None:
        spec = item.get("spec") or {}
        status = item.get("status") or {}
        self.name = str(item["metadata"]["name"])
        self.hard = amounts(spec.get("hard"))
        self.used = amounts(status.get("used")) if counts_used else {}
        self.scopes: list[Mapping[str, Any]] = [
            {"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()
        ]
        self.scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()

    def applies_to(self, pod: PodResources) -> bool:
        """Return whether the quota counts a pod: all its scopes match."""
        return all(_in_scope(scope, pod) for scope in self.scopes)

    def release(self, freed: Demand, limit_ranges: Sequence[Object]) -> None:
        """Take what will be deleted from what is used."""
        if not self.scopes:
            self._release(freed.objects, 1)
        for step in freed.steps:
            for pods in step.pods:
                pod = PodResources(pods.spec, limit_ranges)
                if self.applies_to(pod):
                    self._release(pod.quota_usage, pods.count)

    def _release(self, amounts: Amounts, count: int) -> None:
        for name, amount in amounts.items():
            if name in self.used:
                self.used[name] -= amount * count

    def line(self, name: str, requested: Fraction, used: Fraction) -> Iterator[str]:
        """Yield a message if this is more than the quota allows."""
        hard = self.hard.get(name)
        if hard is not None and requested > 0 and requested + used > hard:
            is_cpu = name.endswith("cpu")
            sizes = (cpus(n) if is_cpu else show(name, n) for n in (requested, used, hard))
            state = "too small" if requested > hard else "full"
            yield "quota {} is {}: {}: requested {}, used {} of {}".format(
                self.name, state, name, *sizes
            )


def _in_scope(scope: Mapping[str, Any], pod: PodResources) -> bool:
    name = scope.get("scopeName")
    operator = scope.get("operator")
    if name == "PriorityClass":
        value = pod.spec.get("priorityClassName") or ""
        values = scope.get("values") or ()
        results = {"In": value in values, "NotIn": value not in values, "Exists": bool(value)}
        return results.get(str(operator), not value)

    matches = {
        "Terminating": pod.spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": pod.spec.get("activeDeadlineSeconds") is None,
        "BestEffort": pod.is_best_effort,
        "NotBestEffort": not pod.is_best_effort,
        "CrossNamespacePodAffinity": _is_cross_namespace(pod.spec.get("affinity") or {}),
    }
    return matches.get(str(name), False)


def _is_cross_namespace(affinity: Mapping[str, Any]) -> bool:
    """Return whether a term of the affinity or anti-affinity to pods selects namespaces."""
    rules = [affinity.get(kind) or {} for kind in ("podAffinity", "podAntiAffinity")]
    terms = [entry for rule in rules for entries in rule.values() for entry in entries or ()]
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for term in (entry.get("podAffinityTerm", entry) for entry in terms)
    )


def _find_exceeded(
    demand: Demand, steps: Sequence[Sequence[tuple[PodResources, int]]], quota: _Quota
) -> Iterator[str]:
    all_wait = demand.steps and not any(step.starts_now for step in demand.steps)
    if not quota.scopes:  # quotas with scopes count pods only
        for name, amount in demand.objects.items():
            waits = all_wait and name == "count/pods"  # the other objects are created now
            used = Fraction(0) if waits else quota.used.get(name, Fraction(0))
            yield from quota.line(name, amount, used)

    reported: set[str] = set()
    for step, pods in zip(demand.steps, steps, strict=True):
        total: Amounts = {}
        for pod, count in ((pod, count) for pod, count in pods if quota.applies_to(pod)):
            for name, amount in pod.quota_usage.items():
                total[name] = total.get(name, Fraction(0)) + amount * count

        for name, amount in total.items():
            used = quota.used.get(name, Fraction(0)) if step.starts_now else Fraction(0)
            lines = [] if name in reported else list(quota.line(name, amount, used))
            reported.update([name] if lines else [])
            yield from lines


def _unset(steps: Sequence[Sequence[tuple[PodResources, int]]], quota: _Quota) -> list[str]:
    """Return a message if the quota requires requests or limits that a container does not set."""
    pods = [pod for step in steps for pod, _ in step if quota.applies_to(pod)]
    missing = sorted({name for pod in pods for name in pod.missing(quota.hard)})
    if not missing:
        return []
    # `cpus: 4+` is a request without a limit
    exact = ", without +" if any(name.startswith("limits.") for name in missing) else ""
    return [
        f"quota {quota.name} requires {', '.join(missing)}:"
        f" set cpus and memory under resources{exact}"
    ]


def _violations(demand: Demand, pods: Sequence[PodResources], limit_range: Object) -> Iterator[str]:
    name = limit_range["metadata"]["name"]
    containers = [item for pod in pods for item in pod.all_containers]
    measured = {
        "PersistentVolumeClaim": [(claim, claim) for claim in demand.claims],
        "Pod": [(pod.total("requests"), pod.total("limits")) for pod in pods],
        "Container": [(item["requests"], item["limits"]) for item in containers],
    }
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        kind = str(item.get("type"))
        for requests, limits in measured.get(kind, ()):
            for problem in _outside(item, requests, limits):
                yield f"LimitRange {name}: {problem} per {kind}"


def _outside(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for field_name, bounded, word, sign in (
        ("min", requests, "request of at least", -1),
        ("max", limits, "limit of at most", 1),
    ):
        for name, bound in amounts(item.get(field_name)).items():
            sizes = [part[name] for part in (requests, limits) if name in part]
            worst = max(sizes, key=lambda size: size * sign, default=bound)
            if name not in bounded:
                yield f"{name} requires a {word} {show(name, bound)}"
            elif (worst - bound) * sign > 0:
                size = show(name, worst)
                yield f"{name} requested {size}, {field_name}imum {show(name, bound)}"

    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        request = requests.get(name)
        limit = limits.get(name)
        if not request or not limit:
            yield f"{name} requires a request and a limit"
        elif limit > request * ratio:
            yield f"{name} limit is more than {show('', ratio)} times the request"


Capacities = Mapping[str, Sequence[Fraction]]  # of each flavor, by resource


def queue_exceeded(
    pods: Iterable[Pods], cluster_queue: Object, limit_ranges: Sequence[Object]
) -> Iterator[str]:
    """Yield a message for each resource of which a task requests more than it can ever have.

    All its pods run at the same time. Each template gets one flavor of the resource.
    """
    requested = _sum_requests(pods, limit_ranges)
    for resource, request, capacity in _find_beyond(requested, _capacities(cluster_queue)):
        numbers = show(resource, request), show(resource, capacity)
        yield "{}: requested {}, at most {}".format(resource, *numbers)


def fits_unused(
    pods: Iterable[Pods], unused: Capacities, limit_ranges: Sequence[Object]
) -> bool | None:
    """Return whether a queue has unused quota for a task; None if it lacks one for a resource."""
    requested = _sum_requests(pods, limit_ranges)
    if not {name for sizes in requested for name in sizes} <= unused.keys():
        return None
    return not any(_find_beyond(requested, unused))


def _sum_requests(pods: Iterable[Pods], limit_ranges: Sequence[Object]) -> list[Amounts]:
    """Return what the pods of each template request together."""
    requests = [(PodResources(item.spec, limit_ranges), item.count) for item in pods]
    return [
        {name: size * count for name, size in pod.total("requests").items()}
        for pod, count in requests
    ]


def _find_beyond(
    requested: Sequence[Amounts], capacities: Capacities
) -> Iterator[tuple[str, Fraction, Fraction]]:
    """Yield each resource of which more is requested than there is, and both amounts."""
    for resource, sizes in capacities.items():
        total = sum((amount.get(resource, Fraction(0)) for amount in requested), Fraction(0))
        largest = max((amount.get(resource, Fraction(0)) for amount in requested), default=total)
        for request, capacity in ((largest, max(sizes)), (total, sum(sizes, Fraction(0)))):
            if request > capacity:
                yield resource, request, capacity
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
