"""What a cluster and a namespace add to a new object and forbid it: classes and LimitRanges."""

from collections.abc import Iterator, Sequence

from kubectl_sky.practice import problems, quantities
from kubectl_sky.practice.quantities import Quantity
from kubectl_sky.practice.state import Json, State

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NOTE = "kubernetes.io/limit-ranger"
Amounts = dict[str, Quantity]
Ask = tuple[Amounts, Amounts]  # requests and limits


def apply(state: State, storage: str, obj: Json) -> None:
    """Complete a new pod or claim, or refuse it. Raises Problem."""
    if storage == "pods":
        _identify(state, obj)
        _prioritize(state, obj)
    elif storage == "persistentvolumeclaims":
        _classify(state, obj)
    else:
        return
    wrong: list[str] = []
    for found in state.all("limitranges", obj["metadata"]["namespace"]):
        items = found["spec"].get("limits") or []
        if storage == "pods":
            _complete(obj, [one for one in items if one["type"] == "Container"])
        for item in items:
            for ask in _asked(storage, obj, item["type"]):
                wrong += _broken(item, ask)
    if wrong:
        why = wrong[0] if len(wrong) == 1 else f"[{', '.join(dict.fromkeys(wrong))}]"
        raise problems.forbidden(storage, obj["metadata"]["name"], why)


def _identify(state: State, pod: Json) -> None:
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    # each namespace gets a default one soon
    if account != "default" and not state.get("serviceaccounts", namespace, account):
        why = f'serviceaccount "{account}" not found'
        why = f"error looking up service account {namespace}/{account}: {why}"
        raise problems.forbidden("pods", pod["metadata"]["name"], why)


def _prioritize(state: State, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    found = state.get("priorityclasses.scheduling.k8s.io", "", name) if name else None
    if name and not found:
        why = f"no PriorityClass with name {name} was found"
        raise problems.forbidden("pods", pod["metadata"]["name"], why)
    spec["priority"] = found["value"] if found else 0
    spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")


def _classify(state: State, claim: Json) -> None:
    if claim["spec"].get("storageClassName") is None:
        for one in state.all("storageclasses.storage.k8s.io"):
            if (one["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
                claim["spec"]["storageClassName"] = one["metadata"]["name"]


def _complete(pod: Json, items: list[Json]) -> None:
    """Give containers what a LimitRange says of those that are silent."""
    notes = []
    spec = pod["spec"]
    groups = (("container", "containers"), ("init container", "initContainers"))
    named = [(word, one) for word, group in groups for one in spec.get(group) or ()]
    for word, container in named:
        for kind, part in (("request", "requests"), ("limit", "limits")):
            given: Json = {}
            for item in items:
                given |= item.get("defaultRequest" if kind == "request" else "default") or {}
            own = container["resources"].get(part) or {}
            added = sorted(given.keys() - own.keys())
            if added:
                container["resources"][part] = {**given, **own}
                notes.append(f"{', '.join(added)} {kind} for {word} {container['name']}")
    if notes:
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"].setdefault("annotations", {})[_NOTE] = text


def _asked(storage: str, obj: Json, kind: str) -> Iterator[Ask]:
    """Yield what the things of a kind ask for, within an object."""
    spec = obj["spec"]
    if storage == "persistentvolumeclaims":
        if kind == "PersistentVolumeClaim":
            requests = quantities.amounts(spec["resources"].get("requests"))
            yield requests, requests
    elif kind == "Container":
        for one in [*spec["containers"], *(spec.get("initContainers") or ())]:
            resources = one["resources"]
            yield (
                quantities.amounts(resources.get("requests")),
                quantities.amounts(resources.get("limits")),
            )
    elif kind == "Pod":
        yield quantities.needs(spec), quantities.needs(spec, "limits")


def _broken(item: Json, ask: Ask) -> Iterator[str]:
    """Yield in the words of the real server how an item of a LimitRange is broken."""
    kind = item["type"]
    asks = (("request", ask[0]), ("limit", ask[1]))
    only = asks[:1] if kind == "PersistentVolumeClaim" else asks
    for name, bound in quantities.amounts(item.get("min")).items():
        yield from _beyond(f"minimum {name} usage per {kind} is {bound}", name, bound, only, -1)
    for name, bound in quantities.amounts(item.get("max")).items():
        yield from _beyond(
            f"maximum {name} usage per {kind} is {bound}", name, bound, only[::-1], 1
        )
    for name, bound in quantities.amounts(item.get("maxLimitRequestRatio")).items():
        said = f"{name} max limit to request ratio per {kind} is {bound}, but"
        asked = {part: amounts.get(name, quantities.ZERO).nanos for part, amounts in asks}
        missing = next((part for part, value in asked.items() if not value), "")
        if missing:
            yield f"{said} no {missing} is specified or {missing} is 0"
        elif asked["limit"] / asked["request"] > bound.value:
            yield f"{said} provided ratio is {float(asked['limit'] / asked['request']):f}"


def _beyond(
    said: str, name: str, bound: Quantity, asks: Sequence[tuple[str, Amounts]], sign: int
) -> Iterator[str]:
    """Yield what is wrong where an amount is missing, or lies on the wrong side of a bound."""
    if name not in asks[0][1]:
        yield f"{said}.  No {asks[0][0]} is specified"
        return
    for part, amounts in asks:
        if name in amounts and (amounts[name].nanos - bound.nanos) * sign > 0:
            yield f"{said}, but {part} is {amounts[name]}"
            return
