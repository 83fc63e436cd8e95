"""What the API fills in of a pod, or of the template of one, where a user was silent."""

from kubectl_sky.practice import quantities
from kubectl_sky.practice.state import Json

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# Defaults of the fields of a pod that bear these names, wherever they are in it.
_BY_NAME: dict[str, Json] = {
    "fieldRef": {"apiVersion": "v1"},
    "resourceFieldRef": {"divisor": "0"},
    "httpGet": {"path": "/", "scheme": "HTTP"},
    "grpc": {"service": ""},
    "serviceAccountToken": {"expirationSeconds": 3600},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
}
# Fields of a pod that are not written down when they are false.
_OMITTED = {"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"}
VOLUMES: dict[str, Json] = {
    kind: {"defaultMode": 420} for kind in ("configMap", "secret", "downwardAPI", "projected")
}
VOLUMES["hostPath"] = {"type": ""}


def default(target: Json, **values: object) -> None:
    """Give fields that are missing or empty a value."""
    for name, value in values.items():
        if target.get(name) in (None, ""):
            target[name] = value


def is_new(obj: Json) -> bool:
    """Say whether an object is being made."""
    return "resourceVersion" not in obj["metadata"]


def part(target: Json, name: str) -> Json:
    """Return a part of an object, which is there from then on."""
    default(target, **{name: {}})
    found: Json = target[name]
    return found


def canonical(amounts: Json | None) -> None:
    """Write amounts as the API does. Raises ValueError."""
    amounts = amounts or {}
    for name, amount in amounts.items():
        amounts[name] = str(quantities.parse(amount))


def _deep(value: object) -> None:
    """Complete the fields of a pod whose names say what they are."""
    for inner in value if isinstance(value, list) else ():
        _deep(inner)
    if not isinstance(value, dict):
        return
    for name, inner in list(value.items()):
        if inner is False and name in _OMITTED:
            del value[name]
        if isinstance(inner, dict):
            default(inner, **_BY_NAME.get(name, {}))
            if name in ("limits", "requests"):
                canonical(inner)
            if name == "emptyDir" and inner.get("sizeLimit"):
                inner["sizeLimit"] = str(quantities.parse(inner["sizeLimit"]))
        _deep(inner)


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    latest = name.endswith(":latest") or not {":", "@"} & set(name)
    return "Always" if latest else "IfNotPresent"


def containers(spec: Json) -> list[Json]:
    """Return all containers of a pod, those that run before the others first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def pod_spec(spec: Json) -> None:
    """Complete what pods and their templates have in common."""
    default(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", securityContext={})
    default(spec, terminationGracePeriodSeconds=30, schedulerName="default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}
        for kind in VOLUMES.keys() & volume:
            default(volume[kind], **VOLUMES[kind])
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim:
            part(claim, "metadata")
            default(part(claim, "spec"), volumeMode="Filesystem")
    _deep(spec)


def _container(container: Json) -> None:
    default(container, imagePullPolicy=_pull_policy(container.get("image") or ""), resources={})
    default(container, terminationMessagePath="/dev/termination-log")
    default(container, terminationMessagePolicy="File")
    for port in container.get("ports") or ():
        default(port, protocol="TCP")
    for variable in container.get("env") or ():
        if variable.get("value") == "":
            del variable["value"]


def pod(obj: Json) -> None:
    """Complete a pod."""
    spec = part(obj, "spec")
    pod_spec(spec)
    default(spec, enableServiceLinks=True, serviceAccountName="default", serviceAccount="default")
    for container in containers(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if is_new(obj):
        tolerations = spec.setdefault("tolerations", [])
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if not any(_tolerates(one, key) for one in tolerations):
                short = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append(short | {"tolerationSeconds": 300})
        obj["status"]["qosClass"] = _quality(spec)


def _tolerates(toleration: Json, key: str) -> bool:
    mine = toleration.get("key") or key
    return mine == key and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _quality(spec: Json) -> str:
    asked: list[Json] = [container["resources"] for container in containers(spec)]
    pairs = [
        [(one.get(which) or {}).get(name) for which in ("limits", "requests")]
        for one in asked
        for name in ("cpu", "memory")
    ]
    if not any(any(pair) for pair in pairs):
        return "BestEffort"
    return (
        "Guaranteed" if all(limit and limit == request for limit, request in pairs) else "Burstable"
    )
