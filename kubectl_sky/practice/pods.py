"""The life of one pod on the node: its volumes, its containers in order, and its end."""

import asyncio
import shutil
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from kubectl_sky.practice import events, podstatus
from kubectl_sky.practice.api import Deletion, now
from kubectl_sky.practice.containers import Container, Place
from kubectl_sky.practice.environment import ConfigError
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.state import key
from kubectl_sky.practice.volumes import Volumes

_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodLife:
    """Brings a pod to life, and sees to it until its end."""

    def __init__(self, place: Place, pod: Json) -> None:
        self.key = key(pod)
        self.uid = pod["metadata"]["uid"]
        self.ended = False
        self._place = place
        self._pod = pod
        self._failure: Json = {}
        self._address = ""
        self._grace: float | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._ending = asyncio.Event()
        self._folder = place.folder / self.uid
        self._first = self._containers("initContainers", "initContainerStatuses")
        self._main = self._containers("containers", "containerStatuses")
        self.task = asyncio.create_task(self._live())

    @property
    def pod(self) -> Json:
        """The pod as it is now, or as it was last."""
        found = self._place.api.state.get("pods", *self.key)
        if found and found["metadata"]["uid"] == self.uid:
            self._pod = found
        return self._pod

    def container(self, name: str) -> Container | None:
        """Return a container by its name."""
        return next((one for one in (*self._first, *self._main) if one.name == name), None)

    def end(self, grace: float) -> None:
        """End all containers: ask them, and after so many seconds make them."""
        if self._grace is not None and grace >= self._grace:
            return
        first, self._grace = self._grace is None, grace
        self._ending.set()
        self._later(grace, self._kill)
        for one in (*self._first, *self._main) if first else ():
            one.signal(signal.SIGTERM)

    def tell(self, reason: str, message: str, kind: str = "Normal") -> None:
        """Record an event about the pod."""
        events.record(self._place.api, self.pod, reason, message, "kubelet", kind)

    def publish(self) -> None:
        """Bring the status of the pod up to date."""
        first, main = ([one.status for one in some] for some in (self._first, self._main))

        def edit(pod: Json) -> None:
            status = pod["status"]
            if pod["metadata"]["uid"] != self.uid:
                return
            if self._address:
                status |= {"podIP": self._address, "podIPs": [{"ip": self._address}]}
            status["hostIP"] = podstatus.ADDRESS
            status["hostIPs"] = [{"ip": podstatus.ADDRESS}]
            status.setdefault("startTime", now())
            status["observedGeneration"] = pod["metadata"].get("generation", 1)
            status["containerStatuses"] = sorted(main, key=lambda one: str(one["name"]))
            if first:
                status["initContainerStatuses"] = first
            status["phase"] = podstatus.phase(pod, first, main, ended=self.ended)
            if self._failure and status["phase"] != "Running":
                status |= self._failure | {"phase": "Failed"}
            status["conditions"] = podstatus.conditions(pod, status["phase"], first, main)

        self._place.api.change("pods", self.key, edit)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until the pod shall end."""
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    @property
    def ending(self) -> bool:
        """Whether nothing more of it shall start."""
        return self._ending.is_set()

    async def _live(self) -> None:
        try:
            self._begin()
            volumes = await self._prepare()
            self.publish()  # containers may ask for the address
            if await self._run_first(volumes):
                await asyncio.gather(*(one.run(volumes) for one in self._main))
                await self._end_sidecars()
            self.ended = True
            self.publish()
        finally:
            for timer in self._timers:
                timer.cancel()
            self._place.names.remove(self._pod)
            self._place.addresses.free(self._address)
        self._finish()

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.publish()
        self._address = self._place.addresses.take()
        self._place.names.add(self.pod, self._folder / "hosts", self._address)
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            began = datetime.fromisoformat(self.pod["status"]["startTime"])
            left = seconds - (datetime.now(UTC) - began).total_seconds()
            self._later(left, self._exceed)
        self.tell(*self._place.notice(self.pod))

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(max(seconds, 0), do))

    def _exceed(self) -> None:
        self._failure = {"reason": "DeadlineExceeded", "message": _DEADLINE}
        self.tell("DeadlineExceeded", _DEADLINE)
        self.end(self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def _prepare(self) -> Volumes:
        """Make the volumes; try again until what they need is there."""
        volumes = Volumes(self._place.api.state, self.pod, self._folder / "volumes")
        delay = 0.5
        while not self.ending:
            try:
                volumes.prepare()
                break
            except ConfigError as error:
                self.tell("FailedMount", str(error), "Warning")
            await self.pause(delay)
            delay = min(delay * 2, 10)
        return volumes

    async def _run_first(self, volumes: Volumes) -> bool:
        """Run the init containers one after the other; return whether the others may start."""
        for one in self._first:
            if one.sidecar:
                await one.begin(volumes)
            elif await one.run(volumes) != 0:
                return False
            if self.ending:
                return False
        return not self.ending

    async def _end_sidecars(self) -> None:
        sidecars: Sequence[Container] = [one for one in self._first if one.sidecar]
        if sidecars:
            self.end(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
            await asyncio.gather(*(one.over() for one in sidecars))

    def _kill(self) -> None:
        for one in (*self._first, *self._main):
            one.signal(signal.SIGKILL)

    def _finish(self) -> None:
        """Let go of a pod that is to be deleted; its logs and volumes go with it."""
        found = self._place.api.state.get("pods", *self.key)
        mine = found and found["metadata"]["uid"] == self.uid
        if mine and found and "deletionTimestamp" in found["metadata"]:
            self._place.api.delete("pods", self.key, Deletion(grace=0))

    def _containers(self, part: str, statuses: str) -> list[Container]:
        before = {one["name"]: one for one in self._pod["status"].get(statuses) or ()}
        found = self._pod["spec"].get(part) or ()
        return [Container(self, self._place, one, before.get(one["name"])) for one in found]


def remove(place: Place, uid: str) -> None:
    """Remove what is left of a pod that is gone."""
    shutil.rmtree(place.folder / uid, ignore_errors=True)
    shutil.rmtree(place.logs.folder / uid, ignore_errors=True)
