"""A queue of keys, as controllers of Kubernetes have: one worker at a time per key."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_WORKERS = 4


class WorkQueue(Generic[Key]):
    """Process keys in parallel, but each key by one worker at a time.

    A key that is added while it is processed is processed once more. `process` returns in how many
    seconds to process the key again, or None.
    """

    def __init__(self, process: Callable[[Key], Awaitable[float | None]]) -> None:
        self._process = process
        self._limit = asyncio.Semaphore(_WORKERS)
        self._added: dict[Key, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Process a key soon, or after some seconds if nothing adds it again."""
        added = self._added.get(key)
        if added:
            added.set()
            return
        self._added[key] = added = asyncio.Event()
        task = asyncio.create_task(self._run(key, added, delay))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: Key, added: asyncio.Event, delay: float) -> None:
        next_delay: float | None = delay
        try:
            while next_delay is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(added.wait(), next_delay)
                added.clear()
                async with self._limit:
                    next_delay = await self._process(key)
                if added.is_set():
                    next_delay = 0.0
        finally:
            del self._added[key]
