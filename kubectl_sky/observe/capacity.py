"""Compare the requests of a task with the capacity of the cluster nodes."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from kubectl_sky.observe.signals import Signal, Snapshot
from kubectl_sky.spec.quantity import quantity
from kubectl_sky.workloads.workload import Object

Words = Mapping[str, str]
_MAX_LISTED = 6


def insufficient(snapshot: Snapshot, signal: Signal, groups: Words) -> Words:
    """Return the request of a node, and the most that one cluster node has."""
    resource = groups["resource"]
    pod = _pod(snapshot, signal)
    request = requested(pod, resource) if pod else Fraction(0)
    cluster_nodes = snapshot.of("Node")
    words = {"asked": _amount(request, resource)}
    if not cluster_nodes:
        return words | {"have": "", "advice": "request less"}
    largest = max(_allocatable(cluster_node, resource) for cluster_node in cluster_nodes)
    if largest == 0:
        return words | {
            "have": "; no cluster node has any",
            "advice": _NO_CAPACITY_ADVICE.get(resource, _ADVICE),
        }
    if request > largest:
        amount = _amount(largest, resource)
        return words | {
            "have": f"; the largest cluster node has {amount}",
            "advice": "request less",
        }
    return words | {
        "have": f"; cluster nodes have up to {_amount(largest, resource)}, which is in use",
        "advice": "wait until other workloads finish, or request less",
    }


_ADVICE = "request less, or what the cluster has"
_NO_CAPACITY_ADVICE = {
    "nvidia.com/gpu": "`kubectl sky gpus` shows the cluster's GPUs;"
    " without any, the device plugin may be missing"
}


def taints(snapshot: Snapshot, signal: Signal, groups: Words) -> Words:
    """Return the taints of the cluster nodes that the pod does not tolerate."""
    pod = _pod(snapshot, signal)
    tolerations = pod.get("spec", {}).get("tolerations", ()) if pod else ()
    untolerated = [
        _taint(taint)
        for cluster_node in snapshot.of("Node")
        for taint in cluster_node.get("spec", {}).get("taints") or ()
        if taint.get("effect") != "PreferNoSchedule" and not _tolerates(tolerations, taint)
    ]
    shown = _listed(untolerated)
    return {"taints": f": {shown}" if shown else ""}


def _tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
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


def labels(snapshot: Snapshot, signal: Signal, groups: Words) -> Words:
    """Return the labels that the pod requires, and the cluster nodes' values for them."""
    pod = _pod(snapshot, signal)
    required = dict(_required_labels(pod)) if pod else {}
    texts = [f"{key} in ({_listed(values)})" for key, values in required.items()]
    available = {
        key: sorted(
            {
                str(cluster_node["metadata"]["labels"][key])
                for cluster_node in snapshot.of("Node")
                if key in (cluster_node["metadata"].get("labels") or {})
            }
        )
        for key in required
    }
    present = [f"{key}={_listed(values)}" for key, values in available.items() if values]
    if not snapshot.of("Node"):
        summary = ""
    elif present:
        summary = f"; cluster nodes have {' and '.join(present)}"
    else:
        summary = "; no cluster node has any of these labels"
    gpus = any("gpu" in key or "accelerator" in key for key in required)
    return {
        "wanted": f": {' or '.join(texts)}" if texts else "",
        "have": summary,
        "advice": _GPU_LABELS if gpus else _LABELS,
    }


_GPU_LABELS = "use one of the GPU names that `kubectl sky gpus` shows"
_LABELS = "see `kubectl get nodes --show-labels`, and change the node selector or affinity"


def _required_labels(pod: Object) -> Iterator[tuple[str, list[str]]]:
    spec = pod.get("spec", {})
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield key, [value]
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for rule in term.get("matchExpressions", ()):
            yield rule["key"], rule.get("values") or [rule["operator"]]


def idle_scheduler(snapshot: Snapshot, signal: Signal, groups: Words) -> Words:
    """Return what to do about a scheduler that does nothing."""
    name = signal.message
    if name == "default-scheduler":
        return {"advice": "ask a cluster admin: the scheduler does not work"}
    return {"advice": f"check that {name} is installed and runs, or submit without it"}


def gang_capacity(snapshot: Snapshot, signal: Signal, groups: Words) -> Words:
    """Return what a gang requests, what the cluster nodes have, and what is short.

    Without permission to list cluster nodes, the scheduler's own message is used.
    """
    pod, number = _pod(snapshot, signal), len(signal.ranks)
    sizes = {name: requested(pod, name) for name in _requested_names(pod)} if pod else {}
    requests = {name: size for name, size in sizes.items() if size}
    cluster_nodes = snapshot.of("Node")
    advice = "wait until other workloads finish, request less, or use fewer nodes"
    words = {"number": str(number), "capacity": groups.get("why", ""), "advice": advice}
    if not requests or not cluster_nodes:
        return words
    per_node = ", ".join(f"{_amount(size, name)} {name}" for name, size in requests.items())
    fits = sum(_fits(cluster_node, requests) for cluster_node in cluster_nodes)
    totals = {
        name: sum((_allocatable(item, name) for item in cluster_nodes), Fraction(0))
        for name in requests
    }
    have = ", ".join(f"{_amount(size, name)} {name}" for name, size in totals.items())
    text = f"each requests {per_node}; all cluster nodes together have {have}"
    if fits >= number:
        return words | {"capacity": f"{words['capacity']} ({text}, partly in use)"}
    short = [
        f"{_amount(size * number - totals[name], name)} {name}"
        for name, size in requests.items()
        if size * number > totals[name]
    ]
    lack = f"; short: {', '.join(short)}" if short else ""
    return words | {
        "capacity": f": {text}: at most {fits} of {number} fit{lack}",
        "advice": "request less, use fewer nodes, or ask a cluster admin for more cluster nodes",
    }


def _requested_names(pod: Object) -> list[str]:
    """Return the names of the resources that the containers of a pod request."""
    sizes = (container.get("resources", {}) for container in pod["spec"].get("containers", ()))
    return sorted({name for size in sizes for part in size.values() for name in part or ()})


def _fits(cluster_node: Object, requests: Mapping[str, Fraction]) -> int:
    """Return how many pods with these requests fit on an empty cluster node."""
    return min(int(_allocatable(cluster_node, name) / size) for name, size in requests.items())


def _pod(snapshot: Snapshot, signal: Signal) -> Object | None:
    return snapshot.pods.get(signal.ranks[0]) if signal.ranks else None


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


def _allocatable(cluster_node: Object, resource: str) -> Fraction:
    return amount_of(cluster_node.get("status", {}).get("allocatable", {}).get(resource))


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
    more = f" and {len(unique) - _MAX_LISTED} more" if len(unique) > _MAX_LISTED else ""
    return ", ".join(unique[:_MAX_LISTED]) + more
