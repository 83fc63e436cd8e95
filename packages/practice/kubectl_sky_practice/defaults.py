"""Default values of objects, as the real API server sets them."""

import base64
import zlib
from collections.abc import Callable

from kubectl_sky_practice import problems, quantities
from kubectl_sky_practice.state import Json

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# defaults of fields with these names, anywhere in a pod
_BY_NAME: dict[str, Json] = {
    "fieldRef": {"apiVersion": "v1"},
    "resourceFieldRef": {"divisor": "0"},
    "httpGet": {"path": "/", "scheme": "HTTP"},
    "serviceAccountToken": {"expirationSeconds": 3600},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
}
# fields of a pod that are omitted when they are false
_OMITTED = {"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"}
_VOLUMES: dict[str, Json] = {
    kind: {"defaultMode": 420} for kind in ("configMap", "secret", "downwardAPI", "projected")
}
_VOLUMES["hostPath"] = {"type": ""}
_JOB_NAME = ("batch.kubernetes.io/job-name", "job-name")
_JOB_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")


def fill(storage: str, obj: Json) -> None:
    """Set the defaults of an object that has a name and a uid. Raises Problem."""
    filler = _FILLERS.get(storage)
    try:
        if filler:
            filler(obj)
    except ValueError as error:
        message = f"{obj['kind']} cannot be decoded: {error} is not a quantity"
        raise problems.bad_request(message) from None


def _default(target: Json, **values: object) -> None:
    for name, value in values.items():
        if target.get(name) in (None, ""):
            target[name] = value


def _is_new(obj: Json) -> bool:
    return "resourceVersion" not in obj["metadata"]


def _part(target: Json, name: str) -> Json:
    """Return a part of an object; add it if it is missing."""
    _default(target, **{name: {}})
    value: Json = target[name]
    return value


def _canonicalize(amounts: Json | None) -> None:
    """Write quantities in their canonical form. Raises ValueError."""
    amounts = amounts or {}
    for name, amount in amounts.items():
        amounts[name] = str(quantities.parse(amount))


def _deep(value: object) -> None:
    for inner in value if isinstance(value, list) else ():
        _deep(inner)
    if not isinstance(value, dict):
        return
    for name, inner in list(value.items()):
        if inner is False and name in _OMITTED:
            del value[name]
        if isinstance(inner, dict):
            _default(inner, **_BY_NAME.get(name, {}))
            if name in ("limits", "requests"):
                _canonicalize(inner)
            if name == "emptyDir" and inner.get("sizeLimit"):
                inner["sizeLimit"] = str(quantities.parse(inner["sizeLimit"]))
        _deep(inner)


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    latest = name.endswith(":latest") or not {":", "@"} & set(name)
    return "Always" if latest else "IfNotPresent"


def _containers(spec: Json) -> list[Json]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _pod_spec(spec: Json) -> None:
    _default(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", securityContext={})
    _default(spec, terminationGracePeriodSeconds=30, schedulerName="default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}
        for kind in _VOLUMES.keys() & volume:
            _default(volume[kind], **_VOLUMES[kind])
    _deep(spec)


def _container(container: Json) -> None:
    _default(container, imagePullPolicy=_pull_policy(container.get("image") or ""), resources={})
    _default(container, terminationMessagePath="/dev/termination-log")
    _default(container, terminationMessagePolicy="File")
    for port in container.get("ports") or ():
        _default(port, protocol="TCP")
    for variable in container.get("env") or ():
        if variable.get("value") == "":
            del variable["value"]


def _pod(obj: Json) -> None:
    spec = _part(obj, "spec")
    _pod_spec(spec)
    _default(spec, enableServiceLinks=True, serviceAccountName="default", serviceAccount="default")
    for container in _containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if _is_new(obj):
        tolerations = spec.setdefault("tolerations", [])
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if not any(_tolerates(existing, key) for existing in tolerations):
                short = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append(short | {"tolerationSeconds": 300})
        obj["status"]["qosClass"] = _quality(spec)


def _tolerates(toleration: Json, key: str) -> bool:
    return (toleration.get("key") or key) == key and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"


def _quality(spec: Json) -> str:
    pairs = [
        [(container["resources"].get(part) or {}).get(name) for part in ("limits", "requests")]
        for container in _containers(spec)
        for name in ("cpu", "memory")
    ]
    if not any(any(pair) for pair in pairs):
        return "BestEffort"
    return (
        "Guaranteed" if all(limit and limit == request for limit, request in pairs) else "Burstable"
    )


def _job(job: Json) -> None:
    spec = _part(job, "spec")
    metadata = job["metadata"]
    template = _part(spec, "template")
    if spec.get("parallelism") is None:
        _default(spec, completions=1)

    limit = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    policy = spec.get("podFailurePolicy")
    _default(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    replacement = "Failed" if policy else "TerminatingOrFailed"
    _default(spec, podReplacementPolicy=replacement)
    _default(spec, manualSelector=False)

    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            _default(pattern, status="True")

    labels = _part(template, "metadata").get("labels")
    if _is_new(job) and not spec["manualSelector"]:
        labels = _part(template["metadata"], "labels")
        _default(labels, **dict.fromkeys(_JOB_NAME, metadata["name"]))
        _default(labels, **dict.fromkeys(_JOB_UID, metadata["uid"]))
        _default(_part(_part(spec, "selector"), "matchLabels"), **{_JOB_UID[0]: metadata["uid"]})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    _pod_spec(_part(template, "spec"))


def _deployment(deployment: Json) -> None:
    spec = _part(deployment, "spec")
    _default(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _part(spec, "strategy")
    _default(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _default(_part(strategy, "rollingUpdate"), maxSurge="25%", maxUnavailable="25%")
    _replica_set(deployment)


def _replica_set(replica_set: Json) -> None:
    spec = _part(replica_set, "spec")
    _default(spec, replicas=1)
    template = _part(spec, "template")
    _part(template, "metadata")
    _pod_spec(_part(template, "spec"))


def _service(service: Json) -> None:
    spec = _part(service, "spec")
    _default(spec, sessionAffinity="None", type="ClusterIP")
    for port in spec.get("ports") or ():
        _default(port, protocol="TCP", targetPort=port.get("port"))
    number = zlib.crc32(service["metadata"]["uid"].encode())
    # nothing listens there: headless Services are those that work here
    _default(spec, clusterIP=f"10.96.{number % 255}.{number // 255 % 254 + 1}")
    _default(spec, clusterIPs=[spec["clusterIP"]], internalTrafficPolicy="Cluster")
    _default(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")


def _claim(claim: Json) -> None:
    spec = _part(claim, "spec")
    _default(spec, volumeMode="Filesystem")
    for amounts in (spec.get("resources") or {}).values():
        _canonicalize(amounts)
    if _is_new(claim):
        claim["metadata"].setdefault("finalizers", []).append("kubernetes.io/pvc-protection")


def _namespace(namespace: Json) -> None:
    name = namespace["metadata"]["name"]
    _part(namespace["metadata"], "labels")["kubernetes.io/metadata.name"] = name
    if _is_new(namespace):
        _part(namespace, "spec")["finalizers"] = ["kubernetes"]


def _secret(secret: Json) -> None:
    _default(secret, type="Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        _part(secret, "data")[key] = base64.b64encode(text.encode()).decode()


def _quota(quota: Json) -> None:
    _canonicalize(_part(quota, "spec").get("hard"))


def _limit_range(limits: Json) -> None:
    for limit in _part(limits, "spec").get("limits") or ():
        if limit.get("type") == "Container":
            default = limit.get("default") or {}
            requests = limit.get("defaultRequest") or {}
            limit["default"] = {**(limit.get("max") or {}), **default}
            limit["defaultRequest"] = {**(limit.get("min") or {}), **limit["default"], **requests}
            for name in ("default", "defaultRequest"):
                if not limit[name]:
                    del limit[name]
        for amounts in limit.values():
            _canonicalize(amounts if isinstance(amounts, dict) else {})


_FILLERS: dict[str, Callable[[Json], None]] = {
    "pods": _pod,
    "jobs.batch": _job,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "namespaces": _namespace,
    "secrets": _secret,
    "resourcequotas": _quota,
    "limitranges": _limit_range,
    "storageclasses.storage.k8s.io": lambda obj: _default(
        obj, reclaimPolicy="Delete", volumeBindingMode="Immediate"
    ),
}
