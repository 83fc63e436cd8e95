"""Names and time limits of services, without a cluster."""

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubectl_sky.cli.serve import describe
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import KubeletUnreachable, TaskFailed, UnknownName, Unreachable
from kubectl_sky.observe.logs import Lines
from kubectl_sky.serve import action, logs, update
from kubectl_sky.serve.model import Replica, ReplicaCounts, ServiceState, ServiceStatus
from kubectl_sky.submitting.submit import Options, Prepared
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, names, owners
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads.service import Replicas
from tests.actions.conftest import Run
from tests.builders import CREATED
from tests.fake_cluster import FakeCluster, lost
from tests.reading import read

Json = dict[str, Any]
SESSION = cast(Session, SimpleNamespace(namespace="default"))
WEB = "name: web\nservice: {replicas: 2}\nresources: {ports: 8080}\nrun: serve\n"
LABELS = {"kubectl-sky/service": "web", "username": "alice"}


def make_item(kind: Kind, labels: Json) -> Json:
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": f"uid-{kind.kind}",
        "creationTimestamp": CREATED,
        "labels": labels,
    }
    spec = {"template": {"metadata": {"labels": labels}, "spec": {}}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Kind, Json]]:
    """The objects with the name of the service, by kind."""
    items: dict[Kind, Json] = {}
    monkeypatch.setattr(action, "get_manifest", lambda session, kind, name: items.get(kind))
    yield items


@pytest.fixture
def services(api: FakeCluster, tmp_path: Path) -> FakeCluster:
    """A cluster with the kinds of services, and files of two services."""
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    for name in ("web", "chat"):
        (tmp_path / f"{name}.yaml").write_text(WEB.replace("web", name))
    return api


def test_find_foreign_deployment_does_not_hide_rayservice(live: dict[Kind, Json]) -> None:
    live[kinds.DEPLOYMENT] = make_item(kinds.DEPLOYMENT, {})
    live[kinds.RAY_SERVICE] = make_item(kinds.RAY_SERVICE, LABELS)
    assert action.find(SESSION, owners.name_owner("alice"), "web").kind == "RayService"


def test_up_name_of_service_with_other_backend_is_taken(services: FakeCluster, run: Run) -> None:
    services.kinds.add(kinds.RAY_SERVICE)
    ray = make_item(kinds.RAY_SERVICE, LABELS)
    services.put(ray | {"metadata": ray["metadata"] | {"name": "web"}})
    code, _, stderr = run("serve", "up", "web.yaml", "--detach")
    assert (code, services.writes) == (2, [])
    assert 'service "web" already exists' in stderr


def test_status_several_services_lists_each_kind_once(services: FakeCluster, run: Run) -> None:
    for name in ("web", "chat"):
        assert run("serve", "up", f"{name}.yaml", "--detach")[0] == 0

    services.requests.clear()
    code, stdout, _ = run("serve", "status")
    assert code == 0
    assert {line.split()[0] for line in stdout.splitlines()[1:]} == {"web", "chat"}
    assert sorted(text for text in services.requests if text.startswith("list")) == [
        "list deployments",
        "list horizontalpodautoscalers",
        "list ingresses",
        "list pods",
        "list replicasets",
        "list services",
    ]
    assert "web.default.svc:8080" in stdout


@pytest.mark.parametrize("words", [("status",), ("down", "--all")])
def test_names_without_services_are_no_line(
    services: FakeCluster, run: Run, words: tuple[str, ...]
) -> None:
    assert run("serve", *words, "-o", "name")[:2] == (0, "")


def test_update_unchanged_gathers_facts_once_and_writes_nothing(
    services: FakeCluster, run: Run
) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    services.requests.clear()
    code, _, stderr = run("serve", "update", "web.yaml", "--detach")
    assert (code, services.writes) == (0, [])
    assert 'service "web" unchanged' in stderr
    assert services.count("create selfsubjectreviews") == 1


def test_update_unchanged_service_that_is_not_ready_fails(services: FakeCluster, run: Run) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    code, _, stderr = run("serve", "update", "web.yaml", "--wait-timeout", "500ms")
    assert code == 4
    assert 'service "web" unchanged' in stderr and "replicas are not ready in time" in stderr


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_update_unchanged_dry_run_prints_no_objects(
    services: FakeCluster, run: Run, dry_run: str
) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    code, stdout, stderr = run("serve", "update", "web.yaml", f"--dry-run={dry_run}", "-o", "yaml")
    assert (code, stdout) == (0, "")
    assert 'service "web" unchanged' in stderr


def test_update_changed_file_replaces_the_deployment(services: FakeCluster, run: Run) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    services.requests.clear()
    code, _, stderr = run("serve", "update", "web.yaml", "--detach", "--env", "A=b")
    assert code == 0 and 'service "web" updated' in stderr
    assert services.count("update deployments web") == 1


Write = Callable[..., str]
FILES = "{keyfile: key.pem, certfile: cert.pem}"


@pytest.fixture
def tls(run: Run, tmp_path: Path) -> Write:
    """Write the file of a service with `tls`, and its certificate."""
    for name in ("key", "cert"):
        (tmp_path / f"{name}.pem").write_text(f"-----BEGIN {name}-----\nc3t\n")

    def write(value: str, domain: str = "example.com") -> str:
        settings = f"ingress: {{class: nginx, domain: {domain}}}\n" if domain else ""
        (tmp_path / "settings.yaml").write_text(settings)
        service = f"service: {{replicas: 2, tls: {value}}}"
        (tmp_path / "web.yaml").write_text(WEB.replace("service: {replicas: 2}", service))
        return "web.yaml"

    return write


def test_tls_files_become_a_secret_and_an_ingress(
    services: FakeCluster, run: Run, tls: Write
) -> None:
    code, _, stderr = run("serve", "up", tls(FILES), "--detach", "--id", "web00001")
    assert code == 0, stderr

    secret = services.get(kinds.SECRET, "web-web00001-tls")
    assert secret["type"] == "kubernetes.io/tls"

    data = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    words = {"tls.crt": "cert", "tls.key": "key"}
    expected = {key: f"-----BEGIN {name}-----\nc3t\n".encode() for key, name in words.items()}
    assert data == expected

    spec = services.get(kinds.INGRESS, "web")["spec"]
    assert spec["tls"] == [{"secretName": "web-web00001-tls", "hosts": ["web.example.com"]}]

    (rule,) = spec["rules"]
    backend = {"service": {"name": "web", "port": {"number": 8080}}}
    assert (rule["host"], rule["http"]["paths"][0]["backend"]) == ("web.example.com", backend)
    assert (
        "Endpoints:  web.example.com:443, web.default.svc:8080" in run("serve", "status", "web")[1]
    )

    rendered = run("render", "web.yaml")[1]
    assert "UkVEQUNURUQ=" in rendered and secret["data"]["tls.key"] not in rendered


def test_tls_secret_of_the_user_is_used_and_must_exist(
    services: FakeCluster, run: Run, tls: Write, tmp_path: Path
) -> None:
    file = tls("{secret: mine}", "")
    (tmp_path / "settings.yaml").write_text("ingress: {class: nginx}\n")
    code, _, stderr = run("serve", "up", file, "--detach")
    assert code == 2 and 'Secret "mine" of service.tls not found in namespace "default"' in stderr
    services.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}})
    assert run("serve", "up", file, "--detach")[0] == 0
    spec = services.get(kinds.INGRESS, "web")["spec"]
    assert spec["tls"] == [{"secretName": "mine"}] and "host" not in spec["rules"][0]
    assert [name for name in services.names() if name.endswith("-tls")] == []


def test_update_without_tls_removes_the_ingress(
    services: FakeCluster, run: Run, tls: Write, tmp_path: Path
) -> None:
    assert run("serve", "up", tls(FILES), "--detach")[0] == 0
    services.requests.clear()
    assert run("serve", "update", "web.yaml", "--detach")[0] == 0
    assert services.writes == [], "unchanged"
    (tmp_path / "web.yaml").write_text(WEB)
    assert run("serve", "update", "web.yaml", "--detach")[0] == 0
    assert "ingresses web" not in services.names()


@pytest.mark.parametrize(
    ("value", "domain", "message"),
    [
        (FILES, "", "service.tls: the replicas serve without TLS, and no class of an Ingress is"),
        (FILES.replace("cert.pem", "no.pem"), "x", "tls.certfile: cannot be read: no such file"),
        (FILES.replace("cert.pem", "web.yaml"), "x", "service.tls.certfile: is not a PEM file"),
        ("{keyfile: key.pem}", "x", "service.tls: "),
        ("{secret: a, keyfile: key.pem, certfile: cert.pem}", "x", "service.tls: "),
    ],
)
def test_tls_that_cannot_be_used_is_refused(
    services: FakeCluster,
    run: Run,
    tls: Write,
    value: str,
    domain: str,
    message: str,
) -> None:
    code, _, stderr = run("serve", "up", tls(value, domain), "--detach")
    assert code == 2 and message in stderr, stderr
    assert services.writes == []


def test_tls_is_refused_by_validate_without_a_class(run: Run, tls: Write) -> None:
    assert run("validate", tls(FILES, ""))[0] == 2
    assert run("validate", tls(FILES, "example.com"))[0] == 0


def test_update_object_changed_by_its_controller_is_replaced(
    services: FakeCluster, run: Run
) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    for kind, attempts in ((kinds.DEPLOYMENT, 1), (kinds.DEPLOYMENT, 2), (kinds.SERVICE, 1)):
        written = partial(services.change, kind, "web", status={"conditions": []})
        services.before(f"update {kind.plural} web", written, attempts)
    code, _, stderr = run("serve", "update", "web.yaml", "--detach", "--env", "A=b")
    assert code == 0 and 'service "web" updated' in stderr
    assert services.count("update deployments web") == 3
    environment = services.get(kinds.DEPLOYMENT, "web")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "A", "value": "b"} in environment["env"]


SCALED = "replica_policy: {min_replicas: 1, max_replicas: 9, target_qps_per_replica: 2}"


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("", "the cluster has no metrics of pods; install an adapter such as"),
        ("pods/errors", 'no pod has the metric "http_requests_per_second" yet; --qps-metric'),
        ("pods/http_requests_per_second", ""),
    ],
)
def test_up_says_what_keeps_a_service_from_being_scaled(
    services: FakeCluster, run: Run, metric: str, reason: str
) -> None:
    if metric:
        services.kinds.add(Kind("custom.metrics.k8s.io", "v1beta2", "MetricValueList", metric))
    Path("web.yaml").write_text(WEB.replace("replicas: 2", SCALED))
    code, _, stderr = run("serve", "up", "web.yaml", "--detach")
    assert code == 0, stderr
    (scaled,) = services.get(kinds.HPA, "web")["spec"]["metrics"]
    assert scaled["pods"]["metric"] == {"name": "http_requests_per_second"}
    told = [line for line in stderr.splitlines() if "of up to 9 replicas run" in line]
    assert [reason in line for line in told] == [True] * bool(reason)


def test_up_missing_ingress_value_and_folder_are_told_at_once(
    services: FakeCluster, run: Run
) -> None:
    text = WEB.replace("replicas: 2", "replicas: 2, tls: {secret: web}")
    Path("web.yaml").write_text(f"{text}workdir: nosuch\nsecrets: {{KEY: null}}\n")
    code, _, stderr = run("serve", "up", "web.yaml")
    assert code == 2 and services.count("create") == 0
    for reason in ("ingress.class", "no such file", "the value is not set"):
        assert reason in stderr


def test_update_scaled_by_its_autoscaler_keeps_the_number_of_replicas(
    services: FakeCluster, run: Run
) -> None:
    text = WEB.replace("replicas: 2", f"readiness_probe: /, {SCALED}")
    Path("web.yaml").write_text(text.replace("8080", "8080, cpus: 1"))
    flags = ("web.yaml", "--cpu-target", "80", "--detach")
    assert run("serve", "up", *flags)[0] == 0
    spec = services.get(kinds.DEPLOYMENT, "web")["spec"] | {"replicas": 7}
    scaled = partial(services.change, kinds.DEPLOYMENT, "web", spec=spec)
    services.before("update deployments web", scaled)
    assert run("serve", "update", *flags, "--env", "A=b")[0] == 0
    assert services.get(kinds.DEPLOYMENT, "web")["spec"]["replicas"] == 7


def test_down_all_also_deletes_what_an_interrupted_up_left(services: FakeCluster, run: Run) -> None:
    for name in ("web", "chat"):
        assert run("serve", "up", f"{name}.yaml", "--detach")[0] == 0
    orphan = services.get(kinds.SERVICE, "web")
    services.remove(kinds.DEPLOYMENT, "web")
    del orphan["metadata"]["ownerReferences"]
    services.put(orphan)
    foreign = make_item(kinds.SERVICE, {"username": "alice"})
    services.put(foreign | {"metadata": foreign["metadata"] | {"name": "other"}})
    code, stdout, _ = run("serve", "down", "--all", "--yes")
    assert (code, stdout) == (0, "service/chat deleted\nservice/web deleted\n")
    assert [name for name in services.names() if name.startswith("services")] == ["services other"]


def test_down_deployment_with_finalizer_stops_its_replicas_and_names_it(
    services: FakeCluster, run: Run
) -> None:
    assert run("serve", "up", "web.yaml", "--detach")[0] == 0
    deployment = services.get(kinds.DEPLOYMENT, "web")
    deployment["metadata"]["finalizers"] = ["example.com/stuck"]
    services.put(deployment)
    replica_set = services.put(owned(make_item(kinds.REPLICA_SET, LABELS), deployment))
    services.put(owned(make_item(kinds.POD, LABELS), replica_set))
    waits = "waits for finalizer example.com/stuck"
    code, out, err = run("serve", "down", "web")
    assert (code, out) == (3, "")
    assert f"error: still being deleted: service/web: Deployment web {waits}" in err
    assert not {"pods web", "replicasets web"} & set(services.names())
    assert f": {waits}" in run("serve", "status", "web")[1]
    assert run("serve", "down", "web", "--wait=false") == (0, "service/web is being deleted\n", "")


def test_follow_rayservice_not_ready_fails_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 5000, 500))
    waiting = SimpleNamespace(
        status=ServiceState.STARTING,
        message="ImagePullBackOff",
        name="web",
        version=1,
        replicas=SimpleNamespace(ready=0, wanted=2),
    )
    monkeypatch.setattr(action, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(action, "sleep", lambda wait: next(seconds))
    monkeypatch.setattr(action, "find", lambda session, user, name: {})
    monkeypatch.setattr(action, "status", lambda session, item: waiting)
    serving = SimpleNamespace(name="web", ray_config="x", deadline=1800)
    options = SimpleNamespace(follow=True, start_timeout=None)

    ui = SimpleNamespace(note=lambda text: None)
    with pytest.raises(TaskFailed, match="ImagePullBackOff"):
        action.follow(SESSION, cast(Replicas, serving), cast(Options, options), cast(UI, ui))


@pytest.mark.parametrize(("version", "deleted"), [("new", []), ("old", ["web-new"])])
def test_update_failed_deletes_objects_of_version_only_if_not_sent(
    monkeypatch: pytest.MonkeyPatch, version: str, deleted: list[str]
) -> None:
    workload = make_item(kinds.DEPLOYMENT, LABELS)
    workload["metadata"]["uid"] = "1"
    template = {"metadata": {"labels": {names.TASK_ID: version}}}
    script = make_item(kinds.CONFIG_MAP, LABELS)
    script["metadata"] |= {"name": "web-new", "uid": "2"}
    removed: list[str] = []

    def lose(session: Session, item: Json) -> None:
        raise Unreachable("the answer was lost")

    monkeypatch.setattr(update, "admit", lambda *given: None)
    monkeypatch.setattr(update, "shared_objects", lambda *given: nullcontext(()))
    applied = [SimpleNamespace(object=script, created=True)]
    monkeypatch.setattr(update, "apply_all", lambda *given: applied)
    monkeypatch.setattr(update, "_replacement", lambda item, *given: item)
    monkeypatch.setattr(objects, "replace_object", lose)
    current = workload | {"spec": {"template": template}}
    monkeypatch.setattr(objects, "get_manifest", lambda *given: current)
    monkeypatch.setattr(
        objects, "delete_by_uid", lambda session, kind, metadata: removed.append(metadata["name"])
    )
    replicas = SimpleNamespace(name="web", scaling=None)
    monkeypatch.setattr(action, "plan_service", lambda prepared: replicas)
    item = SimpleNamespace(object=workload)
    manifests = SimpleNamespace(workload=(), own=[item], shared=())
    prepared = SimpleNamespace(
        session=SESSION,
        decision=SimpleNamespace(id="new"),
        existing=SimpleNamespace(manifests=manifests, shared=None),
    )
    with pytest.raises(Unreachable):
        update._send(cast(Prepared, prepared), workload, {"Deployment": workload})
    assert removed == deleted


def test_find_service_of_other_user_names_flag_of_all_commands(live: dict[Kind, Json]) -> None:
    live[kinds.DEPLOYMENT] = make_item(kinds.DEPLOYMENT, LABELS | {"username": "bob"})
    with pytest.raises(UnknownName, match="add --user bob"):
        action.find(SESSION, owners.name_owner("alice"), "web")


def owned(item: Json, owner: Json) -> Json:
    reference = {"kind": owner["kind"], "name": "web", "controller": True}
    reference |= {"apiVersion": owner["apiVersion"], "uid": owner["metadata"]["uid"]}
    return item | {"metadata": item["metadata"] | {"ownerReferences": [reference]}}


def test_logs_of_service_go_on_after_an_outage(
    services: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_POLL_SECONDS", 0.01)
    deployment = services.put(make_item(kinds.DEPLOYMENT, LABELS))
    replica_set = services.put(owned(make_item(kinds.REPLICA_SET, LABELS), deployment))
    replicas = logs._Replicas(services.session(), read(kinds.DEPLOYMENT, deployment), True, None)
    state = {"name": names.CONTAINER, "state": {"running": {}}}
    pod = owned(make_item(kinds.POD, LABELS), replica_set)
    services.put(pod | {"status": {"phase": "Running", "containerStatuses": [state]}})
    for number in range(1, 7):  # more than the retries of a request
        services.before("list pods", lost, number)
    assert next(filter(None, replicas.sources()))[0].pod == "web"


@pytest.mark.parametrize("follow", [False, True])
def test_logs_of_service_with_a_silent_kubelet_are_those_of_the_other_replicas(
    services: FakeCluster, follow: bool
) -> None:
    class Recorder(UI):
        def note(self, text: str) -> None:
            noted.append(text)

        def logs(self, lines: Lines, final_newline: bool) -> None:
            printed.extend(line for _, line in lines)

    noted: list[str] = []
    printed: list[bytes] = []
    stop = Event()
    deployment = services.put(make_item(kinds.DEPLOYMENT, LABELS))
    replica_set = services.put(owned(make_item(kinds.REPLICA_SET, LABELS), deployment))
    state = {"name": names.CONTAINER, "state": {"running": {}}}
    status = {"phase": "Running", "containerStatuses": [state]}
    for name in ("a", "b"):
        pod = owned(make_item(kinds.POD, LABELS), replica_set) | {"status": status}
        pod["metadata"] = pod["metadata"] | {"name": name}
        pod["spec"] = pod["spec"] | {"nodeName": f"n-{name}"}
        services.put(pod)
        services.log(name, f"from {name}\n".encode())
    services.stop_kubelet("n-b")
    services.before("get pods/log b", stop.set, 5)

    session = services.session()
    options = LogOptions(follow=follow)
    if follow:
        logs.show(session, read(kinds.DEPLOYMENT, deployment), options, None, Recorder(), stop)
        end = "its log continues when it can be read"
    else:
        with pytest.raises(KubeletUnreachable, match="cluster node n-b of pod b does not respond"):
            logs.show(session, read(kinds.DEPLOYMENT, deployment), options, None, Recorder(), stop)
        end = "its log is incomplete"
    assert printed == [b"from a"]
    assert noted == [f"replica-1: its cluster node n-b does not respond; {end}"]


NAMELESS = "service: {readiness_probe: /}\nresources: {ports: 8080}\nrun: serve\n"


def kinds_of(text: str) -> list[str]:
    return re.findall(r"^kind: (\w+)", text, re.MULTILINE)


@pytest.mark.parametrize(
    "command", [("render",), ("serve", "up", "--dry-run=client", "-o", "yaml")]
)
def test_service_without_name_and_cluster_is_rendered_with_generated_name(
    command: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    (tmp_path / "web.yaml").write_text(NAMELESS)
    code, stdout, stderr = run(
        *command, "web.yaml", "--user=ann", "--id=web00001", "--kubeconfig=/no", "--quiet"
    )
    assert (code, stderr) == (0, "")
    assert kinds_of(stdout) == ["ConfigMap", "Service", "Deployment"]
    assert "\n  name: service-web00001\n" in stdout


def test_up_client_dry_run_prints_what_render_prints_without_requests(
    services: FakeCluster, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "web.yaml").write_text(f"{WEB}secrets: {{TOKEN: s3cr3t}}\n")
    flags = ("web.yaml", "--user=ann", "--id=web00001", "--show-secrets")
    _, stdout, _ = run("serve", "up", *flags, "--dry-run=client", "-o", "yaml")
    assert stdout == run("render", *flags)[1]
    assert base64.b64encode(b"s3cr3t").decode() in stdout
    assert services.requests == []


def test_render_service_as_task_is_one_job(run: Run, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(NAMELESS)
    _, stdout, _ = run("render", "web.yaml", "--user=ann", "--as-task")
    assert kinds_of(stdout) == ["ConfigMap", "Service", "Job"]


def test_update_service_without_name_asks_for_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(NAMELESS)
    code, _, stderr = run("serve", "update", "web.yaml")
    hint = "add --name NAME, which `kubectl sky serve status` shows"
    assert (code, stderr) == (2, f"error: the service has no name\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("ready", "state", "replicas"),
    [
        ((1, 1), "failed (an earlier version serves)", "2 of 2 ready, 0 of this version"),
        ((1, 2), "failed", "2 of 2 ready, 1 of this version"),
    ],
)
def test_status_of_a_failed_update_says_which_version_serves(
    ready: tuple[int, ...], state: str, replicas: str
) -> None:
    pods = [Replica(at, f"web-{at}", version, True, 0, "", "") for at, version in enumerate(ready)]
    service = ServiceStatus(
        name="web",
        namespace="default",
        username="alice",
        status=ServiceState.FAILED,
        created_at="2026-01-01T00:00:00Z",
        version=2,
        version_id="abcd2345",
        replicas=ReplicaCounts(wanted=2, ready=2, updated=1, total=3, most=None),
        endpoints=(),
        message="",
        findings=(),
        pods=(*pods, Replica(2, "web-2", 2, False, 3, "", "", "exit code 3")),
    )
    lines = describe(service).splitlines()
    assert f"State:      {state}" in lines
    assert f"Replicas:   {replicas}" in lines
