"""Print what PyTorch's flight recorders have dumped in a container: a line of JSON for each file.

Part of stacks.sh. The files are pickles: they are read in the container of the program that writes
them, and without calling anything. Files older than the container's first process with a rank, or
than the container if there is none, are of an earlier attempt. Ages are seconds before a time that
all nodes are given. Requires Python 3.6 and no packages.
"""

import glob
import io
import json
import os
import pickle
import re
import resource
import sys

MAX_BYTES = 4 << 20  # of a file: 15,000 operations
MAX_MEMORY = 64 << 20  # bytes more than Python's own, and
MAX_SECONDS = 3  # of a processor, for all files
MAX_FILES = 64
MAX_GROUPS = 64  # of a file
MAX_TEXT = 200  # characters
NAMES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
OLD_PREFIX = "/tmp/nccl_trace_rank_"  # of older versions
BAD_FILE = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError,
    TypeError, ValueError, pickle.UnpicklingError,
)  # fmt: skip
OF_TORCH = re.compile(r"/torch/|^<")  # files whose frames are not the program's


class Reader(pickle.Unpickler):
    """Reads values, and calls nothing."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def list_processes(proc):
    """Yield the environment and the start, in seconds since 1970, of processes that may be read."""
    with open(f"{proc}/stat") as file:
        boot = int(re.search(r"^btime (\d+)", file.read(), re.M)[1])
    for pid in filter(str.isdigit, os.listdir(proc)):
        lines = []
        try:
            with open(f"{proc}/{pid}/stat", errors="replace") as file:
                ticks = int(file.read().rpartition(")")[2].split()[19])
            with open(f"{proc}/{pid}/environ", errors="replace") as file:
                lines = file.read().split("\0")
        except PermissionError:
            pass
        except (OSError, ValueError):  # it has ended
            continue
        environment = dict(line.split("=", 1) for line in lines if "=" in line)
        yield pid, environment, boot + ticks / os.sysconf("SC_CLK_TCK")


def find_prefix(environment):
    for name in NAMES:
        if environment.get(name):
            return environment[name]
    cache = environment.get("XDG_CACHE_HOME") or environment.get("HOME", "/tmp") + "/.cache"
    return cache + "/torch/comm_lib_trace_rank_"


def find_files(proc):
    """Yield the rank, the path and the time of each dump of this attempt.

    Processes dump, and then end one by one: the files of those that have ended count, too.
    """
    begin = 0.0
    starts = []  # of processes with a rank
    prefixes = {OLD_PREFIX, find_prefix(os.environ)}
    for pid, environment, start in list_processes(proc):
        prefixes.add(find_prefix(environment))
        if pid == "1":
            begin = start
        elif environment.get("RANK", "").isdigit():
            starts.append(start)
    begin = min(starts, default=begin)

    for prefix in sorted(prefixes):
        for path in glob.glob(glob.escape(prefix) + "[0-9]*"):
            digits = path[len(prefix) :]
            try:
                written = os.path.getmtime(path)
            except OSError:  # it was deleted meanwhile
                continue
            if digits.isdigit() and os.path.isfile(path) and written >= int(begin):
                yield int(digits), path, written


def is_memory_short(cgroup):
    """Return whether reading may end the program by its limit of memory; False if unknown."""
    try:
        with open(f"{cgroup}/memory.max") as file:
            limit = int(file.read())
        with open(f"{cgroup}/memory.current") as file:
            used = int(file.read())
        with open(f"{cgroup}/memory.stat") as file:
            cache = int(re.search(r"^inactive_file (\d+)", file.read(), re.M)[1])
    except (OSError, TypeError, ValueError):  # no limit, or an older kernel
        return False
    return limit - (used - cache) < 2 * MAX_MEMORY


def load(path):
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError("it is larger than 4 MiB")
    return json.loads(data) if data[:1] == b"{" else Reader(io.BytesIO(data)).load()


def describe(entry, now):
    frames = ((it["filename"], it["line"]) for it in entry.get("frames", ()))
    path, line = next((it for it in frames if not OF_TORCH.search(it[0])), ("", 0))
    return {
        "sequence": entry["collective_seq_id"],
        "operation": entry["profiling_name"].rpartition(":")[2][:MAX_TEXT],
        "frame": f"{os.path.basename(path)}:{line}"[:MAX_TEXT] if path else "",
        "age": max(0, int(now - entry["time_created_ns"] / 1e9)),
    }


def is_completed(entry):
    """Gloo marks what is completed only as retired; of NCCL, that may have timed out."""
    is_retired = entry["profiling_name"].startswith("gloo:") and entry["retired"]
    return is_retired or entry["state"] == "completed"


def collect(dump, now):
    """Yield the process groups of a dump, with the last collective begun and the first pending one.

    Of coalesced collectives, which have one number, one entry tells whether they have completed.
    Some before the last completed one are never marked so. Gloo does not tell the members,
    which are the bits of a number.
    """
    groups = {}
    for name, config in dump["pg_config"].items():
        members = {int(rank) for rank in re.findall(r"\d{1,6}", config["ranks"])}
        if name:
            groups[name, config["desc"]] = (members, {})
    for entry in dump["entries"]:
        _, entries = groups.setdefault(tuple(entry["process_group"]), ((), {}))
        key = entry["collective_seq_id"]
        if not entry["is_p2p"] and not (key in entries and is_completed(entries[key])):
            entries[key] = entry

    for (name, title), (members, entries) in list(groups.items())[:MAX_GROUPS]:
        completed = max((key for key in entries if is_completed(entries[key])), default=-1)
        pending = [key for key in entries if key > completed]
        yield {
            "id": name[:MAX_TEXT],
            "name": title[:MAX_TEXT] if title not in ("", "undefined") else name[:MAX_TEXT],
            "members": f"{sum(1 << rank for rank in members):x}",
            "last": describe(entries[max(entries)], now) if entries else None,
            "pending": describe(entries[min(pending)], now) if pending else None,
        }


def main(now, proc="/proc", cgroup="/sys/fs/cgroup"):
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * resource.getpagesize() + MAX_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    files = list(find_files(proc))[:MAX_FILES]
    if files and is_memory_short(cgroup):
        print("@unread flight recorder: the container has less than 128 MiB of free memory")
        return
    for rank, path, written in files:
        try:
            dump = load(path)
            text = json.dumps(
                {
                    "rank": rank,
                    "age": max(0, int(int(now) - written)),
                    "groups": list(collect(dump, int(now))),
                    "has_p2p": any(entry["is_p2p"] for entry in dump["entries"]),
                }
            )
        except BAD_FILE as error:
            why = f"{type(error).__name__}: {error}"[:MAX_TEXT]
            print(f"@unread flight recorder: {os.path.basename(path)}: {why!a}", flush=True)
        else:
            print(f"@recorder {text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
