"""Addresses of pods and the names that they can be found by, in the hosts file of each."""

import asyncio
import socket
import sys
from pathlib import Path

from kubectl_sky.practice import environment
from kubectl_sky.practice.resources import Json
from kubectl_sky.practice.state import Change, State

_DOMAIN = "svc.cluster.local"
_HEAD = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_FIRST, _LAST = 2, 1 << 16
_MARK = (
    "\0kubectl-sky-practice-127.{}"  # a name that is held, so that no other cluster uses the range
)
_SOON = 0.02  # seconds in which changes are gathered


class Addresses:
    """Loopback addresses that are in use: 127.x.*.*, with an x that no other cluster here has.

    Every pod has its own where the system can; else, as on macOS, all have 127.0.0.1.
    """

    def __init__(self) -> None:
        self._range, self._mark = (0, None) if sys.platform != "linux" else _reserve()
        self._used: set[int] = set()
        self._next = _FIRST

    def take(self) -> str:
        """Return an address that nobody has."""
        while self._next in self._used:
            self._next = self._next + 1 if self._next < _LAST else _FIRST
        number = self._next
        self._used.add(number)
        self._next += 1
        if not self._mark:
            return "127.0.0.1"
        return f"127.{self._range}.{number >> 8}.{number & 255}"

    def free(self, address: str) -> None:
        """Give an address back."""
        middle, low = address.split(".")[2:]
        self._used.discard((int(middle) << 8) + int(low))

    def close(self) -> None:
        """Let others have the range."""
        if self._mark:
            self._mark.close()


def _reserve() -> tuple[int, socket.socket | None]:
    for number in range(64, 128):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(_MARK.format(number))
        except OSError:
            mark.close()
        else:
            return number, mark
    raise OSError("64 practice clusters run here, and there are no addresses for another")


class Names:
    """Keeps the hosts files of the pods that run here."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._files: dict[str, dict[tuple[str, str], tuple[Path, str]]] = {}
        self._told: dict[str, str] = {}
        self._dirty: set[str] = set()
        state.listeners.append(self._listen)

    def add(self, pod: Json, path: Path, address: str) -> None:
        """Write the hosts file of a pod, now and when others come and go."""
        metadata = pod["metadata"]
        own = environment.hostname(pod)
        if pod["spec"].get("subdomain"):
            own = f"{own}.{pod['spec']['subdomain']}.{metadata['namespace']}.{_DOMAIN}\t{own}"
        text = f"{_HEAD}{address}\t{own}\n"
        for alias in pod["spec"].get("hostAliases") or ():
            text += f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n"
        files = self._files.setdefault(metadata["namespace"], {})
        files[metadata["namespace"], metadata["name"]] = (path, text)
        path.write_text(text + self._told.get(metadata["namespace"], ""))

    def remove(self, pod: Json) -> None:
        """Forget a pod."""
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._files.get(key[0], {}).pop(key, None)

    def _listen(self, change: Change) -> None:
        namespace = change.key[0]
        if change.storage in ("pods", "services") and self._files.get(namespace):
            if not self._dirty:
                asyncio.get_running_loop().call_later(_SOON, self._write)
            self._dirty.add(namespace)

    def _write(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for namespace in dirty:
            others = self._others(namespace)
            if others != self._told.get(namespace, ""):
                self._told[namespace] = others
                for path, own in self._files[namespace].values():
                    path.write_text(own + others)  # in place: the pod has this very file

    def _services(self, namespace: str) -> list[Json]:
        found = self._state.all("services", namespace)
        return [one for one in found if one["spec"].get("selector")]

    def _others(self, namespace: str) -> str:
        services = self._services(namespace)
        lines = []
        for pod in self._state.all("pods", namespace) if services else ():
            labels = (pod["metadata"].get("labels") or {}).items()
            for service in services:
                spec = service["spec"]
                if spec["selector"].items() <= labels and _reached(pod, spec):
                    lines.append(_line(pod, service["metadata"]["name"], namespace))
        return "".join(sorted(lines))


def _reached(pod: Json, spec: Json) -> bool:
    status = pod["status"]
    if not status.get("podIP") or status["phase"] in ("Succeeded", "Failed"):
        return False
    ready = any(
        (one["type"], one["status"]) == ("Ready", "True") for one in status.get("conditions") or ()
    )
    return ready or bool(spec.get("publishNotReadyAddresses"))


def _line(pod: Json, service: str, namespace: str) -> str:
    """Return the names of a pod in a Service, and the Service's own."""
    names = [f"{service}.{namespace}.{_DOMAIN}", f"{service}.{namespace}.svc"]
    names += [f"{service}.{namespace}", service]
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service:
        names = [f"{pod['spec']['hostname']}.{name}" for name in names] + names
    return f"{pod['status']['podIP']}\t{' '.join(names)}\n"
