"""Which pods live here: those that are bound to a node of this machine, until they are deleted."""

import asyncio
from collections.abc import Iterable

from kubectl_sky.practice import pods
from kubectl_sky.practice.api import Api, Deletion
from kubectl_sky.practice.containers import Place
from kubectl_sky.practice.controller import Controller
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.state import Change, Key, key


class Kubelet(Controller):
    """Brings the pods that are bound to its nodes to life, and ends them."""

    def __init__(self, api: Api, place: Place, names: Iterable[str]) -> None:
        super().__init__(api)
        self.lives: dict[Key, pods.PodLife] = {}
        self._place = place
        self._names = frozenset(names)
        self._gone: list[str] = []
        for pod in api.state.all("pods"):
            self._begin(pod)

    def keys(self, change: Change) -> Iterable[Key]:
        """Pods that have changed."""
        if change.storage != "pods":
            return ()
        if change.type == "DELETED":
            self._gone.append(change.object["metadata"]["uid"])
        return (change.key,)

    def reconcile(self, key: Key) -> None:
        """Start a pod that is bound, and end one that is deleted."""
        pod, life = self.api.state.get("pods", *key), self.lives.get(key)
        gone, self._gone = self._gone, []
        alive = {one.uid for one in self.lives.values()} if gone else ()
        for uid in gone:
            if uid not in alive:
                pods.remove(self._place, uid)
        if life and (pod is None or pod["metadata"]["uid"] != life.uid):
            life.end(0)
        elif pod and self._alive(pod) and not life:
            life = self.lives[key] = pods.PodLife(self._place, pod)
            life.task.add_done_callback(lambda _, life=life: self._ended(life))  # type: ignore[misc]
        if pod and life and "deletionTimestamp" in pod["metadata"]:
            life.end(pod["metadata"].get("deletionGracePeriodSeconds", 0))

    def _alive(self, pod: Json) -> bool:
        mine = pod["spec"].get("nodeName") in self._names
        return mine and pod["status"].get("phase") not in ("Succeeded", "Failed")

    def _begin(self, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        if node and node not in self._names:  # there are fewer nodes than last time
            self.api.delete("pods", key(pod), Deletion(grace=0))
        self.look(key(pod))

    def _ended(self, life: pods.PodLife) -> None:
        del self.lives[life.key]
        if life.task.cancelled():
            return
        problem = life.task.exception()
        if problem:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"pod {life.key}", "exception": problem}
            )
        found = self.api.state.get("pods", *life.key)
        if not found or found["metadata"]["uid"] != life.uid:
            pods.remove(self._place, life.uid)
        self.look(life.key)
