"""The kubelet: runs the pods that are bound to its nodes, from their volumes to their deletion."""

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from kubectl_sky_practice import pod_status
from kubectl_sky_practice.api import Deletion, now
from kubectl_sky_practice.containers import Container, NodeServices
from kubectl_sky_practice.controller import Controller, record_event
from kubectl_sky_practice.environment import ConfigError
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.state import Change, Key, key
from kubectl_sky_practice.volumes import Volumes

_DEADLINE = "Pod was active on the node longer than the specified deadline"
_NOT_PULLED = "is not pulled here: the practice cluster runs the programs of this machine"
_NO_NAMESPACES = "; this machine allows no namespaces, so paths of volumes mean them only where the"
_NO_NAMESPACES += " pod's command, arguments, variables and working directory say them"


class Kubelet(Controller):
    """Starts a worker for each pod that is bound to its nodes, and stops those of deleted pods."""

    def __init__(self, services: NodeServices, names: Iterable[str]) -> None:
        super().__init__(services.api)
        self.workers: dict[Key, PodWorker] = {}
        self._services = services
        self._names = frozenset(names)
        self._deleted: list[str] = []  # uids
        for pod in self.api.state.all("pods"):
            node = pod["spec"].get("nodeName")
            if node and node not in self._names:  # there were more nodes last time
                self.api.delete("pods", key(pod), Deletion(grace=0))
            self.enqueue(key(pod))

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage != "pods":
            return ()
        if change.type == "DELETED":
            self._deleted.append(change.object["metadata"]["uid"])
        return (change.key,)

    def reconcile(self, key: Key) -> None:
        pod = self.api.state.get("pods", *key)
        worker = self.workers.get(key)

        deleted = self._deleted
        self._deleted = []
        active = {worker.uid for worker in self.workers.values()} if deleted else ()
        for uid in deleted:
            if uid not in active:
                self._remove_files(uid)

        if worker and (pod is None or pod["metadata"]["uid"] != worker.uid):
            worker.stop(0)
        elif pod and self._is_active(pod) and not worker:
            worker = self.workers[key] = PodWorker(self._services, pod)
            worker.task.add_done_callback(lambda _, worker=worker: self._ended(worker))  # type: ignore[misc]

        if pod and worker:
            worker.set_deadline()
        if pod and worker and "deletionTimestamp" in pod["metadata"]:
            worker.stop(pod["metadata"].get("deletionGracePeriodSeconds", 0))

    def _is_active(self, pod: Json) -> bool:
        bound = pod["spec"].get("nodeName") in self._names
        return bound and pod["status"].get("phase") not in ("Succeeded", "Failed")

    def _ended(self, worker: "PodWorker") -> None:
        del self.workers[worker.key]
        if worker.task.cancelled():
            return
        if error := worker.task.exception():
            context = {"message": f"pod {worker.key}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        if not worker.exists:
            self._remove_files(worker.uid)
        self.enqueue(worker.key)

    def _remove_files(self, uid: str) -> None:
        shutil.rmtree(self._services.folder / uid, ignore_errors=True)
        shutil.rmtree(self._services.logs.folder / uid, ignore_errors=True)


class PodWorker:
    def __init__(self, services: NodeServices, pod: Json) -> None:
        self.key = key(pod)
        self.uid = pod["metadata"]["uid"]
        self._services = services
        self._pod = pod

        self._ended = False
        self._failure: Json = {}
        self._address = ""
        self._deadline: int | None = None
        self._grace_seconds: float | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._ending = asyncio.Event()

        self._folder = services.folder / self.uid
        self._init_containers = self._containers("initContainers", "initContainerStatuses")
        self._main_containers = self._containers("containers", "containerStatuses")
        self.task = asyncio.create_task(self._run())

    @property
    def exists(self) -> bool:
        pod = self._services.api.state.get("pods", *self.key)
        return bool(pod and pod["metadata"]["uid"] == self.uid)

    @property
    def pod(self) -> Json:
        pod = self._services.api.state.get("pods", *self.key)
        if pod and pod["metadata"]["uid"] == self.uid:
            self._pod = pod
        return self._pod

    @property
    def containers(self) -> list[Container]:
        return [*self._init_containers, *self._main_containers]

    @property
    def ending(self) -> bool:
        return self._ending.is_set()

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM to all containers but sidecars, and SIGKILL to all after the grace period.

        Sidecars get SIGTERM when the others have ended.
        """
        if self._grace_seconds is not None and grace_seconds >= self._grace_seconds:
            return
        is_first = self._grace_seconds is None
        self._grace_seconds = grace_seconds
        self._ending.set()
        self._call_later(grace_seconds, lambda: self._kill(self.containers, signal.SIGKILL))
        if is_first:
            others = [container for container in self.containers if not container.is_sidecar]
            self._kill(others, signal.SIGTERM)

    def record(self, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self._services.api, self.pod, "kubelet", reason, message, kind)

    def publish(self) -> None:
        init = [container.status for container in self._init_containers]
        main = [container.status for container in self._main_containers]

        def edit(pod: Json) -> None:
            status = pod["status"]
            if pod["metadata"]["uid"] != self.uid:
                return

            if self._address:
                status |= {"podIP": self._address, "podIPs": [{"ip": self._address}]}
            status["hostIP"] = pod_status.ADDRESS
            status["hostIPs"] = [{"ip": pod_status.ADDRESS}]
            status.setdefault("startTime", now())
            status["observedGeneration"] = pod["metadata"].get("generation", 1)

            status["containerStatuses"] = sorted(main, key=lambda status: str(status["name"]))
            if init:
                status["initContainerStatuses"] = init

            status["phase"] = pod_status.phase(pod, init, main, ended=self._ended)
            if self._failure and status["phase"] != "Running":
                status |= self._failure | {"phase": "Failed"}
            status["conditions"] = pod_status.conditions(pod, status["phase"], init, main)

        self._services.api.change("pods", self.key, edit)

    async def pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    async def _run(self) -> None:
        try:
            self._admit()
            volumes = await self._mount_volumes()
            self.publish()  # containers may ask for the address
            if await self._run_init_containers(volumes):
                await asyncio.gather(*(main.run(volumes) for main in self._main_containers))

            await self._stop_sidecars()
            self._ended = True
            self.publish()
        finally:
            for timer in self._timers:
                timer.cancel()
            self._services.gpus.release(self.uid)
            self._services.hosts_files.remove(self._pod)
            if self._address:
                self._services.addresses.release(self._address)

        if self.exists and "deletionTimestamp" in self.pod["metadata"]:
            self._services.api.delete("pods", self.key, Deletion(grace=0))

    def _admit(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.publish()
        self._address = self._services.addresses.take()
        self._services.hosts_files.add(self.pod, self._folder / "hosts", self._address)
        self._record_image()

    def set_deadline(self) -> None:
        """End the pod at its deadline, which may be set or moved up while it runs."""
        spec = self.pod["spec"]
        started = self.pod["status"].get("startTime")
        seconds = spec.get("activeDeadlineSeconds")
        if seconds is None or seconds == self._deadline or not started:
            return
        self._deadline = seconds
        passed = datetime.now(UTC) - datetime.fromisoformat(started)
        self._call_later(seconds - passed.total_seconds(), self._exceed_deadline)

    def _record_image(self) -> None:
        spec = self.pod["spec"]
        images = {f'"{container["image"]}"' for container in spec["containers"]}
        message = f"Container image {', '.join(sorted(images))} {_NOT_PULLED}"
        if self._services.runtime.is_isolated or not spec.get("volumes"):
            self.record("NotPulled", message)
        else:
            self.record("NoNamespaces", message + _NO_NAMESPACES, "Warning")

    def _call_later(self, seconds: float, function: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(max(seconds, 0), function))

    def _exceed_deadline(self) -> None:
        if self.ending:
            return
        self._failure = {"reason": "DeadlineExceeded", "message": _DEADLINE}
        self.record("DeadlineExceeded", _DEADLINE)
        self._stop_gracefully()

    def _stop_gracefully(self) -> None:
        self.stop(self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def _mount_volumes(self) -> Volumes:
        volumes = Volumes(self._services.api, self.pod, self._folder / "volumes")
        delay = 0.5
        while not self.ending:
            try:
                volumes.set_up()
                break
            except ConfigError as error:
                self.record("FailedMount", str(error), "Warning")
            await self.pause(delay)
            delay = min(delay * 2, 10)
        return volumes

    async def _run_init_containers(self, volumes: Volumes) -> bool:
        for container in self._init_containers:
            if container.is_sidecar:
                await container.start_sidecar(volumes)
            elif await container.run(volumes) != 0:
                return False
            if self.ending:
                return False
        return not self.ending

    async def _stop_sidecars(self) -> None:
        sidecars = [container for container in self._init_containers if container.is_sidecar]
        if sidecars:
            self._stop_gracefully()
            self._kill(sidecars, signal.SIGTERM)
            await asyncio.gather(*(sidecar.wait() for sidecar in sidecars))

    def _kill(self, containers: Iterable[Container], number: int) -> None:
        for container in containers:
            container.kill(number)

    def _containers(self, field: str, status_field: str) -> list[Container]:
        statuses = {entry["name"]: entry for entry in self._pod["status"].get(status_field) or ()}
        return [
            Container(self, self._services, spec, statuses.get(spec["name"]))
            for spec in self._pod["spec"].get(field) or ()
        ]
