"""One container of a pod: its starts, restarts and status."""

import asyncio
import contextlib
import copy
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from kubectl_sky_practice import environment, pod_status
from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.environment import ConfigError
from kubectl_sky_practice.gpus import Gpus
from kubectl_sky_practice.hosts import Addresses, HostsFiles
from kubectl_sky_practice.logs import Logs, Writer
from kubectl_sky_practice.probes import Pod, Probes
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.runtime import Mount, Process, Runtime, StartError, without_namespaces
from kubectl_sky_practice.volumes import Volumes

_RESTART_SECONDS = 1.0  # before the first restart, as a kubelet needs to notice the end
_DRAIN_SECONDS = 1.0  # for output of processes that outlive the program
_BACKOFF_SECONDS = 10
_MAX_BACKOFF_SECONDS = 300
_BACKOFF_RESET_SECONDS = 600
_MAX_MESSAGE_BYTES = 4096
_CHUNK = 1 << 16
_RUNC_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)


@dataclass(frozen=True)
class NodeServices:
    api: Api
    folder: Path
    runtime: Runtime
    logs: Logs
    addresses: Addresses
    hosts_files: HostsFiles
    gpus: Gpus


_LOST = "The container could not be located when the pod was terminated"


class Container:
    def __init__(self, pod: Pod, services: NodeServices, spec: Json, status: Json | None) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.request: Json = {}
        self.process: Process | None = None
        self._pod = pod
        self._services = services
        self._failures = 0
        self._logs: list[Path] = []
        self._started = asyncio.Event()
        self._task: asyncio.Task[int] | None = None
        init_containers = pod.pod["spec"].get("initContainers") or ()
        self.is_init = spec in init_containers
        reason = "PodInitializing" if init_containers else "ContainerCreating"
        self.status: Json = copy.deepcopy(status or {}) or pod_status.waiting(spec, reason)
        # Without namespaces, the paths of a command would mean other files.
        run_probe = self._run_probe if services.runtime.is_isolated else None
        self._probes = Probes(pod, spec, self.status, run_probe)
        if "running" in self.status["state"]:  # when the node stopped; as a kubelet reports it
            self._exited(128 + signal.SIGKILL, "ContainerStatusUnknown", _LOST)

    async def _run_probe(
        self, container: Process, command: list[str], seconds: float
    ) -> str | None:
        """Run the command of a probe; return its output if it fails."""
        request = {key: self.request[key] for key in ("env", "cwd")}
        request |= {"command": command, "tty": False}
        try:
            process = await self._services.runtime.exec(container, request, stdin=False)
        except StartError as error:
            return str(error)

        try:
            code = await asyncio.wait_for(process.wait(), seconds)
            texts = [await reader.read(_CHUNK) for _, reader in process.outputs]
            return b"".join(texts)[:_MAX_MESSAGE_BYTES].decode(errors="replace") if code else None
        except TimeoutError:
            process.kill(signal.SIGKILL)
            return "timeout"
        finally:
            process.close()

    @property
    def is_sidecar(self) -> bool:
        return self.spec.get("restartPolicy") == "Always"

    @property
    def running(self) -> bool:
        return bool(self.process and self.process.running)

    def kill(self, number: int) -> None:
        if self.process and self.process.running:
            if number == signal.SIGTERM:
                self._pod.record("Killing", f"Stopping container {self.name}")
            self.process.kill(number)

    async def start_sidecar(self, volumes: Volumes) -> None:
        """Run it in the background; return when it has started."""
        self._task = asyncio.create_task(self.run(volumes))
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()

    async def wait(self) -> None:
        if self._task:
            await self._task

    async def run(self, volumes: Volumes) -> int:
        """Run and restart it as its policy says; return its last exit code."""
        last = self.status["state"].get("terminated") or self.status["lastState"].get("terminated")
        code: int | None = last["exitCode"] if last else None
        while not self._pod.ending and (code is None or self._restarts(code)):
            if code is not None:
                await self._back_off()
            if request := await self._configure(volumes):
                started = time.monotonic()
                code = await self._run_once(request)
                if time.monotonic() - started >= _BACKOFF_RESET_SECONDS:
                    self._failures = 0
        return 128 + signal.SIGKILL if code is None else code

    def _restarts(self, code: int) -> bool:
        policy = self._pod.pod["spec"]["restartPolicy"]
        always = self.is_sidecar or (policy == "Always" and not self.is_init)
        return always or (policy != "Never" and code != 0)

    async def _back_off(self) -> None:
        delay = 0
        if self._failures:
            delay = min(_BACKOFF_SECONDS * 2 ** (self._failures - 1), _MAX_BACKOFF_SECONDS)
            minutes, seconds = divmod(delay, 60)
            duration = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
            namespace, name = self._pod.key
            pod = f"{name}_{namespace}({self._pod.uid})"
            text = f"back-off {duration} restarting failed container={self.name} pod={pod}"
            self._wait("CrashLoopBackOff", text)
            text = f"Back-off restarting failed container {self.name} in pod {pod}"
            self._pod.record("BackOff", text, "Warning")
        self._failures += 1
        await self._pod.pause(delay or _RESTART_SECONDS)
        self.status["restartCount"] += 1

    async def _configure(self, volumes: Volumes) -> Json | None:
        delay = 1.0
        while not self._pod.ending:
            try:
                return self._start_request(volumes)
            except (ConfigError, OSError) as error:
                self._wait(getattr(error, "reason", ConfigError.reason), str(error))
                self._pod.record("Failed", f"Error: {error}", "Warning")
            await self._pod.pause(delay)
            delay = min(delay * 2, 10)
        return None

    def _start_request(self, volumes: Volumes) -> Json:
        pod = self._pod.pod
        spec = self.spec
        variables = environment.variables(pod, spec, self._services.api.state)
        variables |= self._services.gpus.take(self._pod.uid, spec)

        folder = self._services.folder / self._pod.uid
        hostname = environment.hostname(pod)
        self._message = folder / f"{self.name}.message"
        self._message.write_bytes(b"")
        (folder / "hostname").write_text(f"{hostname}\n")

        tty = bool(spec.get("tty"))
        request = {
            "command": environment.command(spec, variables),
            "env": environment.with_defaults(pod, ({"TERM": "xterm"} if tty else {}) | variables),
            "cwd": spec.get("workingDir") or "/",
            "tty": tty,
            "hostname": hostname,
            "mounts": [
                Mount("/etc/hosts", str(folder / "hosts")),
                Mount("/etc/hostname", str(folder / "hostname")),
                Mount(spec["terminationMessagePath"], str(self._message)),
                *volumes.mounts(spec, variables),
            ],
        }

        isolated = self._services.runtime.is_isolated
        return request if isolated else without_namespaces(request, folder)

    async def _run_once(self, request: Json) -> int:
        container_id = self.status["containerID"] = f"practice://{token_hex(32)}"
        writer = self._services.logs.writer(self._pod.uid, container_id)
        self._logs.append(writer.path)
        for path in self._logs[:-2]:  # keep the current log and the previous one
            path.unlink(missing_ok=True)

        self._pod.record("Created", "Container created")
        self.request = request
        try:
            code, reason, message = await self._execute(request, writer)
        finally:
            self._services.logs.close(container_id)

        self._exited(code, reason, message)
        self.status["ready"] = self.is_init and code == 0
        self._pod.publish()
        return code

    async def _execute(self, request: Json, writer: Writer) -> tuple[int, str, str]:
        """Run the program; return its exit code, reason and termination message."""
        runtime = self._services.runtime
        has_stdin = bool(self.spec.get("stdin"))
        try:
            process = self.process = await runtime.start(request, stdin=has_stdin)
        except StartError as error:
            message = f"{_RUNC_ERROR}{error}: unknown"
            self._pod.record("Failed", f"Error: {message}", "Warning")
            return 128, "StartError", message

        logging = [asyncio.create_task(_log(*output, writer)) for output in process.outputs]
        self._publish_running()
        probing = asyncio.create_task(self._probes.run(process))

        try:
            code = await process.wait()
            await asyncio.wait(logging, timeout=_DRAIN_SECONDS)
        finally:  # also when the node stops
            for task in (*logging, probing):
                task.cancel()
            process.close()
        return code, "", self._termination_message(code)

    def _publish_running(self) -> None:
        self._pod.record("Started", "Container started")
        pod_status.set_state(self.status, {"running": {"startedAt": now()}})
        self.status |= self._probes.results
        self.status["resources"] = self.spec.get("resources") or {}
        self._pod.publish()
        self._started.set()
        if self._pod.ending:  # while it was starting
            self.kill(signal.SIGKILL)

    def _exited(self, code: int, reason: str = "", message: str = "") -> None:
        pod_status.set_state(self.status, pod_status.terminated(self.status, code, reason, message))

    def _wait(self, reason: str, message: str) -> None:
        pod_status.set_state(self.status, {"waiting": {"reason": reason, "message": message}})
        self._pod.publish()

    def _termination_message(self, code: int) -> str:
        with self._message.open("rb") as file:
            text: str = file.read(_MAX_MESSAGE_BYTES).decode(errors="replace")
        fall_back = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not text and code and fall_back:
            container_id = self.status["containerID"]
            return self._services.logs.termination_message(self._pod.uid, container_id)
        return text


async def _log(stream: int, reader: asyncio.StreamReader, writer: Writer) -> None:
    with contextlib.suppress(OSError):  # a terminal has closed
        while data := await reader.read(_CHUNK):
            writer.write(stream, data)
            await asyncio.sleep(0)  # let others run
