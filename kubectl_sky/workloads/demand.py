"""Return what the objects of a submit ask of the quotas of their namespace."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kubectl_sky.plan.pipeline import PARALLEL
from kubectl_sky.plan.quota import Demand, Pods, PodStep
from kubectl_sky.plan.resources import Amounts, amounts
from kubectl_sky.words import kinds, names
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import kind_of
from kubectl_sky.words.pod_objects import PodSpec
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Manifest

# Kinds that quotas also count by their plain names, beside `count/…`.
_PLAIN = (kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.PVC)
_ONE = Fraction(1)


def demand(workloads: Sequence[Manifest], others: Sequence[Manifest]) -> Demand:
    counts: Amounts = {}
    for item in (*workloads, *others):
        for name, amount in _object_amounts(item).items():
            counts[name] = counts.get(name, Fraction(0)) + amount

    steps: dict[str, list[Manifest]] = {}
    for item in workloads:
        steps.setdefault(_step(item), []).append(item)

    claims = [item for item in others if item["kind"] == kinds.PVC.kind]
    return Demand(
        tuple(
            PodStep(
                tuple(group for item in items for group in pods(item)),
                starts_now=not any(map(_waits, items)),
            )
            for items in steps.values()
        ),
        counts,
        tuple(map(_claim_requests, claims)),
    )


def _step(item: Manifest) -> str:
    """Return the stage of a serial pipeline; all other workloads start together."""
    metadata = item["metadata"]
    if (metadata.get("annotations") or {}).get(names.EXECUTION, PARALLEL) == PARALLEL:
        return ""
    return str(metadata["labels"].get(names.STAGE))


def _waits(item: Manifest) -> bool:
    """Return whether a workload waits for an earlier stage or for a queue."""
    return registry.is_suspended(item) or names.QUEUE in (item["metadata"].get("labels") or {})


def pods(item: Manifest) -> Iterable[Pods]:
    """Return the pods that a workload runs at the same time, by template."""
    backend = registry.of_manifest(item)
    counts = backend.pod_counts(registry.read(item))
    for template, count in zip(backend.templates(item), counts, strict=True):
        yield Pods(convert(template["spec"], PodSpec), count)


def _object_amounts(item: Manifest) -> Amounts:
    """Return what an object counts for, by the names in ResourceQuotas."""
    kind = kind_of(dict(item))
    if kind is None:
        return {}

    result: Amounts = {f"count/{kind.resource}": _ONE}
    if kind in _PLAIN:
        result[kind.plural] = _ONE
    if kind == kinds.PVC:
        result |= _storage(item)
    if kind == kinds.SERVICE:
        result |= _service_amounts(item.get("spec") or {})

    if kind in registry.KINDS or kind in (kinds.DEPLOYMENT, kinds.RAY_SERVICE):
        backend = registry.of_manifest(item)
        ranks = backend.ranks(registry.read(item))
        result["count/pods"] = Fraction(max(len(ranks), 1))
        if backend.owner_label:  # its controller creates a Job
            result[f"count/{kinds.JOB.resource}"] = _ONE
    return result


def _service_amounts(spec: Mapping[str, Any]) -> Amounts:
    """Return load balancers and node ports as Kubernetes counts them: before it allocates any."""
    service_type = spec.get("type")
    ports = spec.get("ports") or ()
    if service_type not in ("LoadBalancer", "NodePort"):
        return {}
    if service_type == "NodePort":
        return {"services.nodeports": Fraction(len(ports))}
    if spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    return {"services.loadbalancers": _ONE, "services.nodeports": Fraction(len(ports))}


def _storage(claim: Mapping[str, Any]) -> Amounts:
    sizes = {f"requests.{name}": size for name, size in _claim_requests(claim).items()}
    storage_class = claim["spec"].get("storageClassName")
    if not storage_class:
        return sizes
    prefix = f"{storage_class}.storageclass.storage.k8s.io/"
    counted = sizes | {kinds.PVC.plural: _ONE}
    return sizes | {f"{prefix}{name}": amount for name, amount in counted.items()}


def _claim_requests(claim: Mapping[str, Any]) -> Amounts:
    return amounts((claim["spec"].get("resources") or {}).get("requests"))
