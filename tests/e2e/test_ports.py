"""Ports of a task: the Service of rank 0, its endpoints, and its deletion."""

import os

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import fetch, submit, until_deleted
from tests.polling import eventually

PORT = 33_000 + os.getpid() % 2_000  # pods of the practice cluster share a network
SERVER = f"""
name: web
num_nodes: 2
resources: {{ports: {PORT}}}
run: |
  mkdir -p /tmp/web && cd /tmp/web && echo "hello from $NODE_RANK" > index.html
  exec python3 -m http.server --bind $POD_IP {PORT}
"""
FETCH = """
import sys, time, urllib.request
end = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode(), end="")
        break
    except OSError:
        assert time.monotonic() < end
        time.sleep(0.2)
"""
QUICK = "name: quick\nresources: {image_id: 'busybox:1.36'}\nrun: 'true'\n"
AGAIN = f"""
name: again
resources: {{ports: {PORT}, job_recovery: {{max_restarts_on_errors: 3}}}}
run: |
  mkdir -p /tmp/web && cd /tmp/web && date +%s%N > index.html
  exec python3 -m http.server --bind $ADDRESS {PORT}
"""


def ready(sky: Command, task_id: str) -> None:
    eventually(lambda: sky.json("ports", task_id)["ready"])


@pytest.mark.parametrize(
    "backend", ["jobs", pytest.param("indexed", marks=pytest.mark.practice_only)]
)
def test_ports_service_reaches_rank_0_from_all_pods(
    sky: Command, kubectl: Command, backend: str
) -> None:
    # clusterip needs kube-proxy, which not every test cluster has
    submit(sky, SERVER, "webweb11", "--backend", backend, "--expose", "podip")
    ready(sky, "webweb11")
    (port,) = sky.json("ports", "web")["ports"]
    assert port["address"].startswith("web-webweb11-ports.")
    code = ("python3", "-c", FETCH, f"http://{port['address']}")
    for rank in ("0", "1"):
        done = sky("exec", "webweb11", "--rank", rank, "--", *code)
        assert done.stdout == "hello from 0\n", done.stderr
    assert sky("stop", "webweb11").returncode == 0
    until_deleted(kubectl, "webweb11")


@pytest.mark.practice_only
def test_ports_nodeport_is_shown_with_address_outside_cluster(
    sky: Command, kubectl: Command
) -> None:
    flags = ("--ports", "80", "--ports", "8000-8001", "--expose", "nodeport")
    text = QUICK.replace("'true'", "sleep 600")
    done = sky("submit", "-", "--id", "webweb12", "--detach", *flags, stdin=text)
    assert done.stderr.startswith("ports: reached from outside the cluster: ")
    done = sky("submit", "-", "--id", "webweb12", "--detach", *flags, stdin=text)
    assert done.stdout.startswith("task/webweb12 unchanged: ")
    done = sky("submit", "-", "--id", "webweb12", *flags[:-1], "clusterip", stdin=text)
    assert done.returncode == 2
    assert "Service/quick-webweb12-ports: spec.type" in done.stderr
    ready(sky, "webweb12")
    ports = kubectl.json("get", "service", "quick-webweb12-ports")["spec"]["ports"]
    assert [port["port"] for port in ports] == [80, 8000, 8001]
    shown = sky("ports", "quick")
    assert shown.stderr == "on this machine: kubectl sky port-forward webweb12 80 8000 8001\n"
    header, *rows = shown.stdout.splitlines()
    assert header.split() == ["PORT", "ENDPOINT", "OUTSIDE", "POD-READY"]
    for row, port in zip(rows, ports, strict=True):
        number, endpoint, outside, is_ready = row.split()
        assert (number, is_ready) == (str(port["port"]), "yes")
        assert endpoint.endswith(f".svc:{number}")
        assert outside.endswith(f":{port['nodePort']}")
    assert sky("ports", "quick", "-o", "name").stdout == "service/quick-webweb12-ports\n"
    wide = sky("ports", "quick", "-o", "wide").stdout.splitlines()[1].split()
    assert wide[4:6] == ["NodePort", sky.json("ports", "quick")["cluster_ip"]]


def test_submit_service_of_every_type_is_accepted_by_server(sky: Command) -> None:
    for how in ("clusterip", "podip", "loadbalancer"):
        flags = ("--ports", "1-100", "--expose", how, "--dry-run=server")
        done = sky("submit", "-", *flags, stdin=QUICK)
        assert done.returncode == 0, (how, done.stderr)
        assert "Service/quick-" in done.stdout


@pytest.mark.practice_only
def test_ports_group_lists_service_of_every_task(sky: Command) -> None:
    tasks = [f"name: {name}\nresources: {{ports: {name[1:]}}}\nrun: sleep 1\n" for name in PAIR]
    text = "---\n".join(["name: both\nexecution: parallel\n", *tasks])
    done = sky("submit", "-", "--id", "webweb13", stdin=text)
    assert done.returncode == 0, done.stderr
    shown = sky("ports", "webweb13")
    assert [row.split()[:2] for row in shown.stdout.splitlines()] == [
        ["TASK", "PORT"],
        *([name, name[1:]] for name in PAIR),
    ]
    assert shown.stderr.count("has finished: nothing listens on its ports") == 2


PAIR = ("p80", "p90")


@pytest.mark.practice_only
def test_ports_task_without_ports_is_refused(sky: Command) -> None:
    submit(sky, QUICK, "webweb14")
    done = sky("ports", "webweb14")
    assert done.returncode == 2
    assert "error: webweb14 (quick) has no Service" in done.stderr


@pytest.mark.practice_only
def test_port_forward_follows_replaced_pod(
    sky: Command, kubectl: Command, cluster: Cluster
) -> None:
    """The same port-forward reaches a replacement pod."""
    address = "$POD_IP" if cluster.driver == "practice" else "0.0.0.0"
    submit(sky, AGAIN.replace("$ADDRESS", address), "webweb15")
    running = sky.start("port-forward", "again", f":{PORT}", "--address", "127.0.0.1")
    try:
        assert running.stderr
        url = f"http://{running.stderr.readline().split()[2]}"
        first = fetch(url)
        assert kubectl("delete", "pod", "-l", "task-id=webweb15", "--wait=false").returncode == 0
        eventually(lambda: fetch(url) != first, 90)
    finally:
        running.terminate()
        running.communicate(timeout=20)
