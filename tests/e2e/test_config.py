"""What `config.kubernetes` asks for, on clusters: accepted, in force, the same when sent again."""

import json
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Command

POD_CONFIG = """\
name: configured
run: |
  echo "$GREETING from $(cat /etc/podinfo/team), as rank $SKYPILOT_NODE_RANK"
  touch /cache/here
config:
  kubernetes:
    custom_metadata:
      labels: {cost-center: "12"}
      annotations: {example.com/run: nightly}
    pod_config:
      metadata:
        labels: {team: vision, task-id: mine}
      spec:
        tolerations:
          - {key: a, operator: Exists, effect: NoSchedule}
          - {key: a, operator: Exists, effect: NoExecute}
        terminationGracePeriodSeconds: 5
        securityContext: {fsGroup: 1000}
        affinity:
          nodeAffinity:
            preferredDuringSchedulingIgnoredDuringExecution:
              - weight: 1
                preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}
        containers:
          - imagePullPolicy: IfNotPresent
            env: [{name: GREETING, value: hello}, {name: NODE_RANK, value: "7"}]
            resources: {requests: {cpu: 10m}}
            volumeMounts: [{name: cache, mountPath: /cache}, {name: info, mountPath: /etc/podinfo}]
        volumes:
          - {name: cache, emptyDir: {sizeLimit: 1024Mi}}
          - name: info
            downwardAPI: {items: [{path: team, fieldRef: {fieldPath: "metadata.labels['team']"}}]}
"""


def pod_of(kubectl: Command, task_id: str) -> Any:
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    return pod


def test_pod_config(sky: Command, kubectl: Command) -> None:
    file = sky.write("task.yaml", POD_CONFIG)
    done = sky("submit", file, "--id", "conf2345")
    assert done.returncode == 0, done.stderr
    assert "hello from vision, as rank 0\n" in done.stdout
    assert "labels.task-id: warning: ignored" in done.stderr
    pod = pod_of(kubectl, "conf2345")
    assert pod["metadata"]["labels"]["cost-center"] == "12"
    assert pod["metadata"]["annotations"]["example.com/run"] == "nightly"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 5
    (job,) = kubectl.json("get", "jobs", "-l", "cost-center=12,task-id=conf2345")["items"]
    assert job["metadata"]["annotations"]["example.com/run"] == "nightly"
    again = sky("submit", file, "--id", "conf2345", "-d")
    assert "task/conf2345 unchanged" in again.stdout, again.stderr
    changed = sky.write("other.yaml", POD_CONFIG.replace("value: hello", "value: bye"))
    other = sky("submit", changed, "--id", "conf2345", "-d")
    assert other.returncode == 2
    assert "env[GREETING].value" in other.stderr


EVERYTHING = """\
run: hostname
config:
  kubernetes:
    pod_config:
      metadata: {annotations: {a: b}}
      spec:
        activeDeadlineSeconds: 600
        dnsConfig: {options: [{name: ndots, value: "1"}]}
        hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]
        imagePullSecrets: [{name: mine}]
        initContainers:
          - {name: first, image: busybox, restartPolicy: Always, command: [sleep, "9"]}
        nodeSelector: {disk: ssd}
        priority: null
        schedulerName: default-scheduler
        topologySpreadConstraints:
          - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
        containers:
          - ports: [{containerPort: 8080}]
            securityContext: {runAsUser: 1000, capabilities: {add: [NET_BIND_SERVICE]}}
            livenessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 9}
            lifecycle: {preStop: {exec: {command: [sh, -c, "true"]}}}
            envFrom: [{configMapRef: {name: more, optional: true}}]
"""


def test_the_server_takes_all_that_is_valid(sky: Command) -> None:
    file = sky.write("task.yaml", textwrap.dedent(EVERYTHING))
    done = sky("submit", file, "--dry-run=server", "-o", "json")
    assert done.returncode == 0, done.stderr


QUEUED = """\
name: patient
resources: {cpus: 50m, memory: 64Mi}
run: echo let in
config:
  kubernetes:
    kueue: {local_queue_name: team-queue}
    set_pod_resource_limits: 2
    provision_timeout: 8
"""


LOCAL_QUEUES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "localqueues.kueue.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, of the tests"},
    },
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "LocalQueue", "plural": "localqueues"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture
def team_queue(kubectl: Command) -> Iterator[None]:
    """A LocalQueue of an older Kueue, of which nothing runs."""
    defined = "localqueues.kueue.x-k8s.io"
    if kubectl("get", "crd", defined).returncode == 0:
        pytest.skip("the cluster has Kueue")
    made = kubectl("apply", "-f", "-", stdin=json.dumps(LOCAL_QUEUES))
    assert made.returncode == 0, made.stderr
    try:
        kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{defined}")
        api = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}
        queue = json.dumps(api | {"metadata": {"name": "team-queue"}})
        made = kubectl("apply", "-f", "-", stdin=queue)
        assert made.returncode == 0, made.stderr
        yield
    finally:
        kubectl("delete", "crd", defined, "--timeout=60s")


def test_a_queue_without_kueue(sky: Command, kubectl: Command) -> None:
    if kubectl("get", "crd", "localqueues.kueue.x-k8s.io").returncode == 0:
        pytest.skip("the cluster has Kueue")
    done = sky("submit", "-", "--queue", "gold", "--id", "nobody01", stdin="run: 'true'\n")
    assert (done.returncode, done.stderr) == (
        3,
        "error: the task is for the queue gold, and Kueue is not installed in the cluster;"
        ' submit it without a queue: --queue "", or install Kueue: https://kueue.sigs.k8s.io\n',
    )
    assert kubectl("get", "jobs,configmaps", "-l", "task-id=nobody01", "-o", "name").stdout == ""
    listed = sky("queues", "list")
    assert listed.returncode == 3
    assert listed.stderr.startswith("error: Kueue is not installed in the cluster")


@pytest.mark.usefixtures("team_queue")
def test_a_queue_of_another_namespace(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--queue", "gold", "--id", "nobody01", stdin="run: 'true'\n")
    assert done.returncode == 2
    assert "error: there is no queue 'gold' in namespace" in done.stderr
    assert "the queues there are: team-queue" in done.stderr
    assert sky("queues", "list", "-o", "name").stdout == "queue/team-queue\n"
    assert "it has none" not in sky("queues", "status", "gold").stderr
    assert kubectl("get", "jobs,configmaps", "-l", "task-id=nobody01", "-o", "name").stdout == ""


@pytest.mark.usefixtures("team_queue")
def test_a_task_waits_in_its_queue_until_it_is_let_in(sky: Command, kubectl: Command) -> None:
    file = sky.write("task.yaml", QUEUED)
    running = sky.start("submit", file, "--id", "wait2345")
    time.sleep(9)  # longer than provision_timeout: who waits in a queue is not late
    assert running.poll() is None
    seen = sky("status", "wait2345")
    assert "pending (QUEUED) — node-0: Queued" in seen.stdout
    assert "in the queue team-queue" in seen.stdout
    (job,) = kubectl.json("get", "jobs", "-l", "kueue.x-k8s.io/queue-name=team-queue")["items"]
    assert job["spec"]["suspend"] is True
    assert kubectl("get", "pods", "-o", "name").stdout == ""
    patch = '{"spec": {"suspend": false}}'  # as Kueue does
    assert kubectl("patch", "job", job["metadata"]["name"], "-p", patch).returncode == 0
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out.splitlines()[-1]) == (0, "let in"), err
    assert "waiting for node-0: Queued: in the queue team-queue" in err
    limits = pod_of(kubectl, "wait2345")["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "100m", "memory": "128Mi"}
    again = sky("submit", file, "--id", "wait2345", "-d")
    assert "task/wait2345 unchanged" in again.stdout, again.stderr


def test_the_start_is_waited_for_as_long_as_the_file_says(sky: Command) -> None:
    never = "{kubernetes: {provision_timeout: 1, pod_config: {spec: {nodeSelector: {a: b}}}}}"
    file = sky.write("task.yaml", f"run: hostname\nconfig: {never}\n")
    done = sky("submit", file, timeout=60)
    assert done.returncode == 1
    assert "has not started in time" in done.stderr


def test_a_service_account(sky: Command, kubectl: Command) -> None:
    kubectl("create", "serviceaccount", "robot")
    context = kubectl("config", "current-context").stdout.strip()
    config = {"kubernetes": {"remote_identity": {"other": "nobody", context[:2] + "*": "robot"}}}
    file = sky.write("task.yaml", yaml.safe_dump({"run": "hostname", "config": config}))
    done = sky("submit", file, "--id", "acco2345")
    assert done.returncode == 0, done.stderr
    spec = pod_of(kubectl, "acco2345")["spec"]
    assert spec["serviceAccountName"] == "robot"
    assert spec["automountServiceAccountToken"] is True
    config = {"kubernetes": {"remote_identity": {"other": "nobody"}}}
    file = sky.write("task.yaml", yaml.safe_dump({"run": "hostname", "config": config}))
    done = sky("submit", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"names no account for the context '{context}'" in done.stderr


def test_the_account_s_token(sky: Command, kubectl: Command) -> None:
    kubectl("create", "serviceaccount", "robot")
    run = "test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo has a token"
    config = "{kubernetes: {remote_identity: robot}}"
    done = sky("submit", sky.write("task.yaml", f"run: {run}\nconfig: {config}\n"))
    assert "has a token" in done.stdout, done.stderr
    done = sky("submit", sky.write("other.yaml", f"run: {run}\n"))
    assert done.returncode == 4, "and without an account there is none"


def test_a_private_registry(sky: Command, kubectl: Command) -> None:
    """The image is there already; that the kubelet takes the login is the cluster's to show."""
    login = {"USERNAME": "alice", "PASSWORD": "s3cr3t", "SERVER": "registry.example.com"}
    flags = [f"--secret=SKYPILOT_DOCKER_{name}={value}" for name, value in login.items()]
    run = "echo $SKYPILOT_DOCKER_USERNAME"
    image = "docker.io/library/python:3.13-slim"
    file = sky.write("task.yaml", f"run: {run}\nresources: {{image_id: {image}}}\n")
    done = sky("submit", file, "--id", "regi2345", *flags)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "alice"), done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr
    secret = "task-regi2345-regi2345-registry"
    assert pod_of(kubectl, "regi2345")["spec"]["imagePullSecrets"] == [{"name": secret}]
    found = kubectl.json("get", "secret", secret)
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Job"
    again = sky("submit", file, "--id", "regi2345", "-d", *flags)
    assert "task/regi2345 unchanged" in again.stdout, again.stderr
    assert sky("stop", "regi2345", "-y").returncode == 0
    gone = kubectl("wait", "--for=delete", f"secret/{secret}", "--timeout=60s")
    assert gone.returncode == 0, "it goes with the task"
