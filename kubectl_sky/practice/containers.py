"""One container of a pod: how it is started, again and again, and what is seen of it."""

import asyncio
import copy
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from kubectl_sky.practice import environment, podstatus, sandbox
from kubectl_sky.practice.addresses import Addresses, Names
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.environment import ConfigError
from kubectl_sky.practice.launcher import Launcher, Process, StartError, Wires, chunks
from kubectl_sky.practice.podlogs import Logs, Writer
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.sandbox import Mount
from kubectl_sky.practice.volumes import Volumes

if TYPE_CHECKING:
    from kubectl_sky.practice.pods import PodLife

Output = asyncio.Queue[tuple[int, bytes] | None]
_NOTICED = 1.0  # seconds until a kubelet sees that a container has ended
_LEFT_OPEN = 1.0  # seconds for what others still hold open after the end
_LONGEST, _STEADY = 300, 600  # seconds: of a back-off, and of a run after which it is forgotten
_MESSAGE = 4096
_CREATE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
)
_CREATE += "runc create failed: unable to start container process: "


@dataclass(frozen=True)
class Place:
    """What the pods of a node share."""

    api: Api
    folder: Path
    root: Path
    launcher: Launcher
    logs: Logs
    addresses: Addresses
    names: Names
    notice: Callable[[Json], tuple[str, str, str]]
    isolated: bool


class Container:
    """A container, from its first start until it is not started again."""

    def __init__(self, life: "PodLife", place: Place, spec: Json, before: Json | None) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.request: Json = {}
        self.process: Process | None = None
        self.wires: Wires | None = None
        self.watchers: set[Output] = set()
        self._life, self._place = life, place
        self._failures = 0
        self._written: list[Path] = []
        self._running = asyncio.Event()
        self._task: asyncio.Task[int] | None = None
        reason = (
            "PodInitializing" if life.pod["spec"].get("initContainers") else "ContainerCreating"
        )
        self.status: Json = copy.deepcopy(before or {}) or podstatus.waiting(spec, reason)
        if "running" in self.status["state"]:  # when the node went down
            podstatus.put(self.status, podstatus.terminated(self.status, 128 + signal.SIGKILL))

    @property
    def first(self) -> bool:
        """Whether it is an init container."""
        return self.spec in (self._life.pod["spec"].get("initContainers") or ())

    @property
    def sidecar(self) -> bool:
        """Whether it runs beside the others though it is an init container."""
        return self.spec.get("restartPolicy") == "Always"

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.process and not self.process.ended.done():
            if number == signal.SIGTERM:
                self._life.tell("Killing", f"Stopping container {self.name}")
            self._place.launcher.kill(self.process, number)

    async def begin(self, volumes: Volumes) -> None:
        """Start it and let it run."""
        self._task = asyncio.create_task(self.run(volumes))
        running = asyncio.create_task(self._running.wait())
        await asyncio.wait((self._task, running), return_when=asyncio.FIRST_COMPLETED)
        running.cancel()

    async def over(self) -> None:
        """Wait for the end of one that was begun."""
        if self._task:
            await self._task

    async def run(self, volumes: Volumes) -> int:
        """Run it until it is not started again; return its last exit code."""
        ended = self.status["state"].get("terminated") or self.status["lastState"].get("terminated")
        code: int | None = ended["exitCode"] if ended else None
        while not self._life.ending and (code is None or self._restarts(code)):
            if code is not None:
                await self._back_off()
            request = await self._configure(volumes)
            if request:
                began = time.monotonic()
                code = await self._once(request)
                self._failures *= time.monotonic() - began < _STEADY
        return 128 + signal.SIGKILL if code is None else code

    def _restarts(self, code: int) -> bool:
        policy = self._life.pod["spec"]["restartPolicy"]
        always = self.sidecar or (policy == "Always" and not self.first)
        return always or (policy != "Never" and code != 0)

    async def _back_off(self) -> None:
        """Start again soon after the first end, and later and later after others."""
        delay = min(10 * 2 ** (self._failures - 1), _LONGEST) if self._failures else 0
        self._failures += 1
        if delay:
            namespace, name = self._life.key
            pod = f"{name}_{namespace}({self._life.uid})"
            message = (
                f"back-off {_duration(delay)} restarting failed container={self.name} pod={pod}"
            )
            self._wait("CrashLoopBackOff", message)
            text = f"Back-off restarting failed container {self.name} in pod {pod}"
            self._life.tell("BackOff", text, "Warning")
        await self._life.pause(delay or _NOTICED)
        self.status["restartCount"] += 1

    async def _configure(self, volumes: Volumes) -> Json | None:
        """Return what to start, once all of it is there."""
        delay = 1.0
        while not self._life.ending:
            try:
                return self._request(volumes)
            except (ConfigError, OSError) as error:
                self._wait(getattr(error, "reason", ConfigError.reason), str(error))
                self._life.tell("Failed", f"Error: {error}", "Warning")
            await self._life.pause(delay)
            delay = min(delay * 2, 10)
        return None

    def _request(self, volumes: Volumes) -> Json:
        pod, spec = self._life.pod, self.spec
        given = environment.own(pod, spec, self._place.api.state)
        command = environment.command(spec, given)
        folder = self._place.folder / self._life.uid
        self._message = folder / f"{self.name}.message"
        self._message.write_bytes(b"")
        (folder / "hostname").write_text(f"{environment.hostname(pod)}\n")
        mounts = [
            Mount("/etc/hosts", str(folder / "hosts")),
            Mount("/etc/hostname", str(folder / "hostname")),
            Mount(spec["terminationMessagePath"], str(self._message)),
            *volumes.mounts(spec, given),
        ]
        request = {"command": command, "cwd": spec.get("workingDir") or "/", "tty": self._terminal}
        values = environment.whole(pod, ({"TERM": "xterm"} if self._terminal else {}) | given)
        if not self._place.isolated:
            return sandbox.without(request, values, mounts, folder)
        return request | {
            "env": values,
            "hostname": environment.hostname(pod),
            "root": str(self._place.root),
            "steps": sandbox.steps(mounts),
        }

    @property
    def _terminal(self) -> bool:
        return bool(self.spec.get("tty"))

    async def _once(self, request: Json) -> int:
        """Run it once; return its exit code."""
        identity = f"practice://{token_hex(32)}"
        writer = self._place.logs.writer(self._life.uid, identity)
        self._written.append(writer.path)
        for path in self._written[:-2]:  # those of this time and of the last can be read
            path.unlink(missing_ok=True)
        self.status["containerID"] = identity
        wires = self.wires = Wires(terminal=self._terminal, fed=bool(self.spec.get("stdin")))
        self._life.tell("Created", "Container created")
        self.request = request
        try:
            code, reason, message = await self._execute(request, wires, writer)
        finally:
            wires.close_input()
            self._place.logs.close(identity)
            for watcher in self.watchers:
                if watcher.full():  # too slow to see all of it
                    watcher.get_nowait()
                watcher.put_nowait(None)
        podstatus.put(self.status, podstatus.terminated(self.status, code, reason, message))
        self.status["ready"] = self.first and code == 0
        self._life.publish()
        return code

    async def _execute(self, request: Json, wires: Wires, writer: Writer) -> tuple[int, str, str]:
        """Run it; return its exit code, and why it failed if that is known already."""
        try:
            self.process = await self._place.launcher.start(request, wires)
        except StartError as error:
            message = f"{_CREATE}{error}: unknown"
            self._life.tell("Failed", f"Error: {message}", "Warning")
            return 128, "StartError", message
        pumps = [asyncio.create_task(self._pump(*one, writer)) for one in wires.outputs]
        try:
            code = await self._see(self.process)
            await asyncio.wait(pumps, timeout=_LEFT_OPEN)
        finally:  # also when the node stops
            for pump in pumps:
                pump.cancel()
        return code, "", self._last_words(code)

    async def _see(self, process: Process) -> int:
        """Say that it runs, and wait for its end."""
        self._life.tell("Started", "Container started")
        podstatus.put(self.status, {"running": {"startedAt": now()}})
        self.status["resources"] = self.spec.get("resources") or {}
        self._life.publish()
        self._running.set()
        if self._life.ending:  # while it was starting
            self.signal(signal.SIGKILL)
        return await process.ended

    async def _pump(self, stream: int, descriptor: int, writer: Writer) -> None:
        async for data in chunks(descriptor):
            writer.write(stream, data)
            for watcher in list(self.watchers):
                await watcher.put((stream, data))

    def _wait(self, reason: str, message: str) -> None:
        podstatus.put(self.status, {"waiting": {"reason": reason, "message": message}})
        self._life.publish()

    def _last_words(self, code: int) -> str:
        with self._message.open("rb") as file:
            text: str = file.read(_MESSAGE).decode(errors="replace")
        fall_back = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not text and code and fall_back:
            return self._place.logs.end_of(self._life.uid, self.status["containerID"])
        return text


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
