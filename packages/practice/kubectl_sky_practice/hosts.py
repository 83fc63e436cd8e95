"""IP addresses of pods, and the hosts files by which pods resolve each other's names."""

import asyncio
import socket
import sys
from pathlib import Path

from kubectl_sky_practice import environment
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.state import Change, Key, State, key

_DOMAIN = "svc.cluster.local"
_HEAD = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_FIRST = 2
_LAST = 1 << 16
_RESERVATION = "\0kubectl-sky-practice-127.{}"  # abstract socket: one cluster per range
_BATCH_SECONDS = 0.02  # changes in this time are written together


class Addresses:
    """Loopback addresses 127.x.*.*, with an x that no other practice cluster uses.

    On macOS all pods have 127.0.0.1.
    """

    def __init__(self) -> None:
        self._range, self._reservation = _reserve()
        self._used: set[int] = set()
        self._next = _FIRST

    def take(self) -> str:
        while self._next in self._used:
            self._next = self._next + 1 if self._next < _LAST else _FIRST
        number = self._next
        self._used.add(number)
        self._next += 1
        if not self._reservation:
            return "127.0.0.1"
        return f"127.{self._range}.{number >> 8}.{number & 255}"

    def release(self, address: str) -> None:
        *_, high, low = address.split(".")
        self._used.discard((int(high) << 8) + int(low))

    def close(self) -> None:
        if self._reservation:
            self._reservation.close()


def _reserve() -> tuple[int, socket.socket | None]:
    if sys.platform != "linux":
        return 0, None
    for number in range(64, 128):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(_RESERVATION.format(number))
        except OSError:
            reservation.close()
        else:
            return number, reservation
    raise OSError("64 practice clusters run on this machine; it has no addresses for another")


class HostsFiles:
    def __init__(self, state: State) -> None:
        self._state = state
        self._files: dict[str, dict[Key, tuple[Path, str]]] = {}  # by namespace
        self._written: dict[str, str] = {}
        self._changed: set[str] = set()
        state.listeners.append(self._listen)

    def add(self, pod: Json, path: Path, address: str) -> None:
        namespace = pod["metadata"]["namespace"]
        names = environment.hostname(pod)
        if pod["spec"].get("subdomain"):
            names = f"{names}.{pod['spec']['subdomain']}.{namespace}.{_DOMAIN}\t{names}"
        text = f"{_HEAD}{address}\t{names}\n"
        for alias in pod["spec"].get("hostAliases") or ():
            text += f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n"
        self._files.setdefault(namespace, {})[key(pod)] = (path, text)
        path.write_text(text + self._written.get(namespace, ""))

    def remove(self, pod: Json) -> None:
        self._files.get(pod["metadata"]["namespace"], {}).pop(key(pod), None)

    def _listen(self, change: Change) -> None:
        namespace = change.key[0]
        if change.storage in ("pods", "services") and self._files.get(namespace):
            if not self._changed:
                asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._write)
            self._changed.add(namespace)

    def _write(self) -> None:
        changed = self._changed
        self._changed = set()
        for namespace in changed:
            service_lines = self._service_lines(namespace)
            if service_lines != self._written.get(namespace, ""):
                self._written[namespace] = service_lines
                for path, text in self._files[namespace].values():
                    path.write_text(text + service_lines)  # in place: it is mounted

    def _service_lines(self, namespace: str) -> str:
        services = [
            service
            for service in self._state.all("services", namespace)
            if service["spec"].get("selector")
        ]
        lines = []
        for pod in self._state.all("pods", namespace) if services else ():
            labels = (pod["metadata"].get("labels") or {}).items()
            for service in services:
                spec = service["spec"]
                if spec["selector"].items() <= labels and _is_endpoint(pod, spec):
                    lines.append(_line(pod, service["metadata"]["name"], namespace))
        return "".join(sorted(lines))


def _is_endpoint(pod: Json, service: Json) -> bool:
    status = pod["status"]
    if not status.get("podIP") or status["phase"] in ("Succeeded", "Failed"):
        return False
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}
    return conditions.get("Ready") == "True" or bool(service.get("publishNotReadyAddresses"))


def _line(pod: Json, service: str, namespace: str) -> str:
    suffixes = (f".{namespace}.{_DOMAIN}", f".{namespace}.svc", f".{namespace}", "")
    names = [service + suffix for suffix in suffixes]
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service:
        names = [f"{pod['spec']['hostname']}.{name}" for name in names] + names
    return f"{pod['status']['podIP']}\t{' '.join(names)}\n"
