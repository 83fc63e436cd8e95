"""What the options of a batch script become."""

from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.actions.documents import parse
from kubectl_sky.plan.resolve import find_refusals
from kubectl_sky.render import writer
from kubectl_sky.slurm.convert import Call
from kubectl_sky.spec.load import load
from kubectl_sky.spec.task import task_of
from kubectl_sky.submitting.check import document_problems
from kubectl_sky.words.settings import Settings
from tests.slurm.scripts import (
    FILE,
    errors,
    make_data,
    make_document,
    make_script,
    own,
    read,
    warnings,
)

Options = tuple[str, ...]


@pytest.mark.parametrize(
    ("options", "nodes", "resources"),
    [
        (("-N2", "--ntasks-per-node=4"), 2, {"cpus": 4}),
        (("-n 8", "--ntasks-per-node=4"), 2, {"cpus": 4}),
        (("-n 4", "-c 2"), 1, {"cpus": 8}),
        (("-N2", "-n4", "-c3"), 2, {"cpus": 6}),
        (("--mem=16G",), 1, {"memory": 16}),
        (("-c 4", "--mem-per-cpu=2G"), 1, {"cpus": 4, "memory": 8}),
        (("--gpus=2", "--mem-per-gpu=10G"), 1, {"accelerators": 2, "memory": 20}),
        (("--gpus=2", "--cpus-per-gpu=6"), 1, {"accelerators": 2, "cpus": 12}),
        (("--gres=gpu:a100:4",), 1, {"accelerators": "A100:4"}),
        (("--gres=gpu",), 1, {"accelerators": 1}),
        (("-N2", "-G 8"), 2, {"accelerators": 4}),
        (("--gpus-per-node=v100:2",), 1, {"accelerators": "V100:2"}),
        (("--ntasks-per-node=2", "--gpus-per-task=1"), 1, {"accelerators": 2, "cpus": 2}),
        (("--gres=gpu:0",), 1, None),
        (("--tmp=100G",), 1, {"disk_size": 100}),
        (("--requeue",), 1, {"job_recovery": {"max_restarts_on_errors": 0}}),
    ],
)
def test_size_becomes_nodes_and_resources(
    options: Options, nodes: int, resources: dict[str, Any] | None
) -> None:
    data = make_data(*options)
    assert data.get("num_nodes", 1) == nodes
    assert data.get("resources") == resources


def test_gpus_that_nodes_cannot_share_are_refused() -> None:
    (problem,) = errors(make_script("-N3", "--gpus=4"))
    assert str(problem).startswith("train.sbatch:3:16: --gpus: 4 GPUs cannot be divided by 3 nodes")


def test_gpus_of_several_types_are_refused() -> None:
    (problem,) = errors(make_script("--gres=gpu:a100:2,gpu:v100:2"))
    assert "--gres: not supported: GPUs of several types on a node" in str(problem)


def test_job_name_time_export_and_exclude_become_fields() -> None:
    options = ("-J my job", "--time=1:00:00", "--export=ALL,EPOCHS=3,TOKEN", "-x n[1-2]")
    document = make_document(*options[1:], '--job-name="my job!"')
    assert document.get("name") == "my-job"
    assert document.get("max_duration") == "1h"
    assert document.get("envs") == {"EPOCHS": "3", "TOKEN": None}
    assert own(document)["exclude_nodes"] == ["n1", "n2"]


@pytest.mark.parametrize("value", ["A=1,B='x,y'", 'A=1,B="x,y"', "\"A=1,B='x,y'\""])
def test_comma_in_quotes_is_text_of_a_variable(value: str) -> None:
    assert make_data(f"--export={value}")["envs"] == {"A": "1", "B": "x,y"}


def test_list_of_variables_in_quotes_is_read() -> None:
    assert make_data('--export="A=1,B=x y"')["envs"] == {"A": "1", "B": "x y"}


def test_script_without_job_name_has_the_name_of_its_file() -> None:
    assert make_data("-N1")["name"] == "train"


def test_folder_of_the_submit_is_the_workdir() -> None:
    assert make_data("-N1")["workdir"] == "."
    assert make_data("--chdir=sub")["workdir"] == "sub"
    assert make_data("-D /home/me/x")["workdir"] == "."
    (warning,) = warnings("-D /home/me/x")
    assert "-D: warning: not carried out: the folder is of Slurm's cluster" in warning


@pytest.mark.parametrize("folder", ["..", "../x", "x/../../y"])
def test_folder_above_that_of_the_submit_is_refused(folder: str) -> None:
    (problem,) = errors(make_script(f"--chdir={folder}"))
    assert "--chdir: not supported: the folder is not below that of the submit" in str(problem)


def test_array_becomes_an_array_whose_script_has_the_number() -> None:
    document = make_document("--array=0-20:5%2", body="python train.py $SLURM_ARRAY_TASK_ID")
    assert own(document) == {"array": "0,5,10,15,20%2", "slurm": "ranks"}


def test_array_of_several_nodes_is_refused_with_its_line() -> None:
    (problem,) = errors(make_script("-N2", "-a 1-3"))
    assert (problem.line, problem.path) == (3, "-a")


TABLE: dict[str, Any] = {
    "partitions": {"gpu": {"queue": "team", "accelerators": "H100", "labels": {"disk": "ssd"}}},
    "qos": {"high": {"priority_class": "urgent"}},
    "gpus": {"tesla": "V100"},
    "volumes": {"/scratch": "scratch"},
    "images": {"torch.sif": "pytorch/pytorch:2"},
}


def test_partition_and_qos_in_the_settings_are_carried_out() -> None:
    document = make_document("-p gpu", "-q high", "--gres=gpu:2", **TABLE)
    assert document.get("resources") == {
        "labels": {"disk": "ssd"},
        "priority_class": "urgent",
        "accelerators": "H100:2",
    }
    assert document.get("config", "kubernetes", "kueue", "local_queue_name") == "team"
    assert document.warnings == ()
    assert document.notes == (
        "train.sbatch:2: -p gpu: queue team, accelerators H100, labels disk=ssd",
        "train.sbatch:3: -q high: priority_class urgent",
    )


def test_labels_of_partition_and_constraint_add_up() -> None:
    table: dict[str, Any] = {
        "partitions": {"gpu": {"labels": {"disk": "ssd", "pool": "a"}}},
        "constraints": {"big": {"labels": {"pool": "b"}}},
    }
    data = make_data("-p gpu", "-C big", **table)
    assert data["resources"] == {"labels": {"disk": "ssd", "pool": "b"}}
    assert table["partitions"]["gpu"]["labels"]["pool"] == "a"


def test_partition_that_is_not_in_the_settings_says_what_to_write() -> None:
    (warning,) = warnings("--partition=gpu")
    assert warning == (
        "train.sbatch:2:21: --partition: warning: not carried out: gpu is not in the settings;"
        " write there slurm: {partitions: {gpu: {queue: QUEUE}}}"
    )


def test_exclusive_requests_the_gpus_of_the_partition() -> None:
    table: dict[str, Any] = {"partitions": {"gpu": {"accelerators": "H100:8"}}}
    document = make_document("-p gpu", "--exclusive", **table)
    assert document.get("resources") == {"accelerators": "H100:8"}
    assert document.warnings == ()
    assert document.notes[1] == "train.sbatch:3: --exclusive: accelerators H100:8"
    with_gres = make_data("-p gpu", "--exclusive", "--gres=gpu:2", **table)
    assert with_gres["resources"] == {"accelerators": "H100:2"}


@pytest.mark.parametrize("options", [("--exclusive",), ("--exclusive", "--gres=gpu:2")])
def test_exclusive_keeps_other_tasks_away(options: Options) -> None:
    document = make_document(*options)
    spec = document.get("config", "kubernetes", "pod_config", "spec")
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {},
        "labelSelector": {"matchLabels": {"skypilot-task": "true"}},
    }
    assert document.warnings == ()


def test_type_of_gpu_is_looked_up_in_the_settings() -> None:
    assert make_data("--gres=gpu:tesla:1", **TABLE)["resources"] == {"accelerators": "V100:1"}
    product = make_data("--gres=gpu:nvidia_a100-sxm4-80gb:2")
    assert product["resources"] == {"accelerators": "A100-80GB:2"}
    (warning,) = warnings("--gres=gpu:tesla:1")
    assert '"tesla" is no known type of GPU: any GPU is used' in warning


def test_output_on_a_volume_becomes_logs() -> None:
    document = make_document("-o /scratch/me/logs/%j.out", **TABLE)
    assert own(document)["logs"] == "/scratch/me/logs"
    assert document.get("volumes") == {"/scratch": "scratch"}
    assert document.warnings == ()


def test_dependency_on_success_is_that_of_the_submit() -> None:
    document = make_document("--dependency=afterok:prep")
    assert document.after == "prep"
    assert document.warnings == ()
    assert document.notes == ()


def test_output_elsewhere_is_named_once() -> None:
    (warning,) = warnings("--output=%j.out", "--error=%j.err")
    assert "--output: warning: no file is written: kubectl sky logs has the output" in warning
    assert warnings("-o /dev/null") == []


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--exclusive=user", "several tasks can share a cluster node; write --exclusive, which"),
        (
            "--mail-user=a@b",
            "no mail is sent, but a URL can be notified; use kubectl sky wait train",
        ),
        ("--dependency=singleton", "a task waits only for one other, which must succeed; write"),
        ("--dependency=afterany:prep", "a task waits only for one other, which must succeed"),
        ("--dependency=afterok:a:b", "a task waits only for one other, which must succeed"),
        ("-d afterok:1234", "jobs of Slurm are unknown here; name a task of the cluster: --dep"),
        ("-d afterok:$PREP", "jobs of Slurm are unknown here"),
        ("--signal=USR1@60", "only signals to the script are sent, such as B:USR1@60"),
        ("--mem=0", "a task does not own its cluster nodes; write a size"),
        ("-N 2-4", "the task has 2 nodes; write one number"),
        ("--gres=lscratch:10", "lscratch is of Slurm's cluster"),
    ],
)
def test_option_that_is_not_carried_out_is_named(option: str, text: str) -> None:
    assert text in warnings(option, body="srun a")[0]


@pytest.mark.parametrize(
    "option", ["--no-requeue", "--mail-type=NONE", "--export=ALL", "--open-mode=append", "-Q"]
)
def test_option_without_effect_is_not_named(option: str) -> None:
    assert warnings(option) == []


def test_signal_to_the_script_becomes_a_hook() -> None:
    (hook,) = make_document("--signal=B:USR1@90").get("config", "hooks")
    assert "kill -USR1" in hook["run"]
    assert hook["timeout"] == 90


def test_image_of_pyxis_becomes_the_image() -> None:
    document = make_document("--container-image=nvcr.io#nvidia/pytorch:24.01-py3")
    assert document.get("resources", "image_id") == "docker:nvcr.io/nvidia/pytorch:24.01-py3"
    body = "srun --container-image=ubuntu:24.04 a"
    assert make_data("-N1", body=body)["resources"]["image_id"] == "docker:ubuntu:24.04"


def test_image_of_singularity_becomes_the_image() -> None:
    options = "--nv -B /a:/b --network none"
    body = f"IMG=docker://pytorch/pytorch:2\nsingularity exec {options} $IMG python train.py"
    assert make_data("-N1", body=body)["resources"]["image_id"] == "docker:pytorch/pytorch:2"
    body = "srun apptainer exec $BINDS ~/images/torch.sif a"
    assert (
        make_data("-N1", body=body, **TABLE)["resources"]["image_id"] == "docker:pytorch/pytorch:2"
    )


def test_image_file_is_refused_unless_a_flag_sets_an_image() -> None:
    script = make_script("-N1", body="SIF=/data/a.sif\napptainer exec $SIF python train.py")
    (problem,) = errors(script)
    assert str(problem) == (
        "train.sbatch:5:16: image: not supported: $SIF is no image of a registry;"
        " name the image in the settings: slurm: {images: {a.sif: IMAGE}}"
    )
    assert "resources" not in read(script, image=True).data


def test_several_images_are_refused() -> None:
    body = "srun --container-image=a:1 x\nsrun --container-image=b:1 y"
    assert [problem.line for problem in errors(make_script("-N1", body=body))] == [4, 5]


# What runs where


@pytest.mark.parametrize(
    ("body", "run"),
    [
        ("srun python train.py", "python train.py\n"),
        (
            "export A=1\nsrun -l -n $SLURM_NTASKS --mpi=none python a.py $1",
            "export A=1\npython a.py $1\n",
        ),
        ('A=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\nsrun a', None),
        ("module load cuda\nconda activate x\nsrun a\necho done", None),
        ("echo 'a -> b'\nsrun a < b", None),
    ],
)
def test_single_srun_of_a_task_per_node_runs_on_every_node(body: str, run: str | None) -> None:
    document = make_document("-N2", body=body)
    assert own(document) == {"slurm": "ranks"}
    assert document.get("run") == (run or body.replace("srun ", "") + "\n")


@pytest.mark.parametrize(
    "body",
    [
        "srun a\nsrun b",
        "srun a &\nwait",
        "srun a | tee log",
        "srun -N1 a",
        "srun --export=ALL,A=1 a",
        "srun $ARGS a",
        "for i in 1 2; do srun a; done",
        "python x.py\nsrun a",
        "HOST=$(hostname)\nsrun a --host $HOST",
        "PORT=$RANDOM\nsrun a $PORT",
        "echo done >> /shared/log\nsrun a",
        "echo done>/shared/log\nsrun a",
        "srun a > /shared/log",
        "x=$(srun a)",
    ],
)
def test_other_sruns_run_from_rank_0(body: str) -> None:
    document = make_document("-N2", body=body)
    assert own(document) == {"slurm": "batch"}
    assert document.get("run") == f"{body}\n"


def test_srun_with_several_tasks_per_node_runs_from_rank_0() -> None:
    document = make_document("-N2", "--ntasks-per-node=4", body="srun a")
    assert own(document) == {"slurm": "batch"}
    assert document.get("envs") == {"SLURM_NTASKS_PER_NODE": "4"}


@pytest.mark.parametrize(
    ("value", "mode"), [("ALL", "ranks"), ("ALL,A=b", "batch"), ("NONE", "batch")]
)
def test_srun_that_sets_variables_runs_from_rank_0(value: str, mode: str) -> None:
    assert own(make_document("-N1", body=f"srun --export={value} a")) == {"slurm": mode}


def test_script_without_words_of_slurm_is_a_plain_task() -> None:
    document = make_document("-N1", "-t 5")
    assert "config" not in document.data
    assert document.get("run") == "python train.py\n"


def test_script_that_starts_nothing_on_other_nodes_is_named() -> None:
    (warning,) = warnings("-N2")
    assert "the script starts nothing on the other nodes" in warning


def test_arguments_and_options_of_the_shell_stand_before_the_script() -> None:
    document = read(make_script("-N1", body="a $1", first="#!/bin/bash -eux"), "a b", "--lr=1")
    assert document.get("run") == "set -eux\nset -- 'a b' --lr=1\na $1\n"


def test_blanks_at_the_end_of_lines_are_left_out() -> None:
    document = make_document("-N1", body="a  \n \t\nb \\ \nc")
    assert document.get("run") == "a\n\nb \\ \nc\n"


def test_script_for_another_interpreter_is_refused() -> None:
    (problem,) = errors(make_script("-N1", first="#!/usr/bin/env python3"))
    assert "a batch script is for bash or sh" in problem.message


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("pdsh -w n ls", "train.sbatch:4:1: pdsh: not supported"),
        ("enroot start x", "train.sbatch:4:1: enroot: not supported"),
        ("a\nsrun --multi-prog conf", "train.sbatch:5:6: --multi-prog: not supported"),
        ("srun --ntask=2 a", 'srun --ntask=2: unknown option; did you mean "ntasks"?'),
    ],
)
def test_command_without_an_equal_is_refused_with_its_line(body: str, text: str) -> None:
    assert text in "\n".join(map(str, errors(make_script("-N1", body=body))))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "sbatch next.sh",
            "sbatch: warning: not carried out: tasks are submitted from your machine",
        ),
        ("scontrol requeue $SLURM_JOB_ID", "scontrol: warning: not carried out"),
        ("srun --mpi=pmix a", "srun --mpi: warning: not carried out: srun starts no PMI"),
        ("mpirun -np 4 a", "mpirun: warning: not carried out on other nodes"),
    ],
)
def test_command_that_is_not_carried_out_is_named(body: str, text: str) -> None:
    assert text in "\n".join(warnings("-N2", body=body))


def test_modules_are_named_once() -> None:
    (warning,) = warnings("-N1", body="module purge\nmodule load cuda/12 gcc\nml python\na")
    assert "train.sbatch:5:1: module load: warning" in warning
    assert "also cuda/12, gcc, python;" in warning


@pytest.mark.parametrize(("body", "count"), [("srun a\nsrun b", 1), ("srun a", 1), ("mpirun a", 0)])
def test_srun_in_an_mpijob_is_refused(body: str, count: int) -> None:
    task = replace(task_of(make_document("-N2", body=body)), backend="mpijob")
    assert len([*find_refusals(task, Settings())]) == count


# The document


SCRIPT = make_script(
    "-N2", "--gres=gpu:a100:1", "-t 10", "--export=A=b", "-x n1", body="srun a\nsrun b"
)


def test_document_equals_what_init_prints() -> None:
    (document,) = parse(SCRIPT.encode(), FILE, Call(), {})
    (printed,) = load(writer.document(document.data).encode(), "task.yaml")
    assert printed.data == document.data


def test_problem_of_a_field_has_the_line_of_its_option() -> None:
    document = make_document("-N1", "--gres=gpu:a100:1", "--exclude=Not_A_Name")
    (problem,) = document_problems(document, Settings(image="x"), scripts=False)
    assert (problem.line, problem.column) == (4, 19)
    assert problem.path == "config.kubectl_sky.exclude_nodes[0]"


def test_problem_in_the_script_has_its_line_in_the_file() -> None:
    document = read(make_script("-N1", body="a\nfi\n"), "argument")
    (problem,) = document_problems(document, Settings(image="x"), scripts=True)
    assert problem.line == 5


def test_words_of_a_script_are_printable_and_short_in_messages() -> None:
    name = "\x1b[2J" + "x" * 1000
    (warning,) = warnings("-N1", body=f"module load {name}")
    (problem,) = errors(make_script("-N1", body=f"srun --{name} a"))
    assert warning.isprintable()
    assert str(problem).isprintable()
    assert len(warning) < 400
