"""Tasks, and what several end-to-end tests look at: objects of a task, its Jobs, its result."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.tasks import doctor, find
from tests.cluster.faults import Faults
from tests.e2e.command import PROGRAM, Command, submitted
from tests.observe.test_doctor import SNAPSHOTS, dump
from tests.polling import eventually


def objects(kubectl: Command, task_id: str) -> list[str]:
    """List the objects of a task in the cluster, without pods."""
    kinds = "jobs,configmaps,secrets,services"
    listed = kubectl("get", kinds, "-l", f"task-id={task_id}", "-o", "json")
    return sorted(
        f"{item['kind']}/{item['metadata']['name']}" for item in json.loads(listed.stdout)["items"]
    )


def until_deleted(kubectl: Command, task_id: str, seconds: float = 90) -> None:
    """Wait until all objects of a task are deleted."""
    eventually(lambda: not objects(kubectl, task_id), seconds)


def submit(sky: Command, script: str, task_id: str, *flags: str) -> str:
    done = sky("submit", "-", "--id", task_id, "--detach", *flags, stdin=script)
    assert done.returncode == 0, done.stderr
    return submitted(done)


def until_running(sky: Command, task_id: str) -> None:
    eventually(lambda: sky.json("status", task_id)["status"] == "running")


PAIR = """
name: pair
num_nodes: 2
resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}
run: sleep 600
"""


def submit_pair(sky: Command, task_id: str, *flags: str, text: str = PAIR) -> None:
    """Submit PAIR and wait until both nodes run."""
    done = sky("submit", "-", "--id", task_id, "--detach", *flags, stdin=text)
    assert done.returncode == 0, done.stderr
    eventually(lambda: sky.json("status", task_id)["metadata"]["running_nodes"] == 2, 90)


def failure_texts(sky: Command, task_id: str, timeout: str = "60s") -> dict[str, str]:
    """Return what each command says of a task that fails within the timeout."""
    waited = sky("wait", task_id, "--timeout", timeout, timeout=200)
    assert waited.returncode == 4, waited.stderr
    logs = sky("logs", task_id)
    assert logs.returncode == 4, logs.stderr
    commands = {"list": ("-o", "wide"), "status": (task_id,), "doctor": (task_id,)}
    shown = {name: sky(name, *arguments) for name, arguments in commands.items()}
    for name, done in shown.items():
        assert done.stdout, (name, done.returncode, done.stderr)
    printed = {name: done.stdout for name, done in shown.items()}
    return {"wait": waited.stdout, **printed, "logs": logs.stderr}


LONG = "--timeout=100s"
GRACE = 30  # seconds between SIGTERM and SIGKILL of a pod


FAILING = """
name: three
num_nodes: 4
run: |
  echo rank $NODE_RANK of $NUM_NODES
  if [ $NODE_RANK = 2 ]; then sleep 1; exit 7; fi
  sleep 300
"""


def seconds_between_failures(kubectl: Command, task_id: str) -> float:
    """Return the seconds between the first and the last failure of a task's Jobs."""
    waited = kubectl("wait", "--for=condition=Failed", "job", "-l", f"task-id={task_id}", LONG)
    assert waited.returncode == 0, waited.stderr
    ends = []
    for job in kubectl.json("get", "jobs", "-l", f"task-id={task_id}")["items"]:
        (failed,) = (c for c in job["status"]["conditions"] if c["type"] == "Failed")
        ends.append(datetime.fromisoformat(failed["lastTransitionTime"]))
    return (max(ends) - min(ends)).total_seconds()


def selected_pods(kubectl: Command, service: str) -> list[str]:
    """Return the pods that a Service selects, by name without the random suffix."""
    chosen = kubectl.json("get", "service", service)["spec"]["selector"]
    labels = ",".join(f"{key}={value}" for key, value in chosen.items())
    pods = kubectl.json("get", "pods", "-l", labels)["items"]
    return [pod["metadata"]["name"].rpartition("-")[0] for pod in pods]


def fetch(url: str) -> str:
    """Return the body of a URL once a server answers."""

    def body() -> str:
        with suppress(OSError), urllib.request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())
        return ""

    return eventually(body)


FAIL_ONCE = """
name: again
resources:
  image_id: busybox:1.36
  job_recovery: {max_restarts_on_errors: 2}
volumes: {/marks: %s}
run: |
  if [ -e /marks/been ]; then echo second attempt; exit 0; fi
  touch /marks/been
  echo first attempt
  exit 3
"""


def create_volume(sky: Command, name: str) -> str:
    assert sky("volumes", "create", name, "1Gi").returncode == 0
    return name


def write_settings(tmp_path: Path, text: str) -> None:
    folder = tmp_path / ".config" / "kubectl-sky"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(text)


def pod_of(kubectl: Command, task_id: str) -> Any:
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    return pod


def evict(kubectl: Command, namespace: str, pod: str) -> None:
    """Evict a pod, which the practice cluster cannot."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    done = kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert done.returncode == 0, done.stderr


@contextmanager
def crd_installed(kubectl: Command, definition: dict[str, Any]) -> Iterator[None]:
    """Define a CRD for the test and wait until it is served."""
    text = json.dumps(definition)
    made = kubectl("apply", "--server-side", "-f", "-", stdin=text)
    try:
        assert made.returncode == 0, made.stderr
        name = f"crd/{definition['metadata']['name']}"
        wait = ("wait", "--for=condition=Established", name, "--timeout=60s")
        wait_for_controller(
            lambda: kubectl(*wait).returncode == 0
        )  # kubectl fails while the status has no conditions
        yield
    finally:
        kubectl("delete", "-f", "-", "--timeout=60s", stdin=text)


@contextmanager
def crds_applied(kubectl: Command, *paths: Path) -> Iterator[None]:
    """Apply CRDs of files, and delete them afterwards unless they existed."""
    files = [word for path in paths for word in ("-f", str(path))]
    before = kubectl("get", *files, "--ignore-not-found", "-o", "name").stdout
    made = kubectl("apply", "--server-side", *files)
    try:
        assert made.returncode == 0, made.stderr
        wait = ("wait", "--for=condition=Established", "--timeout=60s", *files)
        eventually(lambda: kubectl(*wait).returncode == 0)  # it fails without conditions
        yield
    finally:
        if not before:
            kubectl("delete", *files, "--ignore-not-found", "--timeout=60s")


def kill_api_server_during_submit(
    kubectl: Command,
    faults: Faults,
    submit: subprocess.Popen[str],
    task_id: str,
    nodes: int,
    seconds: float,
) -> str:
    """Kill the API server for a while as soon as there is a Job; return what submit prints.

    Every Job is created once.
    """

    def jobs() -> list[str]:
        return kubectl("get", "jobs", "-l", f"task-id={task_id}", "-o", "name").stdout.split()

    eventually(jobs)
    faults.kill("kube-apiserver")
    time.sleep(seconds)
    faults.start("kube-apiserver")
    out, err = submit.communicate(timeout=200)
    assert submit.returncode == 0, out + err
    assert len(set(jobs())) == len(jobs()) == nodes
    return out


def wait_for_controller(check: Callable[[], bool], seconds: float = 120) -> None:
    """Wait longer than `eventually` does: a controller that has just started takes its time."""
    eventually(check, seconds, message="the controller did not act in time")


def listening(port: int) -> socket.socket:
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("127.0.0.1", port))
    other.listen()
    return other


TROUBLE_ID = "trouble1"


def record_snapshot(sky: Command, name: str) -> None:
    """Record the cluster's answers for tests without a cluster."""
    session = Session.connect(Connection(kubeconfig=sky.environment["KUBECONFIG"]))
    task = find.get_task(session, find.Scope(session.namespace, None), TROUBLE_ID)
    snapshot, _ = doctor.snapshot(session, task)
    (SNAPSHOTS / f"{name}.json").write_text(dump(snapshot, session.namespace))
    session.close()


def as_controller(
    sky: Command, kubectl: Command, environment: dict[str, str], namespace: str, only: str
) -> Command:
    """Apply the rights of `controllers install`; return this program with nothing but them."""
    text = sky("controllers", "install", "-n", namespace, "--only", only).stdout
    apart = ("CustomResourceDefinition", "Deployment")
    items = [item for item in yaml.safe_load_all(text) if item["kind"] not in apart]
    done = kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(items))
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load(Path(environment["KUBECONFIG"]).read_text())
    token = kubectl("create", "token", f"kubectl-sky-controller-{only}").stdout.strip()
    current = next(c for c in config["contexts"] if c["name"] == config["current-context"])
    current["context"]["user"] = "controller"
    config["users"] = [{"name": "controller", "user": {"token": token}}]
    kubeconfig = sky.folder / "kubeconfig-of-controller"
    kubeconfig.write_text(json.dumps(config))
    variables = environment | {"KUBECONFIG": str(kubeconfig)}
    return Command(PROGRAM, variables, sky.folder)


def until_output(kubectl: Command, *arguments: str) -> str:
    """Repeat a kubectl command until it prints something."""
    pods = ("get", "pods,events", "-o", "wide")
    return eventually(lambda: kubectl(*arguments).stdout, message=lambda: kubectl(*pods).stdout)
