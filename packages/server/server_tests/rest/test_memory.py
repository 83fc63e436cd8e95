"""The limit of a process's memory."""

from pathlib import Path

import pytest

from kubectl_sky_server.rest import memory
from kubectl_sky_server.rest.memory import Memory
from kubectl_sky_server.rest.problems import Rejected


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/\n", {"memory.max": "1073741824\n"}, [1 << 30]),
        ("0::/a/b\n", {"a/memory.max": "5\n", "a/b/memory.max": "max\n"}, [5]),
        ("4:cpu:/\n3:memory:/a\n", {"memory/a/memory.limit_in_bytes": "7\n"}, [7]),
        ("0::/\n", {}, []),
        (None, {}, []),
    ],
)
def test_limits_are_those_of_the_control_groups(
    tmp_path: Path, membership: str | None, files: dict[str, str], limits: list[int]
) -> None:
    if membership:
        (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert list(memory._limits(tmp_path / "membership", tmp_path / "root")) == limits


def test_list_has_room_until_most_of_the_memory_is_used() -> None:
    Memory(100, lambda: 80).check()
    with pytest.raises(Rejected, match="no room for another list"):
        Memory(100, lambda: 81).check()


def test_memory_of_this_process_is_known() -> None:
    assert 1 << 20 < memory._resident() < memory._machine()
