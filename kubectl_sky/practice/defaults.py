"""What the API fills in where a user was silent; what is written stays as it is."""

import base64
import zlib
from collections.abc import Callable

from kubectl_sky.practice import problems
from kubectl_sky.practice.pod_defaults import (
    VOLUMES,
    canonical,
    default,
    is_new,
    part,
    pod,
    pod_spec,
)
from kubectl_sky.practice.state import Json

_BAD_AMOUNT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_JOB_NAME = ("batch.kubernetes.io/job-name", "job-name")
_JOB_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")


def fill(storage: str, obj: Json) -> None:
    """Complete an object of a kind, which has its name and uid already, in place.

    Raises Problem where an amount cannot be read.
    """
    if storage in _FILLERS:
        try:
            _FILLERS[storage](obj)
        except ValueError:
            version = obj["apiVersion"].rpartition("/")[2]
            what = f'{obj["kind"]} in version "{version}" cannot be handled as a {obj["kind"]}'
            raise problems.bad_request(f"{what}: {_BAD_AMOUNT}") from None


def _job(job: Json) -> None:
    spec, metadata = part(job, "spec"), job["metadata"]
    template = part(spec, "template")
    if spec.get("parallelism") is None:
        default(spec, completions=1)
    limit = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    policy = spec.get("podFailurePolicy")
    default(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    default(spec, podReplacementPolicy="Failed" if policy else "TerminatingOrFailed")
    default(spec, manualSelector=False)
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            default(pattern, status="True")
    labels = part(template, "metadata").get("labels")
    if is_new(job) and not spec["manualSelector"]:
        labels = part(template["metadata"], "labels")
        default(labels, **dict.fromkeys(_JOB_NAME, metadata["name"]))
        default(labels, **dict.fromkeys(_JOB_UID, metadata["uid"]))
        default(part(part(spec, "selector"), "matchLabels"), **{_JOB_UID[0]: metadata["uid"]})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    pod_spec(part(template, "spec"))


def _service(service: Json) -> None:
    spec = part(service, "spec")
    default(spec, sessionAffinity="None", type="ClusterIP")
    kind, number = spec["type"], zlib.crc32(service["metadata"]["uid"].encode())
    if spec["sessionAffinity"] == "ClientIP":
        default(part(part(spec, "sessionAffinityConfig"), "clientIP"), timeoutSeconds=10800)
    open_to_all = kind in ("NodePort", "LoadBalancer")
    for at, port in enumerate(spec.get("ports") or ()):
        default(port, protocol="TCP", targetPort=port.get("port"))
        if open_to_all:
            default(port, nodePort=30000 + (number + at) % 2768)
    if open_to_all:
        default(spec, externalTrafficPolicy="Cluster")
    if kind == "LoadBalancer":
        default(spec, allocateLoadBalancerNodePorts=True)
    if kind != "ExternalName":  # nothing listens there: headless Services are those that work here
        default(spec, clusterIP=f"10.96.{number % 255}.{number // 255 % 254 + 1}")
        default(spec, clusterIPs=[spec["clusterIP"]], internalTrafficPolicy="Cluster")
        default(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")


def _claim(claim: Json) -> None:
    spec = part(claim, "spec")
    default(spec, volumeMode="Filesystem")
    for amounts in (spec.get("resources") or {}).values():
        canonical(amounts)
    if is_new(claim):
        claim["metadata"].setdefault("finalizers", []).append("kubernetes.io/pvc-protection")


def _volume(volume: Json) -> None:
    spec = part(volume, "spec")
    default(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    canonical(spec.get("capacity"))
    for kind in VOLUMES.keys() & spec:
        default(spec[kind], **VOLUMES[kind])
    if is_new(volume):
        volume["metadata"].setdefault("finalizers", []).append("kubernetes.io/pv-protection")


def _namespace(namespace: Json) -> None:
    name = namespace["metadata"]["name"]
    part(namespace["metadata"], "labels")["kubernetes.io/metadata.name"] = name
    if is_new(namespace):
        part(namespace, "spec")["finalizers"] = ["kubernetes"]


def _secret(secret: Json) -> None:
    default(secret, type="Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        part(secret, "data")[key] = base64.b64encode(text.encode()).decode()


def _quota(quota: Json) -> None:
    canonical(part(quota, "spec").get("hard"))


def _limit_range(limits: Json) -> None:
    for limit in part(limits, "spec").get("limits") or ():
        if limit.get("type") == "Container":
            own, largest = limit.get("default") or {}, limit.get("max") or {}
            limit["default"] = {**largest, **own}
            asked, least = limit.get("defaultRequest") or {}, limit.get("min") or {}
            limit["defaultRequest"] = {**least, **limit["default"], **asked}
        for amounts in limit.values():
            canonical(amounts if isinstance(amounts, dict) else {})


def _definition(definition: Json) -> None:
    spec = part(definition, "spec")
    default(part(spec, "conversion"), strategy="None")
    names = part(spec, "names")
    kind = names.get("kind") or ""
    default(names, singular=kind.lower(), listKind=f"{kind}List")


def _binding(binding: Json) -> None:
    group = "rbac.authorization.k8s.io"
    default(part(binding, "roleRef"), apiGroup=group)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            default(subject, apiGroup=group)


def _policy(policy: Json) -> None:
    spec = part(policy, "spec")
    rules = [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]
    for port in (port for rule in rules for port in rule.get("ports") or ()):
        default(port, protocol="TCP")
    default(spec, policyTypes=["Ingress"] + ["Egress"] * bool(spec.get("egress")))


_RBAC = "rbac.authorization.k8s.io"
_FILLERS: dict[str, Callable[[Json], None]] = {
    "pods": pod,
    "jobs.batch": _job,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "namespaces": _namespace,
    "secrets": _secret,
    "resourcequotas": _quota,
    "limitranges": _limit_range,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
    f"rolebindings.{_RBAC}": _binding,
    f"clusterrolebindings.{_RBAC}": _binding,
    "networkpolicies.networking.k8s.io": _policy,
    "storageclasses.storage.k8s.io": lambda one: default(
        one, reclaimPolicy="Delete", volumeBindingMode="Immediate"
    ),
    "priorityclasses.scheduling.k8s.io": lambda one: default(
        one, preemptionPolicy="PreemptLowerPriority"
    ),
}
