"""Container logs: complete, in order, with all options."""

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kubectl_sky_practice.logs import LogOptions, Logs, container_name
from kubectl_sky_practice.problems import Problem
from practice_tests.world import Json

ID = "practice://c"
LINES = [b"line %d\n" % number for number in range(3000)]


def pod(state: Json | None = None, last: Json | None = None, **spec: object) -> Json:
    status = {"name": "main", "containerID": ID, "state": state or {"running": {}}}
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "main"}], **spec},
        "status": {"containerStatuses": [{**status, "lastState": last or {}}]},
    }


async def collect(logs: Logs, options: LogOptions, of: Json | None = None) -> bytes:
    return b"".join([block async for block in logs.read(of or pod(), "", options)])


def read(logs: Logs, **options: object) -> bytes:
    return asyncio.run(collect(logs, LogOptions(**options)))  # type: ignore[arg-type]


def write(folder: Path, data: bytes, size: int = 1 << 16) -> Logs:
    logs = Logs(folder)
    writer = logs.writer("u", ID)
    for start in range(0, len(data), size):
        writer.write(1, data[start : start + size])
    logs.close(ID)
    return logs


@given(
    some.lists(some.sampled_from([b"", b"a", b"\n", b"\r", b"\xff", b"long" * 9000]), max_size=30)
)
def test_log_random_bytes_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    data = b"".join(parts)
    logs = Logs(tmp_path_factory.mktemp("logs"))
    writer = logs.writer("u", ID)
    for part in parts:
        writer.write(1, part)
    logs.close(ID)
    assert read(logs) == data
    assert read(logs, limit=7) == data[:7]
    lines = data.splitlines(keepends=True) if b"\r" not in data else None
    if lines is not None:
        assert read(logs, tail=2) == b"".join(lines[-2:])


def test_log_timestamps_are_unique_and_ordered(tmp_path: Path) -> None:
    """Timestamps are unique and ordered, so that a reader can resume after the last line."""
    before = time.time_ns()
    logs = write(tmp_path, b"".join(LINES))
    stamped = read(logs, timestamps=True).splitlines(keepends=True)
    assert [line[31:] for line in stamped] == LINES
    stamps = [line[:30].decode() for line in stamped]
    assert stamps == sorted(set(stamps))
    options = LogOptions.parse({"sinceTime": stamps[1500]})
    assert asyncio.run(collect(logs, options)) == b"".join(LINES[1500:])
    assert read(logs, since=before) == b"".join(LINES)
    assert read(logs, since=time.time_ns() + 60 * 10**9) == b""


def test_log_lines_of_two_streams_are_not_mixed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    writer = logs.writer("u", ID)
    writer.write(1, b"be")
    writer.write(2, b"error\n")
    writer.write(1, b"gun\nlast")
    assert read(logs) == b"error\nbegun\n"
    logs.close(ID)
    assert read(logs) == b"error\nbegun\nlast"
    assert logs.termination_message("u", ID) == "error\nbegun\nlast"


def test_log_endless_line_is_split(tmp_path: Path) -> None:
    """The line is not kept in memory."""
    logs = Logs(tmp_path)
    writer = logs.writer("u", ID)
    for _ in range(48):
        writer.write(1, b"x" * (1 << 16))
    assert writer.path.stat().st_size > 1 << 20
    writer.write(1, b"\nnext\n")
    logs.close(ID)
    log = read(logs)
    assert log.replace(b"\n", b"") == b"x" * (48 << 16) + b"next"
    assert log.endswith(b"x\nnext\n")


def test_log_follow_returns_new_lines_until_container_exits(tmp_path: Path) -> None:
    async def story() -> None:
        logs = Logs(tmp_path)
        writer = logs.writer("u", ID)
        writer.write(1, b"old\n")
        lines = logs.read(pod(), "", LogOptions(follow=True))
        assert await anext(lines) == b"old\n"
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        writer.write(1, b"new\nend")
        assert await waiting == b"new\n"
        logs.close(ID)
        assert [block async for block in lines] == [b"end"]

    asyncio.run(story())


def test_log_container_name_is_required_for_several_containers() -> None:
    several = pod(containers=[{"name": "a"}, {"name": "b"}], initContainers=[{"name": "i"}])
    assert (container_name(several, "i"), container_name(pod(), "")) == ("i", "main")
    with pytest.raises(Problem, match=r"^container z is not valid for pod p$"):
        container_name(several, "z")
    message = r"a container name must be specified for pod p, choose one of: \[a b\] "
    with pytest.raises(Problem, match=f"^{message}or one of the init containers: \\[i\\]$"):
        container_name(several, "")


def test_log_invalid_option_is_refused() -> None:
    with pytest.raises(Problem) as error:
        LogOptions.parse({"tailLines": "many"})
    assert error.value.code == 400


def test_log_unassigned_pod_is_empty(tmp_path: Path) -> None:
    waiting = pod()
    del waiting["spec"]["nodeName"]
    assert asyncio.run(collect(Logs(tmp_path), LogOptions(), waiting)) == b""
