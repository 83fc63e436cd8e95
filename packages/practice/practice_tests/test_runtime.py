"""The container runtime, without a server."""

import asyncio
import os
from pathlib import Path

import pytest

from kubectl_sky_practice.runtime import Runtime


@pytest.mark.anyio
async def test_start_that_is_given_up_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    """As a probe's that is cancelled, because its container has ended meanwhile."""
    runtime = Runtime(tmp_path)
    request = {"command": ["true"], "env": dict(os.environ), "cwd": "/", "tty": False}
    starting = asyncio.create_task(runtime.start(request))
    await asyncio.sleep(0)

    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    await asyncio.wait_for(runtime.stop(), 10)
