"""Documents become tasks."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.accelerator import Accelerator, candidates
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task, VolumeMount, task_of
from kubectl_sky.spec.unsupported import refusals
from kubectl_sky.spec.validate import validate
from kubectl_sky.words.secret import Secret
from tests import seed
from tests.spec.documents import make_document, read


def test_task_of_full_document() -> None:
    (document,) = read(seed.TASK)
    assert validate(document) == []
    assert refusals(document) == []
    assert task_of(document) == Task(
        name="training-job",
        num_nodes=2,
        resources=Resources("4", "8Gi", Accelerator(None, 1), "python:3.11"),
        envs={"EPOCHS": "100"},
        volumes=(VolumeMount("/data", "data-vol"),),
        setup="pip install torch numpy\n",
        run="python train.py --data /data --epochs $EPOCHS\n",
    )


def test_task_of_minimal_document() -> None:
    assert task_of(make_document()) == Task(run="echo hi")


def test_task_of_empty_fields_equals_minimal_task() -> None:
    (document,) = read("run: x\nname:\nresources:\nenvs:\nsecrets:\nvolumes:\nnum_nodes:\nsetup:\n")
    assert task_of(document) == Task(run="x")


def test_task_reserved_labels_of_volume_are_ignored() -> None:
    labels = {"kubectl-sky/pipeline": "x", "username": "bob", "team": "a"}
    (volume,) = task_of(make_document(volumes={"/data": {"size": 1, "labels": labels}})).volumes
    assert volume.storage
    assert volume.storage.labels == {"team": "a"}


def test_task_variables_are_text_as_in_skypilot() -> None:
    (document,) = read(
        "run: x\nenvs: {A: 1, B: yes, C: 1.50, D: , E: '', F: [1, a], 5: x}\n"
        "secrets: {T: , U: 12}\n"
    )
    task = task_of(document)
    expected = {"A": "1", "B": "True", "C": "1.5", "D": None, "E": "", "F": "[1, 'a']", "5": "x"}
    assert task.envs == expected
    assert task.secrets == {"T": None, "U": Secret("12")}


def test_task_volumes_are_substituted() -> None:
    (document,) = read(
        "run: x\nenvs: {V: data, P: '/q\"x'}\n"
        "volumes: {/a: v, /b: {name: w, sub_path: c/d}, '$P/${V}': '$V-1', /c: $UNSET}\n"
    )
    assert task_of(document).volumes == (
        VolumeMount("/a", "v"),
        VolumeMount("/b", "w", "c/d"),
        VolumeMount('/q"x/data', "data-1"),
        VolumeMount("/c", "$UNSET"),
    )


def gpus(name: str, count: int = 1) -> Resources:
    return Resources(accelerator=Accelerator(name, count))


ACCELERATORS = [
    (1, Accelerator(None, 1)),
    ("1", Accelerator(None, 1)),
    ("8", Accelerator(None, 8)),
    (0.5, Accelerator(None, 1)),
    ("V100", Accelerator("V100", 1)),
    ("V100:2", Accelerator("V100", 2)),
    ("V100:0.5", Accelerator("V100", 1)),
    ("V100:1.5", Accelerator("V100", 2)),
    ("A100-80GB:8", Accelerator("A100-80GB", 8)),
    ({"V100": 2}, Accelerator("V100", 2)),
    ({"V100:2": None}, Accelerator("V100", 2)),
    ({"V100": None}, Accelerator("V100", 1)),
    ({"V100": "2"}, Accelerator("V100", 2)),
    ([{"V100": 2}], Accelerator("V100", 2)),
    ([{"V100:2": None}], Accelerator("V100", 2)),
    (["V100:2"], Accelerator("V100", 2)),
    ("{V100:2}", Accelerator("V100", 2)),
    ("80GB+", Accelerator("80GB+", 1)),
    ("80GB:2", Accelerator("80GB", 2)),
    ("nvidia:80GB+:2", Accelerator("nvidia:80GB+", 2)),
    ("nvidia:80GB", Accelerator("nvidia:80GB", 1)),
    ("Radeon Pro V520:1", Accelerator("Radeon Pro V520", 1)),
    ("tpu-v5litepod-4", Accelerator("tpu-v5litepod-4", 1)),
]


@pytest.mark.parametrize(("value", "expected"), ACCELERATORS)
@pytest.mark.parametrize("field", ["accelerators", "gpus"])
def test_task_accelerator_is_parsed(field: str, value: Any, expected: Accelerator) -> None:
    document = make_document(resources={field: value})
    assert [p for p in validate(document) if p.severity == "error"] == []
    assert task_of(document).resources.accelerator == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        ":",
        "V100:",
        ":1",
        "V100:x",
        "V100:0",
        "V100:-1",
        " ",
        "a\tb",
        "V100:9999",
        {},
        "{}",
        "-1",
    ],
)
def test_accelerator_invalid_value_is_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"GPU|count"):
        candidates(value)


@given(
    st.text()
    | st.integers()
    | st.floats()
    | st.lists(st.text())
    | st.dictionaries(st.text(), st.integers())
)
def test_accelerator_random_value_is_parsed_or_refused(value: Any) -> None:
    try:
        found = candidates(value)
    except ValueError as error:
        assert str(error)
    else:
        assert all(asked.rounded.count >= 1 for asked in found)


MACHINES: list[tuple[dict[str, Any], Resources]] = [
    (
        {"instance_type": "4CPU--16GB--H100:8"},
        Resources("4", "16Gi", Accelerator("H100", 8)),
    ),
    ({"instance_type": "0.5CPU--1.5GB", "memory": 2}, Resources("500m", "2Gi")),
    ({"instance_type": "p4d.24xlarge"}, Resources()),
    ({"instance_type": "0CPU--1GB"}, Resources()),
    ({"instance_type": "1CPU--1GB--H100:0"}, Resources()),
    ({"disk_size": 100}, Resources(disk="100Gi")),
    ({"disk_size": "1TB"}, Resources(disk="1Ti")),
    ({"disk_size": 256}, Resources()),
    ({"ephemeral_storage": "10GB"}, Resources(disk="10Gi")),
    ({"use_spot": True, "priority_class": "high"}, Resources(spot=True, priority_class="high")),
    ({"use_spot": False, "priority_class": ""}, Resources()),
    ({"autostop": {"down": True}}, Resources(ttl_seconds=300)),
    ({"autostop": {"down": True, "idle_minutes": 0}}, Resources(ttl_seconds=60)),
    ({"autostop": {"down": True, "idle_minutes": 2**60}}, Resources(ttl_seconds=2**31 - 1)),
    ({"autostop": {"idle_minutes": 10}}, Resources()),
    ({"autostop": 10}, Resources()),
    ({"priority": -5}, Resources(priority=-5)),
    ({"job_recovery": "failover"}, Resources(recovery=Recovery())),
    ({"job_recovery": "NONE"}, Resources()),
    ({"job_recovery": {"strategy": None}}, Resources(recovery=Recovery())),
    ({"job_recovery": {"strategy": "none", "max_restarts_on_errors": 1}}, Resources()),
    ({"job_recovery": {"max_restarts_on_errors": 3}}, Resources(recovery=Recovery(3))),
    (
        {"job_recovery": {"max_restarts_on_errors": 2**40, "recover_on_exit_codes": [34, 0, 33]}},
        Resources(recovery=Recovery(2**31 - 1, (33, 34))),
    ),
    ({"job_recovery": {"recover_on_exit_codes": 33}}, Resources(recovery=Recovery(0, (33,)))),
]


@pytest.mark.parametrize(("resources", "expected"), MACHINES)
def test_task_resources_are_parsed(resources: dict[str, Any], expected: Resources) -> None:
    document = make_document(resources=resources)
    assert [p for p in validate(document) if p.severity == "error"] == []
    assert task_of(document).resources == expected


CANDIDATES: list[tuple[dict[str, Any], list[Resources]]] = [
    ({"gpus": "{L4, A10G:2}"}, [gpus("L4"), gpus("A10G", 2)]),
    ({"gpus": ["L4", "L4:1"]}, [gpus("L4")]),
    (
        {"cpus": 2, "any_of": [{"cpus": 4}, {"memory": 8}]},
        [Resources("4"), Resources("2", "8Gi")],
    ),
    ({"gpus": "L4", "any_of": [{"accelerators": "T4"}, {}]}, [gpus("T4"), gpus("L4")]),
    (
        {"ordered": [{"infra": "aws/us-east-1", "cpus": 1}, {"infra": "k8s/x", "cpus": 2}]},
        [Resources("2", context="x")],
    ),
    ({"infra": "K8S/a/b"}, [Resources(context="a/b")]),
    ({"infra": "k8s/*"}, [Resources()]),
    ({"infra": "aws/us-east-1"}, [Resources()]),
    ({"cloud": "Kubernetes", "region": "x"}, [Resources(context="x")]),
    ({"cloud": "kubernetes", "any_of": [{"region": "x"}]}, [Resources(context="x")]),
    ({"cloud": "aws", "region": "x", "any_of": [{"infra": "k8s"}, {}]}, [Resources()]),
    ({"any_of": [{"cloud": "aws", "cpus": 1}]}, [Resources("1")]),
    ({"infra": "aws", "any_of": [{"cloud": "kubernetes", "cpus": 1}]}, [Resources("1")]),
    (
        {"labels": {"a": "1"}, "any_of": [{"labels": {"b": "2"}}, {}]},
        [Resources(labels={"a": "1", "b": "2"}), Resources(labels={"a": "1"})],
    ),
]


@pytest.mark.parametrize(("resources", "expected"), CANDIDATES)
def test_task_candidates_are_expanded(resources: dict[str, Any], expected: list[Resources]) -> None:
    task = task_of(make_document(resources=resources))
    assert [task.resources, *task.choices] == expected


@pytest.mark.parametrize(
    ("resources", "ordered"),
    [
        ({"gpus": ["L4", "T4"]}, True),
        ({"ordered": [{"cpus": 1}]}, True),
        ({"gpus": "{L4, T4}"}, False),
        ({"any_of": [{"cpus": 1}]}, False),
    ],
)
def test_task_candidates_order_is_kept_if_given(resources: dict[str, Any], ordered: bool) -> None:
    assert task_of(make_document(resources=resources)).ordered is ordered


SIZES = st.sampled_from([1, 0.5, "4+", "500m", "2"])
TASKS = st.fixed_dictionaries(
    {"run": st.text(min_size=1)},
    optional={
        "name": st.text(),
        "num_nodes": st.integers(1, 20),
        "setup": st.text(),
        "resources": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "cpus": SIZES | st.none() | st.text(),
                "memory": st.sampled_from([1, "4G", "4GB"]) | st.text(),
                "accelerators": st.sampled_from([1, "V100:2", {"A": 1}]) | st.text(),
                "image_id": st.none() | st.text(),
                "labels": st.dictionaries(st.text(), st.text()),
                "disk_size": st.integers() | st.sampled_from(["1TB", "0"]) | st.text(),
                "instance_type": st.from_regex(r"[0-9.]{1,3}CPU--[0-9.]{1,3}GB(--L4:[0-9])?"),
                "autostop": st.fixed_dictionaries(
                    {"down": st.booleans()}, optional={"idle_minutes": st.integers(0)}
                ),
                "any_of": st.lists(st.fixed_dictionaries({}, optional={"cpus": SIZES}) | st.none()),
            },
        ),
        "envs": st.dictionaries(st.text() | st.integers(), st.none() | st.text() | st.integers()),
        "secrets": st.dictionaries(st.text(), st.none() | st.text()) | st.lists(st.text()),
        "volumes": st.dictionaries(
            st.text() | st.just("/data"),
            st.text()
            | st.fixed_dictionaries({}, optional={"name": st.text(), "sub_path": st.text()}),
        ),
    },
)


@given(TASKS)
def test_task_random_valid_document_is_accepted(data: dict[str, Any]) -> None:
    (document,) = read(yaml.safe_dump(data))
    errors = [problem for problem in validate(document) if problem.severity == "error"]
    if not errors and not refusals(document):
        task = task_of(document)
        assert task.run == document.get("run")
        assert task.num_nodes >= 1
