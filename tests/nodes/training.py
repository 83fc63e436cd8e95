"""A training program of three ranks, over sockets or with JAX: all add up a number each step.

Over sockets, rank 0 sums, saves and answers, so that a rank which prints a step knows that its
checkpoint, if it is due, was written. A rank whose peer is gone fails, and the next attempt begins
where the last checkpoint was written.
"""

import json
import re
from collections import defaultdict
from itertools import pairwise

from tests.cluster.images import JAX
from tests.nodes.support import LOST_SOON

STEPS = 40
EVERY = 10  # steps between two checkpoints
PROGRAM = """
import json, os, socket, time
rank = int(os.environ["SKYPILOT_NODE_RANK"])
size = int(os.environ["SKYPILOT_NUM_NODES"])
first = os.environ["SKYPILOT_NODE_IPS"].split()[0]
step, total = 0, 0
if os.path.exists("/ckpt/state"):
    step, total = json.load(open("/ckpt/state"))
print("starts at", step, flush=True)

def connect():
    for _ in range(300):
        try:
            return socket.create_connection((first, 8703), 20)
        except OSError:
            time.sleep(0.1)
    raise SystemExit("rank 0 does not answer")

if rank == 0:
    server = socket.create_server(("", 8703))
    server.settimeout(60)
    peers = [server.accept()[0] for _ in range(size - 1)]
    for peer in peers:
        peer.settimeout(20)
else:
    peers = [connect()]
files = [peer.makefile("rw") for peer in peers]

def send(number):
    for file in files:
        file.write(f"{number}\\n")
        file.flush()

while step < %(steps)s:
    step += 1
    mine = step * (rank + 1)
    if rank == 0:
        total += mine + sum(int(file.readline()) for file in files)
        if step %% %(every)s == 0:
            with open("/ckpt/new", "w") as state:
                json.dump([step, total], state)
            os.replace("/ckpt/new", "/ckpt/state")
        print("step", step, "total", total, flush=True)
        send(total)
    else:
        send(mine)
        total = int(files[0].readline())
        print("step", step, "total", total, flush=True)
    time.sleep(%(pause)s)
"""
WITH_JAX = """
import json, os, time
import jax, jax.numpy
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

rank = int(os.environ["SKYPILOT_NODE_RANK"])
size = int(os.environ["SKYPILOT_NUM_NODES"])
first = os.environ["SKYPILOT_NODE_IPS"].split()[0]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    f"{first}:8476", size, rank, initialization_timeout=120, heartbeat_timeout_seconds=10
)
mesh = Mesh(np.array(jax.devices()), "rank")
split = NamedSharding(mesh, PartitionSpec("rank"))
everywhere = NamedSharding(mesh, PartitionSpec())
add = jax.jit(jax.numpy.sum, out_shardings=everywhere)
step, total = 0, 0
if os.path.exists("/ckpt/state"):
    step, total = json.load(open("/ckpt/state"))
print("starts at", step, flush=True)

while step < %(steps)s:
    step += 1
    mine = np.array([step * (rank + 1)])
    total += int(add(jax.make_array_from_process_local_data(split, mine)))
    if rank == 0 and step %% %(every)s == 0:
        with open("/ckpt/new", "w") as state:
            json.dump([step, total], state)
        os.replace("/ckpt/new", "/ckpt/state")
    print("step", step, "total", total, flush=True)
    time.sleep(%(pause)s)
"""
_LINE = re.compile(r"node-(\d) \| (?:starts at (\d+)|step (\d+) total (\d+))")


def write_task(pause: float, image: str) -> str:
    """Return the file of the task, whose volume `checkpoints` must exist."""
    text = WITH_JAX if image == JAX.name else PROGRAM
    program = text % {"steps": STEPS, "every": EVERY, "pause": pause}
    resources = {
        "image_id": image,
        "cpus": "50m+",
        "memory": "512Mi" if image == JAX.name else "64Mi",
        "job_recovery": {"max_restarts_on_errors": 4},
    }
    task = {
        "name": "train",
        "num_nodes": 3,
        "resources": resources,
        "config": LOST_SOON,
        "volumes": {"/ckpt": "checkpoints"},
        "run": f"cat > train.py <<'END'{program}END\nexec python3 train.py\n",
    }
    return json.dumps(task)


def check_output(output: str, attempts: int) -> None:
    """Check the lines of a followed task: no step is missing, and none is repeated in an attempt.

    An attempt begins at the last checkpoint before what was printed.
    """
    printed: dict[int, list[list[int]]] = defaultdict(list)
    for line in output.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        rank, start, step, total = (int(text) if text else 0 for text in match.groups())
        if match[2]:
            printed[rank].append([start])
        else:
            printed[rank][-1].append(step)
            assert total == 6 * step * (step + 1) // 2, line

    assert sorted(printed) == [0, 1, 2], output
    for rank, parts in printed.items():
        assert len(parts) >= attempts, (rank, parts)
        for steps in parts:
            assert steps == list(range(steps[0], steps[0] + len(steps))), (rank, steps)
        for before, after in pairwise(parts):
            assert after[0] % EVERY == 0, (rank, parts)
            assert before[-1] - EVERY <= after[0] <= before[-1], (rank, parts)
        assert parts[0][0] == 0 and parts[-1][-1] == STEPS, (rank, parts)
