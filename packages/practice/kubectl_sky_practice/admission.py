"""Admission of new objects: service accounts, classes, LimitRanges and ResourceQuotas.

The messages are the real API server's: kubectl-sky explains them.
"""

from collections.abc import Iterable, Iterator

from kubectl_sky_practice import problems, quantities
from kubectl_sky_practice.quantities import ZERO, Quantity
from kubectl_sky_practice.state import Json, State

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
FINISHED = ("Succeeded", "Failed")  # phases of pods that use no quota
_ONE = quantities.parse("1")
# kinds that quotas also count by their plain names, beside `count/…`
_COUNTED = ("configmaps", "secrets", "services", "resourcequotas", "persistentvolumeclaims")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
Amounts = dict[str, Quantity]


def admit(state: State, storage: str, obj: Json) -> None:
    """Set defaults of the cluster and the namespace, and check their limits. Raises Problem."""
    if storage == "pods":
        _check_service_account(state, obj)
        _set_priority(state, obj)
    if storage == "persistentvolumeclaims":
        _set_storage_class(state, obj)
    if storage in ("pods", "persistentvolumeclaims"):
        _check_limits(state, storage, obj)
    _check_quotas(state, storage, obj)


def _check_service_account(state: State, pod: Json) -> None:
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"]["serviceAccountName"]
    # the default one of a new namespace is created a moment later
    if account != "default" and not state.get("serviceaccounts", namespace, account):
        message = f'serviceaccount "{account}" not found'
        message = f"error looking up service account {namespace}/{account}: {message}"
        raise problems.forbidden("pods", pod["metadata"]["name"], message)


def _set_priority(state: State, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    priority = state.get("priorityclasses.scheduling.k8s.io", "", name) if name else {}
    if priority is None:
        message = f"no PriorityClass with name {name} was found"
        raise problems.forbidden("pods", pod["metadata"]["name"], message)
    spec["priority"] = priority.get("value", 0)
    spec["preemptionPolicy"] = priority.get("preemptionPolicy", "PreemptLowerPriority")


def _set_storage_class(state: State, claim: Json) -> None:
    if claim["spec"].get("storageClassName") is None:
        for storage_class in state.all("storageclasses.storage.k8s.io"):
            if (storage_class["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
                claim["spec"]["storageClassName"] = storage_class["metadata"]["name"]


def _check_limits(state: State, storage: str, obj: Json) -> None:
    violations: list[str] = []
    for limit_range in state.all("limitranges", obj["metadata"]["namespace"]):
        limits = limit_range["spec"].get("limits") or []
        if storage == "pods":
            for container in _containers(obj["spec"]):
                _set_resources(container["resources"], limits)
        for limit in limits:
            for requests, amounts in _measured(storage, obj["spec"], limit["type"]):
                violations += _violations(limit, requests, amounts)
    if violations:
        message = ", ".join(dict.fromkeys(violations))
        if len(violations) > 1:
            message = f"[{message}]"
        raise problems.forbidden(storage, obj["metadata"]["name"], message)


def _containers(pod: Json) -> list[Json]:
    return [*pod["containers"], *(pod.get("initContainers") or ())]


def _set_resources(resources: Json, limits: list[Json]) -> None:
    for limit in limits:
        if limit["type"] == "Container":
            for part, default in (("requests", "defaultRequest"), ("limits", "default")):
                if limit.get(default):
                    resources[part] = {**limit[default], **(resources.get(part) or {})}


def _measured(storage: str, spec: Json, kind: str) -> Iterator[tuple[Amounts, Amounts]]:
    """Yield requests and limits of each thing in an object that a LimitRange item limits."""
    if (storage, kind) == ("persistentvolumeclaims", "PersistentVolumeClaim"):
        requests = quantities.amounts(spec["resources"].get("requests"))
        yield requests, requests
    elif (storage, kind) == ("pods", "Container"):
        for container in _containers(spec):
            resources = container["resources"]
            parts = (quantities.amounts(resources.get(part)) for part in ("requests", "limits"))
            yield next(parts), next(parts)
    elif (storage, kind) == ("pods", "Pod"):
        yield quantities.needs(spec), quantities.needs(spec, "limits")


def _violations(limit: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit["type"]
    maximized = "request" if kind == "PersistentVolumeClaim" else "limit"
    for word, field, part, measured, sign in (
        ("minimum", "min", "request", requests, -1),
        ("maximum", "max", maximized, limits, 1),
    ):
        for name, bound in quantities.amounts(limit.get(field)).items():
            message = f"{word} {name} usage per {kind} is {bound}"
            if name not in measured:
                yield f"{message}.  No {part} is specified"
            elif (measured[name].nanos - bound.nanos) * sign > 0:
                yield f"{message}, but {part} is {measured[name]}"


def _check_quotas(state: State, storage: str, obj: Json) -> None:
    namespace = obj["metadata"].get("namespace", "")
    name = obj["metadata"]["name"]
    quotas = state.all("resourcequotas", namespace) if namespace else []

    for quota in sorted(quotas, key=lambda quota: str(quota["metadata"]["name"])):
        hard = quantities.amounts(quota["spec"].get("hard"))
        message = f"failed quota: {quota['metadata']['name']}: must specify "
        missing = _missing_resources(hard, obj["spec"]) if storage == "pods" else ""
        if missing:
            raise problems.forbidden(storage, name, message + missing)

        requested = {key: amount for key, amount in usage(storage, obj).items() if key in hard}
        used = used_by(state, quota) if requested else {}
        exceeded = sorted(
            key
            for key, amount in requested.items()
            if amount.nanos and (used[key] + amount).nanos > hard[key].nanos
        )

        if exceeded:
            parts = (("requested", requested), ("used", used), ("limited", hard))
            texts = (
                f"{part}: " + ",".join(f"{key}={amounts[key]}" for key in exceeded)
                for part, amounts in parts
            )
            message = f"exceeded quota: {quota['metadata']['name']}, {', '.join(texts)}"
            raise problems.forbidden(storage, name, message)


def usage(storage: str, obj: Json) -> Amounts:
    amounts = {f"count/{storage}": _ONE}
    if storage in _COUNTED:
        amounts[storage] = _ONE
    if storage == "persistentvolumeclaims":
        requests = quantities.amounts(obj["spec"]["resources"].get("requests"))
        amounts["requests.storage"] = requests.get("storage", ZERO)
    if storage == "pods" and obj["status"].get("phase") not in FINISHED:
        requests = quantities.needs(obj["spec"])
        limits = quantities.needs(obj["spec"], "limits")
        amounts |= {"pods": _ONE}
        amounts |= {name: amount for name, amount in requests.items() if name in _COMPUTE}
        amounts |= {f"requests.{name}": amount for name, amount in requests.items()}
        amounts |= {f"limits.{name}": amount for name, amount in limits.items()}
    return amounts


def _missing_resources(hard: Iterable[str], pod: Json) -> str:
    missing = []
    for name in sorted(hard):
        part, _, resource = name.rpartition(".")
        if resource in ("cpu", "memory") and part in ("", "requests", "limits"):
            containers = sorted(
                container["name"]
                for container in _containers(pod)
                if resource not in (container["resources"].get(part or "requests") or {})
            )
            if containers:
                missing.append(f"{name} for: {','.join(containers)}")
    return "; ".join(missing)


def used_by(state: State, quota: Json) -> Amounts:
    used = dict.fromkeys(quota["spec"].get("hard") or {}, ZERO)
    counted = {name.removeprefix("count/") for name in used} & {*state.storages()}
    for storage in counted | {"pods", "persistentvolumeclaims"}:
        for obj in state.all(storage, quota["metadata"]["namespace"]):
            for name, amount in usage(storage, obj).items():
                if name in used:
                    used[name] += amount
    return used
