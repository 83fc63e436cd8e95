"""Add up one value of each device of all nodes with JAX."""

import os

import jax
import jax.numpy as jnp

nodes = int(os.environ["SKYPILOT_NUM_NODES"])
if nodes > 1:
    jax.distributed.initialize(
        coordinator_address=os.environ["SKYPILOT_NODE_IPS"].split()[0] + ":8476",
        num_processes=nodes,
        process_id=int(os.environ["SKYPILOT_NODE_RANK"]),
    )
ones = jnp.ones((jax.local_device_count(), 1))
total = jax.pmap(lambda value: jax.lax.psum(value, "all"), axis_name="all")(ones)
here = jax.local_device_count()
everywhere = jax.device_count()
print(f"{here} of {everywhere} devices are here; their sum is {total[0, 0]:.0f}")
