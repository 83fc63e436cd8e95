"""The probes of a container: commands, and requests to the address of its pod."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.runtime import Process
from kubectl_sky_practice.state import Key

_STARTUP = "startupProbe"
_READINESS = "readinessProbe"
_LIVENESS = "livenessProbe"


class Pod(Protocol):
    """The pod of a container: its object, and where its containers report."""

    key: Key
    uid: str

    @property
    def pod(self) -> Json: ...

    @property
    def ending(self) -> bool: ...

    def record(self, reason: str, message: str, kind: str = "Normal") -> None: ...

    def publish(self) -> None: ...

    async def pause(self, seconds: float) -> None: ...


# Takes a running container, a command and a limit in seconds; returns why the command failed.
Execute = Callable[[Process, list[str], float], Awaitable[str | None]]


class Probes:
    """The probes of a container; without `execute`, those with a command count as passed."""

    def __init__(self, pod: Pod, spec: Json, status: Json, execute: Execute | None) -> None:
        self._pod = pod
        self._spec = spec
        self._status = status
        self._execute = execute
        self._probes: dict[str, Json] = {
            kind: spec[kind]
            for kind in (_STARTUP, _READINESS, _LIVENESS)
            if (probe := spec.get(kind))
            and ("httpGet" in probe or ("exec" in probe and self._execute))
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

    async def _has_started(self, process: Process) -> bool:
        async for succeeded in self._results(_STARTUP, process):
            if not succeeded:
                self._kill(process, "startup")
            return succeeded
        return False

    async def _watch_readiness(self, process: Process) -> None:
        async for succeeded in self._results(_READINESS, process):
            if succeeded != self._status["ready"]:
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
            error = await self._try(probe, process)
            if error is None:
                successes = successes + 1
                failures = 0
            else:
                successes = 0
                failures = failures + 1
                name = kind.removesuffix("Probe").capitalize()
                self._pod.record("Unhealthy", f"{name} probe failed: {error}", "Warning")

            if successes >= probe["successThreshold"] or failures >= probe["failureThreshold"]:
                yield error is None
            await asyncio.sleep(probe["periodSeconds"])

    async def _try(self, probe: Json, process: Process) -> str | None:
        """Probe once; return why it fails."""
        if "exec" in probe and self._execute:
            return await self._execute(process, probe["exec"]["command"], probe["timeoutSeconds"])
        try:
            return await asyncio.wait_for(self._get(probe["httpGet"]), probe["timeoutSeconds"])
        except TimeoutError:
            return "context deadline exceeded"
        except (OSError, ValueError, IndexError) as error:
            return str(error)

    async def _get(self, request: Json) -> str | None:
        host = request.get("host") or self._pod.pod["status"]["podIP"]
        address = host, self._port(request["port"])
        try:
            reader, writer = await asyncio.open_connection(*address)
        except ConnectionRefusedError:
            return f"dial tcp {host}:{address[1]}: connect: connection refused"

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
        ports = self._spec.get("ports") or ()
        named = {entry.get("name"): entry["containerPort"] for entry in ports}
        return int(named.get(port, port))

    def _kill(self, process: Process, name: str) -> None:
        self._pod.record("Killing", f"Container {self._spec['name']} failed {name} probe")
        process.kill(signal.SIGKILL)  # a kubelet gives it the grace period first

    def _publish(self, **results: bool) -> None:
        self._status |= results
        self._pod.publish()
