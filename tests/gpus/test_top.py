"""`top --gpu`: programs in the nodes of a task, over a cluster in memory."""

import json
import time
from collections.abc import Callable

import pytest

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import NotFound, TimedOut
from kubectl_sky.gpus import smi
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.test_documents import check

TASK = "name: train\nnum_nodes: 2\nrun: echo hello\n"
LINES = b"nvidia-smi\n0, NVIDIA H200, 37, 1024, 143771, 41, 62.13, 700.00\n"
Answer = Callable[[Pipes], int]


def printing(text: bytes, code: int = 0) -> Answer:
    def answer(pipes: Pipes) -> int:
        pipes.stdout(text)
        return code

    return answer


@pytest.fixture
def answers(
    monkeypatch: pytest.MonkeyPatch, api: FakeCluster, send: Submitter
) -> dict[str, Answer]:
    """A running task of two nodes; what their pods answer, by name."""
    send(TASK)
    answers = {
        api.start(f"train-{ID}-node-{rank}"): printing(LINES.replace(b"0, N", b"%d, N" % rank))
        for rank in range(2)
    }

    def run(session: Session, program: Program, pipes: Pipes) -> int:
        assert program.command == ["/bin/sh", "-c", smi.SCRIPT]
        assert (program.container, program.namespace) == ("main", "default")
        assert pipes.seconds, "it is bounded in time"
        return answers[program.pod](pipes)

    monkeypatch.setattr(executing, "run", run)
    return answers


def test_top_gpu_shows_gpus_of_all_ranks(run: Run, answers: dict[str, Answer]) -> None:
    expected = (
        "RANK   GPU             UTIL   MEMORY            TEMPERATURE   POWER\n"
        "0      0 NVIDIA H200   37%    1024Mi/143771Mi   41C           62W/700W\n"
        "1      1 NVIDIA H200   37%    1024Mi/143771Mi   41C           62W/700W\n"
    )
    assert run("top", ID, "--gpu") == (0, expected, "")


def test_top_gpu_asks_nodes_in_parallel(run: Run, answers: dict[str, Answer]) -> None:
    running: list[int] = []

    def slow(pipes: Pipes) -> int:
        running.append(1)
        until = time.monotonic() + 60
        while len(running) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        return printing(LINES)(pipes) if len(running) == 2 else 1

    answers |= dict.fromkeys(answers, slow)
    assert run("top", ID, "--gpu")[::2] == (0, "")


def test_top_gpu_failed_node_is_warning_and_field(run: Run, answers: dict[str, Answer]) -> None:
    pod = f"train-{ID}-node-1-0"
    answers[pod] = printing(b"", 127)
    code, out, err = run("top", ID, "--gpu")
    message = "nvidia-smi and rocm-smi not found in the image"
    assert (code, len(out.splitlines()), err) == (0, 2, f"warning: node-1: {message}\n")
    code, out, err = run("top", ID, "--gpu", "-o", "json")
    document = json.loads(out)
    check(document)
    assert (code, err, document["kind"]) == (0, "", "GpuUsage")
    assert [gpu["rank"] for gpu in document["gpus"]] == [0]
    assert document["failures"] == [{"rank": 1, "pod": pod, "message": message}]


def test_top_gpu_without_any_answer_is_error(run: Run, answers: dict[str, Answer]) -> None:
    def gone(pipes: Pipes) -> int:
        raise NotFound("container main of pod x is not running")

    answers |= dict.fromkeys(answers, gone)
    code, out, err = run("top", ID, "--gpu")
    assert (code, out) == (3, "")
    assert err.startswith("error: container main of pod x is not running\n")


@pytest.mark.parametrize(
    ("printed", "program"),
    [(b"nvidia-smi\n", "nvidia-smi"), (b"rocm-smi\n", "rocm-smi"), (b"", "nvidia-smi or rocm-smi")],
)
def test_top_gpu_that_hangs_names_program_pod_and_next_step(
    run: Run, answers: dict[str, Answer], printed: bytes, program: str
) -> None:
    def hang(pipes: Pipes) -> int:
        pipes.stdout(printed)
        raise TimedOut("/bin/sh in pod x did not finish within 15 seconds")

    pod = f"train-{ID}-node-1-0"
    answers[pod] = hang
    code, _, err = run("top", ID, "--gpu")
    assert code == 0
    message = f"{program} in pod {pod} did not answer within 15 seconds"
    command = f"kubectl sky exec {ID} --rank 1 -- {program.split()[0]}"
    assert err.startswith(
        f'warning: node-1: {message}; run "{command}"; if it hangs too, check the'
    )
    answers |= dict.fromkeys(answers, hang)
    code, _, err = run("top", ID, "--gpu")
    assert code == 3
    assert err.splitlines()[0] == f"error: {message}".replace("node-1", "node-0")


def test_top_gpu_endless_output_is_cut(run: Run, answers: dict[str, Answer]) -> None:
    def endless(pipes: Pipes) -> int:
        for _ in range(1000):
            pipes.stdout(b"x" * 65_536)
        raise AssertionError("nothing has stopped it")

    answers[f"train-{ID}-node-0-0"] = endless
    code, _, err = run("top", ID, "--gpu")
    assert (code, err) == (0, "warning: node-0: the program in the pod writes too many messages\n")


def test_top_gpu_of_pending_task_is_refused(run: Run, send: Submitter) -> None:
    send(TASK)
    code, out, err = run("top", ID, "--gpu")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: no node of task {ID} is running\n")
