"""Compare the requests of a task with the capacity of the cluster nodes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec.structs import replace

from kubectl_sky.observe.room import (
    PODS,
    Room,
    choose_domain,
    find_room,
    list_requests,
    number_that_fits,
    read_running,
    tolerates,
)
from kubectl_sky.observe.signals import Signal, TaskSnapshot
from kubectl_sky.plan import accelerators
from kubectl_sky.plan.devices import count_models, devices_of
from kubectl_sky.plan.resources import allocatable, amounts, list_requested, show, sum_requests
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import Node
from kubectl_sky.words.facts import ClusterNode
from kubectl_sky.words.pod_objects import NO_POD, Pod, PodSpec
from kubectl_sky.words.scheduled_objects import ExactRequest

Words = Mapping[str, str]
_MAX_LISTED = 6
_MAX_SIZES = 3  # different amounts that are free
_TIMES = "\N{MULTIPLICATION SIGN}"
_MAX_LABELS = 3  # values of a label
_MAX_KEYS = 2  # labels of cluster nodes


def insufficient(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return what a node requests of each resource, and the most that one cluster node has."""
    resources = groups["resources"].split(", ")
    pod = _pod(snapshot, signal)
    cluster_nodes = snapshot.of(kinds.NODE)
    requests = {name: sum_requests(pod.spec, name) if pod else Fraction(0) for name in resources}
    words = {"resources": _join(resources), "asked": _sizes(requests)}
    if not cluster_nodes:
        return words | {"have": "", "advice": "request less"}

    largest = {name: max(allocatable(item, name) for item in cluster_nodes) for name in resources}
    missing = [name for name in resources if not largest[name]]
    in_use = [name for name in resources if 0 < largest[name] >= requests[name]]

    if missing:
        advice = next(filter(None, map(_NO_CAPACITY_ADVICE.get, missing)), _ADVICE)
    elif len(in_use) < len(resources):
        advice = "request less"
    else:
        advice = "wait until other workloads finish, or request less"
    return words | {"have": _have(largest, missing, in_use), "advice": advice}


def _have(largest: Mapping[str, Fraction], missing: Sequence[str], in_use: Sequence[str]) -> str:
    if len(missing) == len(largest):
        return "; no cluster node has any"
    if len(in_use) == len(largest):
        return f"; cluster nodes have up to {_sizes(largest)}, which is in use"
    text = f"; the largest cluster node has {_sizes(largest)}"
    return f"{text}; {_join(in_use)} is in use" if in_use else text


def _sizes(sizes: Mapping[str, Fraction]) -> str:
    """Return `8 cpu, 16 GiB memory and no nvidia.com/gpu`; a single size without its name."""
    if len(sizes) == 1:
        return "".join(_amount(size, name) for name, size in sizes.items())
    return _join(
        [f"{_amount(size, name) if size else 'no'} {name}" for name, size in sizes.items()]
    )


def _join(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


_ADVICE = "request less, or what the cluster has"
_NO_CAPACITY_ADVICE = {
    "nvidia.com/gpu": "`kubectl sky gpus` shows the cluster's GPUs;"
    " without any, the device plugin may be missing"
}


def devices(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return which devices of DRA drivers a pod waits for: by a resource name, or by its claims."""
    pod = _pod(snapshot, signal) or NO_POD
    if missing := groups.get("class"):
        what = f'DeviceClass "{missing}" not found'
        return {"devices": what, "advice": "see `kubectl get deviceclasses`"}

    resources = [name for name in list_requested(pod.spec) if name in accelerators.RESOURCES]
    if resources and "cannot allocate" in signal.message:
        required = dict(_read_required_labels(pod.spec))
        nodes = tuple(item for item in snapshot.of(kinds.NODE) if _has_any(item, required))
        matching = replace(snapshot, objects={**snapshot.objects, kinds.NODE.kind: nodes})
        words = insufficient(matching, signal, {"resources": ", ".join(resources)})
        what = f"{signal.about} cluster nodes cannot allocate {words['resources']}"
        return {**words, "devices": what, "numbers": f": a node requests {words['asked']}"}

    return {
        "devices": "; ".join(_unallocated(snapshot, pod)) or "a ResourceClaim is not ready",
        "numbers": f": {signal.message}",
        "advice": "`kubectl sky gpus` shows devices in use;"
        f" see `kubectl get resourceclaims -n {snapshot.namespace}`",
    }


def _has_any(cluster_node: Node, required: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a cluster node has devices, and one of the labels, if any are required."""
    labels = cluster_node.metadata.labels
    matches = any(labels.get(key) in values for key, values in required.items())
    return bool(devices_of(cluster_node)) and (matches or not required)


def _unallocated(snapshot: TaskSnapshot, pod: Pod) -> Iterator[str]:
    """Yield `ResourceClaim "train" is not allocated: it requests 2 of DeviceClass "gpu"`."""
    named = {it.resource_claim_name for it in pod.spec.resource_claims or ()}
    for claim in snapshot.of(kinds.RESOURCE_CLAIM):
        metadata = claim.metadata
        owners = {owner.uid for owner in metadata.owner_references}
        is_ours = metadata.name in named or pod.metadata.uid in owners
        if is_ours and not claim.status.allocation:
            requests = claim.spec.devices.requests or ()
            exact = [request.exactly or ExactRequest() for request in requests]
            text = " and ".join(
                f'{it.count or 1} of DeviceClass "{it.device_class_name}"' for it in exact
            )
            yield f'ResourceClaim "{metadata.name}" is not allocated: it requests {text}'


def taints(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return the taints of the cluster nodes that the pod does not tolerate."""
    pod = _pod(snapshot, signal)
    tolerations = (pod and pod.spec.tolerations) or ()
    untolerated = [
        "=".join(filter(None, (taint.key, taint.value))) + f":{taint.effect}"
        for cluster_node in snapshot.of(kinds.NODE)
        for taint in cluster_node.spec.taints
        if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint)
    ]
    shown = _list(untolerated)
    return {"taints": f": {shown}" if shown else ""}


def labels(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return the labels that the pod requires, and the cluster nodes' values for them.

    For GPUs that no cluster node has, return their names instead.
    """
    pod = _pod(snapshot, signal)
    required = dict(_read_required_labels(pod.spec)) if pod else {}
    excluded = _read_excluded_nodes(pod.spec) if pod else {}

    if excluded and not required:
        text = f"cluster nodes do not match: the task excludes {', '.join(excluded)}"
        advice = "submit it without --exclude-node of a good one"
        return {"lacks": f"{signal.about} {text}", "advice": advice}

    if models := _read_models(required, snapshot):
        return {
            "lacks": f"{signal.about} cluster nodes do not have the GPU that the task requires",
            "wanted": f": {' or '.join(models)}",
            "have": "",
            "advice": _GPU_LABELS,
        }

    gpus = _missing_gpus(required, snapshot)
    if gpus:
        wanted, have = accelerators.missing(gpus, map(_cluster_node, snapshot.of(kinds.NODE)))
        return {"lacks": wanted, "have": f"; {have}", "advice": _GPU_LABELS}

    available = {
        key: sorted(
            {
                cluster_node.metadata.labels[key]
                for cluster_node in snapshot.of(kinds.NODE)
                if key in cluster_node.metadata.labels
            }
        )
        for key in required
    }
    present = [f"{key}={_list(values, _MAX_LABELS)}" for key, values in available.items() if values]

    if not snapshot.of(kinds.NODE):
        summary = ""
    elif present:
        summary = f"; cluster nodes have {' and '.join(present[:_MAX_KEYS])}"
    else:
        summary = "; no cluster node has any of these labels"

    is_gpu = any("gpu" in key or "accelerator" in key for key in required)
    required_gpus = _gpu_names(required) if not snapshot.of(kinds.NODE) else []
    lacking, _, total = signal.about.partition("/")
    if required_gpus and lacking == total:
        return {
            "lacks": accelerators.missing(required_gpus, ())[0],
            "have": "",
            "advice": _ASK_FOR_GPUS,
        }

    wanted = " or ".join(required_gpus) or (_fold(required) if required else "")
    which = "GPU" if is_gpu else "labels"
    text = f"{signal.about} cluster nodes do not have the {which} that the task requires"
    return {
        "lacks": text,
        "wanted": f": {wanted}" if wanted else "",
        "have": summary,
        "advice": _label_advice(snapshot, is_gpu),
    }


def _label_advice(snapshot: TaskSnapshot, is_gpu: bool) -> str:
    if not is_gpu:
        return _LABELS
    return _GPU_LABELS if snapshot.of(kinds.NODE) else _ASK_FOR_GPUS


def _read_models(required: Mapping[str, Sequence[str]], snapshot: TaskSnapshot) -> list[str]:
    """Return the GPUs of the required hosts: those of DRA drivers are placed by host."""
    hosts = required.get("kubernetes.io/hostname", ())
    nodes = [item for item in snapshot.of(kinds.NODE) if devices_of(item)]
    named = [item for item in nodes if item.metadata.name in hosts]
    return sorted({model for item in named for model in count_models(item)})


def _missing_gpus(required: Mapping[str, Sequence[str]], snapshot: TaskSnapshot) -> list[str]:
    """Return the names of the required GPUs; none if a cluster node has one of them."""
    cluster_nodes = [_cluster_node(item) for item in snapshot.of(kinds.NODE)]
    wanted = _all_gpu_names(required)
    existing = {
        name
        for node in cluster_nodes
        for name in (*accelerators.from_labels(node.labels), *node.devices)
    }
    return _gpu_names(required) if cluster_nodes and not existing & wanted else []


def _gpu_names(required: Mapping[str, Sequence[str]]) -> list[str]:
    models = _all_gpu_names(required)
    return sorted(
        name
        for name in models
        if not any(accelerators.matches(other, name) for other in models - {name})
    )


def _all_gpu_names(required: Mapping[str, Sequence[str]]) -> set[str]:
    return {
        name
        for key, values in required.items()
        for value in values
        for name in accelerators.from_labels({key: value})
    }


def _cluster_node(item: Node) -> ClusterNode:
    allocatable = item.status.allocatable
    return ClusterNode(item.metadata.labels, allocatable, count_models(item))


_GPU_LABELS = (
    "use one of the GPU names that `kubectl sky gpus` shows;"
    " without any, the device plugin may be missing"
)
_ASK_FOR_GPUS = (  # who may not list cluster nodes cannot see their GPUs either
    "ask a cluster admin which GPUs there are; without any, the device plugin may be missing"
)
_LABELS = "see `kubectl get nodes --show-labels`, and change the node selector or affinity"


def _fold(required: Mapping[str, Sequence[str]]) -> str:
    """Return the first values of the first label, and how many others there are."""
    key, values = next(iter(required.items()))
    hidden = sum(map(len, required.values())) - len(values[:_MAX_LABELS])
    more = f" and {hidden} more" if hidden else ""
    return f"{key} in ({', '.join(values[:_MAX_LABELS])}){more}"


def _read_required_labels(spec: PodSpec) -> Iterator[tuple[str, list[str]]]:
    for key, value in (spec.node_selector or {}).items():
        yield key, [value]
    for term in spec.node_terms:
        for rule in term.match_expressions or ():
            yield rule.key, list(rule.values or [rule.operator])


def _read_excluded_nodes(spec: PodSpec) -> Mapping[str, None]:
    rules = (rule for term in spec.node_terms for rule in term.match_fields or ())
    return {name: None for rule in rules for name in rule.values or ()}


def idle_scheduler(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    name = signal.message
    if name == "default-scheduler":
        return {"advice": "ask a cluster admin: the scheduler does not work"}
    return {"advice": f"check that {name} is installed and runs, or submit without it"}


def beyond_quota(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return what a task requests of a queue in all its podsets, and the most it can have."""
    resource = groups["resource"]
    parts = amounts({name: groups[name] for name in ("others", "asked", "total") if groups[name]})
    requested_size = show(resource, sum(parts.values(), Fraction(0)))
    return {"numbers": f"requested {requested_size}, at most {groups['most']}"}


def gang_words(snapshot: TaskSnapshot, signal: Signal, groups: Words) -> Words:
    """Return how many nodes of a gang fit now, and what is free.

    Without permission to list cluster nodes, the scheduler's own message is used.
    """
    pod = _pod(snapshot, signal)
    number = len(signal.ranks)
    words = {"why": groups.get("why") or f": {signal.message}", "advice": _WAIT}
    cluster_nodes = snapshot.of(kinds.NODE)
    running = snapshot.running
    if not pod or not cluster_nodes:
        return words | {"gang": f"{_nodes(number)} start together"}
    text, free = explain_gang(pod.spec, number, cluster_nodes, running, signal.about)
    if "; all fit" not in text:  # else the scheduler knows of another reason
        words["why"] = ""
    if number_that_fits(pod.spec, cluster_nodes, ()) < number:
        words["advice"] = _NEVER
    return words | {"gang": text, "room": free}


_WAIT = "wait until other workloads finish, request less, or use fewer nodes"
_NEVER = "request less, use fewer nodes, or ask a cluster admin for more cluster nodes"


def explain_gang(
    spec: PodSpec,
    number: int,
    cluster_nodes: Sequence[Node],
    running: Iterable[Pod] | None,
    topology: str = "",
) -> tuple[str, str]:
    """Return how many nodes fit now, and what is free: `: n1, n2 have 4 CPUs free each`.

    If it is not known which pods are `running`, return how many fit without any. With a `topology`,
    all nodes need the same value of that label of cluster nodes.
    """
    requests = list_requests(spec)
    size = [_size(amount, name) for name, amount in requests.items()]
    text = f"{_nodes(number)}{f' {_TIMES} {_join(size)}' if size else ''} start together"

    found = find_room(spec, cluster_nodes, read_running(running or ()))
    levels = [topology] if topology else []
    domain, rooms = choose_domain(found, levels)
    if not rooms:
        return f"{text}; no cluster node accepts them", ""

    fits = sum(room.count for room in rooms)
    fit = f"{fits} fit" if fits > 1 else f"{fits or 'none'} fits"
    if fits >= number:
        fit = "all fit"
    if topology:
        text = f"{text} in one {topology}"
        fit = f"{fit} in {topology} {domain}"

    if running is None:
        return f"{text}; {fit} if nothing else runs", ""

    return f"{text}; {fit} now", describe_free(spec, rooms)


def describe_free(spec: PodSpec, rooms: Sequence[Room]) -> str:
    """Return what is free of the scarcest resource of a pod: `: n1, n2 have 4 CPUs free each`."""
    if not rooms:
        return ": no cluster node accepts it"
    requests = list_requests(spec) or {PODS: Fraction(1)}
    scarce = min(  # with it alone, fewest pods fit
        requests,
        key=lambda name: sum(max(0, int(room.free[name] / requests[name])) for room in rooms),
    )
    return f": {_free(rooms, scarce)}"


def join_hosts(hosts: Iterable[str]) -> str:
    return _list(hosts)


def _free(rooms: Iterable[Room], resource: str) -> str:
    """Return `n1, n2 have 4 CPUs free each, n3 has 1 CPU free`; most first."""
    hosts = defaultdict[Fraction, list[str]](list)
    for room in rooms:
        hosts[max(Fraction(0), room.free[resource])].append(room.host)
    parts = [
        f"{_list(group)} have {_size(amount, resource)} free each"
        if len(group) > 1
        else f"{group[0]} has {_size(amount, resource)} free"
        for amount, group in sorted(hosts.items(), reverse=True)
    ]
    return ", ".join(parts[:_MAX_SIZES])


def _size(amount: Fraction, resource: str) -> str:
    if resource == "cpu":
        return f"{float(amount):g} CPU{'s' * (amount != 1)}"
    return f"{_amount(amount, resource)} {resource}"


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number != 1)}"


def _pod(snapshot: TaskSnapshot, signal: Signal) -> Pod | None:
    return snapshot.pods.get(signal.ranks[0]) if signal.ranks else None


def _amount(size: Fraction, resource: str) -> str:
    if resource in ("memory", "ephemeral-storage"):
        gib = float(size / 2**30)
        return f"{gib:.0f} GiB" if gib >= 100 else f"{gib:.3g} GiB"
    return f"{float(size):g}"


def _list(texts: Iterable[str], most: int = _MAX_LISTED) -> str:
    unique = list(dict.fromkeys(texts))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + more
