"""`ports`, over a cluster in memory."""

import json

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: quick\nresources: {ports: [80, 8000-8001]}\nrun: sleep 600\n"
SERVICE = f"quick-{ID}-ports"
GROUP = "name: both\nexecution: parallel\n" + "".join(
    f"---\nname: p{port}\nresources: {{ports: {port}}}\nrun: sleep 1\n" for port in (80, 90)
)


def test_ports_of_nodeport_are_shown_with_address_outside_cluster(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(TASK, expose="nodeport")
    spec = api.get(kinds.SERVICE, SERVICE)["spec"]
    assert [port["port"] for port in spec["ports"]] == [80, 8000, 8001]

    ports = [port | {"nodePort": 30_000 + port["port"]} for port in spec["ports"]]
    api.change(kinds.SERVICE, SERVICE, spec=spec | {"ports": ports, "clusterIP": "10.0.0.9"})
    address = {"type": "InternalIP", "address": "10.1.0.5"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}}
    api.put(node | {"status": {"addresses": [address]}})
    pod = api.start(f"quick-{ID}")
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.2.0.7"}
    api.change(kinds.POD, pod, status=api.get(kinds.POD, pod)["status"] | ready)
    code, out, err = run("status", "quick", "--ports")
    assert (code, err) == (0, f"on this machine: kubectl sky port-forward {ID} 80 8000 8001\n")

    header, *rows = out.splitlines()
    assert header.split() == ["PORT", "ENDPOINT", "OUTSIDE", "POD-READY"]

    for row, port in zip(rows, ports, strict=True):
        number, endpoint, outside, is_ready = row.split()
        assert (number, is_ready) == (str(port["port"]), "yes")
        assert endpoint.endswith(f".svc:{number}")
        assert outside.endswith(f":{port['nodePort']}")
    assert run("ports", "quick", "-o", "name")[1] == f"service/{SERVICE}\n"
    assert json.loads(run("ports", "quick", "-o", "json")[1])["cluster_ip"] == "10.0.0.9"


def test_ports_of_group_are_those_of_every_task(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(GROUP)
    for job in [name.split()[1] for name in api.names() if name.startswith("jobs ")]:
        api.start(job)
        api.finish(job)
    _, out, err = run("ports", ID)
    rows = [row.split()[:2] for row in out.splitlines()]
    assert rows == [["TASK", "PORT"], ["p80", "80"], ["p90", "90"]]
    assert err.count("has finished: nothing listens on its ports") == 2


def test_ports_of_task_without_ports_are_refused(run: Run, send: Submitter) -> None:
    send("name: quick\nrun: 'true'\n")
    code, _, err = run("ports", ID)
    assert (code, f"error: {ID} (quick) has no Service" in err) == (2, True)


@pytest.mark.parametrize("expose", ["clusterip", "podip"])
def test_submit_same_id_with_other_exposure_is_refused(
    run: Run, send: Submitter, expose: str
) -> None:
    send(TASK, expose="nodeport")
    submit = ("submit", "task.yaml", "--id", ID, "--detach", "--expose")
    assert run(*submit, "nodeport")[1].startswith(f"task/{ID} unchanged: ")
    code, _, err = run(*submit, expose)
    assert (code, f"Service/{SERVICE}: spec." in err) == (2, True), err
