"""What a task asks of machines, and what the machines have: the numbers behind a scheduler's no."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from kubectl_sky.observe.symptoms import Snapshot, Symptom
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.workloads.workload import Object

Words = Mapping[str, str]
_SHOWN = 6


def insufficient(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """What a node asks for, and the most that a machine has and has free."""
    resource = groups["resource"]
    pod = _pod(seen, symptom)
    asked = requested(pod, resource) if pod else Fraction(0)
    machines = seen.of("Node")
    words = {"asked": _amount(asked, resource)}
    if not machines:
        return words | {"have": "", "advice": "ask for less"}
    most = max(_allocatable(machine, resource) for machine in machines)
    if most == 0:
        return words | {"have": "; no machine has any", "advice": _NONE.get(resource, _ANY)}
    if asked > most:
        amount = _amount(most, resource)
        return words | {"have": f"; the largest machine has {amount}", "advice": "ask for less"}
    return words | {
        "have": f"; machines have up to {_amount(most, resource)}, and it is in use",
        "advice": "wait until others end, or ask for less",
    }


_ANY = "ask for less, or for what the cluster has"
_NONE = {
    "nvidia.com/gpu": "`kubectl sky gpus` shows the cluster's GPUs;"
    " without any, the device plugin may be missing",
}


def taints(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """The taints of the machines, and which of them the pod bears."""
    pod = _pod(seen, symptom)
    borne = pod.get("spec", {}).get("tolerations", ()) if pod else ()
    found = [
        _taint(taint)
        for machine in seen.of("Node")
        for taint in machine.get("spec", {}).get("taints") or ()
        if taint.get("effect") != "PreferNoSchedule" and not _bears(borne, taint)
    ]
    shown = _listed(found)
    return {"taints": f": {shown}" if shown else ""}


def _bears(tolerations: Iterable[Object], taint: Object) -> bool:
    return any(
        one.get("key") in (None, taint["key"])
        and one.get("effect") in (None, "", taint["effect"])
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in tolerations
    )


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def labels(seen: Snapshot, symptom: Symptom, groups: Words) -> Words:
    """The labels that the pod wants, and what the machines have under the same keys."""
    pod = _pod(seen, symptom)
    wanted = dict(_wanted(pod)) if pod else {}
    texts = [f"{key} in ({_listed(values)})" for key, values in wanted.items()]
    have = {
        key: sorted(
            {
                str(machine["metadata"]["labels"][key])
                for machine in seen.of("Node")
                if key in (machine["metadata"].get("labels") or {})
            }
        )
        for key in wanted
    }
    present = [f"{key} is {_listed(values)}" for key, values in have.items() if values]
    if not seen.of("Node"):
        told = ""
    elif present:
        told = f"; there, {' and '.join(present)}"
    else:
        told = "; no machine has any of these labels"
    return {"wanted": f": {' or '.join(texts)}" if texts else "", "have": told}


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
    """What to do about a scheduler that does nothing."""
    name = symptom.message
    if name == "default-scheduler":
        return {"advice": "tell who runs the cluster: its scheduler does not work"}
    return {"advice": f"{name} is not installed, or does not run; submit without it"}


def _pod(seen: Snapshot, symptom: Symptom) -> Object | None:
    return seen.pods.get(symptom.ranks[0]) if symptom.ranks else None


def requested(pod: Object, resource: str) -> Fraction:
    """Return what a pod's containers ask for together; a limit alone is a request."""
    containers = pod.get("spec", {}).get("containers", ())
    return sum(
        (
            amount_of({**given.get("limits", {}), **given.get("requests", {})}.get(resource))
            for given in (container.get("resources", {}) for container in containers)
        ),
        Fraction(0),
    )


def _allocatable(machine: Object, resource: str) -> Fraction:
    return amount_of(machine.get("status", {}).get("allocatable", {}).get(resource))


def amount_of(text: object) -> Fraction:
    """Return a quantity as a number; nothing, and what is none, is 0."""
    try:
        return quantity(str(text))
    except ValueError:
        return Fraction(0)


def _amount(size: Fraction, resource: str) -> str:
    if resource in ("memory", "ephemeral-storage"):
        return f"{float(size / 2**30):.3g} GiB"
    return f"{float(size):g}"


def _listed(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(texts))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
