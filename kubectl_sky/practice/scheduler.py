"""Gives each pod a node that has room for it, and says why where none has."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kubectl_sky.practice import quantities, selection
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.controller import Controller, record_event
from kubectl_sky.practice.quantities import ZERO, Quantity
from kubectl_sky.practice.state import Change, Json, Key

_SOURCE = "default-scheduler"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_EVERYTHING = ("", "")  # the key of all pods that wait
_SELECTS = ("nodeSelector", "affinity", "tolerations", "volumes")


@dataclass(frozen=True)
class _Refusal:
    """Why a node does not fit; `for_good` if not even an empty one would."""

    reasons: list[str]
    for_good: bool = True


def _runs(pod: Json) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


class Scheduler(Controller):
    """The scheduler."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._used: dict[str, dict[str, Quantity]] = {}  # by node
        self._held: dict[str, tuple[str, dict[str, Quantity]]] = {}  # by uid of a pod
        self._waiting: dict[Key, str] = {}  # pods with what they ask for: the same fares the same
        self.replay("nodes", "pods")

    def keys(self, change: Change) -> Iterator[Key]:
        """A new pod; and all that wait, when something may have become free."""
        obj, spec = change.object, change.object.get("spec", {})
        if change.storage == "pods":
            running = change.type != "DELETED" and _runs(obj)
            if spec.get("nodeName") and running != (obj["metadata"]["uid"] in self._held):
                self._count(obj, running)
                yield _EVERYTHING
            if not spec.get("nodeName") and (
                change.before is None or change.before["spec"] != spec
            ):
                yield change.key
        elif change.storage in ("nodes", "persistentvolumeclaims"):
            yield _EVERYTHING

    def _count(self, pod: Json, running: bool) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        used = self._used.get(node, {})
        if running:
            asked = quantities.needs(pod["spec"]) | {"pods": quantities.parse("1")}
            self._held[uid] = node, asked
            self._used[node] = quantities.total(used, asked)
        else:
            _, asked = self._held.pop(uid)
            self._used[node] = {
                name: amount - asked.get(name, ZERO) for name, amount in used.items()
            }

    def reconcile(self, key: Key) -> None:
        """Find a node for a pod, or for those that wait."""
        if key != _EVERYTHING:
            self._place(key)
            return
        hopeless: set[str] = set()
        for one, asked in list(self._waiting.items()):
            if asked not in hopeless and not self._place(one):
                hopeless.add(asked)

    def _place(self, key: Key) -> bool:
        """Say whether a pod waits no more."""
        self._waiting.pop(key, None)
        pod = self.api.state.get("pods", *key)
        if not pod or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return True
        spec = pod["spec"]
        if spec["schedulerName"] != _SOURCE or not _runs(pod):
            return True
        if spec.get("schedulingGates"):
            why = "Scheduling is blocked due to non-empty scheduling gates"
            self._refuse(pod, "SchedulingGated", why)
            return True
        asked = quantities.needs(spec) | {"pods": quantities.parse("1")}
        nodes = self.api.state.all("nodes")
        refusals = {
            node["metadata"]["name"]: self._refusal(node, spec, asked) or self._apart(node, pod)
            for node in nodes
        }
        fits = [name for name, refusal in refusals.items() if not refusal]
        unbound = self._unbound(key[0], spec)
        if fits and not unbound:
            self._bind(pod, min(fits, key=self._load))
            return True
        shapes = [[one.get("resources") for one in spec["containers"]]]
        self._waiting[key] = json.dumps([shapes, *map(spec.get, _SELECTS)], sort_keys=True)
        message = _message([one for one in refusals.values() if one], len(nodes), unbound)
        self._refuse(pod, "Unschedulable", message)
        return False

    def _refusal(self, node: Json, spec: Json, asked: dict[str, Quantity]) -> _Refusal | None:
        wanted = node.get("spec") or {}
        if wanted.get("unschedulable"):
            return _Refusal(["node(s) were unschedulable"])
        if not all(_tolerated(taint, spec) for taint in wanted.get("taints") or ()):
            return _Refusal(["node(s) had untolerated taint(s)"])
        if not _selected(node, spec):
            return _Refusal(["node(s) didn't match Pod's node affinity/selector"])
        there = quantities.amounts(node["status"].get("allocatable"))
        used = self._used.get(node["metadata"]["name"], {})
        short = [
            name
            for name, amount in asked.items()
            if amount.nanos
            and used.get(name, ZERO).nanos + amount.nanos > there.get(name, ZERO).nanos
        ]
        if not short:
            return None
        never = any(asked[name].nanos > there.get(name, ZERO).nanos for name in short)
        reasons = ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]
        return _Refusal(reasons, never)

    def _apart(self, node: Json, pod: Json) -> _Refusal | None:
        """Refuse a node away from the pods that a pod wants to be near; the first goes anywhere."""
        affinity = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
        for term in affinity.get(_REQUIRED) or ():
            mates = [
                one["spec"]["nodeName"]
                for one in self.api.state.all("pods", pod["metadata"]["namespace"])
                if one["spec"].get("nodeName") and _runs(one) and _meant(term, one)
            ]
            if not mates and _meant(term, pod):
                continue
            places = {self._domain(name, term) for name in mates}
            if self._domain(node["metadata"]["name"], term) not in places:
                return _Refusal(["node(s) didn't match pod affinity rules"])
        return None

    def _domain(self, node: str, term: Json) -> str:
        found = self.api.state.get("nodes", "", node) or {"metadata": {}}
        return str((found["metadata"].get("labels") or {}).get(term["topologyKey"]))

    def _load(self, name: str) -> tuple[float, float]:
        node = self.api.state.get("nodes", "", name) or {}
        there = quantities.amounts(node["status"].get("allocatable"))
        used = self._used.get(name, {})
        full = [used.get(one, ZERO).nanos / there[one].nanos for one in ("cpu", "memory")]
        return max(full), used.get("pods", ZERO).nanos

    def _unbound(self, namespace: str, spec: Json) -> str:
        """Say what is wrong with the claims of a pod."""
        claims = [one.get("persistentVolumeClaim") or {} for one in spec.get("volumes") or ()]
        names = [one["claimName"] for one in claims if one]
        found = {
            name: self.api.state.get("persistentvolumeclaims", namespace, name) for name in names
        }
        for name, claim in found.items():
            if not claim:
                return f'persistentvolumeclaim "{name}" not found'
            if "deletionTimestamp" in claim["metadata"]:
                return f'persistentvolumeclaim "{name}" is being deleted'
        if any(claim and claim["status"].get("phase") != "Bound" for claim in found.values()):
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _bind(self, pod: Json, node: str) -> None:
        name = pod["metadata"]["name"], pod["metadata"]["namespace"]

        def edit(pod: Json) -> None:
            pod["spec"]["nodeName"] = node
            _condition(pod, {"status": "True"})

        self.api.change("pods", (name[1], name[0]), edit)
        message = f"Successfully assigned {name[1]}/{name[0]} to {node}"
        record_event(self.api, pod, _SOURCE, "Scheduled", message)

    def _refuse(self, pod: Json, reason: str, message: str) -> None:
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        told = {"status": "False", "reason": reason, "message": message}
        new = self.api.change("pods", key, lambda pod: _condition(pod, told))
        if new is not pod and reason == "Unschedulable":
            record_event(self.api, pod, _SOURCE, "FailedScheduling", message, "Warning")


def _condition(pod: Json, told: Json) -> None:
    found = pod["status"].setdefault("conditions", [])
    old: Json = next((one for one in found if one["type"] == "PodScheduled"), {})
    if any(old.get(name) != value for name, value in told.items()):
        times = {"lastProbeTime": None, "lastTransitionTime": now()}
        if told["status"] == old.get("status"):
            times["lastTransitionTime"] = old["lastTransitionTime"]
        if told.get("reason") == "Unschedulable":
            times["observedGeneration"] = pod["metadata"]["generation"]
        found[:] = [one for one in found if one is not old]
        found.append({"type": "PodScheduled", **times, **told})


def _message(refusals: list[_Refusal], nodes: int, unbound: str) -> str:
    none = f"0/{nodes} nodes are available:"
    if not nodes:
        return "no nodes available to schedule pods"
    if unbound:
        return f"{none} {unbound}. not found"
    helpless = "Preemption is not helpful for scheduling"
    victims = "No preemption victims found for incoming pod"
    why = Counter(reason for one in refusals for reason in one.reasons)
    preempted = Counter(helpless if one.for_good else victims for one in refusals)
    first, second = (
        ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        for counts in (why, preempted)
    )
    return f"{none} {first}. no new claims to deallocate, preemption: {none} {second}."


def _tolerated(taint: Json, spec: Json) -> bool:
    if taint["effect"] == "PreferNoSchedule":
        return True
    for one in spec.get("tolerations") or ():
        same = one.get("key") in (None, "", taint["key"])
        same = same and one.get("effect") in (None, "", taint["effect"])
        exists = one.get("operator") == "Exists"
        if same and (exists or (one.get("value") or "") == (taint.get("value") or "")):
            return True
    return False


def _meant(term: Json, pod: Json) -> bool:
    selector = term.get("labelSelector")
    return selector is not None and selection.matches(selector, pod["metadata"].get("labels") or {})


def _selected(node: Json, spec: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if not selection.matches({"matchLabels": spec.get("nodeSelector")}, labels):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    if not required:
        return True
    name = {"metadata.name": node["metadata"]["name"]}
    return any(
        term
        and selection.matches({"matchExpressions": term.get("matchExpressions")}, labels)
        and selection.matches({"matchExpressions": term.get("matchFields")}, name)
        for term in required["nodeSelectorTerms"]
    )
