"""`pod_config`: the fields of a pod, with places; and what of a task nobody may change."""

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
    "spec: {volumes: {}}": "spec.volumes: expected a list, got an empty map",
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
    "spec: {containers: [{name: x}, {name: main, args: [a]}]}": (
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


def told(text: str, severity: str = "error") -> list[str]:
    """What is said of a pod_config, without where the field is."""
    found = problems(CONFIG + textwrap.indent(text, " " * 6), severity)
    return [one.partition(": config.kubernetes.pod_config.")[2] for one in found]


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text: str) -> None:
    assert told(text) == [WRONG[text]]


def test_the_place_is_the_field_s_own() -> None:
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
        "spec.containers[0]: warning: the task completes only when this container does;"
        " as an init container with restartPolicy: Always, it stops with the task"
    ),
}


@pytest.mark.parametrize("text", WARNED)
def test_warned_of(text: str) -> None:
    assert told(text) == []
    assert told(text, "warning") == [WARNED[text]]


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
def test_right(text: str) -> None:
    assert told(text) + told(text, "warning") == []


def test_a_single_node_may_have_a_name() -> None:
    document = make_document(
        run="x", config={"kubernetes": {"pod_config": {"spec": {"hostname": "x"}}}}
    )
    assert validate(document) == []


def test_the_schema_is_the_server_s() -> None:
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
def test_whatever_it_is(config: Any) -> None:
    document = make_document(run="x", config={"kubernetes": {"pod_config": config}})
    assert all(str(problem) for problem in validate(document))
