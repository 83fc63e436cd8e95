"""`config.kubernetes` without `pod_config`: parsing and messages."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.kubernetes import Kubernetes, kubernetes_of
from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.validate import validate
from tests.spec.documents import make_document, problems


def read(**fields: Any) -> Kubernetes:
    return kubernetes_of({"kubernetes": fields})


def test_kubernetes_config_empty_gives_defaults() -> None:
    assert kubernetes_of(None) == read() == Kubernetes()
    assert kubernetes_of({"kubernetes": None, "gcp": {}}) == Kubernetes()
    assert read(dws={}, kueue=None, custom_metadata={"labels": None}) == Kubernetes()


def test_custom_metadata_excludes_task_labels() -> None:
    found = read(custom_metadata={"labels": {"a": "b", "task-id": "x"}, "annotations": {"c": "d"}})
    assert (found.labels, found.annotations) == ({"a": "b"}, {"c": "d"})


@pytest.mark.parametrize(
    ("identity", "accounts"),
    [
        ("robot", {"*": "robot"}),
        ("NO_UPLOAD", {}),
        ("no_upload", {}),
        ("LOCAL_CREDENTIALS", {}),
        ({"prod-*": "robot", "*": "SERVICE_ACCOUNT"}, {"prod-*": "robot"}),
    ],
)
def test_remote_identity_gives_accounts(identity: Any, accounts: dict[str, str]) -> None:
    assert read(remote_identity=identity).accounts == accounts


@pytest.mark.parametrize(
    ("fields", "queue"),
    [
        ({}, None),
        ({"kueue": {"local_queue_name": "a"}}, "a"),
        ({"kueue": {"local_queue_name": "a"}, "quota": {"queue": "b"}}, "b"),
        ({"quota": {"queue": ""}}, ""),
    ],
)
def test_queue_fields_give_queue(fields: dict[str, Any], queue: str | None) -> None:
    assert read(**fields).queue == queue


@pytest.mark.parametrize(
    ("duration", "seconds"), [(10, 600), ("10", 600), ("10m", 600), ("2H", 7200), ("1w", 604800)]
)
def test_max_run_duration_is_parsed(duration: int | str, seconds: int) -> None:
    found = read(dws={"enabled": True, "max_run_duration": duration})
    assert (found.flex_start, found.run_seconds) == (True, seconds)


@pytest.mark.parametrize(
    ("factor", "limits"),
    [(True, 1), (False, 0), (2, 2), (1.1, Fraction(11, 10)), (1.25, Fraction(5, 4))],
)
def test_set_pod_resource_limits_gives_factor(factor: Any, limits: Fraction | int) -> None:
    assert read(set_pod_resource_limits=factor).limits == limits


def test_provision_timeout_is_read_in_seconds() -> None:
    assert read(provision_timeout=90).provision_timeout == 90
    assert read(provision_timeout=-1).provision_timeout == math.inf


SAID = {
    "remote_identity: My_Account": (
        'remote_identity: "My_Account" is not a valid service account name;'
        " use lowercase letters, digits, - and ."
    ),
    "remote_identity: {a: B}": (
        'remote_identity.a: "B" is not a valid service account name;'
        " use lowercase letters, digits, - and ."
    ),
    "remote_identity: LOCAL_CREDENTIALS": (
        "remote_identity: warning: ignored: pods get neither your credentials nor SkyPilot's"
        " account; name an existing service account"
    ),
    "kueue: {local_queue_name: My queue}": (
        'kueue.local_queue_name: "My queue" is not a valid queue name;'
        " use lowercase letters, digits, - and ., at most 63 of them"
    ),
    "{kueue: {local_queue_name: a}, quota: {queue: b}}": (
        "kueue.local_queue_name: warning: ignored: quota.queue names the queue; keep one of them"
    ),
    "{kueue: {local_queue_name: a, admission_timeout: 60}}": (
        "kueue.admission_timeout: warning: ignored: a task has no time limit in its"
        " queue; use kubectl sky stop"
    ),
    "dws: {enabled: true, max_run_duration: 1h}": (
        "dws.max_run_duration: warning: ignored: the task has no queue;"
        " add kueue.local_queue_name"
    ),
    "set_pod_resource_limits: .nan": (
        "set_pod_resource_limits: expected true, false, or a number from 1 to 1000"
    ),
    "set_pod_resource_limits: 0.5": (
        "set_pod_resource_limits: expected true, false, or a number from 1 to 1000, got 0.5"
    ),
    "custom_metadata: {labels: {a: 1}}": (
        "custom_metadata.labels.a: expected text, got 1; put it in quotes"
    ),
    "custom_metadata: {labels: {username: bob}}": (
        "custom_metadata.labels.username: warning: ignored: this label identifies the task;"
        " choose another name"
    ),
    "custom_metadata: {finalizers: [x]}": (
        "custom_metadata.finalizers: warning: ignored: only labels and annotations are applied;"
        " leave it out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", SAID)
def test_kubernetes_config_messages_have_expected_text(field: str) -> None:
    field = field if field.startswith("{") else f"{{{field}}}"
    text = f"run: x\nconfig: {{kubernetes: {field}}}\n"
    found = problems(text) + problems(text, "warning")
    assert [one.partition(": config.kubernetes.")[2] for one in found] == [
        said for given, said in SAID.items() if field in (given, f"{{{given}}}")
    ]


FIELDS = st.sampled_from(["remote_identity", "kueue", "quota", "dws", "set_pod_resource_limits"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.dictionaries(
        st.sampled_from(["enabled", "max_run_duration", "queue", "local_queue_name", "*"]), inner
    ),
)


@given(st.dictionaries(FIELDS, VALUES))
def test_kubernetes_config_random_value_is_parsed_or_refused(fields: dict[str, Any]) -> None:
    document = make_document(run="x", config={"kubernetes": fields})
    if not [problem for problem in validate(document) if problem.severity == "error"]:
        assert task_of(document).kubernetes
