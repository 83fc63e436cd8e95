"""Ten faults, and what commands say of the ranks on the cluster node that has them."""

import json
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.cluster.components import CPUS
from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.nodes.support import LOST_SOON, drain, hosts

HOST = "n2"  # the cluster node that has the fault
FAILING = {"jobs0001": "jobs", "indexed1": "indexed"}  # tasks that fail, and their backends
RECOVERING = "recovery"
TASKS = (RECOVERING, *FAILING)  # the order in which they are looked at
_OTHER = {"apiVersion": "v1", "metadata": {"name": "first"}}
_WHOLE_NODE = {
    "name": "main",
    "image": "busybox:1.36",
    "command": ["sleep", "600"],
    "resources": {"requests": {"cpu": CPUS}},
}


class Makers(NamedTuple):
    """Who makes a fault."""

    sky: Command
    kubectl: Command
    faults: NodeFaults


class Fault(NamedTuple):
    """How to make a fault, and the pattern of what commands say for it of a rank there."""

    make: Callable[[Makers], object]
    cause: str = ""
    fails: bool = True  # whether tasks without recovery fail
    config: Mapping[str, object] = {}
    repair: Callable[[Makers], object] | None = None  # what NodeFaults.mend does not


def _taint(makers: Makers) -> None:
    done = makers.kubectl("taint", "node", HOST, "example.com/repair=true:NoExecute")
    assert done.returncode == 0, done.stderr


def _kill_rank(makers: Makers) -> None:
    for task_id in TASKS:
        rank = str(hosts(makers.sky, task_id).index(HOST))
        kill = ("pkill", "-KILL", "-f", "sleep 600")
        done = makers.sky("exec", task_id, "--rank", rank, "--", *kill)
        assert done.returncode == 0, done.stderr


def _preempt(makers: Makers) -> None:
    """Create a pod that needs the whole cluster node, and comes first."""
    priority = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 1000}
    spec: dict[str, Any] = {
        "priorityClassName": "first",
        "nodeSelector": {"kubernetes.io/hostname": HOST},
        "containers": [_WHOLE_NODE],
    }
    for item in (_OTHER | priority, _OTHER | {"kind": "Pod", "spec": spec}):
        done = makers.kubectl("apply", "-f", "-", stdin=json.dumps(item))
        assert done.returncode == 0, done.stderr


def _delete_preemptor(makers: Makers) -> None:
    done = makers.kubectl("delete", "pod/first", "priorityclass/first", "--force")
    assert done.returncode == 0, done.stderr


def _kill_api_server(makers: Makers) -> None:
    makers.faults.kill("kube-apiserver")
    time.sleep(10)
    makers.faults.start("kube-apiserver")


def _stop_etcd(makers: Makers) -> None:
    makers.faults.send(signal.SIGSTOP, "etcd")
    time.sleep(20)
    makers.faults.send(signal.SIGCONT, "etcd")


_SILENT = "cluster node n2 does not respond"
FAULTS = {
    "kubelet-stopped": Fault(lambda it: it.faults.pause(HOST), _SILENT, fails=False),
    "link-cut": Fault(lambda it: it.faults.cut(HOST), _SILENT, fails=False),
    "node-lost": Fault(
        lambda it: it.faults.lose(HOST), "its cluster node was lost", config=LOST_SOON
    ),
    "drained": Fault(lambda it: drain(it.kubectl, HOST), "evicted from its cluster node"),
    "tainted": Fault(_taint, "its cluster node was tainted"),
    "disk-full": Fault(
        lambda it: it.faults.fill_disk(HOST),
        "[Ee]victed|rejected the pod",  # the reason, or the words of doctor
        repair=lambda it: it.faults.empty_disk(HOST),
    ),
    "rank-killed": Fault(_kill_rank, "exit code 137"),
    "preempted": Fault(_preempt, "the scheduler preempted its pod", repair=_delete_preemptor),
    "api-server-killed": Fault(_kill_api_server, fails=False),
    "etcd-stopped": Fault(_stop_etcd, fails=False),
}


def write_task(fault: Fault, task_id: str) -> str:
    """Return the file of a task of three ranks."""
    resources: dict[str, Any] = {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi"}
    if task_id == RECOVERING:
        resources["job_recovery"] = {"max_restarts_on_errors": 4}
    task = {"name": "fault", "num_nodes": 3, "run": "echo started; sleep 600"}
    return json.dumps(task | {"resources": resources, "config": fault.config})
