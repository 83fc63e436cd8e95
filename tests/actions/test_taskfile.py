"""Load a file of several tasks with flags, and render it."""

import io
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.actions.documents import read_documents
from kubectl_sky.errors import InvalidFiles, UserError
from kubectl_sky.spec.files import Repository
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.taskfile import Source, TaskFile, prepare
from kubectl_sky.submitting.validate import check
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names
from kubectl_sky.words.secret import Secret
from tests.actions.drafts import drafted, plans

TWO = "name: one\nenvs: {A: null}\nrun: x\n---\nenvs: {B: null}\nsecrets: {S: null}\nrun: y\n"


def refused(text: str, tmp_path: Path, **flags: Any) -> list[str]:
    with pytest.raises(InvalidFiles) as caught:
        drafted(text, tmp_path, **flags)
    return [str(problem).partition("tasks.yaml:")[2] for problem in caught.value.problems]


def test_load_unset_values_are_reported_with_document(tmp_path: Path) -> None:
    assert refused(TWO, tmp_path) == [
        "2:11: document 1: envs.A: the value is not set; set it with --env A=…",
        "5:11: document 2: envs.B: the value is not set; set it with --env B=…",
        "6:14: document 2: secrets.S: the value is not set;"
        " export S=…, then set it with --secret S",
    ]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "train.py",
            "a Python program, not a task file; write a task file for it: kubectl sky init",
        ),
        (".sky.yaml", "SkyPilot's settings, not a task file; its kubernetes: belongs"),
        ("helo.yaml", 'no such file or directory; did you mean "hello.yaml"?'),
        ("broken.yaml", "no such file or directory; it is a link to nothing, which does not exist"),
        ("otter", 'no such file or directory; did you mean "other.yml"?'),
        ("ten.yml", "no such file or directory; there are "),
        ("a.yaml,b.yaml", "no such file or directory; separate files with spaces: … b.yaml"),
        ("s3://b/task.yaml", "no such file or directory; download it, and name the file"),
        ("LR=0.1", "no such file or directory; for a variable, write --env LR=VALUE"),
        (
            "HF_TOKEN=abc",
            "no such file or directory; for a secret, export HF_TOKEN=…, then --secret HF_TOKEN",
        ),
        ("hello.yml.yaml", 'no such file or directory; did you mean "hello.yaml"?'),
        (f"{'x' * 300}.py", "file name too long"),
        (
            "https://example.com/task.yaml",
            "directory; download it: curl -L URL | kubectl sky submit -",
        ),
        ("", "is a directory; name a task file in it: hello.yaml, other.yml"),
    ],
)
def test_read_documents_other_path_error_names_what_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    for name in ("hello.yaml", "other.yml", "train.py", "notes.txt"):
        (tmp_path / name).write_text("run: x\n")
    (tmp_path / "broken.yaml").symlink_to("nothing")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFiles) as error:
        read_documents(str(Path(path)), io.BytesIO())
    (problem,) = error.value.problems
    assert message in str(problem)
    assert ("did you mean" in problem.hint) == ("did you mean" in message)
    assert bool(problem.hint) == (";" in message)


def test_prepare_settings_of_skypilot_that_task_lacks_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".sky").mkdir()
    settings = "kubernetes: {kueue: {local_queue_name: q}, pod_config: {spec: {}}, networking: x}\n"
    (tmp_path / ".sky" / "config.yaml").write_text(settings)
    (tmp_path / ".sky.yaml").write_text("kubernetes: {networking: portforward}\n")

    def said(text: str) -> list[str]:
        (tmp_path / "t.yaml").write_text(text)
        (report,) = check(["t.yaml"], io.BytesIO(), {"HOME": str(tmp_path)})
        remarks = prepare(
            Source("t.yaml", Overrides(), {"HOME": str(tmp_path)}, io.BytesIO()), UI()
        ).remarks
        assert remarks == report.remarks
        return list(remarks)

    where = "below config.kubernetes of the task"
    assert said("run: x\n") == [
        f"~/.sky/config.yaml is not read; write its pod_config and kueue {where}"
    ]
    assert said("run: x\nconfig: {kubernetes: {kueue: {local_queue_name: a}}}\n") == [
        f"~/.sky/config.yaml is not read; write its pod_config {where}"
    ]


def test_prepare_nebius_bucket_uses_profile_of_aws_as_skypilot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text("run: x\nfile_mounts: {/a: nebius://box}\n")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile nebius]\nregion = eu-north1\n")
    environ = {"HOME": str(tmp_path)}
    task_file = prepare(Source("t.yaml", Overrides(), environ, io.BytesIO()), UI())
    assert task_file.settings.stores == {"nebius": {"region": "eu-north1"}}
    (report,) = check(["t.yaml"], io.BytesIO(), environ)
    assert not report.problems


def test_load_flags_apply_to_every_task(tmp_path: Path) -> None:
    pipe = tmp_path / "variables"
    pipe.write_text("A=1\nS=file\n")
    task_file = drafted(
        TWO, tmp_path, env_files=(str(pipe),), env=("B=2",), image="busybox", task_id="bcdf2345"
    )
    first, second = task_file.tasks
    assert (first.envs, first.secrets) == ({"A": "1", "B": "2"}, {"S": Secret("file")})
    assert (second.envs, second.secrets) == ({"B": "2", "A": "1"}, {"S": Secret("file")})
    assert {task.resources.image for task in task_file.tasks} == {"busybox"}
    assert task_file.id == "bcdf2345"
    assert [part.task_id for part in task_file.entries] == [
        names.part_id("bcdf2345", n) for n in (1, 2)
    ]


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("run: x\n", None, [None]),
        ("run: x\n", "flag", ["flag"]),
        ("name: head\n---\nname: task\nrun: x\n", None, ["head"]),
        ("name: head\n---\nname: task\nrun: x\n", "flag", ["flag"]),
        ("name: head\n---\nrun: x\n---\nname: b\nrun: y\n", None, ["head-0", "b"]),
        ("name: head\n---\nrun: x\n---\nname: b\nrun: y\n", "flag", ["flag-0", "b"]),
        ("run: x\n---\nname: b\nrun: y\n", "flag", ["flag-0", "b"]),
    ],
)
def test_load_name_of_task_follows_flag_and_header(
    tmp_path: Path, text: str, given: str | None, expected: list[str | None]
) -> None:
    assert [task.name for task in drafted(text, tmp_path, name=given).tasks] == expected


def test_render_pipeline_suspends_all_but_first_stage(tmp_path: Path) -> None:
    task_file = drafted("run: x\n---\nrun: y\n---\nrun: z\n", tmp_path, task_id="bcdf2345")
    jobs = task_file.render(plans(task_file)).workload
    assert [job.object["spec"].get("suspend", False) for job in jobs] == [False, True, True]
    stages = [job.object["metadata"]["labels"][names.STAGE] for job in jobs]
    assert stages == ["1", "2", "3"]


def test_render_group_has_single_service(tmp_path: Path) -> None:
    header = "name: g\nexecution: parallel\n---\n"
    task_file = drafted(
        f"{header}name: a\nnum_nodes: 2\nrun: x\n---\nname: b\nrun: y\n",
        tmp_path,
        task_id="bcdf2345",
    )
    rendered = task_file.render(plans(task_file))
    services = [item.name for item in rendered.auxiliary if item.object["kind"] == "Service"]
    assert services == ["Service/g-bcdf2345"]
    pods = [job.object["spec"]["template"]["spec"] for job in rendered.workload]
    assert [pod["hostname"] for pod in pods] == ["a-0", "a-1", "b-0"]
    assert {pod["subdomain"] for pod in pods} == {"g-bcdf2345"}


def test_plan_reserved_label_of_user_is_overridden(tmp_path: Path) -> None:
    text = f"resources: {{labels: {{{names.PIPELINE}: other}}}}\nrun: x\n---\nrun: y\n"
    task_file = drafted(text, tmp_path, task_id="bcdf2345")
    assert plans(task_file)[0].labels[names.PIPELINE] == "bcdf2345"


def test_load_max_files_setting_limits_workdir(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in "ab":
        (tmp_path / "code" / name).write_text("x")
    (tmp_path / "tasks.yaml").write_text(f"workdir: {tmp_path}/code\nrun: x\n")
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def with_settings(settings: str) -> TaskFile:
        (tmp_path / "settings.yaml").write_text(settings)
        path = str(tmp_path / "tasks.yaml")
        return prepare(Source(path, Overrides(), environ, io.BytesIO()), UI())

    (entry,) = with_settings("max_files: 2\n").entries
    assert entry.archives["~/sky_workdir"].files == 2
    with pytest.raises(InvalidFiles, match="workdir: holds more than 1 files, too much to upload"):
        with_settings("max_files: 1\n")


NO_ENDPOINT = (
    'the endpoint of store "nebius" is not set;'
    " set in settings.yaml: stores: {nebius: {region: eu-north1}}"
)
UNPLANNABLE = {
    "run: x\nresources:\n  accelerators: tpu-v2-8\n": (
        '3:17: resources.accelerators: "tpu-v2-8": GKE has no TPU of this name for pods'
    ),
    "run: x\nresources:\n  any_of:\n    - {gpus: 7GB}\n": (
        '4:14: resources.any_of[0].gpus: "7GB": no known GPU has this memory'
    ),
    "run: x\nfile_mounts:\n  /a: nebius://box\n": f"3:7: file_mounts./a: {NO_ENDPOINT}",
    f"run: x\nsetup: '{'x' * 900_000}'\n": "2:8: setup: the scripts have ",
    f"run: x\nenvs:\n  A: {'x' * 131_072}\n": "3:6: envs.A: the variable has 131,074 bytes",
    "run: x\nsecrets:\n" + "".join(f"  A{n}: {'x' * 100_000}\n" for n in range(10)): (
        "2:1: secrets: the variables have 1,000,030 bytes; the limit is 900,000"
    ),
    "run: x\nvolumes:\n  /a: {host_path: /etc}\n": "3:8: volumes./a.host_path: ",
}


@pytest.mark.parametrize("text", UNPLANNABLE, ids=lambda text: text[:60])
def test_render_refusal_has_position_in_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFiles) as caught:
        task_file = drafted(text, tmp_path)
        task_file.render(plans(task_file))
    (problem,) = caught.value.problems
    assert str(problem).partition("tasks.yaml:")[2].startswith(UNPLANNABLE[text])
    assert problem.line


def test_render_refusal_names_flag(tmp_path: Path) -> None:
    with pytest.raises(InvalidFiles, match=r'^--gpus: resources\.accelerators: "tpu-v2-8": '):
        plans(drafted("run: x\n", tmp_path, gpus="tpu-v2-8"))


def test_flags_of_skypilot_replace_fields_of_the_file(tmp_path: Path) -> None:
    text = (
        "resources: {cloud: aws, region: us-east-1, priority_class: low, ephemeral_storage: 1}\n"
        "workdir: {url: https://github.com/a/b.git, ref: v1}\nrun: x\n"
    )
    flags = {"infra": "k8s/west", "priority": "-5", "disk_size": "100", "use_spot": True}
    task_file = drafted(text, tmp_path, **flags, git_ref="main")
    (task,) = task_file.tasks
    resources = task.resources
    assert (resources.priority, resources.priority_class, resources.spot) == (-5, None, True)
    assert (resources.disk, resources.context) == ("100Gi", "west")
    assert task.repository == Repository("https://github.com/a/b.git", "main")


def test_priority_flag_with_text_is_a_priority_class(tmp_path: Path) -> None:
    (task,) = drafted("resources: {priority: 5}\nrun: x\n", tmp_path, priority="high").tasks
    assert (task.resources.priority, task.resources.priority_class) == (None, "high")


def test_none_in_a_flag_resets_the_field_of_the_file(tmp_path: Path) -> None:
    text = "resources: {gpus: A100, cpus: 2, image_id: busybox, priority: 5}\nrun: x\n"
    flags = dict.fromkeys(("gpus", "cpus", "image", "priority"), "none")
    (task,) = drafted(text, tmp_path, **flags).tasks
    assert (task.resources.accelerator, task.resources.cpus) == (None, None)
    assert (task.resources.image, task.resources.priority) == (None, None)


def test_git_url_and_workdir_flags_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--workdir and --git-url exclude each other"):
        drafted("run: x\n", tmp_path, workdir=".", git_url="https://github.com/a/b.git")


@pytest.mark.parametrize("workdir", ["", "workdir: .\n", "workdir: {url: git@a:b.git}\n"])
def test_git_flags_are_named_without_a_position(tmp_path: Path, workdir: str) -> None:
    with pytest.raises(InvalidFiles) as caught:
        drafted(f"{workdir}run: git log\n", tmp_path, git_url="x", git_ref="a b")
    assert [(problem.location, problem.path) for problem in caught.value.problems] == [
        ("--git-ref", "workdir.ref"),
        ("--git-url", "workdir.url"),
    ]
