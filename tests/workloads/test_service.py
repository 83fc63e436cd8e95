"""Probes, numbers and updates of services, from the file to the objects."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from kubectl_sky.errors import UserError
from kubectl_sky.plan.placement import choose_placement
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.resolve import resolve
from kubectl_sky.render import manifests
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.service import Flags, service_of
from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.service import as_replica, probe_script
from tests.spec.documents import make_document

Json = dict[str, Any]


def plan_of(service: Json, flags: Flags | None = None, **fields: Any) -> Plan:
    data = {"name": "web", "run": "serve", "resources": {"ports": 8080}, "service": service}
    document = make_document(data | fields)
    task = as_replica(task_of(document), service_of(document, flags or Flags(), METRIC))
    facts = Facts(owners.name_owner("alice"), "default")
    plan = resolve(task, "bcdf2345", choose_placement(task, facts), facts, Settings())
    return registry.find(task.backend or "").adapted(plan, task, facts)


def objects_of(service: Json, flags: Flags | None = None, **fields: Any) -> dict[str, Json]:
    own = manifests.render(plan_of(service, flags, **fields)).own
    return {manifest.object["kind"]: manifest.object for manifest in own}


def container(objects: dict[str, Json]) -> Json:
    (only,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_service_selects_its_pods_and_no_command_takes_them_for_tasks() -> None:
    objects = objects_of({"replicas": 3})
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"] == {
        "kubectl-sky/service": "web"
    }
    assert "skypilot-task" not in labels
    assert {objects[kind]["metadata"]["name"] for kind in ("Deployment", "Service")} == {"web"}
    assert objects["ConfigMap"]["metadata"]["name"] == "web-bcdf2345", "of one version"
    assert objects["Deployment"]["spec"]["replicas"] == 3
    assert objects_of({}, name=None)["Service"]["metadata"]["name"] == "service"
    env = [variable["name"] for variable in container(objects)["env"]]
    assert env.count("SKYPILOT_SERVE_REPLICA_ID") == 1


def test_probe_times_become_probes_of_the_kubelet() -> None:
    probe = {
        "path": "/h?a=b",
        "headers": {"X": "y"},
        "initial_delay_seconds": 61,
        "timeout_seconds": 2.5,
        "endpoint_probe_interval_seconds": 5,
        "consecutive_failure_threshold_timeout": 31,
    }
    main = container(objects_of({"readiness_probe": probe}))
    headers = [{"name": "X", "value": "y"}]
    http = {"path": "/h?a=b", "port": 8080, "httpHeaders": headers}

    times = {name: {**main[name]} for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert [probe.pop("httpGet") for probe in times.values()] == [http] * 3
    assert [tuple(probe.values()) for probe in times.values()] == [(1, 3, 62), (5, 3, 2), (5, 3, 7)]
    assert "livenessProbe" not in container(objects_of({"readiness_probe": "/"}))


@pytest.mark.parametrize(("probe", "path"), [("/health", "/health"), (None, "/")])
def test_probe_as_text_is_the_path(probe: str | None, path: str) -> None:
    main = container(objects_of({"replicas": 1} | ({"readiness_probe": probe} if probe else {})))
    assert main["readinessProbe"]["httpGet"] == {"path": path, "port": 8080}


@pytest.mark.parametrize(
    ("delay", "startup"), [(0, [3, 1, 1]), (0.1, [1, 1, 2]), (10, [2, 1, 6]), (1200, [3, 1, 401])]
)
def test_startup_probe_fails_after_its_delay_and_not_before(
    delay: float, startup: list[int]
) -> None:
    names = ("timeout_seconds", "endpoint_probe_interval_seconds")
    probe = {"path": "/", "initial_delay_seconds": delay, **dict.fromkeys(names, 0.1)}
    main = container(objects_of({"readiness_probe": probe}))
    found = [list(main[name].values())[1:] for name in ("startupProbe", "readinessProbe")]
    assert found == [startup, [1, 1, 2]]


@pytest.mark.parametrize(
    ("gpus", "replicas", "surge", "unavailable"),
    [(None, 3, 1, 0), ("A100:1", 1, 1, 0), ("A100:1", 3, 0, 1)],
)
def test_update_adds_no_replica_where_several_have_gpus(
    gpus: str | None, replicas: int, surge: int, unavailable: int
) -> None:
    resources = {"ports": 80} | ({"accelerators": gpus} if gpus else {})
    spec = objects_of({"replicas": replicas}, resources=resources)["Deployment"]["spec"]
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    assert spec["strategy"]["rollingUpdate"] == update


METRIC = Settings().qps_metric
POLICY = {"min_replicas": 0, "max_replicas": 4, "target_qps_per_replica": 2.5}


def test_scaling_counts_requests_by_the_metric_of_the_settings() -> None:
    spec = objects_of({"replica_policy": POLICY})["HorizontalPodAutoscaler"]["spec"]
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"] == {"name": METRIC}


def test_fixed_number_of_replicas_is_not_scaled() -> None:
    fixed = objects_of({"replica_policy": POLICY}, Flags(replicas=2))
    assert fixed["Deployment"]["spec"]["replicas"] == 2
    assert "HorizontalPodAutoscaler" not in fixed
    with pytest.raises(UserError, match="requested CPUs"):
        plan_of({"replica_policy": POLICY}, Flags(cpu_target=80))
    with pytest.raises(UserError, match="min_replicas and max_replicas"):
        plan_of({"replicas": 2}, Flags(cpu_target=80))


def test_scaling_becomes_an_autoscaler() -> None:
    policy = POLICY | {"upscale_delay_seconds": 9, "downscale_delay_seconds": 9999}
    objects = objects_of({"replica_policy": policy}, Flags(qps_metric="rps"))
    spec = objects["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    target = {"type": "AverageValue", "averageValue": "2500m"}
    assert spec["metrics"] == [
        {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}}
    ]
    assert spec["behavior"]["scaleUp"] == {"stabilizationWindowSeconds": 9}
    assert spec["behavior"]["scaleDown"] == {"stabilizationWindowSeconds": 3600}


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"resources": {}}, "resources.ports", "a service without a port"),
        ({"resources": {"ports": "80-81"}}, "resources.ports", "several ports"),
        ({"num_nodes": 2}, "num_nodes", "is one pod"),
        ({"volumes": {"/v": {"size": "1Gi"}}}, "volumes./v", "deleted with the version"),
        (
            {"volumes": {"/v": "v"}, "config": {"kubectl_sky": {"logs": "/v"}}},
            "config.kubectl_sky.logs",
            "all replicas would write the same file",
        ),
        (
            {"service": {"replicas": -1}},
            "service.replicas",
            "not supported: -1; use a number from 0 to 10,000",
        ),
        (
            {"service": {"readiness_probe": {"path": "/", "timeout_seconds": float("nan")}}},
            "service.readiness_probe.timeout_seconds",
            "; use a number from 0 to 1,000,000",
        ),
        (
            {"service": {"readiness_probe": {"path": "/", "initial_delay_seconds": 1e400}}},
            "service.readiness_probe.initial_delay_seconds",
            "; use a number from 0 to 1,000,000",
        ),
        (
            {"service": {"readiness_probe": {"path": "/", "headers": {"A": "b\r\nC: d"}}}},
            "service.readiness_probe.headers.A",
            "control character",
        ),
        (
            {"service": {"readiness_probe": {"path": "/", "headers": {"a b": "c"}}}},
            'service.readiness_probe.headers."a b"',
            "invalid header name",
        ),
        (
            {"secrets": {"T": "x"}, "service": {"readiness_probe": "/$T"}},
            "service.readiness_probe",
            "would show a secret",
        ),
    ],
)
def test_service_that_cannot_be_served_is_refused(fields: Json, path: str, words: str) -> None:
    data = {"run": "x", "resources": {"ports": 80}, "service": {"replicas": 1}}
    (problem,) = refusals(make_document(data | fields), served=True)
    assert problem.path == path and words in str(problem)


def test_task_without_service_is_not_served() -> None:
    (problem,) = refusals(make_document({"run": "x"}), served=True)
    assert problem.message == "no service to serve"


class Server(BaseHTTPRequestHandler):
    """Keeps the last request."""

    received: tuple[str, str, str, str] = ("", "", "", "")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        received = (self.command, self.path, self.headers.get("Authorization", ""), body)
        type(self).received = received
        code = 500 if "fail" in body else 200
        if "moved" in body:
            code = 302
        self.send_response(code)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 -- of the standard library

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass(frozen=True)
class Tool:
    """A PATH with one program that can send requests."""

    name: str
    path: str

    @property
    def keeps_secrets(self) -> bool:
        return self.name in ("curl", "python3", "wget")


@pytest.fixture(params=["curl", "python3", "wget", "busybox wget", "nothing"])
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Tool:
    program, _, applet = request.param.partition(" ")
    executable = shutil.which(program) if program != "python3" else Path(sys.executable).resolve()
    if program != "nothing" and not executable:
        pytest.skip(f"no {program} on this machine")
    folder = tmp_path / "bin"
    folder.mkdir()
    if executable:
        (folder / (applet or program)).symlink_to(executable)
    return Tool(request.param, str(folder))


HOSTILE = 'it\'s "$HOME" `id` $(id) \\ é'


def run_probe(
    folder: str, port: int, tmp_path: Path, secret: str = "", **probe: Any
) -> subprocess.CompletedProcess[str]:
    """Run the script of a probe in an image with the programs of a folder."""
    data = {"run": "x", "secrets": {"TOKEN": "dummy"}}
    document = make_document(data | {"service": {"readiness_probe": probe, "ports": port}})
    (script,) = probe_script(service_of(document, Flags(), METRIC)).values()
    assert not secret or secret not in script
    (tmp_path / "probe.sh").write_text(script)
    proxy = "http://127.0.0.1:9"  # that listens nowhere
    environment = {"PATH": folder, "TOKEN": secret, "http_proxy": proxy, "all_proxy": proxy}
    environment["POD_IP"] = "127.0.0.1"
    Server.received = ("", "", "", "")

    return subprocess.run(
        ["/bin/sh", str(tmp_path / "probe.sh")],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )


def test_probe_script_sends_the_request_with_any_tool(
    tool: Tool, port: int, tmp_path: Path
) -> None:
    """Only secrets are inserted; anything else is sent as it is written."""
    done = run_probe(
        tool.path,
        port,
        tmp_path,
        "s3 'cr3t",
        path="/a b[1]?c=$1",
        post_data={"say": HOSTILE, "t": "$TOKEN"},
        headers={"Authorization": "Bearer ${TOKEN}"},
    )
    assert "cr3t" not in done.stdout + done.stderr

    if not tool.keeps_secrets:
        assert done.returncode == 1 and "no curl, python3 or GNU wget" in done.stdout
        assert Server.received[0] == ""
        return
    assert done.returncode == 0, done.stderr

    body = json.dumps({"say": HOSTILE, "t": "$TOKEN"}).replace("$TOKEN", "s3 'cr3t")
    assert Server.received == ("POST", "/a%20b[1]?c=$1", "Bearer s3 'cr3t", body)


def test_probe_script_without_secrets_is_sent_by_any_tool(
    tool: Tool, port: int, tmp_path: Path
) -> None:
    done = run_probe(tool.path, port, tmp_path, path="/", post_data="@probe.sh")
    if tool.name == "nothing":
        assert done.returncode == 1 and "no curl, python3 or wget" in done.stdout
        return
    assert done.returncode == 0, done.stderr
    assert Server.received == ("POST", "/", "", "@probe.sh"), "not the content of the file"


@pytest.mark.parametrize(("name", "sent"), [("X-A", True), ("content-type", False)])
def test_probe_script_sends_json_unless_a_header_has_another_type(name: str, sent: bool) -> None:
    probe = {"path": "/", "post_data": "{}", "headers": {name: "text/plain"}}
    document = make_document({"run": "x", "service": {"readiness_probe": probe, "ports": 80}})
    (script,) = probe_script(service_of(document, Flags(), METRIC)).values()
    assert ("Content-Type: application/json" in script) is sent


def test_probe_script_fails_with_the_status(tool: Tool, port: int, tmp_path: Path) -> None:
    done = run_probe(tool.path, port, tmp_path, path="/", post_data='"fail"')
    assert done.returncode != 0 and done.stdout + done.stderr


@pytest.mark.parametrize("end", ["\n", "\r", "\nX-Admin: yes"])
def test_probe_script_of_secret_with_control_character_fails_without_its_value(
    tool: Tool, port: int, tmp_path: Path, end: str
) -> None:
    """What fails is shown in an Event of the pod."""
    headers = {"Authorization": "Bearer $TOKEN"}
    done = run_probe(tool.path, port, tmp_path, "s3cr3t" + end, path="/", headers=headers)
    assert done.returncode == 1 and Server.received[0] == ""
    assert "s3cr3t" not in done.stdout + done.stderr
    if tool.keeps_secrets:
        assert "does its secret end with a newline?" in done.stdout


def test_probe_script_does_not_follow_redirects(tool: Tool, port: int, tmp_path: Path) -> None:
    """Another server must not get the header. As for the kubelet, a redirect is an answer."""
    headers = {"Authorization": "x"}
    done = run_probe(tool.path, port, tmp_path, path="/", post_data="moved", headers=headers)
    if tool.keeps_secrets:
        assert done.returncode == 0, done.stdout + done.stderr
        assert Server.received[1] == "/"
    else:
        assert done.returncode == 1 and Server.received[1] == ""


RAY = {"ports": 8000, "image_id": "rayproject/ray:2.55.1", "accelerators": "A100:1"}


def ray_plan(run: str, **fields: Any) -> Plan:
    policy = {"min_replicas": 1, "max_replicas": 3, "target_qps_per_replica": 1}
    given = {"name": "fruit", "run": run, "setup": "true", "resources": RAY} | fields
    return plan_of({"replica_policy": policy}, Flags(backend="rayservice"), **given)


def test_serve_run_becomes_a_rayservice() -> None:
    plan = ray_plan("# x\nserve run fruit:app --name shop \\\n  --route-prefix=/f size='1 2'\n")
    own = {item.object["kind"]: item.object for item in manifests.render(plan).own}
    assert "Service" not in own, "KubeRay creates it"

    spec = own["RayService"]["spec"]
    config = yaml.safe_load(spec["serveConfigV2"])
    application = {"name": "shop", "route_prefix": "/f", "import_path": "fruit:app"}
    assert config["applications"] == [application | {"args": {"size": "1 2"}}]
    assert config["http_options"]["port"] == 8000

    cluster = spec["rayClusterConfig"]
    (group,) = cluster["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 3)
    assert cluster["enableInTreeAutoscaling"] is True

    head, worker = (
        item["template"]["spec"]["containers"][0] for item in (cluster["headGroupSpec"], group)
    )
    size = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    assert head["resources"] == size, "it is not a replica's: Ray never starts with 0.3 CPUs"
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert {"name": "serve", "containerPort": 8000} in worker["ports"]
    assert "readinessProbe" not in worker
    assert "KUBERAY_GEN_RAY_START_CMD" in own["ConfigMap"]["data"]["run.sh"]
    assert own["RayService"]["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"


def test_serve_run_by_python_is_the_same() -> None:
    assert ray_plan("python -m ray.serve run a:b").extras == ray_plan("serve run a:b").extras


@pytest.mark.parametrize(
    "run",
    [
        "python server.py",
        "pip install x\nserve run a:b",
        "serve run a:b; rm -rf /",
        "serve run a:b $(id)",
        "serve run config.yaml",
        "serve run",
        "serve run a:b --working-dir .",
        "serve run 'a:b",
    ],
)
def test_other_command_is_no_rayservice(run: str) -> None:
    with pytest.raises(FieldError, match="not supported by a RayService"):
        ray_plan(run)


def test_rayservice_needs_an_image_with_ray() -> None:
    with pytest.raises(FieldError, match="needs an image with Ray"):
        ray_plan("serve run a:b", resources={"ports": 8000})
