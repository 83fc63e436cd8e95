"""Services: created, updated, shown and deleted on both clusters."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e.command import Command, Done
from tests.polling import eventually

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(280)

SERVER = """
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200 if self.headers.get("Token") == os.environ.get("WANTED") else 401)
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200 if body == {"say": "it's $5", "token": os.environ["TOKEN"]} else 400)
    def answer(self, code):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(os.environ["GREETING"].encode())
address = os.environ["POD_IP"]  # replicas on the practice cluster share the ports of the machine
http.server.ThreadingHTTPServer((address, 8644), Handler).serve_forever()
"""
PROBE = {"path": "/", "endpoint_probe_interval_seconds": 1}
WEB: dict[str, Any] = {
    "name": "web",
    "envs": {"GREETING": "one"},
    "service": {"readiness_probe": PROBE, "replicas": 2},
    "resources": {"ports": 8644, "cpus": "50m"},
    "run": f"echo serving; cat > server.py <<'END'{SERVER}END\nexec python3 server.py",
}


def service(sky: Command, **fields: Any) -> str:
    """Write the file of a service."""
    return sky.write("web.yaml", yaml.safe_dump(WEB | fields))


def update_in_vain(sky: Command, cause: str, *arguments: str) -> str:
    """Return the error of an update; again, without a change, until the cause is known."""

    def update() -> Done | None:
        done = sky("serve", "update", *arguments, "--wait-timeout", "3s")
        return None if done.returncode == 4 and cause not in done.stderr else done

    done = eventually(update)
    assert done and done.returncode == 4
    return done.stderr


def served(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def objects(kubectl: Command, kinds: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(kubectl("get", kinds, "-o", "json").stdout)["items"]
    names = ("kubernetes", "kube-root-ca.crt")
    return [item for item in items if item["metadata"]["name"] not in names]


def test_service_up_update_and_down(sky: Command, kubectl: Command) -> None:
    """Replicas serve behind one address, and one is always ready while they are replaced."""
    file = service(sky)
    web = served(sky("serve", "up", file, "-o", "json"))
    assert (web["status"], web["version"], web["replicas"]["ready"]) == ("ready", 1, 2)
    assert re.fullmatch(r"web\.[\w-]+\.svc:8644", web["endpoints"][0])
    again = sky("serve", "up", file)
    assert again.returncode == 2 and "serve update" in again.stderr
    get = "import urllib.request; print(urllib.request.urlopen('http://web:8644').read())"
    done = kubectl("exec", "deployment/web", "--", "python3", "-c", get)
    assert done.stdout == "b'one'\n", done.stderr
    assert sky("list", "-o", "name").stdout == "", "a service is no task"
    unchanged = sky("serve", "update", file, "-o", "json")
    assert "unchanged" in unchanged.stderr and served(unchanged)["version"] == 1

    watched = kubectl.start(
        "get", "deployment", "web", "-w", "-o=jsonpath={.status.readyReplicas} "
    )
    web = served(sky("serve", "update", file, "--env", "GREETING=two", "-o", "json"))
    assert (web["status"], web["version"]) == ("ready", 2)
    watched.terminate()
    counts = [int(text) for text in watched.communicate()[0].split()]
    assert counts and min(counts) >= 2, "none is missing during the update"
    kubectl.end()
    logs = sky("serve", "logs", "web", "--tail", "-1").stdout
    assert {"replica-0 | serving", "replica-1 | serving"} <= set(logs.splitlines())

    assert "service/web deleted" in sky("serve", "down", "web").stdout
    kinds = "deployments,replicasets,pods,services,configmaps,secrets,hpa"
    eventually(lambda: not objects(kubectl, kinds), 90, lambda: str(objects(kubectl, kinds)))
    gone = sky("serve", "status", "web")
    assert gone.returncode == 2 and 'service "web" not found' in gone.stderr


def test_service_bad_update_shows_reason_and_old_replicas_serve(
    sky: Command, kubectl: Command
) -> None:
    file = service(sky, service=WEB["service"] | {"replicas": 1})
    assert sky("serve", "up", file).returncode == 0

    bad = service(sky, run="echo no such model >&2; exit 3")
    error = update_in_vain(sky, "no such model", bad, "--replicas", "1")
    assert "kubectl rollout undo deployment/web" in error

    web = sky.json("serve", "status", "web")
    assert web["replicas"]["ready"] == 1
    assert [(pod["version"], pod["ready"]) for pod in web["pods"]] == [(1, True), (2, False)]
    assert "exit code 3" in web["message"]
    assert kubectl("rollout", "undo", "deployment/web").returncode == 0

    eventually(lambda: sky.json("serve", "status", "web")["status"] == "ready")
    versions = {item["metadata"]["labels"]["task-id"] for item in objects(kubectl, "configmaps")}
    assert len(versions) == 2

    for greeting in ("a", "b", "c"):  # old versions go, those of the last ReplicaSets stay
        flags = ("--env", f"GREETING={greeting}", "--replicas", "1")
        good = service(sky)
        assert sky("serve", "update", good, *flags).returncode == 0
    assert len(objects(kubectl, "configmaps")) <= 4


def test_service_tls_is_an_ingress_with_the_certificate(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    for name in ("key", "cert"):
        (tmp_path / f"{name}.pem").write_text(f"-----BEGIN {name}-----\nc3t\n")
    for setting, value in (("class", "nginx"), ("domain", "example.com")):
        assert sky("config", "set", f"ingress.{setting}", value).returncode == 0

    tls = {"keyfile": str(tmp_path / "key.pem"), "certfile": str(tmp_path / "cert.pem")}
    file = service(sky, service=WEB["service"] | {"replicas": 1, "tls": tls})
    web = served(sky("serve", "up", file, "-o", "json"))
    assert web["endpoints"][0] == "web.example.com:443"

    (ingress,) = objects(kubectl, "ingresses")
    secret = f"web-{web['version_id']}-tls"
    assert ingress["spec"]["tls"] == [{"hosts": ["web.example.com"], "secretName": secret}]

    unchanged = sky("serve", "update", file, "-o", "json")
    assert "unchanged" in unchanged.stderr and served(unchanged)["version"] == 1
    assert sky("serve", "update", service(sky, service=WEB["service"])).returncode == 0
    assert objects(kubectl, "ingresses") == []
    assert sky("serve", "down", "web").returncode == 0

    eventually(
        lambda: not objects(kubectl, "secrets"), 90, lambda: str(objects(kubectl, "secrets"))
    )


def test_replica_that_never_answers_is_not_ready_in_time(sky: Command) -> None:
    """It is no lack of memory, whatever the exit code of the killed container."""
    probe = WEB["service"] | {"readiness_probe": PROBE | {"initial_delay_seconds": 4}}
    pod_config = {"spec": {"terminationGracePeriodSeconds": 1}}
    config = {"kubernetes": {"pod_config": pod_config}}
    file = service(sky, service=probe | {"replicas": 1}, config=config, run="exec sleep 600")
    assert sky("serve", "up", file, "--detach").returncode == 0
    text = "not ready within initial_delay_seconds: 4"

    def messages() -> str:
        return str(sky.json("serve", "status", "web")["message"])

    eventually(lambda: messages().startswith(text), 120, messages)
    shown = sky("serve", "status", "web").stdout
    assert "next: correct service.readiness_probe" in shown and "memory" not in shown


def test_service_replica_restarted_in_its_pod_has_its_files_again(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "server.py").write_text(SERVER)
    fields = {"workdir": str(tmp_path / "code"), "run": "exec python3 server.py"}
    file = service(sky, **fields, service=WEB["service"] | {"replicas": 1})
    assert sky("serve", "up", file).returncode == 0
    done = kubectl("exec", "deployment/web", "--", "/bin/sh", "-c", "kill -TERM 1")
    assert done.returncode in (0, 137), done.stderr  # killed with its container

    def restarts() -> list[int]:
        pods = sky.json("serve", "status", "web")["pods"]
        return [pod["restarts"] for pod in pods if pod["ready"]]

    eventually(lambda: restarts() == [1], 90)


def test_service_post_probe_and_secret_header_are_sent(sky: Command, kubectl: Command) -> None:
    """The value of a secret is in a Secret only."""
    data = {"say": "it's $5", "token": "$TOKEN"}
    probe = PROBE | {"post_data": data, "headers": {"X": "${TOKEN}"}}
    fields = {"secrets": {"TOKEN": "s3cr3t"}, "service": {"readiness_probe": probe}}
    assert sky("serve", "up", service(sky, **fields)).returncode == 0
    assert "s3cr3t" not in json.dumps(objects(kubectl, "deployments,configmaps,pods"))
    get = PROBE | {"headers": {"Token": "$TOKEN"}}
    fields = {"secrets": {"TOKEN": "s3cr3t"}, "service": {"readiness_probe": get}}
    done = sky("serve", "update", service(sky, **fields), "--env", "WANTED=s3cr3t")
    assert done.returncode == 0, done.stderr
    update_in_vain(sky, "401", service(sky, **fields), "--env", "WANTED=x")


@pytest.mark.practice_only
@pytest.mark.parametrize("kind", ["deployment", "service"])
def test_service_foreign_object_of_the_same_name_is_untouched(
    sky: Command, kubectl: Command, kind: str
) -> None:
    create = {
        "deployment": ("create", "deployment", "web", "--image=busybox:1.36"),
        "service": ("create", "service", "clusterip", "web", "--tcp=80"),
    }
    assert kubectl(*create[kind]).returncode == 0
    (before,) = objects(kubectl, f"{kind}s")
    for words in (("up",), ("update",)):
        done = sky("serve", *words, service(sky))
        assert done.returncode == 2, done.stderr
    assert sky("serve", "down", "web").returncode == 2
    (after,) = objects(kubectl, f"{kind}s")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert objects(kubectl, "configmaps") == []


def test_service_autoscaler_is_accepted_and_removed(sky: Command, kubectl: Command) -> None:
    policy = {"min_replicas": 1, "max_replicas": 3, "target_qps_per_replica": 2.5}
    scaled = {"readiness_probe": PROBE, "replica_policy": policy | {"downscale_delay_seconds": 60}}
    file = service(sky, service=scaled)
    assert sky("serve", "up", file, "--cpu-target", "80", "--dry-run=server").returncode == 0
    created = sky("serve", "up", file, "--qps-metric", "requests", "-d")
    assert created.returncode == 0
    assert "1 of up to 3 replicas run: " in created.stderr

    (hpa,) = objects(kubectl, "hpa")
    assert hpa["spec"]["maxReplicas"] == 3
    assert hpa["spec"]["metrics"][0]["pods"]["target"]["averageValue"] == "2500m"
    assert kubectl("patch", "deployment/web", "-p", '{"spec":{"replicas":2}}').returncode == 0

    flags = ("--qps-metric", "requests", "--env", "A=b", "-d")
    assert sky("serve", "update", file, *flags).returncode == 0
    assert objects(kubectl, "deployments")[0]["spec"]["replicas"] == 2, "as the autoscaler chose"
    assert sky("serve", "update", file, "--replicas", "1", "-d").returncode == 0
    assert objects(kubectl, "hpa") == []


COUNTING = """
import http.server, json, os, threading, time, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    counted = 0
    def do_GET(self):
        Handler.counted += self.path == "/work"
        self.send_response(200)
        self.end_headers()
def tell():
    url = os.environ["METRICS"] + "/" + os.environ["HOSTNAME"] + "/http_requests_per_second"
    before = 0
    while True:
        time.sleep(1)
        rate = json.dumps(str(Handler.counted - before)).encode()
        before = Handler.counted
        header = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(url, rate, header)).close()
threading.Thread(target=tell, daemon=True).start()
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8644), Handler).serve_forever()
"""


@ON_REAL
def test_service_is_scaled_by_its_requests(
    sky: Command, kubectl: Command, namespace: str, pod_metrics: str
) -> None:
    """The pods tell an adapter their requests per second, as Prometheus would."""
    policy = {"min_replicas": 1, "max_replicas": 3, "target_qps_per_replica": 1}
    file = service(
        sky,
        service={
            "readiness_probe": PROBE,
            "replica_policy": policy | {"downscale_delay_seconds": 5},
        },
        envs={"METRICS": f"{pod_metrics}/namespaces/{namespace}/pods"},
        run=f"cat > server.py <<'END'{COUNTING}END\nexec python3 server.py",
    )
    assert sky("serve", "up", file).returncode == 0
    url = f"/api/v1/namespaces/{namespace}/services/web:8644/proxy/work"

    def replicas() -> int:
        ready: int = sky.json("serve", "status", "web")["replicas"]["ready"]
        return ready

    def ask() -> bool:
        for _ in range(10):
            kubectl("get", "--raw", url)
        return replicas() == 3

    assert replicas() == 1
    eventually(ask, 60)
    eventually(lambda: replicas() == 1, 60)


def test_service_example_serves(sky: Command) -> None:
    example = str(ROOT / "examples" / "23-service.yaml")
    assert sky("serve", "up", example).returncode == 0
    assert "hello-service" in sky("serve", "status").stdout
    scaled = sky("serve", "update", example, "--replicas", "0")
    assert (scaled.returncode, "State:      stopped" in scaled.stdout) == (0, True), scaled.stdout
    assert sky("serve", "down", "--all", "--yes").returncode == 0


def test_service_rights_are_enough(sky: Command, kubectl: Command, cluster: Cluster) -> None:
    """The Role of `doctor --role --with serve` is enough for each command."""
    config = yaml.safe_load(Path(sky.environment["KUBECONFIG"]).read_text())
    config["current-context"] = "alice"
    path = sky.folder / "of-alice"
    path.write_text(json.dumps(config))
    alice = Command(sky.program, {**sky.environment, "KUBECONFIG": str(path)}, sky.folder)
    role = alice("doctor", "--role", "--with", "serve", "-o", "json").stdout
    assert kubectl("apply", "-f", "-", stdin=role).returncode == 0
    file = service(sky, secrets={"TOKEN": "x"}, service={"replicas": 1})
    done = alice("serve", "up", file, "--cpus", "50m")
    assert done.returncode == 0, done.stderr
    for words in (("update", file, "--env", "A=b"), ("status", "web"), ("logs", "web")):
        done = alice("serve", *words)
        assert done.returncode == 0, done.stderr
    assert alice("serve", "down", "web").returncode == 0
