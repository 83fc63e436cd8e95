"""Awaiting a client: results, errors and cancellation."""

import asyncio
import threading
import time

import pytest

from kubectl_sky import Client, State, Task, run_in_thread
from kubectl_sky.errors import TaskFailed, UnknownName
from tests.fake_cluster import FakeCluster

ID = "bcdf2345"
JOB = f"hello-{ID}"
HELLO = Task(name="hello", run="echo hello").override(id=ID)
PIPELINE = "name: both\n---\nname: one\nrun: a\n---\nname: two\nrun: b\n"


def alive() -> set[str]:
    """Return the threads of a wait or of logs that still run, after up to a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = {thread.name for thread in threading.enumerate()}
        if not names & {"await", "wait", "logs"}:
            return set()
        time.sleep(0.01)
    return names


def test_awaited_methods_return_and_raise_what_the_plain_ones_do(
    api: FakeCluster, client: Client
) -> None:
    async def main() -> State:
        submission = await run_in_thread(client.submit, HELLO)
        with pytest.raises(UnknownName):
            await run_in_thread(client.status, "nothing")
        waiting = asyncio.create_task(run_in_thread(submission.wait, timeout=60))
        tasks, nodes = await asyncio.gather(
            run_in_thread(client.list), run_in_thread(client.volumes.list)
        )
        assert ([task.id for task in tasks], nodes) == ([ID], ())
        api.start(JOB)
        api.finish(JOB)
        return (await waiting).state

    assert asyncio.run(main()) is State.COMPLETED


@pytest.mark.parametrize("text", ["name: hello\nrun: a\n", PIPELINE])
def test_cancelled_wait_ends_its_threads(api: FakeCluster, client: Client, text: str) -> None:
    submission = client.submit(Task.from_yaml(text))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_in_thread(submission.wait), 0.1)

    asyncio.run(main())
    assert alive() == set()


def test_logs_are_read_with_async_for(api: FakeCluster, client: Client) -> None:
    submission = client.submit(HELLO)
    api.log(api.start(JOB), b"one\ntwo\n")
    api.finish(JOB, 3)

    async def main() -> list[str]:
        texts = []
        with pytest.raises(TaskFailed):
            async for line in submission.logs():
                texts.append(line.text)  # noqa: PERF401 -- the lines before the error
        return texts

    assert asyncio.run(main()) == ["one", "two"]


def test_cancelled_logs_end_their_threads(api: FakeCluster, client: Client) -> None:
    submission = client.submit(HELLO)
    api.log(api.start(JOB), b"one\n")
    texts: list[str] = []

    async def read() -> None:
        async for line in submission.logs():
            texts.append(line.text)  # noqa: PERF401 -- the lines before the end

    async def main() -> None:
        reading = asyncio.create_task(read())
        while not texts and not reading.done():
            await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(main())
    assert (texts, alive()) == (["one"], set())
