"""Ports of a task: the Service of rank 0, its endpoints, and its deletion."""

import os

from tests.e2e.command import Command
from tests.e2e.support import submit, until_deleted
from tests.polling import eventually

PORT = 28_000 + os.getpid() % 2_000  # pods of the practice cluster share a network
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
        print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode(), end="")
        break
    except OSError:
        assert time.monotonic() < end
        time.sleep(0.2)
"""
QUICK = "name: quick\nresources: {image_id: 'busybox:1.36'}\nrun: 'true'\n"


def ready(sky: Command, task_id: str) -> None:
    eventually(lambda: sky.json("ports", task_id)["ready"])


def test_ports_service_reaches_rank_0_from_all_pods(sky: Command, kubectl: Command) -> None:
    # clusterip needs kube-proxy, which not every test cluster has
    submit(sky, SERVER, "webweb11", "--expose", "podip")
    ready(sky, "webweb11")
    (port,) = sky.json("ports", "web")["ports"]
    assert port["address"].startswith("web-webweb11-ports.")
    code = ("python3", "-c", FETCH, f"http://{port['address']}")
    for rank in ("0", "1"):
        done = sky("exec", "webweb11", "--rank", rank, "--", *code)
        assert done.stdout == "hello from 0\n", done.stderr
    assert sky("stop", "webweb11").returncode == 0
    until_deleted(kubectl, "webweb11")


def test_submit_service_of_every_type_is_accepted_by_server(sky: Command) -> None:
    for how in ("clusterip", "podip", "loadbalancer"):
        flags = ("--ports", "1-100", "--expose", how, "--dry-run=server")
        done = sky("submit", "-", *flags, stdin=QUICK)
        assert done.returncode == 0, (how, done.stderr)
        assert "Service/quick-" in done.stdout
