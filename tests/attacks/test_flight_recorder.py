"""Dumps of PyTorch's flight recorder in a container: real ones, and those of strangers.

The real ones are of three processes of PyTorch 2.14.1 with gloo: three times all_reduce, broadcast
and barrier, one all_reduce of ranks 0 and 1, and one of all, which rank 2 does not begin.
"""

import os
import pickle
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubectl_sky.observe import stacks
from kubectl_sky.observe.flight_recorder import compare
from kubectl_sky.words import assets

REAL = Path(__file__).parent / "flight_recorder"
NOW = int(time.time())
BOOT = NOW - 10_000
TICKS = os.sysconf("SC_CLK_TCK")


class Container:
    """The files of a container: its folder /proc, and the dumps of its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "dumps" / "rank_"
        self.prefix.parent.mkdir()
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.cgroup = folder / "cgroup"
        (self.proc / "stat").write_text(f"cpu 1\nbtime {BOOT}\n")
        self.start(1, seconds=9000)

    def start(self, pid: int, seconds: int = 0, **environment: str) -> None:
        """Add a process that has run for so long."""
        process = self.proc / str(pid)
        process.mkdir()
        ticks = (NOW - seconds - BOOT) * TICKS
        name = b"a) \xc3"  # cut within a character
        (process / "stat").write_bytes(b"%d (%b) S %b%d 0\n" % (pid, name, b"0 " * 18, ticks))
        text = "\0".join(f"{name}={value}" for name, value in environment.items())
        (process / "environ").write_text(text + "\0")

    def limit(self, *, free: int) -> None:
        """Limit the memory to so many MiB more than is in use without the cache."""
        self.cgroup.mkdir()
        (self.cgroup / "memory.max").write_text(f"{(free + 100) << 20}\n")
        (self.cgroup / "memory.current").write_text(f"{190 << 20}\n")
        (self.cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {90 << 20}\n")

    def dump(self, rank: int, content: bytes, *, seconds: int = 5) -> Path:
        path = Path(f"{self.prefix}{rank}")
        path.write_bytes(content)
        os.utime(path, (NOW - seconds, NOW - seconds))
        return path

    def read(self, **environment: str) -> stacks.Dump:
        """Return what the script in the container tells."""
        script = assets.read("runtime", "flight_recorder.py")
        words = [str(NOW), str(self.proc), str(self.cgroup)]
        command = [sys.executable, "-I", "-S", "-c", script, *words]
        environment = environment or {"TORCH_FR_DUMP_TEMP_FILE": str(self.prefix)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        status = "" if done.returncode == 0 else f"@unread exit code {done.returncode}\n"
        return stacks.read(done.stdout + status)

    def read_ranks(self) -> list[int]:
        return sorted(it.rank for it in self.read().recordings)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def make_dump(**changes: object) -> bytes:
    """Return a dump of a process that has done nothing."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return pickle.dumps({"version": "2.10", "pg_config": config, "entries": []} | changes, 2)


def make_entry(sequence: int, state: str, **changes: object) -> dict[str, object]:
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "profiling_name": "nccl:all_reduce",
        "state": state,
        "time_created_ns": (NOW - 600) * 10**9,
        "is_p2p": False,
    } | changes


def test_dumps_older_than_the_container_do_not_count(container: Container) -> None:
    container.dump(0, make_dump(), seconds=8990)
    container.dump(1, make_dump(), seconds=9010)
    assert container.read_ranks() == [0]


def test_dumps_older_than_all_processes_with_a_rank_do_not_count(container: Container) -> None:
    for rank in range(3):
        container.start(10 + rank, seconds=10 * (1 + rank), RANK=str(rank))
        container.dump(rank, make_dump(), seconds=15 * (1 + rank))
    assert container.read_ranks() == [0, 1]


def test_dumps_of_ended_processes_count_beside_a_living_one(container: Container) -> None:
    container.start(11, seconds=100, RANK="1")
    for rank in range(3):
        container.dump(rank, make_dump())
    assert container.read_ranks() == [0, 1, 2]


def test_files_that_vanish_meanwhile_do_not_count(container: Container) -> None:
    container.dump(1, make_dump())
    Path(f"{container.prefix}0").symlink_to("nothing")
    (container.proc / "17").mkdir()
    assert container.read_ranks() == [1]


@pytest.mark.parametrize("free", [120, 140])
def test_dumps_are_read_if_the_container_has_memory_for_it(container: Container, free: int) -> None:
    container.dump(0, make_dump())
    container.limit(free=free)
    dump = container.read()
    expected = ("flight recorder: the container has less than 128 MiB of free memory",)
    assert dump.unread == (() if free > 128 else expected)
    assert len(dump.recordings) == (free > 128)


def test_dump_of_thousands_of_operations_is_read(container: Container) -> None:
    frames = [{"filename": f"/app/{n}.py", "line": n, "name": "f"} for n in range(20)]
    entries = [make_entry(n, "started", frames=frames, sizes=[[n] * 4] * 4) for n in range(15_000)]
    container.dump(0, make_dump(entries=entries))
    assert container.read_ranks() == [0]


@pytest.mark.parametrize("name", ["TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"])
def test_prefix_is_that_of_the_process(container: Container, name: str) -> None:
    container.start(10, seconds=100, **{name: str(container.prefix)})
    container.dump(3, make_dump())
    (recording,) = container.read(HOME="/nowhere").recordings
    assert recording.rank == 3


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_default_folder_is_the_cache_of_the_user(container: Container, name: str) -> None:
    cache = container.folder if name == "XDG_CACHE_HOME" else container.folder / ".cache"
    (cache / "torch").mkdir(parents=True)
    (cache / "torch" / "comm_lib_trace_rank_5").write_bytes(make_dump())
    (recording,) = container.read(**{name: str(container.folder)}).recordings
    assert recording.rank == 5


def test_pending_collective_is_the_first_after_the_last_completed(container: Container) -> None:
    frames = [
        {"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/c.py", "line": 1},
        {"name": "step", "filename": "/app/train.py", "line": 88},
    ]
    entries = [
        make_entry(1, "scheduled"),  # such as in a CUDA graph
        make_entry(2, "scheduled", op_id=1),  # one of coalesced ones, which is never marked
        make_entry(2, "completed", profiling_name="nccl:coalesced"),
        make_entry(2, "scheduled", is_p2p=True),
        make_entry(3, "started", frames=frames),
        make_entry(4, "scheduled", profiling_name="nccl:barrier"),
    ]
    container.dump(0, make_dump(entries=entries))
    (recording,) = container.read().recordings
    (group,) = recording.groups
    assert (group.name, group.ranks, recording.has_p2p) == ("default_pg", [0, 1], True)
    assert group.pending
    assert group.pending.frame == "train.py:88"
    assert group.pending.name == "all_reduce #3"
    assert (group.pending.age, recording.age) == (600, 5)
    assert group.last
    assert group.last.name == "barrier #4"


def test_real_dumps_tell_which_rank_has_not_begun_the_collective(container: Container) -> None:
    for rank in range(3):
        container.dump(rank, (REAL / f"rank_{rank}").read_bytes(), seconds=120)
    comparison = compare({it.rank: [it] for it in container.read().recordings})
    assert comparison
    (line,) = comparison.lines
    assert line.partition(" ago: ")[2] == (
        "ranks 0-1 wait in all_reduce #10 of group default_pg (train.py:25);"
        " rank 2 has not begun it (its last: barrier #9, completed);"
        " which other ranks belong to it is not in the dumps"
    )


def test_real_dump_in_json_has_no_frames(container: Container) -> None:
    container.dump(0, (REAL / "rank_0_json").read_bytes())
    (recording,) = container.read().recordings
    group, pair = recording.groups
    assert group.pending
    assert (group.pending.name, group.pending.frame) == ("all_reduce #10", "")
    assert pair.last
    assert (pair.name, pair.last.name, pair.pending) == ("pair", "all_reduce #1", None)


class Command:
    """What runs a program when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


def test_program_in_a_dump_is_not_run(container: Container) -> None:
    path = container.folder / "ran"
    container.dump(0, pickle.dumps({"entries": Command(path)}))
    dump = container.read()
    assert not path.exists()
    (why,) = dump.unread
    assert why.startswith("flight recorder: rank_0: 'UnpicklingError: it refers to ")


# A place of the memo for which 16 GiB of pointers are allocated.
_MEMO = b"\x80\x02]r" + struct.pack("<I", (1 << 31) - 1) + b"."
_CYCLE = b"\x80\x02}q\x00(U\tpg_configh\x00U\x07entriesh\x00u."


@pytest.mark.parametrize(
    "content",
    [
        b"",
        make_dump()[:-9],
        os.urandom(4096),
        b"\x80" + os.urandom(4096),
        pickle.dumps([]),
        pickle.dumps("x" * 9999),
        make_dump(entries=7),
        make_dump(entries=[7]),
        make_dump(entries=[make_entry(1, "started", frames=[{"filename": 7, "line": "x"}])]),
        make_dump(entries=[make_entry("1", "started")]),  # type: ignore[arg-type]
        make_dump(entries=[make_entry(1, "started", process_group=[[]])]),
        make_dump(entries=[make_entry(1, "started", profiling_name=7)]),
        make_dump(pg_config=[1]),
        make_dump(pg_config={"0": {"desc": 7, "ranks": 7}}),
        make_dump() + b"x" * (4 << 20),
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"{" * 100_000,
        _MEMO,
        _CYCLE,
    ],
)
def test_file_that_is_no_dump_is_noted_once(container: Container, content: bytes) -> None:
    container.dump(0, content)
    container.dump(1, make_dump())
    dump = container.read()
    assert [it.rank for it in dump.recordings if it.rank] == [1]
    assert len(dump.unread) + len(dump.recordings) == 2
    assert all(it.isprintable() and len(it) <= 200 for it in dump.unread)


def test_dump_that_takes_too_long_ends_the_reader(container: Container) -> None:
    """Keys of equal hashes are compared with each other: 4 MB would take minutes."""
    modulus = (1 << 61) - 1
    keys = b"".join(
        b"\x8a\x0b" + (number * modulus).to_bytes(11, "little") + b"N" for number in range(280_000)
    )
    container.dump(0, b"\x80\x02}(" + keys + b"u.")
    dump = container.read()
    assert dump.recordings == ()
    assert [it.startswith("exit code ") for it in dump.unread] == [True]


def test_pipe_in_place_of_a_dump_is_not_waited_for(container: Container) -> None:
    os.mkfifo(f"{container.prefix}0")
    assert container.read() == stacks.Dump(())
