"""Await the methods of a client: they run in threads, which end soon after a cancellation."""

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import signature
from threading import Event
from typing import ParamSpec, TypeVar

from kubectl_sky.cluster import parallel

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, and await its result.

    Cancelling sets the `stop` event of functions that have one, such as `Client.wait`; others go on
    to their end, and their result is dropped. The thread never delays the exit.
    """
    stop = Event()
    function: Callable[[], T] = partial(call, *args, **kwargs)
    if "stop" in signature(call).parameters:
        function = partial(function, **({"stop": stop} | kwargs))
    try:
        return await asyncio.wrap_future(parallel.run_future(function, name="await"))
    finally:
        stop.set()
