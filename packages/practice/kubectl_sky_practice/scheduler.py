"""The scheduler: binds pods to nodes with enough resources, or records why no node fits."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from kubectl_sky_practice import label_selectors, quantities
from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.controller import Controller, record_event
from kubectl_sky_practice.quantities import ZERO, Quantity
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

_SOURCE = "default-scheduler"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ALL_PENDING: Key = ("", "")  # the key of all pending pods
_CONSTRAINTS = ("nodeSelector", "affinity", "tolerations", "volumes")


def _is_active(pod: Json) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


class Scheduler(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._used: dict[str, dict[str, Quantity]] = {}  # by node
        self._requests: dict[str, tuple[str, dict[str, Quantity]]] = {}  # by uid of a pod
        self._pending: dict[Key, str] = {}  # with their constraints: equal ones have equal results
        self.replay("nodes", "pods")

    def keys(self, change: Change) -> Iterator[Key]:
        obj = change.object
        spec = change.object.get("spec", {})
        if change.storage == "pods":
            running = change.type != "DELETED" and _is_active(obj)
            if spec.get("nodeName") and running != (obj["metadata"]["uid"] in self._requests):
                self._count(obj, running)
                yield _ALL_PENDING
            if not spec.get("nodeName") and (
                change.before is None or change.before["spec"] != spec
            ):
                yield change.key
        elif change.storage in ("nodes", "persistentvolumeclaims"):
            yield _ALL_PENDING

    def _count(self, pod: Json, running: bool) -> None:
        uid = pod["metadata"]["uid"]
        node = pod["spec"]["nodeName"]
        used = self._used.get(node, {})
        if running:
            requests = quantities.needs(pod["spec"]) | {"pods": quantities.parse("1")}
            self._requests[uid] = node, requests
            self._used[node] = quantities.total(used, requests)
        else:
            _, requests = self._requests.pop(uid)
            self._used[node] = {
                name: amount - requests.get(name, ZERO) for name, amount in used.items()
            }

    def reconcile(self, key: Key) -> None:
        if key != _ALL_PENDING:
            self._schedule(key)
            return
        failed: set[str] = set()
        for pod_key, constraints in list(self._pending.items()):
            if constraints not in failed and not self._schedule(pod_key):
                failed.add(constraints)

    def _schedule(self, key: Key) -> bool:
        """Bind a pod; return whether it is no longer pending."""
        self._pending.pop(key, None)
        pod = self.api.state.get("pods", *key)
        if not pod or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return True

        spec = pod["spec"]
        if spec["schedulerName"] != _SOURCE or not _is_active(pod):
            return True
        if spec.get("schedulingGates"):
            why = "Scheduling is blocked due to non-empty scheduling gates"
            self._refuse(pod, "SchedulingGated", why)
            return True

        requests = quantities.needs(spec) | {"pods": quantities.parse("1")}
        nodes = self.api.state.all("nodes")
        refusals = {
            node["metadata"]["name"]: self._refusal(node, spec, requests)
            or self._affinity_refusal(node, pod)
            or self._anti_affinity_refusal(node, pod)
            for node in nodes
        }

        fits = [name for name, refusal in refusals.items() if not refusal]
        unbound = self._pvc_problem(key[0], spec)
        if fits and not unbound:
            self._bind(pod, min(fits, key=self._load))
            return True

        shapes = [[container["resources"] for container in spec["containers"]]]
        self._pending[key] = json.dumps([shapes, *map(spec.get, _CONSTRAINTS)], sort_keys=True)
        message = _message(refusals.values(), len(nodes), unbound)
        self._refuse(pod, "Unschedulable", message)
        return False

    def _refusal(self, node: Json, spec: Json, requests: dict[str, Quantity]) -> list[str]:
        wanted = node.get("spec") or {}
        if wanted.get("unschedulable"):
            return ["node(s) were unschedulable"]
        if not all(_tolerated(taint, spec) for taint in wanted.get("taints") or ()):
            return ["node(s) had untolerated taint(s)"]
        if not _selected(node, spec):
            return ["node(s) didn't match Pod's node affinity/selector"]

        allocatable = quantities.amounts(node["status"].get("allocatable"))
        used = self._used.get(node["metadata"]["name"], {})
        short = [
            name
            for name, amount in requests.items()
            if amount.nanos
            and used.get(name, ZERO).nanos + amount.nanos > allocatable.get(name, ZERO).nanos
        ]
        return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]

    def _affinity_refusal(self, node: Json, pod: Json) -> list[str]:
        """Apply the pod affinity; the first of several such pods fits anywhere."""
        affinity = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
        for term in affinity.get(_REQUIRED) or ():
            peers = [
                peer["spec"]["nodeName"]
                for peer in self.api.state.all("pods", pod["metadata"]["namespace"])
                if peer["spec"].get("nodeName") and _is_active(peer) and _matches(term, peer)
            ]
            if not peers and _matches(term, pod):
                continue
            domains = {self._domain(name, term) for name in peers}
            if self._domain(node["metadata"]["name"], term) not in domains:
                return ["node(s) didn't match pod affinity rules"]
        return []

    def _anti_affinity_refusal(self, node: Json, pod: Json) -> list[str]:
        """Keep a pod away from others: by its own rules, and by those of pods that are bound."""
        name = node["metadata"]["name"]
        own = _terms_against_others(pod)
        for peer in self.api.state.all("pods"):
            bound = peer["spec"].get("nodeName")
            if not bound or not _is_active(peer):
                continue
            if any(
                _concerns(term, pod, peer) and self._domain(bound, term) == self._domain(name, term)
                for term in own
            ):
                return ["node(s) didn't match pod anti-affinity rules"]
            if any(
                _concerns(term, peer, pod) and self._domain(bound, term) == self._domain(name, term)
                for term in _terms_against_others(peer)
            ):
                return ["node(s) didn't satisfy existing pods anti-affinity rules"]
        return []

    def _domain(self, node: str, term: Json) -> str:
        obj = self.api.state.get("nodes", "", node) or {"metadata": {}}
        return str((obj["metadata"].get("labels") or {}).get(term["topologyKey"]))

    def _load(self, name: str) -> tuple[float, float]:
        node = self.api.state.get("nodes", "", name) or {}
        allocatable = quantities.amounts(node["status"].get("allocatable"))
        used = self._used.get(name, {})
        shares = [
            used.get(resource, ZERO).nanos / allocatable[resource].nanos
            for resource in ("cpu", "memory")
        ]
        return max(shares), used.get("pods", ZERO).nanos

    def _pvc_problem(self, namespace: str, spec: Json) -> str:
        for volume in spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = self.api.state.get("persistentvolumeclaims", namespace, name) if name else {}
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim and "deletionTimestamp" in claim["metadata"]:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if claim and claim["status"].get("phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _bind(self, pod: Json, node: str) -> None:
        namespace, name = key_of(pod)

        def edit(pod: Json) -> None:
            pod["spec"]["nodeName"] = node
            _condition(pod, {"status": "True"})

        self.api.change("pods", (namespace, name), edit)
        message = f"Successfully assigned {namespace}/{name} to {node}"
        record_event(self.api, pod, _SOURCE, "Scheduled", message)

    def _refuse(self, pod: Json, reason: str, message: str) -> None:
        new = {"status": "False", "reason": reason, "message": message}
        changed = self.api.change("pods", key_of(pod), lambda pod: _condition(pod, new))
        if changed is not pod and reason == "Unschedulable":
            record_event(self.api, pod, _SOURCE, "FailedScheduling", message, "Warning")


def _condition(pod: Json, new: Json) -> None:
    conditions = pod["status"].setdefault("conditions", [])
    old: Json = next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})
    if any(old.get(name) != value for name, value in new.items()):
        times = {"lastProbeTime": None, "lastTransitionTime": now()}
        if new["status"] == old.get("status"):
            times["lastTransitionTime"] = old["lastTransitionTime"]
        if new.get("reason") == "Unschedulable":
            times["observedGeneration"] = pod["metadata"]["generation"]
        conditions[:] = [entry for entry in conditions if entry is not old]
        conditions.append({"type": "PodScheduled", **times, **new})


def _message(refusals: Iterable[list[str]], nodes: int, unbound: str) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons in refusals for reason in reasons)
    why = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {unbound or ', '.join(why)}."


def _tolerated(taint: Json, spec: Json) -> bool:
    if taint["effect"] == "PreferNoSchedule":
        return True
    for toleration in spec.get("tolerations") or ():
        same = toleration.get("key") in (None, "", taint["key"])
        same = same and toleration.get("effect") in (None, "", taint["effect"])
        exists = toleration.get("operator") == "Exists"
        if same and (exists or (toleration.get("value") or "") == (taint.get("value") or "")):
            return True
    return False


def _matches(term: Json, pod: Json) -> bool:
    selector = term.get("labelSelector")
    return selector is not None and label_selectors.matches(
        selector, pod["metadata"].get("labels") or {}
    )


def _terms_against_others(pod: Json) -> list[Json]:
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms: list[Json] = affinity.get(_REQUIRED) or []
    return terms


def _concerns(term: Json, owner: Json, other: Json) -> bool:
    """Report whether a rule of a pod is about another one; namespaces are all, or its own."""
    if term.get("namespaceSelector") != {}:
        namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
        if other["metadata"]["namespace"] not in namespaces:
            return False
    return _matches(term, other)


def _selected(node: Json, spec: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if not label_selectors.matches({"matchLabels": spec.get("nodeSelector")}, labels):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    if not required:
        return True
    name = {"metadata.name": node["metadata"]["name"]}
    return any(
        term
        and label_selectors.matches({"matchExpressions": term.get("matchExpressions")}, labels)
        and label_selectors.matches({"matchExpressions": term.get("matchFields")}, name)
        for term in required["nodeSelectorTerms"]
    )
