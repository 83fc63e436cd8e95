"""What a namespace may use: ResourceQuotas, checked when objects are made."""

from collections.abc import Iterable

from kubectl_sky.practice import limits, problems, quantities
from kubectl_sky.practice.quantities import ZERO, Quantity
from kubectl_sky.practice.state import Json, State

OVER = ("Succeeded", "Failed")  # phases of pods that use nothing any more
_ONE = quantities.parse("1")
# Kinds that have a name of their own beside `count/…`.
_COUNTED = ("configmaps", "secrets", "services", "resourcequotas", "persistentvolumeclaims")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST = ("cpu", "memory")  # with a quota for these, each container has to say its own


def check(state: State, storage: str, obj: Json) -> None:
    """Complete a new object as its namespace has it; refuse what is too much. Raises Problem."""
    limits.apply(state, storage, obj)
    namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
    quotas = state.all("resourcequotas", namespace) if namespace else []
    asked = usage(storage, obj) if quotas else {}
    for quota in sorted(quotas, key=lambda one: str(one["metadata"]["name"])):
        hard = quantities.amounts(quota["spec"].get("hard"))
        if not _covers(quota, storage, obj):
            continue
        why = _unsaid(hard, obj) if storage == "pods" else ""
        used = used_by(state, quota, hard) if hard.keys() & asked.keys() else {}
        over = sorted(
            name
            for name in hard.keys() & asked.keys()
            if asked[name].nanos and (used[name] + asked[name]).nanos > hard[name].nanos
        )
        if over:
            parts = (("requested", asked), ("used", used), ("limited", hard))
            why = "exceeded quota: {}, " + ", ".join(
                f"{word}: " + ",".join(f"{name}={amounts[name]}" for name in over)
                for word, amounts in parts
            )
        if why:
            raise problems.forbidden(storage, name, why.replace("{}", quota["metadata"]["name"]))


def usage(storage: str, obj: Json) -> dict[str, Quantity]:
    """Return what an object counts for in quotas."""
    plural, _, group = storage.partition(".")
    found = {f"count/{storage if group else plural}": _ONE}
    if storage in _COUNTED:
        found[plural] = _ONE
    spec = obj.get("spec") or {}
    if storage == "persistentvolumeclaims":
        asked = quantities.amounts(spec["resources"].get("requests")).get("storage", ZERO)
        found["requests.storage"] = asked
        by_class = f"{spec.get('storageClassName')}.storageclass.storage.k8s.io"
        found |= {f"{by_class}/requests.storage": asked, f"{by_class}/{plural}": _ONE}
    if storage == "services":
        found[f"services.{spec['type'].lower()}s"] = _ONE
    if storage == "pods" and obj["status"].get("phase") not in OVER:
        found |= {"pods": _ONE, **_compute(spec)}
    return found


def _compute(spec: Json) -> dict[str, Quantity]:
    requests, limited = quantities.needs(spec), quantities.needs(spec, "limits")
    found = {f"requests.{name}": amount for name, amount in requests.items()}
    found |= {f"limits.{name}": amount for name, amount in limited.items() if name in _COMPUTE}
    return found | {name: amount for name, amount in requests.items() if name in _COMPUTE}


def _unsaid(hard: Iterable[str], pod: Json) -> str:
    """Say which containers are silent about what the quota counts."""
    silent: dict[str, list[str]] = {}
    for name in sorted(hard):
        part, _, resource = name.rpartition(".")
        if resource in _MUST and part in ("", "requests", "limits"):
            for container in [
                *pod["spec"]["containers"],
                *(pod["spec"].get("initContainers") or ()),
            ]:
                if resource not in (container["resources"].get(part or "requests") or {}):
                    silent.setdefault(name, []).append(container["name"])
    parts = [f"{name} for: {','.join(sorted(set(who)))}" for name, who in silent.items()]
    return f"failed quota: {{}}: must specify {'; '.join(parts)}" if parts else ""


def _covers(quota: Json, storage: str, obj: Json) -> bool:
    """Say whether an object is in the scopes of a quota."""
    scopes = quota["spec"].get("scopes") or ()
    if not scopes:
        return True
    if storage != "pods":
        return False
    ends = obj["spec"].get("activeDeadlineSeconds") is not None
    idle = obj["status"].get("qosClass") == "BestEffort"
    holds = {"Terminating": ends, "NotTerminating": not ends, "BestEffort": idle}
    holds["NotBestEffort"] = not idle
    return all(holds.get(scope, False) for scope in scopes)


def _storages(hard: Iterable[str]) -> set[str]:
    """Return the kinds whose objects a quota counts."""
    found = {"pods"}
    for name in hard:
        plain = name.rpartition("/")[2]
        if plain.startswith("services."):
            plain = "services"
        if plain == "requests.storage":
            plain = "persistentvolumeclaims"
        if name.startswith("count/") or plain in _COUNTED:
            found.add(plain)
    return found


def used_by(state: State, quota: Json, hard: dict[str, Quantity]) -> dict[str, Quantity]:
    """Return how much there is of what a quota counts."""
    found = dict.fromkeys(hard, ZERO)
    for storage in _storages(hard):
        for obj in state.all(storage, quota["metadata"]["namespace"]):
            if _covers(quota, storage, obj):
                for name, amount in usage(storage, obj).items():
                    if name in found:
                        found[name] += amount
    return found
