"""Scenes: pods and Jobs that run; logs, exec, wait; volumes, quotas, scheduling."""

from tests.practice.conformance import Scene, Step
from tests.practice.manifests import CLAIM, LIMITS, QUIET, QUOTA, config_map, job, pod, several

_LINES = "for i in 1 2 3 4 5; do echo line $i; done"
_TWO = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: two, labels: {{app: two}}}}
spec:
  {QUIET}
  terminationGracePeriodSeconds: 0
  initContainers:
  - {{name: first, image: "busybox:1.36", command: [sh, -c, echo init]}}
  containers:
  - {{name: main, image: "busybox:1.36", command: [sh, -c, echo main; sleep 600]}}
  - {{name: side, image: "busybox:1.36", command: [sh, -c, echo side; sleep 600]}}
"""
_CRASH = (
    pod("crash", "test -f /v/x && sleep 600; touch /v/x; echo try; exit 3", "volumes: [{name: v}]")
    .replace("restartPolicy: Never", "restartPolicy: Always")
    .replace("name: main", "name: main\n    volumeMounts: [{name: v, mountPath: /v}]")
)


def _phase(name: str, phase: str) -> Step:
    return Step(
        f"wait --for=jsonpath={{.status.phase}}={phase} pod/{name} --timeout=60s", shown=False
    )


def _ready(name: str) -> Step:
    return Step(f"wait --for=condition=Ready pod/{name} --timeout=60s", shown=False)


_LOGS = Scene(
    "logs",
    (
        Step("create -f -", several(pod("done", _LINES), _TWO, _CRASH), shown=False),
        _phase("done", "Succeeded"),
        _ready("two"),
        Step(
            "wait --for=jsonpath={.status.containerStatuses[0].restartCount}=1 pod/crash"
            " --timeout=60s",
            shown=False,
        ),
        Step("logs done"),
        Step("logs done -f"),
        Step("logs done --tail=2"),
        Step("logs done --tail=0"),
        Step("logs done --timestamps --tail=1"),
        Step("logs done --limit-bytes=8"),
        Step("logs done --since=1h"),
        Step("logs done --since-time=2099-01-01T00:00:00Z"),
        Step("logs done --previous"),
        Step("logs crash --previous"),
        Step("logs two"),
        Step("logs two -c side"),
        Step("logs two -c first"),
        Step("logs two -c nosuch"),
        Step("logs two --all-containers --prefix", sorted=True),
        Step("logs -l app=x --tail=1", sorted=True),
        Step("logs absent"),
        Step("get pod crash -o jsonpath='{.status.containerStatuses[0].lastState}'"),
        Step("create -f -", pod("slow", "echo 1; sleep 3; echo 2; exit 4"), shown=False),
        Step("wait --for=condition=Ready pod/slow --timeout=60s", shown=False),
        Step("logs -f slow"),
        Step("create -f -", pod("never", more="nodeSelector: {no: such}"), shown=False),
        Step("logs never"),
    ),
)

_EXEC = Scene(
    "exec",
    (
        Step("create -f -", several(pod("a"), _TWO, pod("done", "true")), shown=False),
        _ready("a"),
        _ready("two"),
        _phase("done", "Succeeded"),
        Step("exec a -- echo hello"),
        Step("exec a -- sh -c 'echo out; echo err >&2; exit 7'"),
        Step("exec -i a -- cat", stdin="one\ntwo\n"),
        Step("exec a -- nosuchprogram"),
        Step("exec two -- echo which"),
        Step("exec two -c side -- hostname"),
        Step("exec two -c nosuch -- true"),
        Step("exec absent -- true"),
        Step("exec done -- true"),
        Step("exec a -- sh -c 'kill -9 $$'"),
        Step("exec -it a -- sh -c 'test -t 0 && echo terminal; read word; echo got $word'",
             types="hello\n"),
        Step("exec a -- sh -c 'head -c 300000 /dev/zero | wc -c'"),
        Step("exec a -- hostname"),
        Step("exec a -- sh -c 'echo x > /tmp/f; cat /tmp/f'"),
        Step("cp done:/etc/nosuch here"),
        Step("port-forward absent 18080:80"),
    ),
)  # fmt: skip

_WAIT = Scene(
    "wait",
    (
        Step("create -f -", several(job("good"), job("bad", "exit 5"), pod("a")), shown=False),
        Step("wait --for=condition=Complete job/good --timeout=60s"),
        Step("wait --for=condition=Failed job/bad --timeout=60s"),
        Step("wait --for=condition=Complete job/bad --timeout=1s"),
        Step("wait --for=condition=Ready pod/a --timeout=60s"),
        Step("wait --for=condition=Ready=false pod/a --timeout=1s"),
        Step("wait --for=jsonpath={.status.succeeded}=1 job/good"),
        Step("wait --for=delete pod/a --timeout=1s"),
        Step("wait --for=delete pod/a --timeout=20s", meanwhile="delete pod a"),
        Step("wait --for=delete pod/a --timeout=1s"),
        Step("wait --for=condition=Ready pod/absent --timeout=1s"),
        Step("wait --for=create cm/late --timeout=20s", meanwhile="create cm late"),
        Step("get jobs"),
        Step("get job good bad -o yaml"),
    ),
)

_STATUS = "get job {} -o jsonpath='{{.status}}'"
_NO_RACES = "reason!=Failed,reason!=Killing"
_EVENT = "K:.involvedObject.kind,R:.reason,T:.type"
_CONDITIONS = "get job {} -o custom-columns=T:..conditions[*].type,M:..conditions[*].message"


def _ended(name: str, condition: str) -> Step:
    return Step(f"wait --for=condition={condition} job/{name} --timeout=60s")


_POLICY = """backoffLimit: 3
  podFailurePolicy:
    rules:
    - {action: FailJob, onExitCodes: {operator: In, values: [42]}}"""
_JOBS = Scene(
    "jobs",
    (
        Step(
            "create -f -",
            several(
                job("many", spec="completions: 4\n  parallelism: 2\n  completionMode: Indexed"),
                job("policy", "exit 42", _POLICY),
                job("late", "sleep 600", "activeDeadlineSeconds: 2"),
                job("soon", "true", "ttlSecondsAfterFinished: 2"),
                job("held", "true", "suspend: true"),
                job(
                    "each",
                    'test "$JOB_COMPLETION_INDEX" != 1',
                    "completions: 3\n  parallelism: 3\n  completionMode: Indexed\n"
                    "  backoffLimitPerIndex: 0",
                ),
            ),
            shown=False,
        ),
        _ended("many", "Complete"),
        Step("get job many -o jsonpath='{.status.succeeded} {.status.completedIndexes}'"),
        Step("get pods -l job-name=many -o custom-columns=A:.metadata.annotations", sorted=True),
        Step("get pods -l job-name=many -o jsonpath='{.items[0].spec.hostname}'", shown=False),
        _ended("policy", "Failed"),
        Step(_CONDITIONS.format("policy")),
        _ended("late", "Failed"),
        Step(_CONDITIONS.format("late")),
        _ended("each", "Failed"),
        Step("get job each -o jsonpath='{.status.failedIndexes} {.status.completedIndexes}'"),
        Step(_CONDITIONS.format("each")),
        Step("wait --for=delete job/soon --timeout=30s", shown=False),
        Step("get job held -o jsonpath='{.status.conditions[*].message}'"),
        Step('patch job held -p \'{"spec":{"suspend":false}}\''),
        _ended("held", "Complete"),
        Step(_CONDITIONS.format("held")),
        Step("get jobs"),
        Step("describe job each many held", sorted=True),
        # Whether a pod that is deleted is still killed, or fails, is a race on both clusters.
        Step(f"get events --field-selector {_NO_RACES} -o custom-columns={_EVENT}", sorted=True),
    ),
)

_VOLUMES = Scene(
    "volumes",
    (
        Step("create -f -", CLAIM.replace("spec:", "spec:\n  storageClassName: nosuch", 1)),
        Step("get pvc notes", shown=False),
        Step("delete pvc notes"),
        Step("create -f -", several(CLAIM, config_map("c"))),
        Step(
            "create -f -",
            pod(
                "a",
                "echo kept > /data/f; cat /data/f /c/a; ls /c; sleep 600",
                "volumes: [{name: d, persistentVolumeClaim: {claimName: notes}},"
                " {name: c, configMap: {name: c}}]",
            ).rstrip()
            + "\n    volumeMounts: [{name: d, mountPath: /data}, {name: c, mountPath: /c}]\n",
        ),
        _ready("a"),
        Step("logs a"),
        Step("get pvc -o custom-columns=P:.status.phase,C:.status.capacity.storage"),
        Step("get pv -o custom-columns=P:.spec.persistentVolumeReclaimPolicy,M:.spec.accessModes"
             " -l nosuch!=1", shown=False),
        Step("delete pvc notes --timeout=1s"),
        Step("get pvc"),
        Step("patch pvc notes -p '{\"spec\":{\"accessModes\":[\"ReadOnlyMany\"]}}'"),
        Step("delete pod a"),
        Step("wait --for=delete pvc/notes --timeout=30s"),
        Step("create -f -", pod(
            "lacks", "true", "volumes: [{name: d, persistentVolumeClaim: {claimName: nosuch}}]"
        )),
        Step("wait --for=condition=PodScheduled=false pod/lacks --timeout=20s"),
        Step("get pod lacks -o jsonpath='{.status.conditions[*].message}'"),
        Step("create -f -", pod("env").rstrip()
             + "\n    env: [{name: A, valueFrom: {secretKeyRef: {name: nosuch, key: k}}}]\n"),
        Step("wait --for=jsonpath={.status.containerStatuses[0].state.waiting.reason}="
             "CreateContainerConfigError pod/env --timeout=30s"),
        Step("get pod env -o jsonpath='{.status.containerStatuses[0].state}'"),
    ),
)  # fmt: skip

_LIMITED = Scene(
    "limited",
    (
        Step("create -f -", QUOTA, shown=False),
        Step("wait --for=jsonpath={.status.hard.configmaps}=3 quota/few --timeout=30s",
             shown=False),
        Step("create -f -", job("a", spec="suspend: true")),
        Step("create -f -", job("b", spec="suspend: true")),
        Step("create -f -", pod("big").replace("cpu: 10m", "cpu: 2")),
        Step("create -f -", pod("silent").replace("cpu: 10m, ", "")),
        Step("create cm one"),
        Step("create cm two"),
        Step("create cm three"),
        Step("describe quota few"),
        Step("delete quota few"),
        Step("create -f -", LIMITS),
        Step("describe limits small"),
        Step("delete pods --all", shown=False),
        Step("create -f -", pod("large").replace("memory: 32Mi", "memory: 128Mi")),
        Step("create -f -", job("c", pod_spec="nodeSelector: {a: b}")),
        Step("wait --for=create pod -l job-name=c --timeout=20s", shown=False),
        Step("get pods -l job-name=c -o jsonpath='{.items[*].spec.containers[*].resources}'",
             shown=False),
    ),
)  # fmt: skip

_UNSCHEDULED = "wait --for=condition=PodScheduled=false pod/{} --timeout=20s"
_MESSAGES = (
    "get pods -o custom-columns=N:.metadata.name,P:.status.phase,M:.status.conditions[*].message"
)
_SCHEDULING = Scene(
    "scheduling",
    (
        Step("create -f -", several(
            pod("cpu").replace("cpu: 10m", "cpu: 900"),
            pod("gpu").replace("limits: {", 'limits: {nvidia.com/gpu: "99", '),
            pod("nowhere", more="nodeSelector: {no: such}"),
            pod("gated", more="schedulingGates: [{name: example.com/wait}]"),
        )),
        *(Step(_UNSCHEDULED.format(name)) for name in ("cpu", "gpu", "nowhere", "gated")),
        Step(_MESSAGES),
        Step("get pods"),
        Step("describe pod gpu"),
        Step("patch pod gated --type=json"
             " -p '[{\"op\":\"remove\",\"path\":\"/spec/schedulingGates/0\"}]'"),
        _ready("gated"),
    ),
)  # fmt: skip

SCENES = (_LOGS, _EXEC, _WAIT, _JOBS, _VOLUMES, _LIMITED, _SCHEDULING)
