"""Square numbers on all nodes of a Ray cluster."""

import os
import time

import ray

ray.init(address="auto", logging_level="WARNING")
nodes = int(os.environ["SKYPILOT_NUM_NODES"])
while sum(node["Alive"] for node in ray.nodes()) < nodes:
    time.sleep(1)


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def square(number: int) -> tuple[int, str]:
    """Return the square, and the node where it was computed."""
    return number * number, ray.get_runtime_context().get_node_id()


results = ray.get([square.remote(number) for number in range(100)])
used = len({node for _, node in results})
print(f"sum of squares: {sum(result for result, _ in results)}, on {used} nodes", flush=True)
