"""runtime/srun.py: its options, and which ranks run which tasks."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from kubectl_sky.slurm.options import SRUN_BY_LETTER, SRUN_BY_NAME
from kubectl_sky.words import assets


@pytest.fixture(scope="module")
def srun() -> ModuleType:
    spec = importlib.util.spec_from_file_location("srun", assets.folder("runtime") / "srun.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("-n 4 -N2 a", {"ntasks": "4", "nodes": "2"}),
        ("--ntasks=4 --nodes 2 a", {"ntasks": "4", "nodes": "2"}),
        ("-l -w x a", {"label": "", "nodelist": "x"}),
        ("-K a", {"kill-on-bad-exit": ""}),
        ("--exclusive --gres=gpu:1 -- a", {"exclusive": "", "gres": "gpu:1"}),
        ("--jobid 7 --mpi=none a", {"jobid": "7", "mpi": "none"}),
        ("a -n 4", {}),
    ],
)
def test_options_in_each_spelling_are_read(
    srun: ModuleType, words: str, options: dict[str, str]
) -> None:
    given, command = srun.parse(words.split())
    assert given == options
    assert command[0] == "a"


@pytest.mark.parametrize("words", ["", "-n", "--nodes", "-n 4"])
def test_command_line_that_is_wrong_fails(srun: ModuleType, words: str) -> None:
    with pytest.raises(srun.Failure):
        srun.parse(words.split())


def test_options_without_value_are_those_that_a_submit_knows(srun: ModuleType) -> None:
    assert [name for name in srun.FLAGS if SRUN_BY_NAME[name].value == "required"] == []
    assert [name for name in srun.VALUED if SRUN_BY_LETTER[name].value != "required"] == []
    for letter, name in srun.NAMES.items():
        assert SRUN_BY_LETTER[letter].name == name
        assert (name in srun.FLAGS) == (letter not in srun.VALUED)


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("--gres=gpu", 1),
        ("--gres=gpu:3", 3),
        ("--gres=gpu:a100:3,lscratch:10", 3),
        ("--gpus-per-task=a100:1", 2),
        ("--gres=lscratch:10", 0),
        ("--gres=gpu:3 --overlap", 0),
    ],
)
def test_gpus_that_two_tasks_need_are_read(srun: ModuleType, words: str, gpus: int) -> None:
    options, _ = srun.parse([*words.split(), "a"])
    assert srun.gpus_of(options, 2) == gpus


@pytest.fixture
def lead(srun: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rank 0 of three nodes with two tasks and four GPUs each."""
    values = {
        "SLURM_JOB_NODELIST": "node-0.t,node-1.t,node-2.t",
        "SLURM_NTASKS": "6",
        "SLURM_NTASKS_PER_NODE": "2",
        "SKYPILOT_NUM_GPUS_PER_NODE": "4",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return srun.Lead([Messages(), Messages(), Messages()])


class Messages:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        self.sent.append(message)


def submit(srun: ModuleType, lead: Any, words: str) -> Any:
    """Return the step of a call of srun, which rank 0 has started if it could."""
    options, command = srun.parse([*words.split(), "a"])
    step = srun.Step(lead.count, Messages(), {"options": options, "argv": command})
    lead.count += 1
    lead.waiting.append(step)
    lead.start_waiting()
    return step


@pytest.mark.parametrize(
    ("words", "placed"),
    [
        ("", {0: [0, 1], 1: [2, 3], 2: [4, 5]}),
        ("-n 3", {0: [0], 1: [1], 2: [2]}),
        ("-n 1", {0: [0]}),
        ("-N 2", {0: [0, 1], 1: [2, 3]}),
        ("-N 2 -n 3", {0: [0, 1], 1: [2]}),
        ("--ntasks-per-node=1", {0: [0], 1: [1], 2: [2]}),
        ("-w node-1.t", {1: [0, 1]}),
        ("-n 1 -w node-2", {2: [0]}),
        ("-w node-0,node-2 --ntasks-per-node=1", {0: [0], 2: [1]}),
        ("-n 4 --ntasks-per-node=2", {0: [0, 1], 1: [2, 3]}),
    ],
)
def test_options_choose_ranks_and_tasks(
    srun: ModuleType, lead: Any, words: str, placed: dict[int, list[int]]
) -> None:
    step = submit(srun, lead, words)
    assert step.tasks == {rank: set(tasks) for rank, tasks in placed.items()}


@pytest.mark.parametrize("words", ["-N 4", "-w elsewhere", "--gres=gpu:5", "-n x"])
def test_step_that_no_node_can_run_fails(srun: ModuleType, lead: Any, words: str) -> None:
    step = submit(srun, lead, words)
    assert [message["kind"] for message in step.client.sent] == ["error"]
    assert not lead.waiting


def test_steps_beside_each_other_get_other_nodes(srun: ModuleType, lead: Any) -> None:
    steps = [submit(srun, lead, "-N1 -n2") for _ in range(3)]
    assert [list(step.tasks) for step in steps] == [[0], [1], [2]]


def test_steps_in_a_loop_get_other_gpus(srun: ModuleType, lead: Any) -> None:
    steps = [submit(srun, lead, "--exclusive -n1 --gres=gpu:1") for _ in range(13)]
    devices = [
        (rank, message["variables"]["CUDA_VISIBLE_DEVICES"])
        for rank, node in enumerate(lead.nodes)
        for message in node.channel.sent
    ]
    assert devices == [(rank, str(gpu)) for rank in range(3) for gpu in range(4)]
    assert lead.waiting == steps[12:]
    lead.finish_task(steps[5], 1, 0, 0)
    assert steps[12].gpus == {1: [1]}


def test_gpus_per_task_are_divided_among_tasks(srun: ModuleType, lead: Any) -> None:
    submit(srun, lead, "-N1 -n2 --gpus-per-task=2")
    sent = lead.nodes[0].channel.sent
    assert [message["variables"]["CUDA_VISIBLE_DEVICES"] for message in sent] == ["0,1", "2,3"]


def test_step_with_exclusive_waits_for_tasks_and_with_overlap_does_not(
    srun: ModuleType, lead: Any
) -> None:
    submit(srun, lead, "--gres=gpu:4")
    step = submit(srun, lead, "--exclusive -n1")
    assert lead.waiting == [step]
    submit(srun, lead, "--overlap -n1 --gres=gpu:1")
    assert lead.waiting == [step]


def test_signal_ends_a_step_that_waits(srun: ModuleType, lead: Any) -> None:
    submit(srun, lead, "--gres=gpu:4")
    step = submit(srun, lead, "-n1 --gres=gpu:1")
    lead.signal(step, 15)
    assert step.client.sent == [{"kind": "end", "code": 143}]
    assert not lead.waiting


def test_exit_code_of_a_step_is_the_highest(srun: ModuleType, lead: Any) -> None:
    step = submit(srun, lead, "-n 2")
    lead.finish_task(step, 0, 0, 3)
    lead.finish_task(step, 1, 1, 0)
    assert step.client.sent[-1] == {"kind": "end", "code": 3}


def test_lost_node_ends_its_tasks_and_later_steps(srun: ModuleType, lead: Any) -> None:
    step = submit(srun, lead, "-n 2")
    lead.nodes[1].channel = []  # it has no more messages
    lead.follow_node(1)
    lead.finish_task(step, 0, 0, 0)
    assert [message.get("code") for message in step.client.sent] == [None, 1]
    assert "node-1.t: task 1: the node is lost" in step.client.sent[0]["data"]
    step = submit(srun, lead, "-w node-1")
    assert step.client.sent == [{"kind": "error", "text": "node node-1.t is lost"}]


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "3"}, "10_3-13-2-1-%x"),
        ({}, "13_4294967294-13-2-1-%x"),
    ],
)
def test_name_of_output_has_the_numbers_of_the_job(
    srun: ModuleType, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], path: str
) -> None:
    for name, value in {"SLURM_JOB_ID": "13", **variables}.items():
        monkeypatch.setenv(name, value)
    output = srun.Output({"output": "%A_%a-%j-%t-%n-%x"})
    assert output.path(rank=1, task=2, stream=1) == path
