"""runtime/srun.py: its options, and which ranks run which tasks."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from kubectl_sky.slurm.options import SRUN_PLAIN, SRUN_VALUED
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
        ("-lu a", {"label": "1", "unbuffered": "1"}),
        ("-K a", {"kill-on-bad-exit": "1"}),
        ("--exclusive --gres=gpu:1 -- a", {"exclusive": "1", "gres": "gpu:1"}),
        ("--job-id 7 a", {"jobid": "7"}),
        ("a -n 4", {}),
    ],
)
def test_options_in_each_spelling_are_read(
    srun: ModuleType, words: str, options: dict[str, str]
) -> None:
    given, command = srun.parse(words.split())
    assert given == options
    assert command[0] == "a"


@pytest.mark.parametrize("words", ["", "-n", "--foo a", "-n 4"])
def test_command_line_that_is_wrong_fails(srun: ModuleType, words: str) -> None:
    with pytest.raises(srun.Failure):
        srun.parse(words.split())


def test_options_are_those_that_a_submit_knows(srun: ModuleType) -> None:
    assert {*srun.VALUED, *srun.LONG_VALUED} == SRUN_VALUED.keys()
    assert {*srun.PLAIN, *srun.LONG_PLAIN} == SRUN_PLAIN.keys()


@pytest.fixture
def lead(srun: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rank 0 of three nodes with two tasks and four GPUs each."""
    values = {
        "SLURM_JOB_NODELIST": "node-0.t,node-1.t,node-2.t",
        "SKYPILOT_NODE_IPS": "10.0.0.1 10.0.0.2 10.0.0.3",
        "SLURM_NTASKS_PER_NODE": "2",
        "SKYPILOT_NUM_GPUS_PER_NODE": "4",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    lead = srun.Lead()
    addresses = list(zip(("node-1.t", "node-2.t"), ("10.0.0.2", "10.0.0.3"), strict=True))
    lead.nodes += [srun.Node(name, ip, Messages().send, 2, 4) for name, ip in addresses]
    lead.nodes[0].send = Messages().send
    return lead


class Messages:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        self.sent.append(message)


def make_step(srun: ModuleType, words: str, number: int = 0) -> Any:
    options, command = srun.parse([*words.split(), "a"])
    env = {"SLURM_NTASKS": "6", "SLURM_NTASKS_PER_NODE": "2"}
    request = {"options": options, "argv": command, "env": env, "cwd": "/", "changed": {}}
    return srun.Step(Messages(), number, {**request, "removed": [], "takes_stdin": False})


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
        ("-w 10.0.0.1,10.0.0.3 --ntasks-per-node=1", {0: [0], 2: [1]}),
        ("-x node-0 -N 2 -n 2", {1: [0], 2: [1]}),
        ("-r 1 -N 1 -n 1", {1: [0]}),
        ("-n 4 -N 2 -m cyclic", {0: [0, 2], 1: [1, 3]}),
    ],
)
def test_options_choose_ranks_and_tasks(
    srun: ModuleType, lead: Any, words: str, placed: dict[int, list[int]]
) -> None:
    step = make_step(srun, words)
    assert srun.place(*lead.choose(step), step.options.get("distribution", "block")) == placed


@pytest.mark.parametrize("words", ["-N 4", "-w elsewhere", "--gres=gpu:5", "-n x"])
def test_step_that_no_node_can_run_fails(srun: ModuleType, lead: Any, words: str) -> None:
    step = make_step(srun, words)
    assert lead.try_start(step)
    assert [message["kind"] for message in step.client.sent] == ["error"]


def test_steps_beside_each_other_get_other_nodes_and_gpus(srun: ModuleType, lead: Any) -> None:
    first = make_step(srun, "-N1 -n2 --gpus-per-task=1", 0)
    second = make_step(srun, "-N1 -n2 --gpus-per-task=1", 1)
    assert lead.try_start(first)
    assert lead.try_start(second)
    assert (first.tasks, second.tasks) == ({0: {"0", "1"}}, {1: {"0", "1"}})
    assert first.gpus == {0: [0, 1]}


def test_step_waits_for_gpus_until_another_has_ended(srun: ModuleType, lead: Any) -> None:
    first = make_step(srun, "-n1 -w node-0 --gres=gpu:3", 0)
    second = make_step(srun, "-n1 -w node-0 --gres=gpu:2", 1)
    assert lead.try_start(first)
    assert not lead.try_start(second)
    lead.finish_task(first, 0, "0", 0, "")
    assert lead.try_start(second)
    assert second.gpus == {0: [0, 1]}


def test_exit_code_of_a_step_is_the_highest(srun: ModuleType, lead: Any) -> None:
    step = make_step(srun, "-n 2")
    lead.try_start(step)
    lead.finish_task(step, 0, "0", 3, "")
    lead.finish_task(step, 1, "1", 0, "")
    assert step.client.sent[-1] == {"kind": "end", "code": 3}
