"""Tasks that change in place, as documents of a task file."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky import Task as File
from kubectl_sky import sky
from kubectl_sky.errors import InvalidFiles, UserError
from kubectl_sky.sky.exceptions import NotSupportedError


def test_task_setters_change_its_document() -> None:
    task = sky.Task("train", run=["cd src", "python train.py"], envs={"LR": 0.1})
    task.set_resources(sky.Resources(sky.GCP(), accelerators={"A100": 8}, use_spot=False))
    task.set_file_mounts({"/a": "./a"}).update_file_mounts({"/b": Path("b")})
    task.set_storage_mounts({"/out": sky.Storage("bucket", mode=sky.StorageMode.COPY)})
    task.update_envs([("EPOCHS", "3")])
    task.envs["LR"] = 0.2
    task.num_nodes = 2
    assert task.to_yaml_config() == {
        "name": "train",
        "run": "cd src\npython train.py",
        "envs": {"LR": 0.2, "EPOCHS": "3"},
        "resources": {"cloud": "GCP", "accelerators": {"A100": 8}, "use_spot": False},
        "file_mounts": {"/a": "./a", "/b": "b", "/out": {"name": "bucket", "mode": "COPY"}},
        "num_nodes": 2,
    }


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (set, {"any_of": [{"cpus": 1}]}),
        (list, {"ordered": [{"cpus": 1}]}),
    ],
)
def test_resources_several_are_alternatives(make: Any, expected: dict[str, Any]) -> None:
    one = sky.Resources(cpus=1)
    (key,) = expected
    task = sky.Task(run="x", resources=make([one, one.copy(cpus=2)]))
    items = task.to_yaml_config()["resources"][key]
    assert sorted(item["cpus"] for item in items) == [1, 2]
    assert sky.Task(resources=make([one])).to_yaml_config() == {"resources": {"cpus": 1}}


def test_resources_accelerators_as_set_are_alternatives() -> None:
    resources = sky.Resources(accelerators={"A100:1", "H100:1"})
    expected = {"A100:1": None, "H100:1": None}
    assert resources.to_yaml_config() == {"accelerators": expected}
    assert (resources.ports, resources.accelerators) == (None, {"A100:1", "H100:1"})


def test_storage_store_is_that_of_a_task_file() -> None:
    bucket = sky.Storage(source="./data", stores=[sky.StoreType.R2], persistent=False)
    bucket.add_store("S3")
    expected = {"source": "./data", "mode": "MOUNT", "persistent": False, "store": "s3"}
    assert bucket.to_yaml_config() == expected


def test_from_yaml_keeps_fields_without_attribute(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("run: x\nservice: {replicas: 2}\nresources: {cpus: 1}\nmax_duration: 1h\n")
    task = sky.Task.from_yaml(path)
    assert task.run == "x" and task.service == {"replicas": 2}
    assert task.to_yaml_config()["max_duration"] == "1h"
    with pytest.raises(InvalidFiles, match="cannot be read"):
        sky.Task.from_yaml(tmp_path / "none.yaml")


def test_from_yaml_syntax_error_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("run: x\nenvs: {A: 1\n")
    with pytest.raises(InvalidFiles, match=r"task.yaml:[23]:"):
        sky.Task.from_yaml(path)
    with pytest.raises(NotSupportedError, match="several tasks"):
        sky.Task.from_yaml_str("name: both\n---\nrun: a\n---\nrun: b\n")


def test_resources_override_changes_all_alternatives() -> None:
    task = sky.Task.from_yaml_config({"resources": {"cpus": 1, "memory": 2}})
    task.set_resources_override({"cpus": 4})
    (resources,) = task.resources
    assert (resources.cpus, resources.memory, resources.ports) == (4, 2, None)


def test_field_unknown_is_a_problem_of_the_file() -> None:
    config = sky.Task(run="x", resources=sky.Resources(acelerators="A100")).to_yaml_config()
    (problem,) = File(**config).validate().problems
    assert problem.path == "resources.acelerators" and "accelerators" in problem.hint


def test_run_as_function_is_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="write a script"):
        sky.Task(run=lambda rank, ips: "echo").to_yaml_config()


def test_dag_chain_is_a_pipeline_in_its_order() -> None:
    with sky.Dag() as dag:
        last = sky.Task("last", run="x").set_inputs("s3://a", estimated_size_gigabytes=1)
        first = sky.Task("first", run="x")
        first >> last
    dag.name = "both"
    header, *tasks = dag.to_yaml_configs()
    assert header == {"name": "both", "execution": "serial"}
    assert [task["name"] for task in tasks] == ["first", "last"]
    assert sky.get(sky.optimize(dag, minimize=sky.OptimizeTarget.COST)) is dag


def test_dag_parallel_is_a_group() -> None:
    server = sky.Task("server", run="x")
    with sky.Dag() as dag:
        dag.add(server)
        dag.add(sky.Task("client", run="x"))
    dag.set_execution(sky.DagExecution.PARALLEL)
    dag.primary_tasks = ["client"]
    header = dag.to_yaml_configs()[0]
    assert header == {"name": "server", "execution": "parallel", "primary_tasks": ["client"]}


@pytest.mark.parametrize("edges", [(), ("ab",), ("ab", "ac"), ("ac", "bc"), ("ab", "bc", "cb")])
def test_dag_that_is_no_chain_is_not_supported(edges: tuple[str, ...]) -> None:
    with sky.Dag() as dag:
        tasks = {name: sky.Task(name, run="x") for name in "abc"}
        for edge in edges:
            tasks[edge[0]] >> tasks[edge[1]]
    with pytest.raises(NotSupportedError, match="one chain"):
        dag.to_yaml_configs()
    with pytest.raises(NotSupportedError, match="inside"):
        tasks["a"] >> tasks["b"]


def test_field_not_set_is_none_and_other_names_are_no_attributes() -> None:
    task = sky.Task(run="x", event_callback="echo")
    assert (task.service, task.get_event_callback()) == (None, "echo")
    for item in (task, sky.Resources(), sky.Storage("b"), sky.Dag()):
        assert not hasattr(item, "colour")


def test_dag_without_tasks_is_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="the Dag has no task"):
        sky.Dag().to_yaml_configs()


def test_calls_without_a_name_are_refused() -> None:
    with pytest.raises(UserError, match="no job is named"):
        sky.jobs.cancel()
    with pytest.raises(UserError, match="no service is named"):
        sky.serve.down()


def test_no_resources_are_those_of_an_empty_task() -> None:
    assert sky.Task(run="x").set_resources([]).to_yaml_config() == {"run": "x"}


def test_setter_of_an_unknown_field_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="set_rn"):
        sky.Task(run="x").set_rn("y")
