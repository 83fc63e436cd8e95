"""What is wrong with the specs of built-in kinds, in the words of the real server."""

import json
import re
from collections.abc import Callable, Iterator

from kubectl_sky.practice import quantities
from kubectl_sky.practice.pod_rules import invalid, one_of, pod, required
from kubectl_sky.practice.problems import Cause
from kubectl_sky.practice.resources import Json

_COUNTS = (
    *("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes"),
    *("activeDeadlineSeconds", "ttlSecondsAfterFinished"),
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_QUOTAS = {
    *(f"{part}{name}" for part in ("", "requests.", "limits.") for name in _COMPUTE),
    *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    "requests.storage",
}
_UID = "batch.kubernetes.io/controller-uid"
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SERVICES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def broken(storage: str, spec: Json) -> Iterator[Cause]:
    """Yield what is wrong with the spec of an object of a kind."""
    if storage in _RULES:
        yield from _RULES[storage](spec)


def _job(spec: Json) -> Iterator[Cause]:
    for field in _COUNTS:
        if (spec.get(field) or 0) < 0:
            why = "must be greater than or equal to 0"
            yield invalid(f"spec.{field}", spec[field], why)
    yield from one_of("spec.completionMode", spec.get("completionMode"), ("NonIndexed", "Indexed"))
    yield from _indexes(spec)
    yield from _failure_policy(spec)
    yield from _success_policy(spec)
    known = ["Failed"] if spec.get("podFailurePolicy") else ["Failed", "TerminatingOrFailed"]
    yield from one_of("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), known)
    template = spec.get("template") or {}
    yield from _selector(spec, (template.get("metadata") or {}).get("labels"))
    inner = template.get("spec") or {}
    yield from pod(inner, "spec.template.spec")
    path, policy = "spec.template.spec.restartPolicy", inner.get("restartPolicy")
    if policy in (None, "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    else:
        yield from one_of(path, policy, ("OnFailure", "Never"))
    if policy == "OnFailure" and spec.get("podFailurePolicy"):
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(path, policy, why)


def _selector(spec: Json, labels: Json | None) -> Iterator[Cause]:
    for value in (labels or {}).values():
        if len(value) > 63:
            yield invalid("spec.template.labels", value, "must be no more than 63 bytes")
    selector = spec.get("selector")
    wanted = (selector or {}).get("matchLabels") or {}
    if not selector:
        yield required("spec.selector")
    elif not spec.get("manualSelector") and wanted.keys() - {_UID}:
        why = f"Invalid value: {_shown(selector)}: `selector` not auto-generated"
        yield Cause("FieldValueInvalid", "spec.selector", why)
    if not selector or not wanted.items() <= (labels or {}).items():
        why = f"Invalid value: {_shown(labels)}: `selector` does not match template `labels`"
        yield Cause("FieldValueInvalid", "spec.template.metadata.labels", why)


def _shown(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _indexes(spec: Json) -> Iterator[Cause]:
    most, limit = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if spec.get("completionMode") != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                yield invalid(f"spec.{field}", spec[field], "requires indexed completion mode")
        return
    if spec.get("completions") is None:
        yield required("spec.completions", "when completion mode is Indexed")
    if (spec.get("parallelism") or 0) > 100_000:
        why = "must be less than or equal to 100000 when completion mode is Indexed"
        yield invalid("spec.parallelism", spec["parallelism"], why)
    if most is not None and limit is None:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (most or 0) > (spec.get("completions") or 0):
        yield invalid("spec.maxFailedIndexes", most, "must be less than or equal to completions")


def _failure_policy(spec: Json) -> Iterator[Cause]:
    template = (spec.get("template") or {}).get("spec") or {}
    groups = (template.get(group) or () for group in ("containers", "initContainers"))
    names = {one.get("name") for group in groups for one in group}
    for at, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        path, codes = f"spec.podFailurePolicy.rules[{at}]", rule.get("onExitCodes")
        yield from one_of(f"{path}.action", rule.get("action", ""), _ACTIONS)
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            why = "requires the backoffLimitPerIndex to be set"
            yield invalid(f"{path}.action", "FailIndex", why)
        if codes is None and not rule.get("onPodConditions"):
            why = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
            yield Cause("FieldValueInvalid", path, why)
        if codes is not None:
            yield from _exit_codes(codes, names, f"{path}.onExitCodes")


def _exit_codes(codes: Json, names: set[str], path: str) -> Iterator[Cause]:
    if not codes.get("operator"):
        yield required(f"{path}.operator", 'valid values: ["In" "NotIn"]')
    else:
        yield from one_of(f"{path}.operator", codes["operator"], ("In", "NotIn"))
    name, values = codes.get("containerName"), codes.get("values") or []
    if name is not None and name not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, why)
    if not values:
        why = "Invalid value: null: at least one value is required"
        yield Cause("FieldValueInvalid", f"{path}.values", why)
    if 0 in values and codes.get("operator") == "In":
        at = f"{path}.values[{values.index(0)}]"
        yield invalid(at, 0, "must not be 0 for the In operator")


def _success_policy(spec: Json) -> Iterator[Cause]:
    policy, path = spec.get("successPolicy"), "spec.successPolicy"
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        why = "requires indexed completion mode"
        yield Cause("FieldValueInvalid", path, f'Invalid value: {{"Rules":[]}}: {why}')
        return
    if not policy.get("rules"):
        why = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", why)
    for at, rule in enumerate(policy.get("rules") or ()):
        here, text = f"{path}.rules[{at}]", rule.get("succeededIndexes")
        if text is None and rule.get("succeededCount") is None:
            why = "at least one of succeededCount or succeededIndexes must be specified"
            yield required(here, why)
        for part in re.split("[,-]", text) if text else ():
            if not part.isdigit():
                why = f'cannot convert string to integer for index: "{part}"'
                why = f"error parsing succeededIndexes: {why}"
                yield invalid(f"{here}.succeededIndexes", text, why)


def _claim(spec: Json) -> Iterator[Cause]:
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        yield from one_of("spec.accessModes", mode, _MODES)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required("spec.resources[storage]")
    elif quantities.parse(storage).nanos <= 0:
        yield invalid("spec.resources[storage]", storage, "must be greater than zero")


def _service(spec: Json) -> Iterator[Cause]:
    yield from one_of("spec.type", spec.get("type"), _SERVICES)
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield required("spec.ports")
    for at, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{at}].name")
        for field in ("port", "targetPort"):
            number = port.get(field) or 0
            if isinstance(number, int) and not 0 < number < 65536:
                why = "must be between 1 and 65535, inclusive"
                yield invalid(f"spec.ports[{at}].{field}", number, why)


def _quota(spec: Json) -> Iterator[Cause]:
    for name, text in (spec.get("hard") or {}).items():
        known = name in _QUOTAS or "hugepages-" in name
        if "/" not in name and not known:
            path = f"spec.hard[{name}]"
            yield invalid(path, name, "must be a standard resource type or fully qualified")
            yield invalid(path, name, "must be a standard resource for quota")
        if quantities.parse(text).nanos < 0:
            why = "must be greater than or equal to 0"
            yield invalid(f"spec.hard[{name}]", text, why)


def _limits(spec: Json) -> Iterator[Cause]:
    for at, item in enumerate(spec.get("limits") or ()):
        if not item.get("type"):
            yield invalid(f"spec.limits[{at}].type", "", "name part must be non-empty")


_RULES: dict[str, Callable[[Json], Iterator[Cause]]] = {
    "pods": lambda spec: pod(spec, "spec"),
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "services": _service,
    "resourcequotas": _quota,
    "limitranges": _limits,
}
