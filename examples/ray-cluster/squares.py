"""Sum up squares, with a part of the numbers on each node of a Ray cluster."""

import os

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

nodes = int(os.environ["SKYPILOT_NUM_NODES"])
ray.init(address="auto", logging_level="WARNING")
group = placement_group([{"CPU": 1}] * nodes, strategy="STRICT_SPREAD")  # a CPU of each node
ray.get(group.ready())  # waits until all nodes have joined


@ray.remote(num_cpus=1)
def add(first: int) -> tuple[int, str]:
    """Return the sum of this part, and the node that computed it."""
    numbers = range(first, 100, nodes)
    return sum(number * number for number in numbers), ray.get_runtime_context().get_node_id()


parts = ray.get(
    [
        add.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, rank)).remote(rank)
        for rank in range(nodes)
    ]
)
used = len({node for _, node in parts})
print(f"sum of squares: {sum(part for part, _ in parts)}, from {used} nodes", flush=True)
