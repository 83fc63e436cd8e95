"""Which candidate a task takes, and on which of the cluster's nodes it may run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from kubectl_sky.facts import Facts, Machine
from kubectl_sky.plan import accelerators, spot, tpu
from kubectl_sky.plan.accelerators import AMD, NVIDIA, Family, Rule, Term
from kubectl_sky.spec import quantity
from kubectl_sky.spec.task import Accelerator, Resources, Task


@dataclass(frozen=True)
class Preference:
    """Labels that the scheduler likes better; the weight is from 1 to 100."""

    weight: int
    rule: Rule


@dataclass(frozen=True)
class Device:
    """What a node asks for: a resource, how many of it, and labels of which one term has to fit."""

    resource: str
    count: int
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The candidate, its device, the terms of all that are as good, and what the user should know.

    Terms are alternatives; none means every node.
    """

    resources: Resources
    device: Device | None = None
    terms: tuple[Term, ...] = ()
    preferred: tuple[Preference, ...] = ()
    notes: tuple[str, ...] = ()


def wants_machines(task: Task) -> bool:
    """Say whether the cluster's nodes matter to a task."""
    resources = task.resources
    return bool(task.choices) or resources.accelerator is not None or resources.spot


def place(task: Task, facts: Facts) -> Placement:
    """Choose a candidate, with all others from which it differs by the kind of GPU only.

    Where the nodes are known it is the first that one of them could hold, else the first. Raises
    UserError for an accelerator that cannot be asked for.
    """
    placement = _chosen_of(task, facts)
    if not placement.resources.spot:
        return placement
    seen = spot.seen(facts)
    if seen:
        return replace(placement, terms=spot.narrowed(placement.terms, seen))
    liked = tuple(Preference(100, rule) for rule in spot.RULES)
    return replace(
        placement,
        preferred=placement.preferred + liked,
        notes=(*placement.notes, spot.NOTE),
    )


def staying(task: Task, context: str | None) -> Task:
    """Return a task with the candidates that may be in one context, or with all if none may."""
    fitting = [one for one in task.candidates if one.context in (None, context)] or task.candidates
    found = [replace(one, context=None) for one in fitting]
    first, *others = (one for index, one in enumerate(found) if one not in found[:index])
    return replace(task, resources=first, choices=tuple(others))


def _chosen_of(task: Task, facts: Facts) -> Placement:
    candidates = task.candidates
    devices = [_device(candidate.accelerator, facts) for candidate in candidates]
    at = _first_fitting(candidates, devices, facts)
    chosen, device = candidates[at], devices[at]
    if device is None:
        return Placement(chosen, notes=tuple(_chosen(candidates, (at,), facts)))
    same = [index for index in range(len(candidates)) if _alike(candidates, devices, at, index)]
    there = [index for index in same if _there(devices[index], facts)] or same
    wanted = [devices[index] for index in there]
    terms = _joined(wanted) if _named(chosen) else ()
    notes = [*_chosen(candidates, same, facts)]
    if terms and facts.machines and not any(meets(terms, one) for one in facts.machines):
        kinds = " or ".join(_gpu(candidates[index]) for index in same)
        unlabelled = _unlabelled(device, facts)
        notes.append(_missing(kinds, device, facts) if not unlabelled else _unsaid(kinds))
        terms = () if unlabelled else terms
    if not facts.machines:
        notes += [_unknown(one) for one in (candidates[index] for index in same) if _strange(one)]
    return Placement(
        resources=chosen,
        device=device,
        terms=_present(terms, facts),
        preferred=_preferred(wanted, facts) if task.ordered and terms else (),
        notes=tuple(notes),
    )


def _first_fitting(
    candidates: tuple[Resources, ...], devices: list[Device | None], facts: Facts
) -> int:
    """Return the index of the first candidate that fits; without spot nodes, as on demand."""
    on_demand = [replace(candidate, spot=False) for candidate in candidates]
    for variants in (candidates, on_demand):
        for index, (candidate, device) in enumerate(zip(variants, devices, strict=True)):
            if _fits(candidate, device, facts):
                return index
    return 0


def _device(asked: Accelerator | None, facts: Facts) -> Device | None:
    """Return what is asked of Kubernetes; without a name, of the resource that the cluster has."""
    if asked is None:
        return None
    if asked.name is None:
        has_amd = any(AMD.resource in machine.allocatable for machine in facts.machines)
        has_nvidia = any(NVIDIA.resource in machine.allocatable for machine in facts.machines)
        family = AMD if has_amd and not has_nvidia else NVIDIA
        return Device(family.resource, asked.count)
    if tpu.is_tpu(asked.name):
        chips, term = tpu.request(asked.name, asked.count)
        return Device(tpu.RESOURCE, chips, (term,))
    family = accelerators.family_of(asked.name)
    models = accelerators.models(asked.name)
    terms = family.terms(models)
    seen = tuple(_seen(family, {model.name for model in models}, facts))
    return Device(family.resource, asked.count, seen or terms)


def _seen(family: Family, wanted: set[str], facts: Facts) -> Iterator[Term]:
    """Yield terms of the labels that the cluster's nodes have and that mean what is wanted."""
    for key in family.labels:
        values = {machine.labels.get(key, "") for machine in facts.machines} - {""}
        found = sorted(
            value
            for value in values
            if any(accelerators.matches(name, family.read(value) or "") for name in wanted)
        )
        if found:
            yield (Rule(key, tuple(found)),)


def _named(resources: Resources) -> bool:
    return resources.accelerator is not None and resources.accelerator.name is not None


def _alike(
    candidates: tuple[Resources, ...], devices: list[Device | None], at: int, other: int
) -> bool:
    """Say whether two candidates differ by nothing but which GPUs they name."""
    mine, theirs = devices[at], devices[other]
    if other == at:
        return True
    if mine is None or theirs is None or not _named(candidates[at]):
        return False
    rest = replace(candidates[other], accelerator=None) == replace(candidates[at], accelerator=None)
    same = (mine.resource, mine.count) == (theirs.resource, theirs.count)
    return rest and same and _named(candidates[other])


def _joined(devices: Iterable[Device | None]) -> tuple[Term, ...]:
    """Return one term for each label key, or set of keys, with the values of all devices."""
    terms = [term for device in devices if device for term in device.terms]
    simple: dict[str, dict[str, None]] = {}
    for term in terms:
        if len(term) == 1:
            simple.setdefault(term[0].key, {}).update(dict.fromkeys(term[0].values))
    joined: list[Term] = [(Rule(key, tuple(values)),) for key, values in simple.items()]
    return (*joined, *dict.fromkeys(term for term in terms if len(term) > 1))


def _there(device: Device | None, facts: Facts) -> bool:
    """Say whether some node of the cluster is labelled as having the device."""
    return device is not None and any(meets(device.terms, one) for one in facts.machines)


def _present(terms: tuple[Term, ...], facts: Facts) -> tuple[Term, ...]:
    """Leave out the terms that no node meets, unless that is all of them."""
    return tuple(t for t in terms if any(meets((t,), one) for one in facts.machines)) or terms


def _preferred(devices: list[Device | None], facts: Facts) -> tuple[Preference, ...]:
    """What stands first in an order is liked best; the last needs no saying."""
    return tuple(
        Preference(max(100 - 10 * index, 1), rule)
        for index, device in enumerate(devices[:-1])
        for term in _present(device.terms if device else (), facts)
        for rule in term[:1]
    )


def _fits(candidate: Resources, device: Device | None, facts: Facts) -> bool:
    """Say whether an empty node of the cluster could hold the candidate."""
    wanted = {
        "cpu": candidate.cpus,
        "memory": candidate.memory,
        "ephemeral-storage": candidate.disk,
    }
    if device:
        wanted[device.resource] = str(device.count)
    terms = device.terms if device and not _unlabelled(device, facts) else ()
    if candidate.spot:
        terms = spot.narrowed(terms, spot.seen(facts) or spot.RULES)
    return any(
        _holds(machine.allocatable, wanted) and (not terms or meets(terms, machine))
        for machine in facts.machines
    )


def _holds(given: Mapping[str, str], wanted: Mapping[str, str | None]) -> bool:
    return all(
        quantity.quantity(size) <= _amount(given, name)
        for name, size in wanted.items()
        if size is not None
    )


def _amount(given: Mapping[str, str], name: str) -> Fraction:
    return quantity.quantity(given.get(name, "0"))


def meets(terms: tuple[Term, ...], machine: Machine) -> bool:
    """Say whether a machine has the labels of one of the terms."""
    return any(all(machine.labels.get(rule.key) in rule.values for rule in term) for term in terms)


def _unlabelled(device: Device, facts: Facts) -> bool:
    """Say whether the nodes that have the resource are silent about which kind it is."""
    having = [one for one in facts.machines if _amount(one.allocatable, device.resource) > 0]
    return bool(having) and not any(_told(one) for one in having)


def _told(machine: Machine) -> set[str]:
    """Return the accelerators that a node's labels name."""
    slices = {machine.labels[tpu.ACCELERATOR]} if tpu.ACCELERATOR in machine.labels else set()
    return slices | set(accelerators.told(machine.labels))


def _strange(resources: Resources) -> bool:
    name = resources.accelerator.name if resources.accelerator else None
    return name is not None and not tpu.is_tpu(name) and not accelerators.known(name)


def _chosen(candidates: tuple[Resources, ...], same: Iterable[int], facts: Facts) -> Iterator[str]:
    indices = list(same)
    left = len(candidates) - len(indices)
    if not left:
        return
    taken = " or ".join(_text(candidates[index]) for index in indices)
    why = "the cluster's nodes are not known here, and it is the first"
    if facts.machines:
        why = "it is the first that a node of this cluster could hold"
        if not _held(candidates, facts):
            why = "no node of this cluster could hold any of them, and it is the first"
    yield f"of {len(candidates)} candidates {taken} is taken: {why}"


def _held(candidates: tuple[Resources, ...], facts: Facts) -> bool:
    on_demand = (replace(candidate, spot=False) for candidate in candidates)
    return any(_fits(each, _device(each.accelerator, facts), facts) for each in on_demand)


def _missing(kinds: str, device: Device, facts: Facts) -> str:
    there = sorted({name for machine in facts.machines for name in _told(machine)})
    has = f"there are {', '.join(there)}" if there else "no node's labels name one"
    return f"no node of this cluster is labelled as having {kinds}; {has}; the task waits for one"


def _unsaid(kinds: str) -> str:
    return f"this cluster's nodes do not say which GPUs they have; any is used for {kinds}"


def _unknown(resources: Resources) -> str:
    return f"{_gpu(resources)} is no GPU known by name; nodes that are labelled just so are meant"


def _text(resources: Resources) -> str:
    sizes = {
        "cpus": resources.cpus,
        "memory": resources.memory,
        "disk_size": resources.disk,
        "image": resources.image,
    }
    said = [_gpu(resources)] if resources.accelerator else []
    said += [f"{name} {size}" for name, size in sizes.items() if size]
    said += ["use_spot"] if resources.spot else []
    return ", ".join(said) or "the one without sizes"


def _gpu(resources: Resources) -> str:
    asked = resources.accelerator
    if asked is None:
        return "no GPU"
    return f"{asked.name}:{asked.count}" if asked.name else f"{asked.count} GPUs"
