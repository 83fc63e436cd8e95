"""Tasks from fields and files: what they render, and what is wrong in them."""

import ast
import json
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubectl_sky
from kubectl_sky import Task
from kubectl_sky.api.task import TaskFields
from kubectl_sky.errors import InvalidFiles, UserError
from tests.test_documents import check

ROOT = Path(__file__).parents[2]
ID = "bcdf2345"
# Fields that submit ignores or refuses: only a file can have them.
FILE_ONLY = {
    "_metadata",
    "api_server_access",
    "file_mounts_mapping",
    "inputs",
    "managed_secrets",
    "outputs",
    "volume_mounts",
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "CACHE"):
        monkeypatch.setenv(f"KUBECTL_SKY_{kind}_HOME", str(tmp_path / kind))


def jobs(task: Task) -> list[Any]:
    return [item for item in task.render().objects if item["kind"] == "Job"]


def test_task_fields_render_as_same_task_in_file_does(tmp_path: Path) -> None:
    text = "name: train\nrun: |\n  echo one\n  echo two\nresources: {cpus: 2}\nnum_nodes: 2\n"
    (tmp_path / "train.yaml").write_text(text)
    run = "echo one\necho two\n"
    from_fields = Task(name="train", run=run, resources={"cpus": 2}, num_nodes=2)
    rendered = [
        task.override(id=ID).render(user="alice", namespace="team")
        for task in (from_fields, Task.from_yaml(tmp_path / "train.yaml"), Task.from_yaml(text))
    ]
    assert len({manifests.yaml for manifests in rendered}) == 1
    assert list(yaml.safe_load_all(rendered[0].yaml)) == list(rendered[0].objects)
    assert {item["metadata"]["namespace"] for item in rendered[0].objects} == {"team"}


def test_task_fields_are_those_of_schema() -> None:
    schema = json.loads((ROOT / "schemas" / "task.json").read_text())
    assert set(TaskFields.__annotations__) == set(schema["properties"]) - FILE_ONLY


def test_override_changes_copy_only() -> None:
    task = Task(name="train", run="x")
    other = task.override(num_nodes=3, gpus="A100:2", env={"LR": "a=b"}).override(env={"N": "1"})
    assert (len(jobs(task)), len(jobs(other))) == (1, 3)
    container = jobs(other)[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert (variables["LR"], variables["N"]) == ("a=b", "1")


def test_validate_reports_every_problem_with_its_position() -> None:
    problems = Task.from_yaml("nme: x\nrun: y\nnum_nodes: 0\n").validate().problems
    assert [(item.line, item.column, item.path) for item in problems] == [
        (1, 1, "nme"),
        (3, 12, "num_nodes"),
    ]
    assert problems[0].hint == 'did you mean "name"?'


def test_validate_returns_warnings_and_dangers_of_valid_task() -> None:
    pod = {"kubernetes": {"pod_config": {"spec": {"hostNetwork": True}}}}
    result = Task(run="x", config=pod, resources={"disk_tier": "low"}).validate()
    assert result.valid
    assert {item.severity for item in result.problems} == {"warning"}
    assert [str(danger.danger_class) for danger in result.dangers] == ["host"]
    check(result.as_json())


@pytest.mark.parametrize("text", ["run: [\n", "\n", "- a\n", "run: \ud800\n", "a: &x [*x]\n"])
def test_invalid_yaml_is_reported_and_not_submitted(text: str) -> None:
    task = Task.from_yaml(text)
    assert not task.validate().valid
    with pytest.raises(InvalidFiles) as caught:
        task.render()
    assert caught.value.problems[0].file == "<task>"
    assert caught.value.message


def test_missing_file_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidFiles, match="no such file") as caught:
        Task.from_yaml(tmp_path / "nothing.yaml")
    assert caught.value.problems[0].file == str(tmp_path / "nothing.yaml")


def test_path_with_nul_character_is_reported() -> None:
    with pytest.raises(InvalidFiles, match="null byte"):
        Task.from_yaml("a\x00b")


def recursive() -> dict[str, object]:
    config: dict[str, object] = {}
    config["again"] = config
    return config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"run": "x", "config": recursive()}, "recursion"),
        ({"run": "x", "envs": {"A": object()}}, "cannot represent"),
        ({"run": "\udcff"}, "Task: "),
    ],
)
def test_value_that_yaml_does_not_have_is_type_error(fields: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Task(**fields)


def test_unknown_field_is_type_error_at_once() -> None:
    for fields, message in (
        ({"nam": "x"}, 'unknown field "nam"; did you mean "name"\\?'),
        ({"zzz": 1}, 'unknown field "zzz"$'),
    ):
        unknown: Any = fields
        with pytest.raises(TypeError, match=message):
            Task(**unknown)


def test_secret_values_are_neither_shown_nor_rendered() -> None:
    task = Task(run="x", secrets={"TOKEN": "hunter2"}).override(secret={"OTHER": "hunter3"})
    shown = f"{task!r}{task.render()!r}{task.validate()!r}"
    assert "hunter" not in shown
    assert b64encode(b"hunter2").decode() in task.render(show_secrets=True).yaml


def test_wrong_id_is_user_error_with_hint() -> None:
    with pytest.raises(UserError) as caught:
        Task(run="x").override(id="X").render()
    assert (caught.value.hint, caught.value.problems) == ("for example: --id train001", ())


def test_package_imports_public_names_lazily() -> None:
    script = (
        "import sys, kubectl_sky; assert 'kubectl_sky.api' not in sys.modules;"
        "from kubectl_sky import Task; assert 'kubernetes' not in sys.modules;"
        "from kubectl_sky import *; print(*sorted(set(dir()) & set(kubectl_sky.__all__)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(kubectl_sky.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = kubectl_sky.Nothing  # type: ignore[attr-defined]


def test_stub_has_public_names() -> None:
    tree = ast.parse((ROOT / "kubectl_sky" / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: node.module for node in imports for alias in node.names}
    assert set(modules) | {"__version__"} == set(kubectl_sky.__all__)
    for name, module in modules.items():
        assert getattr(kubectl_sky, name).__module__ == module


USER_SCRIPT = """
from kubectl_sky import Client, Task, TaskStatus, run_in_thread
from kubectl_sky.errors import InvalidFiles, TaskFailed

task = Task(name="train", run="python train.py", resources={"accelerators": "A100:8"})
client = Client(namespace="team")
try:
    run = client.submit(task.override(env={"EPOCHS": "3"}, num_nodes=2))
except InvalidFiles as error:
    for problem in error.problems:
        print(problem.line, problem.column, problem.path, problem.message.upper())
    raise SystemExit(2) from error
for line in run.logs():
    print(line.rank + 1, line.text.upper())
try:
    status = run.wait(timeout=60)
except TaskFailed as error:
    print(error.message.upper(), error.hint.upper())
else:
    if isinstance(status, TaskStatus):
        print(status.state.ended, [node.exit_code for node in status.nodes])
print(client.submit(task, dry_run="server").yaml.upper())
print([volume.size.upper() for volume in client.volumes.list()])
print(client.doctor("train").summary.upper(), client.doctor().ok)
print([node.free for node in client.gpus()], client.usage(by="gpu").total.hours)
print(client.exec("train", ["nvidia-smi"]).stdout.upper())
client.cp("train:results", ".")


async def main() -> None:
    state = (await run_in_thread(client.wait, "train", timeout=60)).state
    print(state.ended)
    async for line in client.logs("train", follow=True):
        print(line.text.upper())
"""
WRONG = """
from kubectl_sky import Client, Nothing, Task

Task(run=1)
Task(acelerators="A100")
Client("team").submit("task.yaml").lgs()
"""


def test_user_script_passes_strict_mypy(tmp_path: Path) -> None:
    """With the package as it is installed: its types are found by py.typed."""
    (tmp_path / "script.py").write_text(USER_SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "script.py", "wrong.py"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "user")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert {line.partition(":")[0] for line in errors} == {"wrong.py"}, done.stdout + done.stderr
    assert [int(line.split(":")[1]) for line in errors] == [2, 4, 5, 6, 6]


def test_documented_attributes_exist() -> None:
    page = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))

    for name in (
        "TaskStatus",
        "NodeStatus",
        "PipelineStatus",
        "LogLine",
        "VolumeStatus",
        "AcceleratorNode",
        "ClusterCheck",
        "Problem",
    ):
        kind = getattr(kubectl_sky, name)
        for attribute in re.findall(r"`(\w+)(?:\(\))?`", rows[name]):
            assert attribute in kind.__annotations__ or hasattr(kind, attribute), attribute
    assert set(kubectl_sky.__all__) - {"__version__"} <= set(re.findall(r"\w+", page))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secret": {"TOKEN": None}}, 'secret: the value of "TOKEN" is not set'),
        ({"env": {"A": None}}, 'env: the value of "A" is not set'),
        ({"env": {"A=B": "c"}}, 'env: no variable has "=" in its name'),
        ({"env": {"A": "\udcff"}}, "the value is not UTF-8"),
        ({"secret": {"A": "\udcff"}}, "the value is not UTF-8"),
        ({"name": "\udcff"}, "the value is not UTF-8"),
        ({"bucket_mode": "copied"}, 'bucket_mode: expected mount, sync or copy, got "copied"'),
    ],
)
def test_override_with_invalid_value_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        Task(run="a").override(**changes)


def test_override_takes_numbers_and_paths(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"cpus": 4, "ports": 80, "num_nodes": 2, "workdir": tmp_path}
    task = Task(name="a", run="a").override(**changes)
    assert task.validate().problems == ()
    services = [item for item in task.render().objects if item["kind"] == "Service"]
    assert 80 in {port["port"] for item in services for port in item["spec"].get("ports", ())}
    numbers: dict[str, Any] = {"array": 3}
    assert jobs(Task(run="a").override(**numbers))[0]["spec"]["completions"] == 1


def test_override_ports_with_string_is_one_port() -> None:
    texts = [
        Task(name="a", run="true").override(id=ID, ports=ports).render().yaml
        for ports in ("8080", ["8080"])
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("changes", [{"ports": None}, {"env": None}, {"env_files": None}])
def test_override_none_for_several_values_is_refused(changes: Any) -> None:
    with pytest.raises(UserError, match="a value is required"):
        Task(run="x").override(**changes)
