"""Compare the requests of a task with the capacity of the cluster nodes."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from kubectl_sky.observe.symptoms import Snapshot, Symptom
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.workloads.workload import Object

Words = Mapping[str, str]
_SHOWN = 6


def insufficient(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """Return the request of a node, and the most that one cluster node has."""
    resource = groups["resource"]
    pod = _pod(seen, symptom)
    request = requested(pod, resource) if pod else Fraction(0)
    machines = seen.of("Node")
    words = {"asked": _amount(request, resource)}
    if not machines:
        return words | {"have": "", "advice": "ask for less"}
    largest = max(_allocatable(machine, resource) for machine in machines)
    if largest == 0:
        return words | {"have": "; no machine has any", "advice": _NONE.get(resource, _ANY)}
    if request > largest:
        amount = _amount(largest, resource)
        return words | {"have": f"; the largest machine has {amount}", "advice": "ask for less"}
    return words | {
        "have": f"; machines have up to {_amount(largest, resource)}, and it is in use",
        "advice": "wait until others end, or ask for less",
    }


_ANY = "ask for less, or for what the cluster has"
_NONE = {
    "nvidia.com/gpu": "`kubectl sky gpus` shows the cluster's GPUs;"
    " without any, the device plugin may be missing",
}


def taints(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """Return the taints of the cluster nodes that the pod does not tolerate."""
    pod = _pod(seen, symptom)
    tolerations = pod.get("spec", {}).get("tolerations", ()) if pod else ()
    untolerated = [
        _taint(taint)
        for machine in seen.of("Node")
        for taint in machine.get("spec", {}).get("taints") or ()
        if taint.get("effect") != "PreferNoSchedule" and not _bears(tolerations, taint)
    ]
    shown = _listed(untolerated)
    return {"taints": f": {shown}" if shown else ""}


def _bears(tolerations: Iterable[Object], taint: Object) -> bool:
    return any(
        toleration.get("key") in (None, taint["key"])
        and toleration.get("effect") in (None, "", taint["effect"])
        and (
            toleration.get("operator") == "Exists"
            or toleration.get("value", "") == taint.get("value", "")
        )
        for toleration in tolerations
    )


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def labels(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """Return the labels that the pod requires, and the cluster nodes' values for them."""
    pod = _pod(seen, symptom)
    required = dict(_wanted(pod)) if pod else {}
    texts = [f"{key} in ({_listed(values)})" for key, values in required.items()]
    available = {
        key: sorted(
            {
                str(machine["metadata"]["labels"][key])
                for machine in seen.of("Node")
                if key in (machine["metadata"].get("labels") or {})
            }
        )
        for key in required
    }
    present = [f"{key} is {_listed(values)}" for key, values in available.items() if values]
    if not seen.of("Node"):
        summary = ""
    elif present:
        summary = f"; there, {' and '.join(present)}"
    else:
        summary = "; no machine has any of these labels"
    return {"wanted": f": {' or '.join(texts)}" if texts else "", "have": summary}


def _wanted(pod: Object) -> Iterator[tuple[str, list[str]]]:
    spec = pod.get("spec", {})
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield key, [value]
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for rule in term.get("matchExpressions", ()):
            yield rule["key"], rule.get("values") or [rule["operator"]]


def unseen(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """Return what to do about a scheduler that does nothing."""
    name = symptom.message
    if name == "default-scheduler":
        return {"advice": "tell who runs the cluster: its scheduler does not work"}
    return {"advice": f"{name} is not installed, or does not run; submit without it"}


def _pod(seen: Snapshot, symptom: Symptom) -> Object | None:
    return seen.pods.get(symptom.ranks[0]) if symptom.ranks else None


def requested(pod: Object, resource: str) -> Fraction:
    """Return the sum of the containers' requests; a limit alone counts as a request."""
    containers = pod.get("spec", {}).get("containers", ())
    return sum(
        (
            amount_of(
                {**resources.get("limits", {}), **resources.get("requests", {})}.get(resource)
            )
            for resources in (container.get("resources", {}) for container in containers)
        ),
        Fraction(0),
    )


def _allocatable(machine: Object, resource: str) -> Fraction:
    return amount_of(machine.get("status", {}).get("allocatable", {}).get(resource))


def amount_of(text: object) -> Fraction:
    """Return a quantity as a number; 0 if it is missing or invalid."""
    try:
        return quantity(str(text))
    except ValueError:
        return Fraction(0)


def _amount(size: Fraction, resource: str) -> str:
    if resource in ("memory", "ephemeral-storage"):
        return f"{float(size / 2**30):.3g} GiB"
    return f"{float(size):g}"


def _listed(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    more = f" and {len(unique) - _SHOWN} more" if len(unique) > _SHOWN else ""
    return ", ".join(unique[:_SHOWN]) + more
