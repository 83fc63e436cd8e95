"""Check a submit against the ResourceQuotas, LimitRanges and Kueue quotas of its namespace."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from kubectl_sky.errors import Refused
from kubectl_sky.plan.resources import ACCELERATORS, Amounts, PodResources, amounts, cpus, show
from kubectl_sky.words.core_objects import LimitRange, LimitRangeItem, QuotaScope, ResourceQuota
from kubectl_sky.words.pod_objects import Affinity, PodSpec, PodTerm

_HINT = (
    "run `kubectl sky users show -n {}` to see what is used; stop a task, request less, or ask a"
    " cluster admin for a larger quota"
)


# What users spend of a cluster, and the names in ResourceQuotas of which one limits it.
_LIMITS = {
    "CPUs": ("requests.cpu", "cpu", "limits.cpu"),
    "memory": ("requests.memory", "memory", "limits.memory"),
    "GPUs": tuple(f"requests.{resource}" for resource in ACCELERATORS),
    "pods": ("pods", "count/pods"),
    "storage": ("requests.storage",),
    "PVCs": ("persistentvolumeclaims", "count/persistentvolumeclaims"),
    "Services": ("services", "count/services"),
    "ConfigMaps": ("configmaps", "count/configmaps"),
}


class Pods(Struct, frozen=True):
    """Pods with the same spec that run at the same time."""

    spec: PodSpec
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


def list_unlimited(quotas: Iterable[ResourceQuota]) -> tuple[str, ...]:
    """Name what none of the quotas of a namespace limits, whatever the scopes of the quotas."""
    limited = {name for item in quotas for name in amounts(item.spec.hard)}
    return tuple(what for what, resources in _LIMITS.items() if limited.isdisjoint(resources))


def check(
    demand: Demand,
    quotas: Sequence[ResourceQuota],
    limit_ranges: Sequence[LimitRange] | None = (),
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
    for item in sorted(quotas, key=lambda item: item.metadata.name):
        quota = _Quota(item, counts_used=is_new)
        if freed:
            quota.release(freed, limit_ranges or ())
        lines += sorted(_find_exceeded(demand, steps, quota))
        lines += _unset(steps, quota) if limit_ranges is not None else ()

    if lines:
        raise Refused("\n".join(lines), _HINT.format(quotas[0].metadata.namespace or "default"))

    pods = [pod for step in steps for pod, _ in step]
    lines = [line for item in limit_ranges or () for line in _violations(demand, pods, item)]
    if lines:
        raise Refused(
            "\n".join(dict.fromkeys(lines)),
            "change the resources of the task; see `kubectl get limitrange -o yaml`",
        )


class _Quota:
    """A ResourceQuota; `counts_used` is whether the current use counts."""

    def __init__(self, item: ResourceQuota, counts_used: bool) -> None:
        self.name = item.metadata.name
        self.hard = amounts(item.spec.hard)
        self.used = amounts(item.status.used) if counts_used else {}
        self.scopes = [
            QuotaScope(scope_name=name, operator="Exists") for name in item.spec.scopes or ()
        ]
        if item.spec.scope_selector:
            self.scopes += item.spec.scope_selector.match_expressions or ()

    def applies_to(self, pod: PodResources) -> bool:
        """Return whether the quota counts a pod: all its scopes match."""
        return all(_in_scope(scope, pod) for scope in self.scopes)

    def release(self, freed: Demand, limit_ranges: Sequence[LimitRange]) -> None:
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


def _in_scope(scope: QuotaScope, pod: PodResources) -> bool:
    name = scope.scope_name
    operator = scope.operator
    if name == "PriorityClass":
        value = pod.spec.priority_class_name
        values = scope.values or ()
        results = {"In": value in values, "NotIn": value not in values, "Exists": bool(value)}
        return results.get(operator, not value)

    matches = {
        "Terminating": pod.spec.active_deadline_seconds is not None,
        "NotTerminating": pod.spec.active_deadline_seconds is None,
        "BestEffort": pod.is_best_effort,
        "NotBestEffort": not pod.is_best_effort,
        "CrossNamespacePodAffinity": _is_cross_namespace(pod.spec.affinity),
    }
    return matches.get(name, False)


def _is_cross_namespace(affinity: Affinity | None) -> bool:
    """Return whether a term of the affinity or anti-affinity to pods selects namespaces."""
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms: list[PodTerm] = []
    for rule in filter(None, rules):
        terms += rule.required or ()
        terms += [entry.pod_affinity_term for entry in rule.preferred or ()]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


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


def _violations(
    demand: Demand, pods: Sequence[PodResources], limit_range: LimitRange
) -> Iterator[str]:
    name = limit_range.metadata.name
    containers = [item for pod in pods for item in pod.all_containers]
    measured = {
        "PersistentVolumeClaim": [(claim, claim) for claim in demand.claims],
        "Pod": [(pod.total("requests"), pod.total("limits")) for pod in pods],
        "Container": [(item["requests"], item["limits"]) for item in containers],
    }
    for item in limit_range.spec.limits or ():
        kind = item.type
        for requests, limits in measured.get(kind, ()):
            for problem in _outside(item, requests, limits):
                yield f"LimitRange {name}: {problem} per {kind}"


def _outside(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for field_name, bounds, bounded, word, sign in (
        ("min", item.min, requests, "request of at least", -1),
        ("max", item.max, limits, "limit of at most", 1),
    ):
        for name, bound in amounts(bounds).items():
            sizes = [part[name] for part in (requests, limits) if name in part]
            worst = max(sizes, key=lambda size: size * sign, default=bound)
            if name not in bounded:
                yield f"{name} requires a {word} {show(name, bound)}"
            elif (worst - bound) * sign > 0:
                size = show(name, worst)
                yield f"{name} requested {size}, {field_name}imum {show(name, bound)}"

    for name, ratio in amounts(item.max_limit_request_ratio).items():
        request = requests.get(name)
        limit = limits.get(name)
        if not request or not limit:
            yield f"{name} requires a request and a limit"
        elif limit > request * ratio:
            yield f"{name} limit is more than {show('', ratio)} times the request"
