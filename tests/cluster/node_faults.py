"""What may happen to one of several cluster nodes, and to its link to the others."""

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from tests.cluster import components, images, machine, nodes
from tests.cluster.api import request
from tests.cluster.faults import Faults
from tests.cluster.nodes import Daemon
from tests.cluster.place import NodePlace
from tests.cluster.shell import run
from tests.cluster.target import Cluster


class NodeFaults(Faults):
    """Stops cluster nodes, by name, and lets them go on."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._nodes = {node.node: node for node in nodes.places(self._place)}

    def pause(self, name: str) -> None:
        """Stop the kubelet and the container runtime; the pods run on."""
        self.send(signal.SIGSTOP, *_programs(name))

    def resume(self, name: str) -> None:
        """Let the programs, and the pods, go on."""
        self._signal_pods(name, signal.SIGCONT)
        self.send(signal.SIGCONT, *_programs(name))

    def cut(self, name: str) -> None:
        """Cut the link to the control plane and to the other cluster nodes."""
        self._set_link(name, "down")

    def join(self, name: str) -> None:
        """Mend the link."""
        self._set_link(name, "up")

    def lose(self, name: str) -> None:
        """Stop all that runs there, and cut the link, as if the machine were off."""
        self.cut(name)
        self.pause(name)
        self._signal_pods(name, signal.SIGSTOP)

    def fill_disk(self, name: str) -> None:
        """Let the kubelet take its disk for full: it evicts pods, and removes unused images."""
        node = self._nodes[name]
        settings = components.kubelet_settings(node)
        settings["evictionHard"] |= {"nodefs.available": "99.9%"}
        self._configure(node, settings)

    def empty_disk(self, name: str) -> None:
        """Let the kubelet take its disk for empty again, and bring the images back."""
        node = self._nodes[name]
        self._configure(node, components.kubelet_settings(node))
        images.bring(node.folder / "containerd.sock", nodes.archives())

    def allow_sysctls(self, name: str, *patterns: str) -> None:
        """Let the kubelet run pods that change these settings of the kernel; it refuses others."""
        node = self._nodes[name]
        allowed = {"allowedUnsafeSysctls": list(patterns)}
        self._configure(node, components.kubelet_settings(node) | allowed)

    def mend(self) -> None:
        """Repair everything, and wait until pods run on all cluster nodes again."""
        self.send(signal.SIGCONT, *self._daemons)
        for name in self._nodes:
            self.join(name)
            self.resume(name)
        super().mend()
        for name in self._nodes:
            spec = {"unschedulable": None, "taints": None}
            request(self._place, "PATCH", f"/api/v1/nodes/{name}", {"spec": spec})
        for name in self._nodes:
            self._wait(lambda name=name: self._is_usable(name))  # type: ignore[misc]

    def _list_daemons(self) -> Mapping[str, Daemon]:
        kube = str(machine.kube())
        daemons = nodes.plane(self._place, kube)
        for node in nodes.places(self._place):
            daemons |= nodes.programs(node, kube)
        return daemons

    def _configure(self, node: NodePlace, settings: Mapping[str, object]) -> None:
        """Restart the kubelet with other settings."""
        kubelet = f"{node.node}-kubelet"
        self.kill(kubelet)
        (node.folder / "kubelet.yaml").write_text(json.dumps(settings))
        self.start(kubelet)

    def _set_link(self, name: str, state: str) -> None:
        run(["ip", "-n", self._place.router, "link", "set", name, state])

    def _signal_pods(self, name: str, number: signal.Signals) -> None:
        for pid in self._nodes[name].cgroup.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _is_usable(self, name: str) -> bool:
        node = request(self._place, "GET", f"/api/v1/nodes/{name}")
        ready = [item for item in node["status"]["conditions"] if item["type"] == "Ready"]
        return ready[0]["status"] == "True" and not node["spec"].get("taints")


def _programs(name: str) -> tuple[str, str]:
    return f"{name}-containerd", f"{name}-kubelet"
