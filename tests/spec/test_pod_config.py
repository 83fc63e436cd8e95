"""`pod_config`: pod fields with positions, and fields that must not be changed."""

import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kubectl_sky.spec.validate import validate
from tests.spec import pod
from tests.spec.documents import found_in, make_document, problems

CONFIG = "run: x\nnum_nodes: 2\nconfig:\n  kubernetes:\n    pod_config:\n"
PLACE = "config.kubernetes.pod_config"
WRONG = {
    "spec: {tolerationz: []}": 'spec.tolerationz: unknown field; did you mean "tolerations"?',
    "spec: {tolerations: [{operator: exists}]}": (
        "spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got"
        ' "exists"; did you mean "Exists"?'
    ),
    "spec: {containers: [{resources: {limits: {cpu: 1x}}}]}": (
        "spec.containers[0].resources.limits.cpu: expected a quantity such as 500m or"
        ' 4Gi, got "1x"'
    ),
    "spec: {containers: [{name: ray-node, env: [{name: A, value: 1}]}]}": (
        "spec.containers[0].env[0].value: expected text, got 1; put it in quotes"
    ),
    "spec: {containers: [{env: [{name: [A]}]}]}": (
        "spec.containers[0].env[0].name: expected text, got a list"
    ),
    "spec: {volumes: {}}": "spec.volumes: expected a list, got an empty map",
    "spec: {volumes: {name: a}}": (
        'spec.volumes: expected a list, got a map; begin each item of the list with "- "'
    ),
    "spec: {securityContext: [{runAsUser: 0}]}": (
        'spec.securityContext: expected fields, got a list; remove the "- " before the fields'
    ),
    "spec: {containers: [{hostNetwork: true}]}": (
        f"spec.containers[0].hostNetwork: unknown field; it belongs under {PLACE}.spec"
    ),
    "spec: {containers: [{pullSecrets: []}]}": (
        'spec.containers[0].pullSecrets: unknown field; "imagePullSecrets" belongs under'
        f" {PLACE}.spec"
    ),
    "spec: {imagePullPolicy: Always}": (
        "spec.imagePullPolicy: unknown field; it belongs under containers or initContainers"
    ),
    "spec: {containers: [{envFrom: [{secretRef: null, name: a}]}]}": (
        "spec.containers[0].envFrom[0].name: unknown field; it belongs under configMapRef or"
        " secretRef"
    ),
    "spec: {volumes: [{name: a, mountPath: /a}]}": (
        "spec.volumes[0].mountPath: unknown field; it belongs under"
        f" {PLACE}.spec.containers[0].volumeMounts[0]"
    ),
    "spec: {nodeSelector: gpu}": (
        'spec.nodeSelector: expected a map such as {name: value}, got "gpu"'
    ),
    "spec: {nodeSelector: {nodeAffinity: {}}}": (
        "spec.nodeSelector.nodeAffinity: expected text, got an empty map; it belongs under"
        f" {PLACE}.spec.affinity"
    ),
    "spec: {imagePullSecrets: regcred}": (
        'spec.imagePullSecrets: expected a list, got "regcred"'
    ),
    "spec: {containers: [{command: '8080'}]}": (
        'spec.containers[0].command: expected a list, got "8080"; write ["8080"]'
    ),
    "spec: {containers: [{env: {FOO: bar}}]}": (
        "spec.containers[0].env: expected a list, got a map; its items have fields, such as name,"
        " value, valueFrom"
    ),
    "spec: {hostAliases: [{ip: 10.0.0.1, hostname: a}]}": (
        'spec.hostAliases[0].hostname: unknown field; did you mean "hostnames"?'
    ),
    "spec: {resource: {}}": 'spec.resource: unknown field; did you mean "resources"?',
    "spec: {containers: [{resources: {limits: {request: {cpu: 1}}}}]}": (
        "spec.containers[0].resources.limits.request: expected a quantity such as 500m or 4Gi, got"
        f' a map; "requests" belongs under {PLACE}.spec.containers[0].resources'
    ),
    "spec: {volumes: [{emptyDir: {}}]}": 'spec.volumes[0]: missing field "name"',
    "spec: {hostNetwork: 'yes'}": 'spec.hostNetwork: expected true or false, got "yes"',
    "spec: []": "spec: expected fields, got an empty list",
    "spek: {}": 'spek: unknown field; did you mean "spec"?',
    "metadata: {labels: {a: 1}}": "metadata.labels.a: expected text, got 1; put it in quotes",
    "metadata: {labels: {a b: x}}": (
        'metadata.labels."a b": is not a valid label: letters, digits, - _ .'
        " and at most 63 characters; such as team or example.com/team"
    ),
    "spec: {restartPolicy: Always}": (
        "spec.restartPolicy: the cluster would restart failed containers;"
        " job_recovery is for that"
    ),
    "spec: {hostname: x}": "spec.hostname: the nodes of the task use it to find each other;"
    " leave it out",
    "spec: {containers: [{command: [sh]}]}": (
        "spec.containers[0].command: this would replace setup and run; move it to run"
    ),
    "spec: {containers: [{name: ray}]}": (
        'spec.containers[0]: missing field "image"; the task\'s container is called main'
    ),
    "spec: {containers: [{name: x, image: y}, {name: main, args: [a]}]}": (
        "spec.containers[1].args: this would change how setup and run are started; move it to run"
    ),
    "spec: {volumes: [{name: scripts, emptyDir: {}}]}": (
        "spec.volumes[0].name: this name is reserved for a volume of the task;"
        " choose another name"
    ),
    "spec: {containers: [{volumeMounts: [{name: x, mountPath: /etc/kubectl-sky/}]}]}": (
        "spec.containers[0].volumeMounts[0].mountPath:"
        " the task's scripts and files are in this folder;"
        " choose another folder"
    ),
}  # fmt: skip


def messages(text: str, severity: str = "error") -> list[str]:
    """Return the messages for a pod_config without positions."""
    found = problems(CONFIG + textwrap.indent(text, " " * 6), severity)
    return [one.partition(": config.kubernetes.pod_config.")[2] for one in found]


@pytest.mark.parametrize("text", WRONG)
def test_pod_config_invalid_field_is_error(text: str) -> None:
    assert messages(text) == [WRONG[text]]


def test_pod_config_error_has_position_of_field() -> None:
    (found,) = found_in(CONFIG + "      spec:\n        tolerationz: []\n")
    assert (found.line, found.column) == (7, 9)


WARNED = {
    "metadata: {labels: {task-id: x, a: b}}": (
        "metadata.labels.task-id: warning: ignored: this label identifies the task;"
        " choose another name"
    ),
    "metadata: {annotations: {kubectl-sky/name: x}}": (
        "metadata.annotations.kubectl-sky/name: warning: ignored: this annotation"
        " identifies the task; choose another name"
    ),
    "metadata: {name: x, creationTimestamp: null}": (
        "metadata.name: warning: ignored: the Job sets it for its pods; leave it out"
    ),
    "spec: {containers: [{env: [{name: NODE_RANK, value: '1'}]}]}": (
        "spec.containers[0].env[0].name: warning: ignored: every node sets its own value"
    ),
    "spec: {containers: [{name: side, image: a, command: [b]}]}": (
        "spec.containers[0]: warning: this container keeps the pod when the task has ended;"
        " as an init container with restartPolicy: Always, it stops with the task"
    ),
}


@pytest.mark.parametrize("text", WARNED)
def test_pod_config_ignored_field_is_warned(text: str) -> None:
    assert messages(text) == []
    assert messages(text, "warning") == [WARNED[text]]


@pytest.mark.parametrize(
    "text",
    [
        "spec: {}",
        "spec:",
        "spec: {restartPolicy: Never, hostname: null, tolerations: []}",
        "spec: {containers: [{resources: {limits: {cpu: 1.5, memory: 1e9}}}], dnsPolicy: null}",
        "spec: {volumes: [{name: a, emptyDir: {sizeLimit: 1Gi}}], overhead: {cpu: 1}}",
    ],
)
def test_pod_config_valid_fields_have_no_messages(text: str) -> None:
    assert messages(text) + messages(text, "warning") == []


def test_pod_config_hostname_of_single_node_is_accepted() -> None:
    document = make_document(
        run="x", config={"kubernetes": {"pod_config": {"spec": {"hostname": "x"}}}}
    )
    assert validate(document) == []


def test_pod_schema_equals_kubernetes_openapi() -> None:
    Draft202012Validator.check_schema(pod.schema())
    assert pod.FILE.read_text(encoding="utf-8") == pod.text(), "run python -m tests.spec.pod"


KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "labels",
        "annotations",
        "name",
        "containers",
        "env",
        "value",
        "volumes",
        "emptyDir",
        "volumeMounts",
        "mountPath",
        "restartPolicy",
        "hostname",
        "command",
        "args",
        "affinity",
        "tolerations",
        "task-id",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("ray-node")
CONFIGS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(CONFIGS)
def test_pod_config_random_value_is_checked(config: Any) -> None:
    document = make_document(run="x", config={"kubernetes": {"pod_config": config}})
    assert all(str(problem) for problem in validate(document))
