"""`config.kubernetes` on clusters: accepted, applied, and unchanged on resubmit."""

import textwrap

from tests.e2e.command import Command
from tests.e2e.support import pod_of

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


def test_submit_pod_config_is_applied_and_resubmit_is_unchanged(
    sky: Command, kubectl: Command
) -> None:
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


def test_submit_pod_config_with_all_valid_fields_is_accepted_by_server(sky: Command) -> None:
    file = sky.write("task.yaml", textwrap.dedent(EVERYTHING))
    done = sky("submit", file, "--dry-run=server", "-o", "json")
    assert done.returncode == 0, done.stderr


def test_submit_token_is_mounted_only_with_service_account(sky: Command, kubectl: Command) -> None:
    kubectl("create", "serviceaccount", "robot")
    run = "test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo has a token"
    config = "{kubernetes: {remote_identity: robot}}"
    done = sky("submit", sky.write("task.yaml", f"run: {run}\nconfig: {config}\n"))
    assert "has a token" in done.stdout, done.stderr
    done = sky("submit", sky.write("other.yaml", f"run: {run}\n"))
    assert done.returncode == 4, "no token without a service account"
