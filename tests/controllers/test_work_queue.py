"""The queue of keys: each by one worker at a time, again after changes and delays."""

import asyncio
from collections.abc import Awaitable, Callable

from kubectl_sky.controllers.work_queue import WorkQueue


def processed(
    drive: Callable[[WorkQueue[str]], Awaitable[None]], delays: list[float | None]
) -> list[str]:
    """Return the starts and ends of processing; `delays` are what it returns, in order."""
    log: list[str] = []

    async def process(key: str) -> float | None:
        log.append(f"+{key}")
        await asyncio.sleep(0.01)
        log.append(f"-{key}")
        return delays.pop(0) if delays else None

    async def main() -> None:
        await drive(WorkQueue(process))
        await asyncio.sleep(0.1)

    asyncio.run(main())
    return log


def test_queue_key_added_while_it_is_processed_is_processed_once_more() -> None:
    async def drive(queue: WorkQueue[str]) -> None:
        for _ in range(5):
            queue.add("a")
        await asyncio.sleep(0.005)
        for _ in range(5):
            queue.add("a")

    assert processed(drive, []) == ["+a", "-a", "+a", "-a"]


def test_queue_different_keys_are_processed_in_parallel() -> None:
    async def drive(queue: WorkQueue[str]) -> None:
        queue.add("a")
        queue.add("b")

    assert processed(drive, []) == ["+a", "+b", "-a", "-b"]


def test_queue_key_is_processed_again_after_its_delay() -> None:
    async def drive(queue: WorkQueue[str]) -> None:
        queue.add("a")

    assert processed(drive, [0.02, None]) == ["+a", "-a", "+a", "-a"]


def test_queue_key_added_during_its_delay_is_processed_at_once() -> None:
    async def drive(queue: WorkQueue[str]) -> None:
        queue.add("a", delay=3600)
        await asyncio.sleep(0)
        queue.add("a")

    assert processed(drive, []) == ["+a", "-a"]
