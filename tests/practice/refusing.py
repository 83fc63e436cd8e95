"""Scenes: what is wrong with an object, and how the server says so."""

from tests.practice.conformance import Scene, Step
from tests.practice.manifests import CLAIM, SERVICE, config_map, job, pod, several

_POD = pod("a")


def _wrong(old: str, new: str, text: str = _POD) -> Step:
    assert old in text, old
    about = " ".join(new.split())[:60] or f"without {old.strip()}"
    return Step("create -f - --dry-run=server", text.replace(old, new), about=about)


_OBJECTS = Scene(
    "wrong",
    (
        Step("create -f - --dry-run=server", config_map("a") + "nosuch: 1\n"),
        Step("create -f - --dry-run=server --validate=warn", config_map("a") + "nosuch: 1\n"),
        Step("create -f - --dry-run=server --validate=ignore", config_map("a") + "nosuch: 1\n"),
        _wrong("image:", "imagine:"),
        _wrong("    image: busybox:1.36\n", ""),
        _wrong("name: main", "name: Main_1"),
        _wrong("name: a,", "name: Bad_Name,"),
        _wrong("name: a,", f"name: {'long' * 64},"),
        _wrong("name: a,", "", config_map("a")),
        _wrong("name: a,", "generateName: made-,", config_map("a")),
        _wrong("app: x", "'bad key!': x"),
        _wrong("app: x", "app: '-'"),
        _wrong("app: x", "app: 1"),
        _wrong("cpu: 10m", "cpu: lots"),
        _wrong("cpu: 10m", "cpu: -1"),
        _wrong("memory: 16Mi", "memory: 64Mi"),
        _wrong("restartPolicy: Never", "restartPolicy: Sometimes"),
        _wrong("command: [", "command: [[], "),
        _wrong("command: [", "imagePullPolicy: Perhaps\n    command: ["),
        _wrong("command: [", "ports: [{containerPort: 99999}]\n    command: ["),
        _wrong("command: [", "env: [{name: 'a=b', value: x}]\n    command: ["),
        _wrong("command: [", "env: [{name: A}, {name: A}]\n    command: ["),
        _wrong("command: [", "volumeMounts: [{name: nosuch, mountPath: /x}]\n    command: ["),
        _wrong("  containers:", "  volumes: [{name: v}, {name: v}]\n  containers:"),
        _wrong("  containers:\n", "  containers: []\n  initContainers:\n"),
        _wrong("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: -1"),
        _wrong("hostNetwork: false", "serviceAccountName: absent"),
        _wrong("apiVersion: v1", "apiVersion: v2"),
        _wrong("kind: Pod", "kind: Pot"),
        _wrong("kind: Pod", ""),
        _wrong("apiVersion: v1\n", ""),
        Step("create -f - --dry-run=server", "a: [\n"),
        Step("create -f - --dry-run=server", "- a\n"),
        Step("create -f - --dry-run=server", ""),
        _wrong("data: {a: '1'}", "data: {a: 1}", config_map("a")),
        _wrong("data: {a: '1'}", "data: {'bad key': x}", config_map("a")),
        _wrong("data: {a: '1'}", "binaryData: {a: '%'}", config_map("a")),
        _wrong("data: {a: '1'}", "data: [a]", config_map("a")),
        _wrong("data: {a: '1'}", "data: null", config_map("a")),
        Step("create -f - --dry-run=server -n absent", config_map("a")),
        Step(
            "create -f - --dry-run=server",
            config_map("a").replace("labels", "namespace: b, labels"),
        ),
        _wrong("accessModes: [ReadWriteOnce]", "accessModes: [Sometimes]", CLAIM),
        _wrong("accessModes: [ReadWriteOnce]", "accessModes: []", CLAIM),
        _wrong("storage: 1Gi", "storage: 0", CLAIM),
        _wrong("storage: 1Gi", "cpu: 1", CLAIM),
        _wrong("port: 80", "port: 0", SERVICE),
        _wrong("name: web", "name: 1web", SERVICE),
    ),
)

_JOB = job("j")
_RAW = "create --raw /api/v1/namespaces/{ns}/configmaps -f -"
_JOBS = Scene(
    "wrongjobs",
    (
        _wrong("backoffLimit: 0", "backoffLimit: -1\n  parallelism: -1", _JOB),
        _wrong("backoffLimit: 0", "completions: 1\n  completionMode: Sometimes", _JOB),
        _wrong("backoffLimit: 0", "completionMode: Indexed", _JOB),
        _wrong("backoffLimit: 0", "activeDeadlineSeconds: -2", _JOB),
        _wrong("backoffLimit: 0", "backoffLimit: many", _JOB),
        _wrong("backoffLimit: 0", "ttlSecondsAfterFinished: -2", _JOB),
        _wrong("backoffLimit: 0", "selector: {matchLabels: {a: b}}", _JOB),
        _wrong("backoffLimit: 0", "bogus: 1", _JOB),
        _wrong("restartPolicy: Never", "restartPolicy: Always", _JOB),
        _wrong("restartPolicy: Never", "", _JOB),
        _wrong("  template:", "  nottemplate:", _JOB),
        _wrong("batch/v1", "batch/v1beta1", _JOB),
        _wrong("name: j,", f"name: {'j' * 64},", _JOB),
        _wrong("image: busybox:1.36", "image: ' '", _JOB),
        Step("create -f -", job("j", spec="suspend: true")),
        Step("create -f -", job("j")),
        Step("patch job j -p '{\"spec\":{\"template\":{\"spec\":{\"dnsPolicy\":\"Default\"}}}}'"),
        Step("patch job j --type=merge -p '{\"spec\":{\"completionMode\":\"Indexed\"}}'"),
        Step("patch job j --type=merge -p '{\"metadata\":{\"name\":\"k\"}}'"),
        Step("patch job j --type=merge -p '{\"metadata\":{\"uid\":\"k\"}}'"),
        Step("patch job j --type=merge -p '{\"metadata\":{\"resourceVersion\":\"1\"}}'"),
        Step("patch job j --type=merge -p '{\"kind\":\"Pod\"}'"),
        Step("patch job j --type=merge -p 'nonsense'"),
        Step("replace -f -", several(config_map("absent"), job("j")), about="no selector"),
        Step(_RAW, '{"metadata": {"name": "x"'),
        Step(_RAW, '{"kind": "Pod"}', about="a Pod"),
        Step(_RAW, '[1]'),
        Step(_RAW, '{"metadata": {"name": 1}}'),
        Step("delete --raw /api/v1/namespaces/{ns}/configmaps/absent"),
        Step("replace --raw /api/v1/namespaces/{ns}/configmaps/a -f -",
             '{"metadata": {"name": "b"}}'),
    ),
)  # fmt: skip

SCENES = (_OBJECTS, _JOBS)
