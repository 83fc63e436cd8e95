"""Groups: tasks of a file that run in parallel and reach each other by name."""

import yaml

from tests.e2e.command import Command
from tests.e2e.pipelines import until_no_objects

SERVER = """
import http.server, os, threading

class Handler(http.server.BaseHTTPRequestHandler):
    left = 2

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served by " + os.uname().nodename.encode())
        Handler.left -= 1
        if not Handler.left:
            threading.Thread(target=server.shutdown).start()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer((os.environ["POD_IP"], 18765), Handler)
server.serve_forever()
"""
CLIENT = """
import os, time, urllib.request

url = "http://server-0." + os.environ["SKYPILOT_JOBGROUP_NAME"] + ":18765/"
for attempt in range(60):
    try:
        print(urllib.request.urlopen(url, timeout=60).read().decode())
        break
    except OSError:
        time.sleep(1)
else:
    raise SystemExit(1)
"""
DUET = [
    {"name": "Duet_1", "execution": "parallel"},
    {"name": "server", "run": f"python3 -c '{SERVER}'"},
    {"name": "client", "num_nodes": 2, "run": f"python3 -c '{CLIENT}'"},
]


def test_submit_group_tasks_reach_each_other_by_name(sky: Command, kubectl: Command) -> None:
    file = sky.write("group.yaml", yaml.safe_dump_all(DUET, sort_keys=False))
    done = sky("submit", file, "--id", "duet0001")
    assert done.returncode == 0, done.stderr

    first, *lines = done.stdout.splitlines()
    assert first.startswith("group/duet0001 submitted: Duet_1, 2 tasks in namespace ")
    assert sorted(lines) == [
        "client node-0 | served by server-0",
        "client node-1 | served by server-0",
    ]

    services = kubectl("get", "services", "-l", "kubectl-sky/pipeline", "-o", "name").stdout
    assert services == "service/duet-1-duet0001\n"
    assert sky.json("status", "duet0001")["execution"] == "parallel"
    assert sky("submit", file, "--id", "duet0001", "-d").stdout.startswith(
        "group/duet0001 unchanged"
    )
    assert sky("stop", "duet0001").returncode == 0

    until_no_objects(kubectl)
