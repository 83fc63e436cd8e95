"""Choose a task's candidate resources and the cluster nodes that it may run on."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan import accelerators, tpu
from kubectl_sky.plan.accelerators import AMD, NVIDIA, Family, RequiredLabel, Term
from kubectl_sky.spec import quantity
from kubectl_sky.spec.task import Accelerator, Resources, Task
from kubectl_sky.words.facts import ClusterNode, Facts

_HOST = "kubernetes.io/hostname"


class Preference(Struct, frozen=True):
    """Preferred node labels for the scheduler; the weight is from 1 to 100."""

    weight: int
    rule: RequiredLabel


class Device(Struct, frozen=True):
    """A node's device request, with alternative terms of node labels."""

    resource: str
    count: int
    terms: tuple[Term, ...] = ()


class Placement(Struct, frozen=True):
    """The chosen candidate, its device, node label terms, and notes for the user.

    The terms cover all candidates that differ from the chosen one only by GPU model. They are
    alternatives; no terms means every cluster node. `accelerators` are the GPUs of these
    candidates, for people.
    """

    resources: Resources
    device: Device | None = None
    terms: tuple[Term, ...] = ()
    preferred: tuple[Preference, ...] = ()
    notes: tuple[str, ...] = ()
    accelerators: str = ""  # A100:8 or H100:8


def needs_cluster_nodes(task: Task) -> bool:
    """Return whether the choice for a task depends on the cluster's nodes."""
    resources = task.resources
    choices = task.choices or task.topology or resources.spot
    return bool(choices) or resources.accelerator is not None


def choose_placement(task: Task, facts: Facts) -> Placement:
    """Choose a candidate, merged with the candidates that differ only by GPU model.

    If the cluster nodes are known, choose the first candidate that fits on an empty one; otherwise
    choose the first. Raises UserError for an accelerator that cannot be requested.
    """
    placement = _choose(task, facts)
    if not placement.resources.spot:
        return placement
    rules = accelerators.present_spot_rules(facts)
    if rules:
        return replace(placement, terms=accelerators.with_rules(placement.terms, rules))
    preferences = tuple(Preference(100, rule) for rule in accelerators.SPOT_RULES)
    note = "use_spot: no node is known to be a spot node; spot nodes are preferred, and any will do"
    preferred = placement.preferred + preferences
    notes = (*placement.notes, note)
    return replace(placement, preferred=preferred, notes=notes)


def without_other_contexts(task: Task, context: str | None) -> Task:
    """Limit a task to its candidates for a context, or keep all if there are none."""
    fitting = [
        candidate for candidate in task.candidates if candidate.context in (None, context)
    ] or task.candidates
    candidates = [replace(candidate, context=None) for candidate in fitting]
    first, *others = (
        candidate
        for index, candidate in enumerate(candidates)
        if candidate not in candidates[:index]
    )
    return replace(task, resources=first, choices=tuple(others))


def _choose(task: Task, facts: Facts) -> Placement:
    candidates = task.candidates
    devices = [_device(candidate.accelerator, facts) for candidate in candidates]
    chosen_index = _first_fitting(candidates, devices, facts)
    chosen = candidates[chosen_index]
    device = devices[chosen_index]
    if device is None:
        return Placement(chosen, notes=tuple(_choice_note(candidates, (chosen_index,), facts)))

    similar = [
        index
        for index in range(len(candidates))
        if _differ_only_by_gpu(candidates, devices, chosen_index, index)
    ]

    available = [index for index in similar if _is_labelled(devices[index], facts)] or similar
    options = [devices[index] for index in available]
    terms = _merge_terms(options) if _names_gpu(chosen) else ()
    notes = [*_choice_note(candidates, similar, facts)]

    if (
        terms
        and facts.cluster_nodes
        and not any(meets(terms, item) for item in facts.cluster_nodes)
    ):
        requested = [candidates[index] for index in similar]
        if _unlabelled(device, facts):
            names = " or ".join(map(_describe_gpu, requested))
            notes.append(f"cluster nodes have no GPU labels; scheduling on any GPU for {names}")
            terms = ()
        else:
            kinds = [item.accelerator.name or "" for item in requested if item.accelerator]
            missing, available_gpus = accelerators.missing(kinds, facts.cluster_nodes)
            notes.append(f"{missing}; {available_gpus}; the task waits for one")

    notes += _too_many_note(device, terms, facts)
    if not facts.cluster_nodes:
        notes += _unknown_gpu_notes(candidates[index] for index in similar)

    gpus = [candidates[index].accelerator for index in available]
    preferred = _prefer(options, facts) if task.ordered and terms else ()
    return Placement(
        resources=chosen,
        device=device,
        terms=_terms_present(terms, facts),
        preferred=preferred,
        notes=tuple(notes),
        accelerators=" or ".join(
            dict.fromkeys(f"{gpu.name or 'GPU'}:{gpu.count}" for gpu in gpus if gpu)
        ),
    )


def _first_fitting(
    candidates: tuple[Resources, ...], devices: list[Device | None], facts: Facts
) -> int:
    """Return the index of the first candidate that fits, or 0 if none does.

    Spot candidates are tried as on-demand ones if no candidate fits as written.
    """
    on_demand = [replace(candidate, spot=False) for candidate in candidates]
    for variants in (candidates, on_demand):
        for index, (candidate, device) in enumerate(zip(variants, devices, strict=True)):
            if _fits(candidate, device, facts):
                return index
    return 0


def _device(accelerator: Accelerator | None, facts: Facts) -> Device | None:
    """Return the device request; an unnamed GPU uses the cluster's GPU resource."""
    if accelerator is None:
        return None
    if accelerator.name is None:
        available = {name for item in facts.cluster_nodes for name in item.allocatable}
        family = AMD if AMD.resource in available and NVIDIA.resource not in available else NVIDIA
        return Device(family.resource, accelerator.count)
    if accelerators.is_tpu(accelerator.name):
        found = tpu.find_slice(accelerator.name, accelerator.count)
        return Device(accelerators.TPU_RESOURCE, found.chips, (found.term,))
    family = accelerators.family_of(accelerator.name)
    models = accelerators.models(accelerator.name)
    terms = family.terms(models)
    observed = tuple(_find_terms(family, {model.name for model in models}, facts))
    return Device(family.resource, accelerator.count, observed or terms)


def _find_terms(family: Family, requests: set[str], facts: Facts) -> Iterator[Term]:
    """Yield terms of the labels on cluster nodes that match the wanted models."""
    for key in family.labels:
        values = {cluster_node.labels.get(key, "") for cluster_node in facts.cluster_nodes} - {""}
        matching = sorted(
            value
            for value in values
            if any(accelerators.matches(name, family.read(value) or "") for name in requests)
        )
        if matching:
            yield (RequiredLabel(key, tuple(matching)),)

    hosts = (
        node.labels.get(_HOST, "")
        for node in facts.cluster_nodes
        if not accelerators.from_labels(node.labels)
        and any(accelerators.matches(name, model) for name in requests for model in node.devices)
    )
    if names := sorted(filter(None, hosts)):  # devices of DRA drivers need no labels
        yield (RequiredLabel(_HOST, tuple(names)),)


def _names_gpu(resources: Resources) -> bool:
    return resources.accelerator is not None and resources.accelerator.name is not None


def _differ_only_by_gpu(
    candidates: tuple[Resources, ...], devices: list[Device | None], index: int, other: int
) -> bool:
    first = devices[index]
    second = devices[other]
    if other == index:
        return True
    if first is None or second is None or not _names_gpu(candidates[index]):
        return False
    same_resources = replace(candidates[other], accelerator=None) == replace(
        candidates[index], accelerator=None
    )
    same_request = (first.resource, first.count) == (second.resource, second.count)
    return same_resources and same_request and _names_gpu(candidates[other])


def _merge_terms(devices: Iterable[Device | None]) -> tuple[Term, ...]:
    """Merge the terms of all devices: one per set of label keys, with all values."""
    terms = [term for device in devices if device for term in device.terms]
    single_key: dict[str, dict[str, None]] = {}
    for term in terms:
        if len(term) == 1:
            single_key.setdefault(term[0].key, {}).update(dict.fromkeys(term[0].values))
    joined: list[Term] = [
        (RequiredLabel(key, tuple(values)),) for key, values in single_key.items()
    ]
    return (*joined, *dict.fromkeys(term for term in terms if len(term) > 1))


def _is_labelled(device: Device | None, facts: Facts) -> bool:
    return device is not None and any(
        meets(device.terms, cluster_node) for cluster_node in facts.cluster_nodes
    )


def _terms_present(terms: tuple[Term, ...], facts: Facts) -> tuple[Term, ...]:
    """Drop the terms that no cluster node meets, unless that drops all of them."""
    present = [term for term in terms if any(meets((term,), item) for item in facts.cluster_nodes)]
    return tuple(present) or terms


def _prefer(devices: list[Device | None], facts: Facts) -> tuple[Preference, ...]:
    """Return preferences, first device strongest; the last one needs none."""
    terms_by_device = [device.terms if device else () for device in devices[:-1]]
    return tuple(
        Preference(max(100 - 10 * index, 1), rule)
        for index, terms in enumerate(terms_by_device)
        for term in _terms_present(terms, facts)
        for rule in term[:1]
    )


def _fits(candidate: Resources, device: Device | None, facts: Facts) -> bool:
    """Return whether an empty cluster node could hold the candidate."""
    requests = {
        "cpu": candidate.cpus,
        "memory": candidate.memory,
        "ephemeral-storage": candidate.disk,
    }

    if device:
        requests[device.resource] = str(device.count)
    terms = device.terms if device and not _unlabelled(device, facts) else ()
    if candidate.spot:
        terms = accelerators.with_rules(
            terms, accelerators.present_spot_rules(facts) or accelerators.SPOT_RULES
        )

    sizes = {name: quantity.quantity(size) for name, size in requests.items() if size is not None}
    return any(
        all(size <= _amount(cluster_node.allocatable, name) for name, size in sizes.items())
        and (not terms or meets(terms, cluster_node))
        for cluster_node in facts.cluster_nodes
    )


def _amount(available: Mapping[str, str], name: str) -> Fraction:
    return quantity.quantity(available.get(name, "0"))


def meets(terms: tuple[Term, ...], cluster_node: ClusterNode) -> bool:
    return any(
        all(cluster_node.labels.get(rule.key) in rule.values for rule in term) for term in terms
    )


def _unlabelled(device: Device, facts: Facts) -> bool:
    """Return whether no cluster node with the resource has a label for its model."""
    models = [
        accelerators.from_labels(cluster_node.labels) or cluster_node.devices
        for cluster_node in facts.cluster_nodes
        if _amount(cluster_node.allocatable, device.resource) > 0
    ]
    return bool(models) and not any(models)


def _unknown_gpu_notes(candidates: Iterable[Resources]) -> Iterator[str]:
    for item in candidates:
        name = item.accelerator and item.accelerator.name
        if name and not accelerators.is_tpu(name) and not accelerators.is_known(name):
            yield (
                f"{_describe_gpu(item)} is not a known GPU; only cluster nodes with this label"
                " match"
            )


def _choice_note(
    candidates: tuple[Resources, ...], same: Iterable[int], facts: Facts
) -> Iterator[str]:
    indices = list(same)
    rejected = len(candidates) - len(indices)
    if not rejected:
        return
    selected = " or ".join(_describe(candidates[index]) for index in indices)
    reason = "the cluster nodes are unknown, so the first is used"
    if facts.cluster_nodes:
        reason = "the first that fits on a cluster node"
        on_demand = [replace(candidate, spot=False) for candidate in candidates]
        if not any(_fits(item, _device(item.accelerator, facts), facts) for item in on_demand):
            reason = "none fits on a cluster node, so the first is used"
    yield f"of {len(candidates)} candidates {selected} is chosen: {reason}"


def _too_many_note(device: Device, terms: tuple[Term, ...], facts: Facts) -> Iterator[str]:
    """Yield a note if a node requests more devices than any cluster node of this kind has."""
    most = max(
        (
            _amount(item.allocatable, device.resource)
            for item in facts.cluster_nodes
            if not terms or meets(terms, item)
        ),
        default=Fraction(0),
    )
    if 0 < most < device.count:
        yield (
            f"a node requests {device.count} {device.resource}, and the largest cluster node has"
            f" {most}; the task waits for a larger one; num_nodes spreads it over several"
        )


def _describe(resources: Resources) -> str:
    sizes = {
        "cpus": resources.cpus,
        "memory": resources.memory,
        "disk_size": resources.disk,
        "image": resources.image,
    }
    parts = [_describe_gpu(resources)] if resources.accelerator else []
    parts += [f"{name} {size}" for name, size in sizes.items() if size]
    parts += ["use_spot"] if resources.spot else []
    return ", ".join(parts) or "the one without sizes"


def _describe_gpu(resources: Resources) -> str:
    accelerator = resources.accelerator
    if accelerator is None:
        return "no GPU"
    return (
        f"{accelerator.name}:{accelerator.count}"
        if accelerator.name
        else f"{accelerator.count} GPUs"
    )
