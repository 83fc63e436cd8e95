"""MPIJob settings of a task."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mpi:
    """The worker settings of an MPIJob.

    `slots` is the number of MPI ranks per node, `workers` the number of nodes in addition to rank
    0, `restart` the workers' restart policy, and `keys` the folder where the operator mounts the
    nodes' SSH keys.
    """

    slots: int
    workers: int
    restart: str
    keys: str
