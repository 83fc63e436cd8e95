"""Endpoints of ports, from Services, pods and cluster nodes."""

from typing import Any

import pytest

from kubectl_sky.observe import status
from kubectl_sky.observe.endpoints import Ports, combine
from kubectl_sky.words.core_objects import Node, Service
from tests.builders import CREATED, make_job, make_pod
from tests.reading import read_as, read_jobs, read_list, read_pods

Json = dict[str, Any]
PORTS = [{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}]
READY = [{"type": "Ready", "status": "True"}]
POD = make_pod(0, "Running", {"running": {}}, conditions=READY, hostIP="10.0.0.9")
(TASK,) = status.tasks(read_jobs([make_job()]), read_pods([POD]))


def make_service(kind: str = "ClusterIP", address: str = "10.96.0.7", **balancer: str) -> Json:
    return {
        "metadata": {"name": "train-ports"},
        "spec": {"type": kind, "clusterIP": address, "ports": PORTS},
        "status": {"loadBalancer": {"ingress": [balancer]} if balancer else {}},
    }


def make_machine(name: str, **addresses: str) -> Json:
    found = [{"type": kind, "address": address} for kind, address in addresses.items()]
    return {"metadata": {"name": name}, "status": {"addresses": found}}


def exposed_by(service: Json, *machines: Json, pods: tuple[Json, ...] = (POD,)) -> Ports:
    return combine(TASK, read_as(Service, service), read_pods(pods), read_list(Node, machines))


def outside(found: Ports) -> list[str]:
    return [address for one in found.ports for address in one.outside]


def test_endpoints_cluster_ip_lists_service_addresses() -> None:
    found = exposed_by(make_service())
    assert [one.address for one in found.ports] == [
        "train-ports.default.svc:80",
        "train-ports.default.svc:443",
    ]
    assert (found.type, found.cluster_ip, found.ready) == ("ClusterIP", "10.96.0.7", True)
    assert (outside(found), found.pending) == ([], False)
    assert exposed_by(make_service(address="None")).cluster_ip == ""


def test_endpoints_nodeport_uses_address_of_pod_node() -> None:
    machines = (
        make_machine("other", InternalIP="10.0.0.1"),
        make_machine("worker-1", InternalIP="10.0.0.2"),
    )
    service = make_service("NodePort")
    assert outside(exposed_by(service, *machines)) == ["10.0.0.2:30080", "10.0.0.2:30443"]
    public = make_machine("public", ExternalIP="fd00::1", InternalIP="10.0.0.3")
    assert outside(exposed_by(service, *machines, public))[0] == "[fd00::1]:30080"
    assert outside(exposed_by(service))[0] == "10.0.0.9:30080", "the hostIP of the pod"
    assert outside(exposed_by(service, pods=())) == []


@pytest.mark.parametrize("balancer", [{"ip": "192.0.2.1"}, {"hostname": "192.0.2.1"}])
def test_endpoints_load_balancer_is_pending_until_it_has_address(balancer: dict[str, str]) -> None:
    found = exposed_by(make_service("LoadBalancer", **balancer))
    assert outside(found) == ["192.0.2.1:80", "192.0.2.1:443"]
    waiting = exposed_by(make_service("LoadBalancer"))
    assert (waiting.pending, outside(waiting)) == (True, [])


@pytest.mark.parametrize("change", ["none", "not ready", "going"])
def test_endpoints_without_ready_pod_are_not_ready(change: str) -> None:
    going = {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": CREATED}}
    pods = {"none": (), "not ready": (make_pod(),), "going": (going,)}[change]
    found = exposed_by(make_service(), pods=pods)
    assert found.ready is False
