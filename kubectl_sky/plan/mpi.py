"""What the operator of MPIJobs is told of a task."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mpi:
    """The nodes of an MPIJob beside the first one.

    `slots` is how many ranks of MPI a node has, `workers` how many nodes there are beside rank 0,
    `restart` is what Kubernetes does with one of those that ends, and `keys` is the folder where
    the operator puts the keys by which the nodes reach each other.
    """

    slots: int
    workers: int
    restart: str
    keys: str
