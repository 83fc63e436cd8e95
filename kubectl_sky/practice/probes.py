"""The probes of a container: commands, and requests to the address of its pod."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.runtime import Process, StartError

if TYPE_CHECKING:
    from kubectl_sky.practice.containers import Container, NodeServices
    from kubectl_sky.practice.pods import PodWorker

_STARTUP, _READINESS, _LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"
_MAX_OUTPUT = 4096


class Probes:
    def __init__(self, pod: "PodWorker", services: "NodeServices", container: "Container") -> None:
        self._pod, self._runtime, self._container = pod, services.runtime, container
        spec = container.spec
        self._probes: dict[str, Json] = {
            kind: spec[kind]
            for kind in (_STARTUP, _READINESS, _LIVENESS)
            if spec.get(kind) and self._is_supported(spec[kind])
        }

    @property
    def results(self) -> dict[str, bool]:
        """Whether a container that has just been started counts as started and ready."""
        is_started = _STARTUP not in self._probes
        return {"started": is_started, "ready": is_started and _READINESS not in self._probes}

    async def run(self, process: Process) -> None:
        """Probe a container until it ends, and publish the results."""
        if _STARTUP in self._probes:
            if not await self._has_started(process):
                return
            self._publish(started=True, ready=_READINESS not in self._probes)
        await asyncio.gather(self._watch_readiness(process), self._watch_liveness(process))

    def _is_supported(self, probe: Json) -> bool:
        """Without namespaces, the paths of a command would mean other files."""
        return "httpGet" in probe or ("exec" in probe and self._runtime.is_isolated)

    async def _has_started(self, process: Process) -> bool:
        async for succeeded in self._results(_STARTUP, process):
            if not succeeded:
                self._kill(process, "startup")
            return succeeded
        return False

    async def _watch_readiness(self, process: Process) -> None:
        async for succeeded in self._results(_READINESS, process):
            if succeeded != self._container.status["ready"]:
                self._publish(ready=succeeded)

    async def _watch_liveness(self, process: Process) -> None:
        async for succeeded in self._results(_LIVENESS, process):
            if not succeeded:
                self._kill(process, "liveness")
                return

    async def _results(self, kind: str, process: Process) -> AsyncIterator[bool]:
        """Yield whether the probe has succeeded or failed as often as its thresholds say."""
        probe = self._probes.get(kind)
        if not probe:
            return
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        successes = failures = 0
        while True:
            error = await self._error(probe, process)
            if error is None:
                successes, failures = successes + 1, 0
            else:
                successes, failures = 0, failures + 1
                name = kind.removesuffix("Probe").capitalize()
                self._pod.record("Unhealthy", f"{name} probe failed: {error}", "Warning")
            if successes >= probe["successThreshold"] or failures >= probe["failureThreshold"]:
                yield error is None
            await asyncio.sleep(probe["periodSeconds"])

    async def _error(self, probe: Json, process: Process) -> str | None:
        """Probe once; return why it fails."""
        if "exec" in probe:
            return await self._execute(probe, process)
        try:
            return await asyncio.wait_for(self._get(probe["httpGet"]), probe["timeoutSeconds"])
        except TimeoutError:
            return "context deadline exceeded"
        except (OSError, ValueError, IndexError) as error:
            return str(error)

    async def _get(self, request: Json) -> str | None:
        """Send a GET request; return why the response is no success."""
        host = request.get("host") or self._pod.pod["status"]["podIP"]
        reader, writer = await asyncio.open_connection(host, self._port(request["port"]))
        try:
            headers = {"Host": f"{host}:{request['port']}", "User-Agent": "kube-probe/practice"}
            headers |= {
                header["name"]: header["value"] for header in request.get("httpHeaders", ())
            }
            lines = [f"GET {request['path']} HTTP/1.1", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join((*lines, "", "")).encode())
            status = int((await reader.readline()).split()[1])
        finally:
            writer.close()
        return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"

    def _port(self, port: int | str) -> int:
        ports = self._container.spec.get("ports") or ()
        named = {entry.get("name"): entry["containerPort"] for entry in ports}
        return int(named.get(port, port))

    async def _execute(self, probe: Json, container: Process) -> str | None:
        """Run the command; return its output if it fails."""
        request = {key: self._container.request[key] for key in ("env", "cwd")}
        request |= {"command": probe["exec"]["command"], "tty": False}
        try:
            process = await self._runtime.exec(container, request, stdin=False)
        except StartError as error:
            return str(error)
        try:
            code = await asyncio.wait_for(process.wait(), probe["timeoutSeconds"])
            texts = [await reader.read(_MAX_OUTPUT) for _, reader in process.outputs]
            return b"".join(texts).decode(errors="replace") if code else None
        except TimeoutError:
            process.kill(signal.SIGKILL)
            return "timeout"
        finally:
            process.close()

    def _kill(self, process: Process, name: str) -> None:
        self._pod.record("Killing", f"Container {self._container.name} failed {name} probe")
        process.kill(signal.SIGKILL)  # a kubelet gives it the grace period first

    def _publish(self, **results: bool) -> None:
        self._container.status |= results
        self._pod.publish()
